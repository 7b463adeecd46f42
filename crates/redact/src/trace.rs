//! Whether a second reading would change what the first one gave.
//!
//! A mask hides from the places before it what they saw ahead of them, so that a second reading may decide otherwise there; nowhere
//! else. A first reading leaves marks of how it stood, and what it masked; from the mark before each mask the text is read
//! again, up to where the second reading stands as the first one did and has no mask in sight. The answer is that of reading
//! all of it, which a test checks. Must not change a text.

use super::WINDOW_LOOKAHEAD;
use super::window::{Machine, Pass, Place, Step};

/// A mark is left every so many bytes.
const STRIDE: usize = 512;

/// What is told of a reading while it goes on.
pub(super) trait Watch<P> {
    /// The place that is decided next, so many bytes behind the beginning of what comes out.
    fn place(&mut self, at: usize, place: Place<'_>, pass: &P);
    /// A mask was set there.
    fn masked(&mut self, at: usize);
}

/// Nobody watches.
impl<P> Watch<P> for () {
    fn place(&mut self, _: usize, _: Place<'_>, _: &P) {}
    fn masked(&mut self, _: usize) {}
}

/// How a reading stood at a place.
#[derive(Debug, Clone)]
pub(super) struct Mark<P> {
    pub(super) at: usize,
    /// How many bytes before the place were in sight.
    pub(super) behind: usize,
    pub(super) begins: bool,
    pub(super) pass: P,
}

impl<P: PartialEq> Mark<P> {
    fn is(&self, at: usize, place: Place<'_>, pass: &P) -> bool {
        (self.at, self.behind, self.begins) == (at, place.behind.len(), place.begins) && self.pass == *pass
    }
}

/// A reading of a whole text, as seen from what came out.
#[derive(Debug)]
pub(super) struct Trace<P> {
    marks: Vec<Mark<P>>,
    /// Where masks were set, in order.
    masks: Vec<usize>,
}

impl<P> Default for Trace<P> {
    fn default() -> Self {
        Self { marks: Vec::new(), masks: Vec::new() }
    }
}

impl<P: Clone> Watch<P> for Trace<P> {
    fn place(&mut self, at: usize, place: Place<'_>, pass: &P) {
        if self.marks.last().is_none_or(|last| at >= last.at + STRIDE) {
            self.marks.push(Mark { at, behind: place.behind.len(), begins: place.begins, pass: pass.clone() });
        }
    }

    fn masked(&mut self, at: usize) {
        self.masks.push(at);
    }
}

impl<P: Pass + Clone + PartialEq> Trace<P> {
    /// Whether a reading of `text`, which came out of this one, would mask nothing. `last` as for [`Machine::run`].
    pub(super) fn is_settled(&self, text: &str, last: bool) -> bool {
        let mut from = 0;
        while let Some(number) = (from..self.marks.len()).find(|number| self.sees_mask(*number, text)) {
            let Some(next) = self.read_again(number, text, last) else { return false };
            from = next;
        }
        true
    }

    /// Whether a place from this mark up to the next one has a new mask in sight.
    fn sees_mask(&self, number: usize, text: &str) -> bool {
        let Some(mark) = self.marks.get(number) else { return false };
        let end = self.marks.get(number + 1).map_or(text.len(), |next| next.at);
        let first = self.masks.partition_point(|mask| *mask < mark.at);
        self.masks.get(first).is_some_and(|mask| *mask < end + WINDOW_LOOKAHEAD)
    }

    /// Reads from a mark on; gives the number of the mark from which on all is as it was, nothing if there is something to mask.
    fn read_again(&self, number: usize, text: &str, last: bool) -> Option<usize> {
        let mut machine = Machine::resumed(self.marks.get(number)?);
        let mut next = number + 1;
        while let Some(place) = machine.place(text, last) {
            let at = machine.at();
            while self.marks.get(next).is_some_and(|mark| mark.at < at) {
                next += 1;
            }
            if self.marks.get(next).is_some_and(|mark| mark.is(at, place, machine.pass()))
                && !self.sees_mask(next, text)
            {
                return Some(next);
            }
            let step = machine.decide(place);
            if matches!(step, Step::Mask(..) | Step::Drop(_)) {
                return None;
            }
            machine.go(text, step);
        }
        Some(self.marks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hits, Rule};
    use std::{cell::Cell, rc::Rc};

    /// Masks `S`. A `!` with an `S` in sight disarms, one without arms; armed, it masks `?`. So a mask changes what comes far behind it.
    #[derive(Debug, Clone, Default)]
    struct Fuse {
        armed: bool,
        dropping: bool,
        steps: Rc<Cell<usize>>,
    }

    impl PartialEq for Fuse {
        fn eq(&self, other: &Self) -> bool {
            (self.armed, self.dropping) == (other.armed, other.dropping)
        }
    }

    impl Pass for Fuse {
        fn ahead(&self) -> usize {
            WINDOW_LOOKAHEAD
        }

        fn step(&mut self, place: Place<'_>) -> Step {
            self.steps.set(self.steps.get() + 1);
            if std::mem::take(&mut self.dropping) {
                return Step::Drop(1);
            }
            let first = place.ahead.first();
            if first == Some(&b'!') {
                self.armed = !place.ahead.contains(&b'S');
            }
            self.dropping = first == Some(&b'S') || first == Some(&b'?') && self.armed;
            if self.dropping { Step::Mask(0, Rule::OpaqueRun, "") } else { Step::Keep(1) }
        }
    }

    fn read(text: &str) -> (String, Hits, Trace<Fuse>) {
        let (mut out, mut hits, mut trace) = (String::new(), Hits::default(), Trace::default());
        Machine::new(Fuse::default()).run(text, true, &mut out, &mut hits, &mut trace);
        (out, hits, trace)
    }

    /// What is said of a text, and whether a second reading of all of it masks nothing.
    fn both(text: &str) -> (bool, bool) {
        let (out, _, trace) = read(text);
        (trace.is_settled(&out, true), read(&out).1.total() == 0)
    }

    #[test]
    fn what_a_mask_changes_far_behind_it_is_seen() {
        let pad = "pad ".repeat(5 * STRIDE);
        for text in [format!("! S {pad}?"), format!("{pad}!{pad}S{pad}! S{pad}?{pad}")] {
            assert_eq!(both(&text), (false, false));
        }
        for text in [format!("!{pad}S{pad}?"), format!("! S {pad}"), format!("? S {pad}?")] {
            assert_eq!(both(&text), (true, true));
        }
    }

    #[test]
    fn a_mask_is_in_sight_up_to_the_end_of_the_window() {
        for shift in (0..STRIDE).step_by(31).chain([STRIDE - 2, STRIDE - 1]) {
            for gap in (WINDOW_LOOKAHEAD - 3..WINDOW_LOOKAHEAD + 3).chain([1, STRIDE, WINDOW_LOOKAHEAD - STRIDE]) {
                let text = [
                    "-".repeat(shift),
                    "!".into(),
                    "-".repeat(gap),
                    "S".into(),
                    "-".repeat(3 * WINDOW_LOOKAHEAD),
                    "?".into(),
                ]
                .concat();
                let (said, so) = both(&text);
                assert_eq!(said, so, "{shift} {gap}");
                // Behind the window `!` arms in the first reading, and all is masked then.
                assert_eq!(so, gap + 1 >= WINDOW_LOOKAHEAD, "{shift} {gap}");
            }
        }
    }

    #[test]
    fn a_reading_goes_on_with_what_was_in_sight() {
        let pad = "-".repeat(STRIDE + 64);
        let (out, _, trace) = read(&["S", &pad, "S", &pad, &pad].concat());
        assert_eq!(trace.marks.iter().filter(|mark| mark.begins).count(), 1);
        for mark in &trace.marks {
            let machine = Machine::resumed(mark);
            let place = machine.place(&out, true).unwrap();
            assert_eq!((machine.at(), place.begins), (mark.at, mark.begins));
            assert_eq!(place.behind, &out.as_bytes()[mark.at - mark.behind..mark.at]);
        }
    }

    #[test]
    fn little_is_read_again_and_little_is_kept_for_it() {
        let pad = "-".repeat(16 * WINDOW_LOOKAHEAD);
        let (out, _, trace) = read(&["?", &pad, "S", &pad, "S", &pad].concat());
        let marks = trace.marks.len();
        assert!((out.len() / STRIDE..=out.len() / STRIDE + 1).contains(&marks), "{marks}");
        let steps = || trace.marks[0].pass.steps.get();
        let before = steps();
        assert!(trace.is_settled(&out, true));
        let again = steps() - before;
        assert!((2 * WINDOW_LOOKAHEAD..=2 * (WINDOW_LOOKAHEAD + 2 * STRIDE)).contains(&again), "{again}");
    }
}
