//! Registered values: masked wherever they stand, also in the encodings that tools apply by themselves.
//!
//! Best effort against an accident, no claim against code that encodes on purpose. Must not print a value.

use std::fmt::Write as _;

use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use regex::bytes::{Regex, RegexBuilder};
use thiserror::Error;

use super::window::{Machine, Pass, Place, Step};
use super::{Hits, MASK, Rule, key, value};

/// The shortest value, and the shortest line of a value, that is registered, in bytes.
pub const SHORTEST: usize = 6;
/// Longest piece that is looked for as one, in bytes; longer values are looked for by pieces. In its longest form (JSON twice,
/// seven bytes for one) three times its length fit in the window.
const PIECE: usize = 192;
/// Where `base64` and `openssl base64` break a line.
const WIDTHS: [usize; 2] = [76, 64];
/// Largest compiled size of all values, in bytes.
const SIZE_LIMIT: usize = 64 << 20;

/// Why values could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RegisterError {
    /// Together too large.
    #[error("the registered secrets are too large together: register fewer or shorter ones")]
    Size,
}

/// Values in every form that is looked for.
#[derive(Clone)]
pub(super) struct Registered {
    forms: Regex,
    longest: usize,
    /// A form begins or ends as the quotes do that may stand round a mask.
    quoted: bool,
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registered(…)")
    }
}

impl Registered {
    /// Nothing when no value is long enough.
    pub(super) fn new<S: AsRef<str>>(values: &[S]) -> Result<Option<Self>, RegisterError> {
        let pieces: Vec<String> = values.iter().flat_map(|value| pieces(value.as_ref())).collect();
        let mut forms: Vec<String> = pieces.iter().flat_map(|piece| forms(piece)).collect();
        forms.extend(values.iter().flat_map(|value| wrapped(value.as_ref())));
        forms.retain(|form| form.len() >= SHORTEST);
        // The longest first: of two that begin at one place it is the one that is masked.
        forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        forms.dedup();
        let Some(longest) = forms.first().map(String::len) else { return Ok(None) };
        let quoted = forms.iter().any(|form| form.starts_with(['"', '\\']) || form.ends_with(['"', '\\']));
        let alternatives: Vec<String> = forms.iter().map(|form| regex::escape(form)).collect();
        let forms = RegexBuilder::new(&alternatives.join("|"))
            .size_limit(SIZE_LIMIT)
            .build()
            .map_err(|_| RegisterError::Size)?;
        Ok(Some(Self { forms, longest, quoted }))
    }

    /// Whether quotes that were set round a mask made a value: nothing else that a mask does can, since it parts the text.
    pub(super) fn is_made_by_quotes(&self, text: &str) -> bool {
        let mut hits = Hits::default();
        if self.quoted {
            Machine::new(self.pass()).run(text, true, &mut String::new(), &mut hits, &mut ());
        }
        hits.total() > 0
    }

    pub(super) fn pass(&self) -> Search<'_> {
        Search { registered: self, dropping: 0 }
    }
}

/// The value, each of its lines, and pieces of what is too long; a secret file ends with a newline that is not its part.
fn pieces(value: &str) -> Vec<String> {
    let value = value.trim_end_matches(['\n', '\r']);
    let mut found = Vec::new();
    if value.contains('\n') {
        found.extend(value.lines().map(str::trim).map(str::to_owned));
        found.push(value.replace("\r\n", "\n"));
        found.push(value.replace("\r\n", "\n").replace('\n', "\r\n"));
    }
    found.push(value.to_owned());
    found.retain(|piece| piece.len() >= SHORTEST);
    found.into_iter().flat_map(|piece| cut(&piece)).collect()
}

fn cut(value: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = value;
    while rest.len() > PIECE {
        let (head, tail) = rest.split_at(rest.floor_char_boundary(PIECE));
        found.push(head.to_owned());
        rest = tail;
    }
    // The last one is as long as the others and reaches back into the one before it: no short rest is left.
    let from = value.len().saturating_sub(PIECE);
    found.push(value.get(value.floor_char_boundary(from)..).unwrap_or(rest).to_owned());
    found
}

/// The base64 of a value alone, in lines as tools write them.
fn wrapped(value: &str) -> Vec<String> {
    let encoded = STANDARD_NO_PAD.encode(value.trim_end_matches(['\n', '\r']));
    // Characters at the end hold bits of what comes after the value.
    let encoded = encoded.get(..value.len() * 8 / 6).unwrap_or(&encoded);
    let lines = |width: usize| {
        let lines: Vec<&str> =
            (0..encoded.len()).step_by(width).filter_map(|at| encoded.get(at..encoded.len().min(at + width))).collect();
        // So many lines at once as one piece has.
        let together = PIECE.div_ceil(width);
        lines.chunks(together).map(|lines| lines.join("\n")).collect::<Vec<_>>()
    };
    WIDTHS.into_iter().filter(|width| encoded.len() > *width).flat_map(lines).collect()
}

/// The value as it is, in JSON (once and twice), in a URL, and in base64 at each of the three places it may begin.
fn forms(value: &str) -> Vec<String> {
    let once = json(value);
    let mut forms =
        vec![value.to_owned(), json(&once), once.replace('/', "\\/"), go_json(&once), ascii_json(&once), once];
    forms.extend([url(value, true, ""), url(value, false, ""), url(value, true, "").replace("%20", "+")]);
    // What JavaScript's `encodeURIComponent` and `encodeURI`, and Python's `quote` leave as it is.
    forms.extend(["!*'()", "!*'();/?:@&=+$,#", "/"].map(|kept| url(value, true, kept)));
    for offset in 0..3 {
        let shifted = [vec![0; offset], value.as_bytes().to_vec()].concat();
        // Characters that hold bits of what comes before or after the value differ from place to place.
        let (from, to) = ((offset * 8).div_ceil(6), shifted.len() * 8 / 6);
        for text in [STANDARD_NO_PAD.encode(&shifted), URL_SAFE_NO_PAD.encode(&shifted)] {
            forms.push(text.get(from..to).unwrap_or_default().to_owned());
        }
    }
    forms
}

fn json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or_default().to_owned()
}

/// Go escapes three characters more.
fn go_json(escaped: &str) -> String {
    escaped.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Python escapes all that is not ASCII, as UTF-16 does.
fn ascii_json(escaped: &str) -> String {
    let mut ascii = String::with_capacity(escaped.len());
    for c in escaped.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // A String takes all that is written.
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

/// Percent-encoded, but for letters, digits, `-._~` and what is `kept`.
fn url(value: &str, upper: bool, kept: &str) -> String {
    let escape = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ if kept.as_bytes().contains(&byte) => char::from(byte).to_string(),
        _ if upper => format!("%{byte:02X}"),
        _ => format!("%{byte:02x}"),
    };
    value.bytes().map(escape).collect()
}

/// The pass over a text.
#[derive(Debug)]
pub(super) struct Search<'r> {
    registered: &'r Registered,
    dropping: usize,
}

impl Search<'_> {
    /// Where the values end that are masked with one: what begins inside one of them goes on there. In a stretch that is there in
    /// any window, so that the answer does not depend on how the text was cut.
    fn overlapping(&self, ahead: &[u8], mask: Option<usize>, start: usize, end: usize) -> usize {
        let stretch = (start + 2 * self.registered.longest).min(mask.unwrap_or(ahead.len()));
        let stretch = ahead.get(..stretch.max(end)).unwrap_or(ahead);
        // The first that is found is the one that begins here.
        let (mut at, mut end) = (start, end);
        while let Some(other) = self.registered.forms.find_at(stretch, at).filter(|other| other.start() < end) {
            end = end.max(other.end());
            at = other.start() + 1;
        }
        end
    }
}

/// In JSON a number has no quotes, a mask must: the quotes that it needs where it stands, so many bytes on, and is a value of its own.
fn number_quote(place: Place<'_>, start: usize, number: &[u8]) -> &'static str {
    let ends = place.ahead.get(start + number.len()).is_none_or(|byte| b",}] \t\r\n\\".contains(byte));
    if !ends || !number.iter().all(u8::is_ascii_digit) {
        return "";
    }
    let before = [place.behind, place.ahead.get(..start).unwrap_or_default()].concat();
    let Some(name) = key::trim_end(&before, b" \t")
        .strip_suffix(b":")
        .and_then(|text| key::trim_end(text, b" ").strip_suffix(b"\""))
    else {
        return "";
    };
    value::quote(name.len() - key::trim_end(name, b"\\").len())
}

impl Pass for Search<'_> {
    /// A value may begin at a place and end as far on as the longest is, and so may one that begins inside it; a mask may
    /// begin in its last byte. All that fits: see [`PIECE`].
    fn ahead(&self) -> usize {
        super::WINDOW_LOOKAHEAD
    }

    fn step(&mut self, place: Place<'_>) -> Step {
        let ahead = place.ahead;
        if self.dropping > 0 {
            return Step::Drop(std::mem::take(&mut self.dropping));
        }
        if ahead.starts_with(MASK.as_bytes()) {
            return Step::Old;
        }
        // Beyond this a longer value could begin that does not fit in the window.
        let whole = ahead.len() < self.ahead();
        let certain =
            if whole { ahead.len() } else { ahead.len().saturating_sub(2 * self.registered.longest + MASK.len()) };
        let found = self.registered.forms.find(ahead);
        let until = found.map_or(ahead.len(), |found| found.end());
        // What is masked already parts the text: a second run must not see a value across it.
        let masked = |at: &usize| ahead.get(*at..).is_some_and(|text| text.starts_with(MASK.as_bytes()));
        let mask = (0..until).find(masked);
        let before = mask.and_then(|mask| ahead.get(..mask));
        let found = before.map_or(found, |text| self.registered.forms.find(text));
        match found {
            Some(found) if found.start() < certain => {
                let (start, end) = (found.start(), self.overlapping(ahead, mask, found.start(), found.end()));
                self.dropping = end - start;
                let quote = ahead.get(start..end).map_or("", |found| number_quote(place, start, found));
                Step::Mask(start, Rule::Registered, quote)
            }
            _ => Step::Keep(mask.map_or(certain, |mask| mask.min(certain))),
        }
    }
}

#[cfg(test)]
mod tests;
