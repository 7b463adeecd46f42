//! The record of an end: one line, in the guard and, behind `so-ended UID `, as the last bytes of the runner's stdout.
//!
//! Valid only when complete, with its newline. Version 1:
//! `1 code=0 by=script ran=12 ended=0 left=0 stdout=5/5/5/0 stderr=0/0/0/0`: exit code (128+n for signal n), who ended the script, how
//! long it ran in milliseconds, how many of its background processes were ended and how many go on, and of each stream how many
//! bytes were written, how many of them are the head that is stored, how many were sent as they came, and how many are the tail
//! that is stored. Code in the same session can forge it.

use std::{fmt, time::Duration};

use super::capture::Counts;

/// The longest line that can be a record with its prefix, in bytes.
pub const LINE_MAX: usize = 512;
const VERSION: &str = "1";

/// Who ended a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// It ended by itself.
    Script,
    /// Its timeout passed.
    Timeout,
    /// A signal told the runner to stop it.
    Stop,
    /// Its output passed the cap.
    Overflow,
    /// Its supervisor did not end it in time, so the front did.
    Backstop,
    /// A part of the runner was killed, so the other ended it.
    RunnerKilled,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Script, Self::Timeout, Self::Stop, Self::Overflow, Self::Backstop, Self::RunnerKilled];

    /// The word in the record.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Timeout => "timeout",
            Self::Stop => "stop",
            Self::Overflow => "overflow",
            Self::Backstop => "backstop",
            Self::RunnerKilled => "runner-killed",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }
}

/// How a script ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// Exit code; 128+n for signal n.
    pub code: u8,
    /// Who ended it.
    pub by: Cause,
    /// How long it ran, in the guest's boot time.
    pub ran: Duration,
    /// How many background processes were ended after it.
    pub ended: u32,
    /// How many go on: those are kept by policy, or could not be ended.
    pub remaining: u32,
    /// Its standard output; nothing when the front was killed.
    pub stdout: Option<Counts>,
    /// Its standard error.
    pub stderr: Option<Counts>,
}

impl fmt::Display for Record {
    /// Without the newline that makes it complete.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, by, ran, ended, remaining, stdout, stderr } = *self;
        let (by, ran) = (by.as_str(), ran.as_millis());
        write!(f, "{VERSION} code={code} by={by} ran={ran} ended={ended} left={remaining}")?;
        for (name, counts) in [("stdout", stdout), ("stderr", stderr)] {
            match counts {
                Some(Counts { written, head, sent, tail }) => write!(f, " {name}={written}/{head}/{sent}/{tail}")?,
                None => write!(f, " {name}=?")?,
            }
        }
        Ok(())
    }
}

impl Record {
    /// Reads a complete line, with its newline. Also what the shell runner before version 1 wrote: `CODE BEGAN ENDED`.
    pub fn parse(line: &str) -> Option<Self> {
        let line = line.strip_suffix('\n').filter(|line| line.len() < LINE_MAX)?;
        let words: Vec<&str> = line.split(' ').collect();
        match words.as_slice() {
            [VERSION, code, by, ran, ended, left, stdout, stderr] => Some(Self {
                code: field(code, "code")?.parse().ok()?,
                by: Cause::parse(field(by, "by")?)?,
                ran: Duration::from_millis(field(ran, "ran")?.parse().ok()?),
                ended: field(ended, "ended")?.parse().ok()?,
                remaining: field(left, "left")?.parse().ok()?,
                stdout: counts(field(stdout, "stdout")?)?,
                stderr: counts(field(stderr, "stderr")?)?,
            }),
            [code, began, ended] => shell(code, began, ended),
            _ => None,
        }
    }

    /// The last line of the runner's stdout.
    pub fn ended_line(&self, uid: &str) -> String {
        format!("{}{self}\n", ended_prefix(uid))
    }
}

/// How the last line of the runner's stdout begins.
pub fn ended_prefix(uid: &str) -> String {
    format!("so-ended {uid} ")
}

fn field<'a>(word: &'a str, name: &str) -> Option<&'a str> {
    word.strip_prefix(name)?.strip_prefix('=')
}

#[expect(clippy::option_option, reason = "unreadable is not unknown")]
fn counts(text: &str) -> Option<Option<Counts>> {
    if text == "?" {
        return Some(None);
    }
    let numbers: Vec<u64> = text.split('/').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [written, head, sent, tail] = numbers.as_slice() else { return None };
    let counts = Counts { written: *written, head: *head, sent: *sent, tail: *tail };
    counts.is_sound().then_some(Some(counts))
}

fn shell(code: &str, began: &str, ended: &str) -> Option<Record> {
    let (began, ended): (f64, f64) = (began.parse().ok()?, ended.parse().ok()?);
    if !began.is_finite() || !ended.is_finite() {
        return None;
    }
    let code: u8 = code.parse().ok()?;
    // It did not say who: 137 was mostly a stop's.
    let by = if code == 137 { Cause::Stop } else { Cause::Script };
    // Its clock could step back; a negative span is none.
    let ran = Duration::try_from_secs_f64((ended - began).max(0.0)).unwrap_or(Duration::MAX);
    // As version 1 can write it: an answer that holds this record must be readable.
    let ran = Duration::from_millis(u64::try_from(ran.as_millis()).unwrap_or(u64::MAX));
    Some(Record { code, by, ran, ended: 0, remaining: 0, stdout: None, stderr: None })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn record(by: Cause, stdout: Option<Counts>) -> Record {
        let ran = Duration::from_millis(1234);
        Record { code: 143, by, ran, ended: 2, remaining: 1, stdout, stderr: Some(Counts::default()) }
    }

    #[test]
    fn what_is_written_is_read_again_whatever_ended_it() {
        for by in Cause::ALL {
            for stdout in [None, Some(Counts { written: u64::MAX, head: 65536, sent: u64::MAX - 1, tail: 7 })] {
                let record = record(by, stdout);
                let line = format!("{record}\n");
                assert_eq!(Record::parse(&line), Some(record), "{line}");
                assert!(record.ended_line(&"u".repeat(64)).len() < LINE_MAX);
                for cut in 0..line.len() {
                    assert_eq!(Record::parse(&line[..cut]), None, "only a complete line counts: {}", &line[..cut]);
                }
            }
        }
    }

    #[rstest]
    #[case::code_beyond_a_byte("1 code=300 by=script ran=1 ended=0 left=0 stdout=0/0/0/0 stderr=0/0/0/0\n")]
    #[case::unknown_cause("1 code=0 by=magic ran=1 ended=0 left=0 stdout=0/0/0/0 stderr=0/0/0/0\n")]
    #[case::another_version("2 code=0 by=script ran=1 ended=0 left=0 stdout=0/0/0/0 stderr=0/0/0/0\n")]
    #[case::more_words("1 code=0 by=script ran=1 ended=0 left=0 stdout=0/0/0/0 stderr=0/0/0/0 x=1\n")]
    #[case::other_order("1 by=script code=0 ran=1 ended=0 left=0 stdout=0/0/0/0 stderr=0/0/0/0\n")]
    #[case::a_head_longer_than_all("1 code=0 by=script ran=1 ended=0 left=0 stdout=1/2/2/0 stderr=0/0\n")]
    #[case::two_counts("1 code=0 by=script ran=1 ended=0 left=0 stdout=1/1 stderr=0/0/0/0\n")]
    #[case::negative("1 code=0 by=script ran=-1 ended=0 left=0 stdout=0/0/0/0 stderr=0/0/0/0\n")]
    #[case::two_lines("1 code=0 by=script ran=1 ended=0 left=0 stdout=0/0/0/0 stderr=0/0/0/0\n\n")]
    #[case::nothing("")]
    #[case::shell_code("300 1.0 2.0\n")]
    #[case::shell_clock("0 -inf 2.0\n")]
    #[case::shell_nan("0 1.0 nan\n")]
    fn anything_else_is_no_record(#[case] line: &str) {
        assert_eq!(Record::parse(line), None);
    }

    #[rstest]
    #[case("0 1.5 2.0\n", 0, Duration::from_millis(500))]
    #[case("137 9.0 2.0\n", 137, Duration::ZERO)]
    #[case("0 0 1e300\n", 0, Duration::from_millis(u64::MAX))]
    #[case("1 1 88.888888889\n", 1, Duration::from_millis(87_888))]
    fn records_of_the_shell_runner_are_read(#[case] line: &str, #[case] code: u8, #[case] ran: Duration) {
        let read = Record::parse(line).unwrap();
        assert_eq!((read.code, read.ran, read.stdout), (code, ran, None));
        assert_eq!(Record::parse(&format!("{read}\n")), Some(read), "and are written again as version 1");
    }
}
