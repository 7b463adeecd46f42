//! What the runner prints when the operator asks it: one line each, so that a program in its place is noticed.

use std::time::Duration;

use super::{is_plain, record::Record};

/// What [`super::INSTALL`] prints.
pub fn installed(hash: &str, nonce: &str) -> String {
    format!("so-installed {hash} {nonce}\n")
}

/// What [`super::SWEEP`] prints: how many processes of the Run remain.
pub fn swept(uid: &str, remaining: usize) -> String {
    format!("so-swept {uid} {remaining}\n")
}

/// Reads what [`super::SWEEP`] printed; nothing when it is no answer.
pub fn parse_swept(uid: &str, answer: &[u8]) -> Option<usize> {
    answer_of(answer, "so-swept", uid)?.parse().ok()
}

/// The guard of a Run.
#[derive(Debug, Clone, PartialEq)]
pub enum Guard {
    /// The command never started and now cannot.
    Never,
    /// It started; there is no record of its end.
    Started,
    /// It ended so.
    Ended(Record),
}

/// What [`super::FENCE`] prints: a Run's guard, after everything of it was ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Fence {
    /// How many processes of the Run remain.
    pub remaining: usize,
    /// Its guard.
    pub guard: Guard,
}

impl Fence {
    /// The line.
    pub fn line(&self, uid: &str) -> String {
        let remaining = self.remaining;
        match &self.guard {
            Guard::Never => format!("so-fenced {uid} {remaining} never\n"),
            Guard::Started => format!("so-fenced {uid} {remaining} started\n"),
            Guard::Ended(record) => format!("so-fenced {uid} {remaining} ended {record}\n"),
        }
    }

    /// Reads the line; nothing when it is no answer.
    pub fn parse(uid: &str, answer: &[u8]) -> Option<Self> {
        let (remaining, rest) = answer_of(answer, "so-fenced", uid)?.split_once(' ')?;
        let guard = match rest {
            "never" => Guard::Never,
            "started" => Guard::Started,
            record => Guard::Ended(Record::parse(&format!("{}\n", record.strip_prefix("ended ")?))?),
        };
        Some(Self { remaining: remaining.parse().ok()?, guard })
    }
}

/// What [`super::STATE`] prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing of it stands here.
    Absent,
    /// It is over, or never began.
    Over,
    /// It has been running so long.
    Running(Duration),
}

impl State {
    /// The line.
    pub fn line(self, uid: &str) -> String {
        match self {
            Self::Absent => format!("so-state {uid} absent\n"),
            Self::Over => format!("so-state {uid} over\n"),
            Self::Running(ran) => format!("so-state {uid} running {}\n", ran.as_millis()),
        }
    }

    /// Reads the line; nothing when it is no answer.
    pub fn parse(uid: &str, answer: &[u8]) -> Option<Self> {
        match answer_of(answer, "so-state", uid)? {
            "absent" => Some(Self::Absent),
            "over" => Some(Self::Over),
            running => Some(Self::Running(Duration::from_millis(running.strip_prefix("running ")?.parse().ok()?))),
        }
    }
}

/// What follows the word and the UID in an answer of exactly one line.
fn answer_of<'a>(answer: &'a [u8], word: &str, uid: &str) -> Option<&'a str> {
    debug_assert!(is_plain(uid));
    let line = std::str::from_utf8(answer).ok()?.strip_suffix('\n').filter(|line| !line.contains('\n'))?;
    line.strip_prefix(word)?.strip_prefix(' ')?.strip_prefix(uid)?.strip_prefix(' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Cause;

    #[test]
    fn an_answer_is_read_as_it_was_written_and_only_for_its_own_run() {
        let record = Record {
            code: 3,
            by: Cause::Script,
            ran: Duration::from_millis(7),
            ended: 0,
            remaining: 0,
            stdout: None,
            stderr: None,
        };
        for guard in [Guard::Never, Guard::Started, Guard::Ended(record)] {
            let fence = Fence { remaining: 2, guard };
            let line = fence.line("u-1");
            assert_eq!(Fence::parse("u-1", line.as_bytes()), Some(fence));
            assert_eq!(Fence::parse("u-2", line.as_bytes()), None);
            assert_eq!(Fence::parse("u-1", line.trim_end().as_bytes()), None, "cut");
            assert_eq!(Fence::parse("u-1", format!("hello\n{line}").as_bytes()), None, "something else came first");
        }
        for state in [State::Absent, State::Over, State::Running(Duration::from_millis(1500))] {
            assert_eq!(State::parse("u-1", state.line("u-1").as_bytes()), Some(state));
            assert_eq!(State::parse("u-1", swept("u-1", 0).as_bytes()), None);
        }
        assert_eq!(parse_swept("u-1", swept("u-1", 3).as_bytes()), Some(3));
        for wrong in ["", "0\n", "so-swept u-1 -1\n", "so-swept u-1 0", "so-swept u-12 0\n", "so-swept u-1  0\n"] {
            assert_eq!(parse_swept("u-1", wrong.as_bytes()), None, "{wrong}");
        }
    }
}
