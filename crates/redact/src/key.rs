//! Names of values: which are names of secrets, and what stands round them.
//!
//! A name counts by its last words: `DB_PASSWORD` and `clientSecret` hold a secret, `max_tokens`, `password_field` and
//! `secretName` hold something about one. Must not look at the value.

use super::class;

/// What kind of secret a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Chosen by a person: any text may be one.
    Human,
    /// Made by a machine: a plain word is none.
    Machine,
    /// The header `Authorization`: a scheme, then the secret.
    Authorization,
    /// The headers `Cookie` and `Set-Cookie`.
    Cookie,
}

/// A name in front of a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub kind: Kind,
    /// The name in small letters.
    pub name: String,
    /// It is in quotes.
    pub quoted: bool,
    /// They are those of JSON.
    pub json: bool,
    /// Backslashes before its closing quote: how deep the JSON is nested.
    pub slashes: usize,
    /// All letters are capitals, or it is an option: a value is meant.
    pub loud: bool,
    /// It is an option, `--name`.
    pub flag: bool,
    /// It is a parameter of a URL.
    pub query: bool,
    /// Only indentation, a bullet or a declaring word is before it in its line.
    pub first: bool,
    /// The same, and the line is a real one, not part of a string.
    pub line: bool,
    /// An opening bracket or a comma is before it.
    pub item: bool,
    /// The quote of a string that began before it in its line and goes on, as far as that is seen.
    pub open: Option<u8>,
    /// It is a setting among others of a connection string: `Server=db;Password=`.
    pub setting: bool,
    /// It is in brackets, as in `form['password']`.
    pub indexed: bool,
    /// It begins a line of a comment in C or Java: behind `*` or `@`.
    pub comment: bool,
    /// How far its line is indented.
    pub indent: usize,
}

const HUMAN: [&str; 9] =
    ["password", "passwd", "passphrase", "passcode", "secret", "pwd", "credential", "credentials", "mnemonic"];
const MACHINE: [&str; 3] = ["token", "apikey", "jwt"];
/// Words that make `key` the name of a secret.
const KEYED: [&str; 36] = [
    "access",
    "account",
    "admin",
    "aes",
    "api",
    "app",
    "application",
    "auth",
    "bot",
    "client",
    "consumer",
    "cookie",
    "deploy",
    "encryption",
    "functions",
    "hmac",
    "ingest",
    "integration",
    "jwt",
    "license",
    "master",
    "private",
    "registration",
    "secret",
    "server",
    "service",
    "session",
    "shared",
    "sign",
    "signing",
    "storage",
    "subscription",
    "token",
    "webhook",
    "write",
    "rest",
];
/// Words after which a name is not that of a secret.
const NEGATING: [&str; 34] = [
    "bos",
    "cancel",
    "cancellation",
    "change",
    "confirm",
    "continuation",
    "count",
    "eos",
    "foreign",
    "forgot",
    "has",
    "invalid",
    "is",
    "mask",
    "max",
    "min",
    "missing",
    "next",
    "no",
    "num",
    "pad",
    "page",
    "partition",
    "primary",
    "public",
    "publishable",
    "reset",
    "sep",
    "show",
    "sort",
    "special",
    "stop",
    "unk",
    "sync",
];
/// Words after the name of a secret that leave it one.
const TRAILING: [&str; 17] = [
    "base",
    "b64",
    "base64",
    "dev",
    "development",
    "live",
    "new",
    "old",
    "plain",
    "plaintext",
    "prod",
    "production",
    "staging",
    "stage",
    "test",
    "value",
    "text",
];

/// The name that ends where `text` ends, perhaps with blanks after it.
pub(super) fn preceding_key(text: &[u8], begins: bool) -> Option<Key> {
    let text = trim_end(text, b" \t");
    let text = text.strip_suffix(b"?").or_else(|| text.strip_suffix(b"+")).unwrap_or(text);
    let text = trim_end(text, b" \t");
    let inner = [&b"]"[..], b"%5D", b"%5d"].iter().find_map(|bracket| text.strip_suffix(*bracket)).unwrap_or(text);
    let indexed = inner.len() < text.len();
    let (inner, quote) = match inner.split_last() {
        Some((q @ (b'"' | b'\''), rest)) => (rest, Some(*q)),
        // `[password] => …` of PHP.
        _ if tail(inner, |b| class::is(b, class::NAME)).len() + 1 < inner.len() => (inner, None),
        _ => (text, None),
    };
    let open = trim_end(inner, b"\\");
    let slashes = if quote.is_some() { inner.len() - open.len() } else { 0 };
    let inner = if quote.is_some() { open } else { inner };
    let name = inner.get(inner.len() - class::tail_len(inner, class::NAME)..)?;
    let whole = std::str::from_utf8(name).unwrap_or_default();
    let name = unescaped(name, inner);
    let before = inner.get(..inner.len() - name.len()).unwrap_or_default();
    let name = std::str::from_utf8(name).unwrap_or_default();
    if name.is_empty() || name.len() > 80 {
        return None;
    }
    let may = may_name(whole.as_bytes());
    let query = may && PARAMETER.iter().any(|sign| before.ends_with(sign));
    // Outside of JSON `\token` may be the name itself.
    let other = || if whole.len() > name.len() { kind(whole, query) } else { None };
    let kind = if may { kind(name, query).or_else(other) } else { None };
    let kind = kind.or_else(|| typed(before, name))?;
    let before = match quote {
        Some(quote) => trim_end(before.strip_suffix(&[quote]).unwrap_or(before), b"\\"),
        None => before,
    };
    let line = tail(before, |b| b != b'\n');
    let starts = begins || line.len() < before.len();
    let lead = strip_declaration(line);
    let indent = line.iter().take_while(|b| **b == b' ').count();
    let loud = name.starts_with('-') || !name.bytes().any(|b| b.is_ascii_lowercase());
    Some(Key {
        kind,
        name: name.trim_start_matches('-').to_ascii_lowercase(),
        quoted: quote.is_some(),
        json: quote == Some(b'"'),
        slashes,
        loud,
        flag: name.starts_with('-'),
        query,
        first: (starts && lead.is_empty()) || lead.ends_with(b"\\n"),
        line: starts && lead.is_empty(),
        item: matches!(lead.last(), Some(b'{' | b',' | b'[' | b'(' | b';')),
        open: [b'"', b'\''].into_iter().find(|quote| starts && is_open(line, *quote)),
        setting: !loud && quote.is_none() && is_setting(line, name),
        indexed,
        comment: starts && (lead.ends_with(b"*") || lead.ends_with(b"* @")),
        indent,
    })
}

/// Whether a string goes on where the line ends: its quotes are not paired.
fn is_open(line: &[u8], quote: u8) -> bool {
    // So many parts as there are quotes, and one more.
    line.split(|byte| *byte == quote).count() % 2 == 0
}

/// What a parameter of a URL stands behind, as it is and as it is encoded in HTML, in a part of a URL and in JSON.
const PARAMETER: [&[u8]; 10] =
    [b"?", b"&", b"&amp;", b"&#38;", b"%3F", b"%3f", b"%26", b"\\u0026", b"\\u003f", b"\\u003F"];

/// A name at the end of a text without the rest of an escape before it, as in `\napi_key=` and `\u0026token=` in a string of JSON and in
/// `%3Ftoken=` in a part of a URL.
pub(super) fn unescaped<'t>(name: &'t [u8], text: &[u8]) -> &'t [u8] {
    let before = text.get(..text.len() - name.len()).unwrap_or_default();
    if before.ends_with(b"%") && name.iter().take(2).all(u8::is_ascii_hexdigit) {
        return name.get(2..).unwrap_or(name);
    }
    let escaped = before.ends_with(b"\\");
    if escaped && name.starts_with(b"u") && name.iter().skip(1).take(4).filter(|b| b.is_ascii_hexdigit()).count() == 4 {
        return name.get(5..).unwrap_or(name);
    }
    name.strip_prefix(b"n")
        .or_else(|| name.strip_prefix(b"t"))
        .or_else(|| name.strip_prefix(b"r"))
        .filter(|_| escaped)
        .unwrap_or(name)
}

/// Without blanks and line breaks at its end, also those that are escaped in a string of JSON.
pub(super) fn trim_breaks(text: &[u8]) -> &[u8] {
    let mut text = trim_end(text, b" \t\r\n");
    while let Some(rest) = [&b"\\n"[..], b"\\r", b"\\t"].iter().find_map(|escape| text.strip_suffix(*escape)) {
        text = trim_end(trim_end(rest, b"\\"), b" \t\r\n");
    }
    text
}

/// Whether a setting stands before a name in its line, as in `Server=db;Password=`. Behind `; ` a small name is a shell's.
fn is_setting(line: &[u8], name: &str) -> bool {
    let blanks = line.len() - trim_end(line, b" ").len();
    let settings = trim_end(line, b" ").strip_suffix(b";");
    let previous = settings.map(|text| tail(text, |b| b != b';')).unwrap_or_default();
    previous.contains(&b'=') && (blanks == 0 || name.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Whether a name holds any part of a name of a secret: most do not, and are read no further.
pub(super) fn may_name(name: &[u8]) -> bool {
    // Two letters tell which stem it may be, its rest follows.
    let begins = |(at, pair): (usize, &[u8])| {
        let [first, second] = pair else { return false };
        let rest: &[u8] = match (first.to_ascii_lowercase(), second.to_ascii_lowercase()) {
            (b'p', b'w') => b"",
            (b'p', b'a') => b"ss",
            (b'p', b'h') => b"rase",
            (b's', b'e') => b"cret",
            (b's', b'i') => b"g",
            (b'm', b'n') => b"emonic",
            (b'c', b'r') => b"ed",
            (b'c', b'o') => b"okie",
            (b't', b'o') => b"ken",
            (b'k', b'e') => b"y",
            (b'a', b'u') => b"th",
            (b'j', b'w') => b"t",
            _ => return false,
        };
        name.get(at + 2..at + 2 + rest.len()).is_some_and(|found| found.eq_ignore_ascii_case(rest))
    };
    name.windows(2).enumerate().any(begins)
}

/// Types that may stand between a name and its value.
pub(super) const TYPES: [&str; 8] = ["str", "String", "string", "Text", "bytes", "Optional", "any", "Any"];

/// In `password: str = …` the name is before the type.
fn typed(before: &[u8], name: &str) -> Option<Kind> {
    if !TYPES.contains(&name) {
        return None;
    }
    let before = before.strip_suffix(b"'static ").unwrap_or(before);
    let before = trim_end(trim_end(before, b"& ").strip_suffix(b":")?, b" ");
    let name = tail(before, |b| b.is_ascii_alphanumeric() || b == b'_');
    kind(std::str::from_utf8(name).ok()?, false)
}

/// Whether a name is that of a secret.
pub(super) fn kind(name: &str, query: bool) -> Option<Kind> {
    if matches!(name, "PWD" | "OLDPWD") {
        return None;
    }
    let mut words = words(name);
    if query && matches!(words.last().map(String::as_str), Some("sig" | "signature" | "auth" | "key")) {
        return Some(Kind::Machine);
    }
    if name.ends_with("_auth") && words.len() == 1 {
        return Some(Kind::Machine);
    }
    if words.last().is_some_and(|word| word == "authorization") {
        return Some(Kind::Authorization);
    }
    if words.last().is_some_and(|word| word == "cookie") {
        return (words.len() == 1 || words.first().is_some_and(|w| w == "set")).then_some(Kind::Cookie);
    }
    while words.len() > 1
        && words.last().is_some_and(|w| TRAILING.contains(&&**w) || w.bytes().all(|b| b.is_ascii_digit()))
    {
        words.pop();
    }
    let last = words.pop()?;
    let last = last.trim_end_matches(|c: char| c.is_ascii_digit());
    let before = words.last().map_or("", String::as_str);
    if NEGATING.contains(&before) {
        return None;
    }
    let compound = |ends: &[&str]| ends.iter().any(|end| last.ends_with(end));
    if HUMAN.contains(&last) || compound(&["password", "passwd", "passphrase", "passwort", "secret"]) {
        return Some(Kind::Human);
    }
    if matches!((before, last), ("seed" | "recovery" | "backup", "phrase" | "words")) {
        return Some(Kind::Human);
    }
    if matches!(last, "pass" | "pw") && !before.is_empty()
        || matches!(last, "dbpass" | "userpass" | "pgpass" | "requirepass")
    {
        return Some(Kind::Human);
    }
    let attached_option = last
        .strip_suffix("key")
        .is_some_and(|head| KEYED.contains(&head.trim_start_matches("secret")) || KEYED.contains(&head));
    let machine = MACHINE.contains(&last)
        || attached_option
        || last == "key" && KEYED.contains(&before)
        || compound(&["authtoken", "accesstoken", "apitoken", "apikey"]);
    machine.then_some(Kind::Machine)
}

/// The words of a name in small letters: cut at `_`, `-`, `.` and before capitals.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut chars = name.chars().peekable();
    let mut small = false;
    while let Some(c) = chars.next() {
        let separates = matches!(c, '_' | '-' | '.');
        let follows_small = chars.peek().is_some_and(char::is_ascii_lowercase);
        let begins = c.is_ascii_uppercase() && (small || (follows_small && !word.is_empty()));
        if (separates || begins) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if !separates {
            word.push(c.to_ascii_lowercase());
        }
        small = c.is_ascii_lowercase() || c.is_ascii_digit();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn strip_declaration(line: &[u8]) -> &[u8] {
    let mut line = trim_end(line, b" \t");
    for word in [
        &b"export"[..],
        b"declare -x",
        b"local",
        b"readonly",
        b"set",
        b"let",
        b"const",
        b"var",
        b"ENV",
        b"ARG",
        b"-",
        b"+",
        b"//",
        b"#",
    ] {
        line = trim_end(line.strip_suffix(word).unwrap_or(line), b" \t");
    }
    line
}

/// The longest end of the text whose bytes all fit.
pub(super) fn tail(text: &[u8], fits: impl Fn(u8) -> bool) -> &[u8] {
    let len = text.iter().rev().take_while(|b| fits(**b)).count();
    text.get(text.len() - len..).unwrap_or_default()
}

pub(super) fn trim_end<'t>(text: &'t [u8], set: &[u8]) -> &'t [u8] {
    let len = text.iter().rev().take_while(|b| set.contains(b)).count();
    text.get(..text.len() - len).unwrap_or_default()
}
