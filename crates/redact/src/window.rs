//! The window: runs a pass over text so that each decision sees the same bytes, wherever the text was cut off.
//!
//! A pass is only asked where all it may look at is there, or the text has ended; so the redaction of a head is a head of the
//! redaction of the whole. Must not know what a secret is.

use super::trace::{Mark, Watch};
use super::{Hits, MASK, Rule};

/// How many bytes before a place a decision may look at.
pub(super) const LOOKBEHIND: usize = 128;

/// What is done at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// So many bytes are kept.
    Keep(usize),
    /// So many bytes are kept, then a mask is set, between these quotes.
    Mask(usize, Rule, &'static str),
    /// So many bytes are dropped: a mask stands for them already.
    Drop(usize),
    /// The text that is already a mask.
    Old,
}

/// What stands round a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'t> {
    /// Up to [`LOOKBEHIND`] bytes before it, not further than the last mask.
    pub behind: &'t [u8],
    /// Whether nothing is before `behind`: the text begins there.
    pub begins: bool,
    /// Bytes from it on, as many as the pass looks ahead, or up to the end of the text.
    pub ahead: &'t [u8],
}

/// A decision at each place of a text.
pub(super) trait Pass {
    /// How many bytes ahead a decision looks.
    fn ahead(&self) -> usize;
    /// Decides. A step of no bytes that sets no mask counts as one byte kept.
    fn step(&mut self, place: Place<'_>) -> Step;
}

/// A pass, and where it is.
#[derive(Debug)]
pub(super) struct Machine<P> {
    pass: P,
    cursor: Cursor,
}

/// Where a pass is in a buffer.
#[derive(Debug, Clone, Copy, Default)]
struct Cursor {
    at: usize,
    floor: usize,
    masked: bool,
}

impl<P: Pass> Machine<P> {
    pub(super) fn new(pass: P) -> Self {
        Self { pass, cursor: Cursor::default() }
    }

    /// A machine that stands where another one stood.
    pub(super) fn resumed(mark: &Mark<P>) -> Self
    where
        P: Clone,
    {
        let cursor = Cursor { at: mark.at, floor: mark.at - mark.behind, masked: !mark.begins };
        Self { pass: mark.pass.clone(), cursor }
    }

    pub(super) fn pass(&self) -> &P {
        &self.pass
    }

    /// How many bytes are decided.
    pub(super) fn at(&self) -> usize {
        self.cursor.at
    }

    /// Decides as much of `text` as can be decided: all of it when it is the `last`.
    pub(super) fn run(&mut self, text: &str, last: bool, out: &mut String, hits: &mut Hits, watch: &mut impl Watch<P>) {
        let mut kept = self.cursor.at;
        while let Some(place) = self.place(text, last) {
            let at = self.cursor.at;
            watch.place(out.len() + at - kept, place, &self.pass);
            let step = self.pass.step(place);
            self.go(text, step);
            match step {
                Step::Keep(_) | Step::Old => {}
                Step::Drop(_) => {
                    out.push_str(text.get(kept..at).unwrap_or_default());
                    kept = self.cursor.at;
                }
                Step::Mask(_, rule, quote) => {
                    out.push_str(text.get(kept..self.cursor.at).unwrap_or_default());
                    watch.masked(out.len());
                    for part in [quote, MASK, quote] {
                        out.push_str(part);
                    }
                    hits.count(rule);
                    kept = self.cursor.at;
                }
            }
        }
        out.push_str(text.get(kept..self.cursor.at).unwrap_or_default());
    }

    /// The place that is to be decided; none at the end, or when what is after it is not there yet.
    pub(super) fn place<'t>(&self, text: &'t str, last: bool) -> Option<Place<'t>> {
        let Cursor { at, floor, masked } = self.cursor;
        let (bytes, window) = (text.as_bytes(), self.pass.ahead());
        if at >= bytes.len() || !last && bytes.len() - at < window {
            return None;
        }
        let low = floor.max(at.saturating_sub(LOOKBEHIND));
        Some(Place {
            behind: bytes.get(low..at).unwrap_or_default(),
            begins: low == 0 && !masked,
            ahead: bytes.get(at..bytes.len().min(at + window)).unwrap_or_default(),
        })
    }

    /// What the pass does at a place, without doing it.
    pub(super) fn decide(&mut self, place: Place<'_>) -> Step {
        self.pass.step(place)
    }

    /// Goes on behind a step.
    pub(super) fn go(&mut self, text: &str, step: Step) {
        let at = self.cursor.at;
        self.cursor.at = match step {
            Step::Keep(count) | Step::Drop(count) => advance(text, at, count.max(1)),
            Step::Mask(count, ..) => advance(text, at, count),
            Step::Old => advance(text, at, MASK.len()),
        };
        if !matches!(step, Step::Keep(_)) {
            self.bar();
        }
    }

    /// What is before a mask is no context for what is after it: a second run sees the mask instead.
    fn bar(&mut self) {
        self.cursor.floor = self.cursor.at;
        self.cursor.masked = true;
    }
}

/// The place so many bytes on, moved to the end of a character.
fn advance(text: &str, at: usize, count: usize) -> usize {
    text.ceil_char_boundary((at + count).min(text.len()))
}
