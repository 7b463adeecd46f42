//! Long runs of letters and digits that look random.
//!
//! A run counts when 32 characters of it in a row mix capitals, small letters and digits as words do not. So a part of a
//! run that does not count does not count either, which keeps a second redaction from finding more than the first.
//! Numbers, hexadecimal digests, UUIDs, paths and long names do not count.

use super::class;

/// How many characters are looked at together.
const SPAN: usize = 32;

/// Bytes of the run that begins here: base64 in either alphabet, with its padding.
pub(super) fn run_len(text: &[u8]) -> usize {
    let len = class::len(text, class::RUN);
    let padding = text.get(len..).unwrap_or_default().iter().take(2).take_while(|b| **b == b'=').count();
    if len >= SPAN { len + padding } else { len }
}

/// Whether a run looks random somewhere.
pub(super) fn is_opaque(run: &[u8]) -> bool {
    if run.len() < SPAN {
        return false;
    }
    let mut counts = Counts::default();
    for (at, byte) in run.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|i| run.get(i));
        counts.add(*byte, before.copied());
        if at >= SPAN {
            let (old, next) = (run.get(at - SPAN).copied(), run.get(at - SPAN + 1).copied());
            if let (Some(old), Some(next)) = (old, next) {
                counts.remove(old, next);
            }
        }
        if at + 1 >= SPAN && counts.look_random() {
            return true;
        }
    }
    false
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Small,
    Capital,
    Digit,
    Other,
}

fn kind(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' => Class::Small,
        b'A'..=b'Z' => Class::Capital,
        b'0'..=b'9' => Class::Digit,
        _ => Class::Other,
    }
}

fn differs(before: u8, byte: u8) -> bool {
    let begins_word = kind(before) == Class::Capital && kind(byte) == Class::Small;
    kind(before) != kind(byte) && !begins_word
}

/// What the characters of a span are.
#[derive(Debug, Default)]
struct Counts {
    small: usize,
    capital: usize,
    digit: usize,
    other: usize,
    /// How often a character is of another kind than the one before it, but for a small letter after a capital: words in
    /// names begin so.
    changes: usize,
}

impl Counts {
    fn of(&mut self, byte: u8) -> &mut usize {
        match kind(byte) {
            Class::Small => &mut self.small,
            Class::Capital => &mut self.capital,
            Class::Digit => &mut self.digit,
            Class::Other => &mut self.other,
        }
    }

    fn add(&mut self, byte: u8, before: Option<u8>) {
        *self.of(byte) += 1;
        self.changes += usize::from(before.is_some_and(|before| differs(before, byte)));
    }

    /// Takes out the first character of the span; `next` is the one after it.
    fn remove(&mut self, first: u8, next: u8) {
        *self.of(first) -= 1;
        self.changes -= usize::from(differs(first, next));
    }

    fn look_random(&self) -> bool {
        self.small >= 4 && self.capital >= 4 && self.digit >= 2 && self.other <= 5 && self.changes >= 9
    }
}
