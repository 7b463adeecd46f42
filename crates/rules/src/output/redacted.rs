//! One stream without its recognisable secrets: its head, and its tail where something between them is left out.
//!
//! What stands around a cut is looked at, so that a secret that the cut goes through is masked whole. Must not show what was
//! looked at only for that.

use redact::{MASK, Redactor};
use runner_protocol::Parts;

/// The longest and the shortest head of a token that is looked for.
const LONGEST_HEAD: usize = 256;
const SHORTEST_HEAD: usize = 4;
/// The longest rest of a token of one length that is tried.
const LONGEST_EXACT: usize = 24;
/// A line at the beginning of a tail that is as long, without a blank, may be the rest of a secret.
const SHORTEST_REST: usize = 16;
/// How many bytes behind a mask are compared to find where a text goes on.
const ANCHOR: usize = 32;

/// A stream without its recognisable secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redacted {
    /// From the beginning; all of a stream that is whole.
    pub head: Vec<u8>,
    /// How many bytes are left out before the tail.
    pub gap: u64,
    /// The last lines, where something is left out before them.
    pub tail: Vec<u8>,
    /// How many bytes were written.
    pub written: u64,
    /// How many secrets were masked.
    pub hits: u64,
    /// It does not go on to where the stream ended.
    pub is_cut: bool,
}

impl Redacted {
    /// Of what was kept. `stopped`: the script was stopped where its output passed the cap.
    pub fn of(parts: Parts, redactor: &Redactor, stopped: bool) -> Self {
        let Parts { head, ahead, gap, behind, tail, written } = parts;
        let kept = head.len();
        let is_cut = ((kept + tail.len()) as u64) < written;
        let raw = [head, ahead].concat();
        let (mut head, hits) = redactor.redact_bytes(&raw, is_cut && (raw.len() as u64) < written);
        let mut hits = hits.total() as u64;
        if is_cut || stopped {
            // What the cut goes through was written to its end, unless it reaches to the end of everything.
            let cut = if tail.is_empty() { kept } else { aligned(&raw, &head, kept) };
            let open = head.get(cut..).is_none_or(|ahead| !ahead.iter().any(u8::is_ascii_whitespace));
            head.truncate(cut);
            if let Some(start) = token_head(&head, redactor).filter(|_| open) {
                head.truncate(start);
                head.extend_from_slice(MASK.as_bytes());
                hits += 1;
            }
        }
        if tail.is_empty() {
            return Self { head, gap: 0, tail, written, hits, is_cut };
        }
        let before_line = behind.last().is_some_and(|byte| *byte == b'\n');
        let line = if before_line { Some(0) } else { tail.iter().position(|byte| *byte == b'\n').map(|at| at + 1) };
        let line = line.filter(|at| *at < tail.len());
        let raw = [behind.as_slice(), tail.as_slice()].concat();
        let (redacted, masked) = redactor.redact_bytes(&raw, false);
        hits += masked.total() as u64;
        let from = aligned(&raw, &redacted, behind.len() + line.unwrap_or(0));
        let mut shown = redacted.get(from..).unwrap_or_default();
        if line.is_none() {
            // It begins in the middle of a line: what its first word is the rest of is not known.
            let word = shown.iter().position(u8::is_ascii_whitespace).unwrap_or(shown.len());
            shown = shown.get(word..).unwrap_or_default();
        }
        let (tail, masked) = without_rests(shown);
        Self { head, gap: gap + line.unwrap_or(0) as u64, tail, written, hits: hits + masked, is_cut }
    }

    /// The middle of a text: what stands before and behind it is looked at only.
    pub fn window(raw: &[u8], before: usize, content: usize, redactor: &Redactor) -> Self {
        let (redacted, hits) = redactor.redact_bytes(raw, false);
        let from = aligned(raw, &redacted, before);
        let to = aligned(raw, &redacted, before.saturating_add(content)).max(from);
        let head = redacted.get(from..to).unwrap_or_default().to_vec();
        // A mask that lies wholly outside is not this text's.
        let is_same =
            raw.get(before.min(raw.len())..before.saturating_add(content).min(raw.len())) == Some(head.as_slice());
        let hits = if is_same { 0 } else { hits.total() as u64 };
        Self { head, written: content as u64, hits, ..Self::default() }
    }
}

/// Where in a redacted text the byte at `at` of the raw one is, or the mask that hides it begins.
fn aligned(raw: &[u8], redacted: &[u8], at: usize) -> usize {
    let (mut i, mut j) = (0, 0);
    while i < at.min(raw.len()) && j < redacted.len() {
        let rest = redacted.get(j..).unwrap_or_default();
        let is_mask = |text: &[u8]| text.starts_with(MASK.as_bytes());
        if !is_mask(rest) || raw.get(i..).is_some_and(is_mask) {
            if raw.get(i) != redacted.get(j) {
                return j;
            }
            i += 1;
            j += 1;
            continue;
        }
        // A mask: the raw text goes on where what follows the mask is found in it.
        let behind = rest.get(MASK.len()..).unwrap_or_default();
        let next_mask = behind.windows(MASK.len()).position(|part| part == MASK.as_bytes()).unwrap_or(behind.len());
        let anchor = behind.get(..next_mask.min(ANCHOR)).unwrap_or_default();
        let hidden = raw.get(i..).unwrap_or_default();
        let found = if anchor.is_empty() {
            if behind.is_empty() { Some(hidden.len()) } else { Some(1) }
        } else {
            (1..=hidden.len()).find(|skip| hidden.get(*skip..).is_some_and(|rest| rest.starts_with(anchor)))
        };
        let Some(found) = found else { return j };
        if i + found > at {
            return j;
        }
        i += found;
        j += MASK.len();
    }
    j
}

/// The beginning of a tail without lines that may be the rest of a secret, and how many those are.
fn without_rests(tail: &[u8]) -> (Vec<u8>, u64) {
    let mut shown = Vec::with_capacity(tail.len());
    let mut masked = 0;
    let mut rest = tail;
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let Some((line, behind)) = rest.split_at_checked(end) else { break };
        let is_last = line.windows(8).any(|part| part == b"-----END");
        let letters = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/=_-.".contains(byte);
        let may_be = line.len() >= SHORTEST_REST && line.iter().all(letters);
        let is_mask = line == MASK.as_bytes();
        if !(may_be || is_last) || is_mask {
            break;
        }
        shown.extend_from_slice(MASK.as_bytes());
        masked += 1;
        let newline = behind.get(..1).unwrap_or_default();
        shown.extend_from_slice(newline);
        rest = behind.get(1..).unwrap_or_default();
        if is_last || rest.is_empty() {
            break;
        }
    }
    shown.extend_from_slice(rest);
    (shown, masked)
}

/// Where a last word begins that would be masked if it went on: a writer that was stopped at the cap may have been in the middle
/// of a token, and what it did not write any more nobody has seen.
fn token_head(bytes: &[u8], redactor: &Redactor) -> Option<usize> {
    let from = bytes.len().saturating_sub(LONGEST_HEAD);
    let tail = bytes.get(from..)?;
    let start = tail.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    let word = tail.get(start..).filter(|word| word.len() >= SHORTEST_HEAD)?;
    // Of one letter: by itself it is masked as nothing.
    let goes_on = |letter: u8, length: usize| {
        let rest = vec![letter; length];
        let (redacted, hits) = redactor.redact_bytes(&[word, &rest].concat(), false);
        hits.total() > 0 && !redacted.ends_with(&rest)
    };
    // Some have one length, some any.
    let lengths = || (1..=LONGEST_EXACT).chain([LONGEST_HEAD]);
    [b'a', b'A'].into_iter().any(|letter| lengths().any(|length| goes_on(letter, length))).then_some(from + start)
}

#[cfg(test)]
mod tests;
