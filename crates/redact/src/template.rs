//! Templates behind a scheme of HTTP: `Basic ${btoa("user:" + "…")}`.
//!
//! The texts in one may be secrets, its variables are none. Must not look beyond the template, a string of JSON round it, or a mask.

use super::key::{Key, Kind};
use super::value::{self, MaskEnd};
use super::{MASK, argument};

/// What a text in a template says that holds no secret: what it is made of, and how it is encoded.
const WORDS: [&str; 13] = [
    "user",
    "username",
    "login",
    "email",
    "password",
    "pass",
    "base64",
    "base64url",
    "utf8",
    "utf",
    "8",
    "latin1",
    "ascii",
];

/// Texts in `${btoa("user:" + "…")}`, whose inside begins here: where the first one that may be a secret begins, and where the mask of
/// it and of all up to the last one ends.
pub(super) fn texts(inner: &[u8]) -> Option<(usize, MaskEnd)> {
    let inner = inner.get(..value::LOOK).unwrap_or(inner);
    let (mut at, mut depth) = (0, 0_usize);
    let mut line_ends = None;
    // Of those that may be secrets: where it begins and ends, and its quotes.
    let mut found: Vec<(usize, usize, MaskEnd)> = Vec::new();
    while let Some(byte) = inner.get(at) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => {
                line_ends = None;
                break;
            }
            b'}' => depth -= 1,
            b'\n' => line_ends = line_ends.or(Some(at)),
            b'\\' | b'"' | b'\'' | b'`' => {
                let slashes = inner.get(at..)?.iter().take_while(|byte| **byte == b'\\').count();
                at += slashes;
                if let Some((quote @ (b'"' | b'\'' | b'`'), content)) = inner.get(at..)?.split_first() {
                    let Some(len) = text_len(*quote, content, slashes) else { break };
                    let (text, after) = content.split_at_checked(len)?;
                    if !says_nothing(text) {
                        found.push((at + 1, at + 1 + len, MaskEnd::Quote(*quote, slashes)));
                    }
                    let closing = after.iter().take(slashes).take_while(|byte| **byte == b'\\').count();
                    if closing < slashes || after.get(slashes) != Some(quote) {
                        break;
                    }
                    at += len + slashes + 1;
                }
            }
            b'R' if inner.get(at..)?.starts_with(MASK.as_bytes()) => break,
            _ => {}
        }
        at += 1;
    }
    // Without its end it is no template beyond its line.
    found.retain(|(from, ..)| line_ends.is_none_or(|end| *from < end));
    let (from, _, until) = *found.first()?;
    let (_, end, _) = *found.last()?;
    Some((from, if found.len() > 1 { MaskEnd::Count(end - from) } else { until }))
}

/// How long a text in a template is; none where its quote ends a string of JSON round the template, or a mask is a part of it: what is
/// behind that was read when it was set.
fn text_len(quote: u8, content: &[u8], slashes: usize) -> Option<usize> {
    let len = value::quoted_len(content, quote, slashes);
    let text = content.get(..len)?;
    let parted = text != MASK.as_bytes() && text.windows(MASK.len()).any(|part| part == MASK.as_bytes());
    let ends = parted || quote == b'"' && ends_json(content);
    (!ends).then_some(len)
}

/// Whether a `"` before this ends a string of JSON round the template, and is not the `":"` between two texts.
fn ends_json(after: &[u8]) -> bool {
    let colon = after.starts_with(b":\"") && after.get(2).is_some_and(|byte| b" +),.".contains(byte));
    let blanks = after.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let parted = blanks > 0 && after.get(blanks).is_none_or(|byte| b",:]}".contains(byte));
    !colon && (value::closes(after) || parted)
}

/// Whether a text in a template is no secret: signs, names of what stands there, how it is encoded, the name of a value.
fn says_nothing(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    if text == MASK {
        return true;
    }
    let mut rest = text.to_owned();
    while let Some((before, (_, after))) = rest.split_once("${").and_then(|(a, b)| Some((a, b.split_once('}')?))) {
        rest = [before, after].join(" ");
    }
    let words = rest.split(|c: char| c.is_ascii() && !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let known = words.clone().all(|word| WORDS.contains(&&*word.to_ascii_lowercase()));
    let person = Key { loud: false, kind: Kind::Human, ..argument::known() };
    known || !rest.contains(':') && !value::plausible(&person, rest.as_bytes(), true, b"")
}
