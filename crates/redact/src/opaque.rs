//! Long runs of letters and digits that look random.
//!
//! A run counts when 32 characters of it in a row mix capitals, small letters and digits as words do not. So a part of a
//! run that does not count does not count either, which keeps a second redaction from finding more than the first.
//! Numbers, hexadecimal digests, UUIDs, paths and long names do not count.

use super::{class, key};

/// How many characters are looked at together.
const SPAN: usize = 32;

/// Bytes of the run that begins here: base64 in either alphabet, with its padding.
pub(super) fn run_len(text: &[u8]) -> usize {
    let len = class::len(text, class::RUN);
    let padding = text.get(len..).unwrap_or_default().iter().take(2).take_while(|b| **b == b'=').count();
    if len >= SPAN { len + padding } else { len }
}

/// Whether a run looks random somewhere. A revision in a path says nothing of what stands beside it; `behind` is what stands before.
pub(super) fn is_opaque(mut run: &[u8], behind: &[u8]) -> bool {
    while let Some((before, after)) = around_revision(run, behind) {
        if is_random(before) {
            return true;
        }
        run = after;
    }
    is_random(run)
}

/// Parts of a path that a revision follows.
const BEFORE_REVISION: [&[u8]; 12] = [
    b"archive",
    b"blame",
    b"blob",
    b"commit",
    b"commits",
    b"raw",
    b"rev",
    b"revision",
    b"src",
    b"tarball",
    b"tree",
    b"zipball",
];
/// Words for a revision or a digest, and what names of them end with.
const REVISION: [&[u8]; 7] = [b"checksum", b"commit", b"digest", b"rev", b"revision", b"sha1", b"sha256"];

/// Whether a word for a revision stands before it: `revision: `, `"gitCommit": "`, `blob/`.
fn names_revision(behind: &[u8]) -> bool {
    let text = key::trim_end(behind, b" \t\"'=:");
    let word = key::tail(text, |byte| byte.is_ascii_alphanumeric()).to_ascii_lowercase();
    if text.len() < behind.len() {
        return REVISION.iter().any(|name| word.ends_with(name));
    }
    let part = behind
        .strip_suffix(b"/")
        .map(|text| key::tail(text, |byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)));
    part.is_some_and(|part| BEFORE_REVISION.contains(&part))
}

/// What stands before and behind the first part of a path that is a revision: 40 or 64 digits, as Git writes them, behind a word for one.
fn around_revision<'r>(run: &'r [u8], behind: &[u8]) -> Option<(&'r [u8], &'r [u8])> {
    if run.len() <= SPAN {
        return None;
    }
    let (mut at, mut before): (usize, Option<&[u8]>) = (0, None);
    for part in run.split(|byte| *byte == b'/') {
        let end = at + part.len();
        let digest =
            matches!(part.len(), 40 | 64) && part.iter().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(b));
        if digest && before.map_or_else(|| names_revision(behind), |word| BEFORE_REVISION.contains(&word)) {
            return Some((run.get(..at)?, run.get(end..)?));
        }
        (at, before) = (end + 1, Some(part));
    }
    None
}

/// Whether a span of it mixes letters and digits as words do not.
fn is_random(run: &[u8]) -> bool {
    if run.len() < SPAN {
        return false;
    }
    let mut counts = Counts::default();
    for (at, byte) in run.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|i| run.get(i));
        // A number that began before the span is one within it, too.
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

/// Signs part words in names and paths, so that what stands beside them says nothing; but for `+`, which neither has.
fn differs(before: u8, byte: u8) -> bool {
    let parts = |byte: u8| kind(byte) == Class::Other && byte != b'+';
    let begins_word = kind(before) == Class::Capital && kind(byte) == Class::Small;
    kind(before) != kind(byte) && !begins_word && !parts(before) && !parts(byte)
}

/// What the characters of a span are.
#[derive(Debug, Default)]
struct Counts {
    small: usize,
    capital: usize,
    digit: usize,
    other: usize,
    /// How many numbers there are: a name has one at the most, as in `KeyDataX509Cert`.
    numbers: usize,
    /// How often a letter or digit is of another kind than the one before it, but for a small letter after a capital: words in
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
        self.numbers += usize::from(byte.is_ascii_digit() && !before.is_some_and(|before| before.is_ascii_digit()));
        self.changes += usize::from(before.is_some_and(|before| differs(before, byte)));
    }

    /// Takes out the first character of the span; `next` is the one after it.
    fn remove(&mut self, first: u8, next: u8) {
        *self.of(first) -= 1;
        self.numbers -= usize::from(first.is_ascii_digit() && !next.is_ascii_digit());
        self.changes -= usize::from(differs(first, next));
    }

    fn look_random(&self) -> bool {
        self.small >= 4 && self.capital >= 4 && self.numbers >= 2 && self.other <= 5 && self.changes >= 9
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    /// Mixed as no words are.
    const RANDOM: &[u8] = b"aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF";

    #[rstest]
    #[case::short("aB3==", 3)]
    #[case::padded("aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF==", 34)]
    #[case::padded_once("aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF=;", 33)]
    #[case::padded_too_much("aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF===", 34)]
    #[case::one_less("aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0e==", 31)]
    fn a_run_has_its_padding_when_it_is_long(#[case] text: &str, #[case] len: usize) {
        assert_eq!(run_len(text.as_bytes()), len);
    }

    #[test]
    fn a_run_counts_from_32_characters_that_mix() {
        assert!(is_opaque(RANDOM, b""));
        assert!(!is_opaque(&RANDOM[1..], b""), "31 are too few");
        let words = b"thisIsAVeryLongNameOfSomething12";
        assert!(!is_opaque(words, b""));
        let parts = [[words, RANDOM].concat(), [RANDOM, words].concat()];
        assert!(parts.iter().all(|run| is_opaque(run, b"")), "a part of it counts");
    }

    /// Small letters, capitals, digits and others of 32 characters, as mixed as they can be.
    #[rstest]
    #[case::just_enough(4, 4, 2, 0, true)]
    #[case::few_small(3, 5, 2, 0, false)]
    #[case::few_capitals(5, 3, 2, 0, false)]
    #[case::few_digits(5, 5, 1, 0, false)]
    #[case::others(4, 4, 2, 5, true)]
    #[case::many_others(4, 4, 2, 6, false)]
    fn what_looks_random_has_some_of_each(
        #[case] small: usize,
        #[case] capital: usize,
        #[case] digit: usize,
        #[case] other: usize,
        #[case] random: bool,
    ) {
        let counts = Counts { small, capital, digit, other, numbers: digit, changes: 9 };
        assert_eq!(counts.look_random(), random);
        assert!(!Counts { changes: 8, ..counts }.look_random(), "words change less often");
    }

    #[test]
    fn a_character_that_leaves_the_span_is_counted_no_more() {
        let mut counts = Counts::default();
        for (byte, before) in
            [(b'a', None), (b'B', Some(b'a')), (b'c', Some(b'B')), (b'1', Some(b'c')), (b'-', Some(b'1'))]
        {
            counts.add(byte, before);
        }
        let all = |counts: &Counts| (counts.small, counts.capital, counts.digit, counts.other, counts.changes);
        assert_eq!(all(&counts), (2, 1, 1, 1, 2), "a small letter after a capital is no change, a sign none");
        assert!(differs(b'a', b'+') && differs(b'+', b'B') && !differs(b'a', b'_') && !differs(b'/', b'B'));
        counts.remove(b'a', b'B');
        assert_eq!(all(&counts), (1, 1, 1, 1, 1));
        counts.remove(b'B', b'c');
        assert_eq!(all(&counts), (1, 0, 1, 1, 1));
    }
}
