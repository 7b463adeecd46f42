//! Hosts in every spelling that a tool would still resolve, and the hosts that a word names.
//!
//! Numbers as `inet_aton` reads them, percent-encoded and Unicode forms as URLs allow them. Must not resolve anything.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::target::{self, Target};

/// How many spellings one word may stand for.
const ALTERNATIVES: usize = 512;
/// And how many bytes all spellings of a command may have together, beside the words as they are written.
const SPELLINGS: usize = 128 << 10;
/// How many `@` of one authority are looked behind: the first ones and the last ones, one of which parsers take.
const USERS: usize = 4;

/// The target that a host, as it is written, is.
pub(super) fn host(text: &str) -> Option<Target> {
    let text = text.trim();
    if text.is_empty() || text.len() > 512 {
        return None;
    }
    let bare = text.strip_prefix('[').map_or(text, |rest| rest.strip_suffix(']').unwrap_or(rest));
    let bare = bare.split('%').next().filter(|head| head.contains(':')).unwrap_or(bare);
    if let Ok(v6) = bare.parse::<Ipv6Addr>() {
        return target::address(IpAddr::V6(v6));
    }
    let decoded = decode(text);
    let ascii = fold(&decoded);
    let ascii = ascii.trim_end_matches('.');
    numbers(ascii).find_map(|v4| target::address(IpAddr::V4(v4))).or_else(|| target::name(ascii))
}

/// The IPv4 addresses that a text may be: octal where a part begins with 0, and as some tools read it, decimal.
fn numbers(text: &str) -> impl Iterator<Item = Ipv4Addr> + '_ {
    [true, false].into_iter().filter_map(move |octal| number(text, octal))
}

fn number(text: &str, octal: bool) -> Option<Ipv4Addr> {
    let parts: Vec<&str> = text.splitn(5, '.').collect();
    let values: Vec<u64> = parts.iter().map(|part| part_value(part, octal)).collect::<Option<_>>()?;
    let (last, heads) = values.split_last()?;
    if heads.len() > 3 || heads.iter().any(|head| *head > 255) {
        return None;
    }
    let bits = 8 * (4 - u32::try_from(heads.len()).ok()?);
    if *last >= 1_u64 << bits {
        return None;
    }
    let high = heads.iter().fold(0, |sum, head| (sum << 8) | head);
    u32::try_from((high << bits) | last).ok().map(Ipv4Addr::from_bits)
}

fn part_value(part: &str, octal: bool) -> Option<u64> {
    let (digits, radix) = match part.strip_prefix("0x").or_else(|| part.strip_prefix("0X")) {
        Some("") => ("0", 16),
        Some(hex) => (hex, 16),
        None if octal && part.len() > 1 && part.starts_with('0') => (part.trim_start_matches('0'), 8),
        None => (part, 10),
    };
    if part.is_empty() || digits.len() > 40 || digits.starts_with('+') {
        return None;
    }
    if digits.is_empty() { Some(0) } else { u64::from_str_radix(digits, radix).ok() }
}

/// Percent-decodes; what is not UTF-8 then stays as it is.
fn decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|h| std::str::from_utf8(h).ok()).and_then(|h| u8::from_str_radix(h, 16).ok());
        match hex {
            Some(value) if *byte == b'%' => {
                bytes.push(value);
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// Small letters; digits, letters and dots of other scripts as a URL parser maps them.
fn fold(text: &str) -> String {
    if text.is_ascii() {
        return text.to_ascii_lowercase();
    }
    match url::Host::parse(text) {
        Ok(url::Host::Domain(name)) => name,
        Ok(url::Host::Ipv4(v4)) => v4.to_string(),
        Ok(url::Host::Ipv6(_)) | Err(_) => text.to_lowercase(),
    }
}

/// The target of a word that is a URL.
pub(super) fn url(word: &str, effort: &Budget) -> Option<Target> {
    alternatives(word, effort).iter().find_map(|word| one_url(word))
}

fn one_url(word: &str) -> Option<Target> {
    let word: String = word.chars().filter(|c| !c.is_control()).collect();
    let (scheme, rest) = word.split_once(':')?;
    let scheme_fits = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+.-".contains(&b));
    let slashed = rest.starts_with(['/', '\\']);
    let web = ["http", "https", "ws", "wss", "ftp"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    // The name behind these is that of a bucket or a file, not of a host.
    let stored =
        ["s3", "s3a", "s3n", "gs", "az", "hdfs", "file", "data"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    if !scheme_fits
        || stored
        || !(rest.starts_with("//") || (web && (slashed || rest.starts_with(|c: char| c.is_ascii_digit()))))
    {
        return None;
    }
    authority(rest.trim_start_matches(['/', '\\']))
}

/// The target that begins a text: `user@host:port/path`.
fn authority(text: &str) -> Option<Target> {
    let end = text.find(['/', '\\', '?', '#']).unwrap_or(text.len());
    let authority = text.get(..end)?;
    // Parsers differ on which `@` counts: any that follows one may be the host.
    let hosts: Vec<&str> = authority.split('@').collect();
    let hosts = hosts.get(usize::from(hosts.len() > 1)..).unwrap_or_default();
    let last = hosts.len().saturating_sub(USERS).max(USERS);
    hosts.iter().take(USERS).chain(hosts.iter().skip(last)).find_map(|host| with_port(host))
}

fn with_port(text: &str) -> Option<Target> {
    let host_part = match text.strip_prefix('[') {
        Some(rest) => rest.split(']').next(),
        None if text.matches(':').count() > 1 => Some(text),
        None => text.split(':').next(),
    };
    host(host_part?)
}

/// The target that a host is, perhaps with a port.
pub(super) fn endpoint(text: &str) -> Option<Target> {
    host(text).or_else(|| host(text.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok())?.0))
}

/// The target of a word where a program expects a host or a URL.
pub(super) fn argument(word: &str, effort: &Budget) -> Option<Target> {
    alternatives(word, effort)
        .iter()
        .find_map(|word| one_url(word).or_else(|| if word.contains("://") { None } else { bare(word) }))
}

/// A host without a scheme, alone or among colons: `TCP:host:80`, `a:80:host`, `user@host:path`, `@server`.
fn bare(word: &str) -> Option<Target> {
    let head = word.split(['/', '\\', '?', '#']).next()?;
    authority(word.trim_start_matches('@'))
        .or_else(|| {
            let pieces = head.split([':', '@', ',', '=']);
            let named = |piece: &&str| piece.contains('.') || piece.starts_with(|c: char| c.is_ascii_digit());
            pieces.filter(named).find_map(|piece| host(piece.trim_matches(['[', ']'])))
        })
        .or_else(|| {
            head.split_once("@[").or_else(|| head.split_once(":[")).and_then(|(_, rest)| host(rest.split(']').next()?))
        })
}

/// How many bytes of spellings may still be looked at: a word of a few bytes stands for hundreds, one command may hold many words,
/// and each spelling may hold many hosts.
#[derive(Debug)]
pub(super) struct Budget(Cell<usize>);

impl Budget {
    /// For one command.
    pub(super) const fn new() -> Self {
        Self(Cell::new(SPELLINGS))
    }

    /// Spent once is spent for all: what does not fit is not tried again for each word.
    fn spend(&self, spellings: &[String]) -> bool {
        let left = self.0.get().checked_sub(spellings.iter().map(String::len).sum());
        self.0.set(left.unwrap_or_default());
        left.is_some()
    }

    fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}

/// What braces and ranges stand for: `{a,b}` of shells and `[1-9]` of curl.
fn alternatives(word: &str, effort: &Budget) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![word.to_owned()];
    while let Some(word) = open.pop() {
        match if effort.is_spent() { None } else { expand(&word) } {
            Some(more) if done.len() + open.len() + more.len() < ALTERNATIVES && effort.spend(&more) => {
                open.extend(more);
            }
            _ => done.push(word),
        }
    }
    done
}

fn expand(word: &str) -> Option<Vec<String>> {
    let braces = word.find('{').and_then(|from| Some((from, from + word.get(from..)?.find('}')?)));
    if let Some((from, to)) = braces {
        let (head, inner, tail) = (word.get(..from)?, word.get(from + 1..to)?, word.get(to + 1..)?);
        // A step leaves some of them out; backwards they are the same.
        let range =
            inner.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.split("..").next()?.parse().ok()?)));
        let range = range.map(|(a, b): (u16, u16)| (a.min(b), a.max(b)));
        return match range {
            Some((a, b)) if b - a < 256 => Some((a..=b).map(|n| format!("{head}{n}{tail}")).collect()),
            _ => Some(inner.split(',').map(|one| format!("{head}{one}{tail}")).collect()),
        };
    }
    let (from, to) = word.find('[').and_then(|from| Some((from, from + word.get(from..)?.find(']')?)))?;
    let (head, inner, tail) = (word.get(..from)?, word.get(from + 1..to)?, word.get(to + 1..)?);
    let (a, b) = inner.split_once('-')?;
    let (a, b) = (a.parse::<u16>().ok()?, b.split(':').next()?.parse::<u16>().ok()?);
    (a <= b && b - a < 256).then(|| (a..=b).map(|n| format!("{head}{n}{tail}")).collect())
}

#[cfg(test)]
mod tests;
