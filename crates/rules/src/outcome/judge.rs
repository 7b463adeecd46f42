//! From what was seen of a command to its outcome: one function, used by the starter and by an adopter alike.
//!
//! The runner's record says who ended the script. An exit frame is believed by itself only with that record behind it; without
//! either nothing is concluded but what the guard proves. A record that contradicts what was seen is none: code in the session
//! can forge it.

use std::time::Duration;

use runner_protocol::{
    Cause, EXIT_CANNOT_START, EXIT_DISK, EXIT_GUARD_EXISTS, EXIT_INPUT_CUT, EXIT_WRONG_INSTANCE, Guard, Record,
};

use super::{Outcome, Stop};
use api::reasons::{Evidence, RunPhase, RunReason};

/// How much longer than from marker to exit frame a record may say that a script ran.
const CLOCKS_DIFFER: Duration = Duration::from_secs(1);

/// All that was seen of a command whose connection had been opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Seen<'a> {
    /// The code of the exit frame, if one came.
    pub exit: Option<u8>,
    /// Whether the start marker came.
    pub started: bool,
    /// From the marker to the exit frame, where both were seen.
    pub took: Option<Duration>,
    /// The record, if it came as the last line.
    pub line: Option<Record>,
    /// The guard, once it was read: by then nothing runs any more and nothing can start.
    pub guard: Option<&'a Guard>,
    /// Why its end was asked for, if it was.
    pub stop: Option<Stop>,
    /// What the runner said on stderr before it started anything.
    pub refusal: Option<&'a str>,
    /// The timeout.
    pub timeout: Duration,
}

/// What to do with what was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is over.
    Final(Outcome),
    /// Only the guest can tell: everything of it is ended, and its guard is asked.
    AskGuest,
}

/// Judges.
pub fn judge(seen: &Seen<'_>) -> Verdict {
    if let Some(record) = seen.line
        && seen.started
        && seen.exit == Some(record.code)
        && !is_contradicted(&record, seen.took)
    {
        return Verdict::Final(ended(&record, seen, Evidence::ExitFrame));
    }
    match seen.guard {
        None => Verdict::AskGuest,
        Some(Guard::Never) if seen.started => {
            Verdict::Final(Outcome::unknown("it started, and the guest's record of that was taken away"))
        }
        Some(Guard::Never) => Verdict::Final(unstarted(seen)),
        Some(Guard::Ended(record)) if !is_contradicted(record, seen.took) => {
            let evidence = if seen.exit == Some(record.code) { Evidence::ExitFrame } else { Evidence::GuestRecord };
            Verdict::Final(ended(record, seen, evidence))
        }
        Some(Guard::Ended(_)) => {
            Verdict::Final(Outcome::unknown("the guest's record of its end contradicts what was seen"))
        }
        // A script that killed both parts of the runner may have left processes without the mark.
        Some(Guard::Started) => Verdict::Final(Outcome::unknown(
            "it started and left no record of its end; leftover processes could not be ruled out",
        )),
    }
}

/// Whether a record says what cannot be: that the script ran longer than from its marker to its exit frame.
fn is_contradicted(record: &Record, took: Option<Duration>) -> bool {
    took.is_some_and(|took| record.ran > took.saturating_add(CLOCKS_DIFFER))
}

/// Whether something of a command may be left after its exit frame: then it is ended, and that confirmed. Without an exit
/// frame the guest is asked anyhow.
pub fn needs_sweep(seen: &Seen<'_>) -> bool {
    seen.exit.is_some() && seen.stop.is_some()
}

/// Why a session is to be locked down again after a Run found its lockdown gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostLockdown {
    /// The nonce is another one, or gone.
    Nonce,
    /// The guard could not be made.
    Disk,
    /// The runner is missing, or was replaced.
    Runner,
}

impl LostLockdown {
    /// For people.
    pub const fn message(self) -> &'static str {
        match self {
            Self::Nonce => "the Sprite no longer holds the nonce of its lockdown",
            Self::Disk => "the Sprite's disk refused the guard of a Run",
            Self::Runner => "the runner is missing from the Sprite, or is not the one that was put there",
        }
    }
}

/// Whether the lockdown is lost, by an exec that ended without its marker. What the runner itself refuses for is none of that.
pub const fn lost_lockdown(exit: Option<u8>, started: bool) -> Option<LostLockdown> {
    match (exit, started) {
        (Some(EXIT_WRONG_INSTANCE), false) => Some(LostLockdown::Nonce),
        (Some(EXIT_DISK), false) => Some(LostLockdown::Disk),
        // 128 and above: a signal ended the runner.
        (_, true) | (None | Some(EXIT_GUARD_EXISTS | EXIT_INPUT_CUT | EXIT_CANNOT_START | 128..=u8::MAX), false) => {
            None
        }
        (Some(_), false) => Some(LostLockdown::Runner),
    }
}

/// A command that never started; where somebody asked for a stop, that is why.
fn unstarted(seen: &Seen<'_>) -> Outcome {
    match (seen.stop, seen.exit) {
        // What had no output passed no cap, and what never ran no timeout.
        (Some(stop), _) if !matches!(stop, Stop::OutputLimit | Stop::Timeout) => Outcome::stopped_before_start(stop),
        (_, Some(EXIT_CANNOT_START)) => {
            Outcome::not_started(seen.refusal.unwrap_or("the guest cannot start it as asked"))
        }
        (_, Some(EXIT_INPUT_CUT)) => Outcome::not_started("its input was cut short"),
        (_, exit) => match lost_lockdown(exit, false) {
            Some(lost) => Outcome::not_started(&format!("{}; the session is locked down again", lost.message())),
            None => Outcome::not_started("it had not started when its end was looked for"),
        },
    }
}

/// How a command ended, by its record.
fn ended(record: &Record, seen: &Seen<'_>, evidence: Evidence) -> Outcome {
    let Record { code, by, ran, ended, remaining, stdout: _, stderr: _ } = *record;
    let outcome = match by {
        Cause::Script => own_end(code, seen.stop),
        Cause::Timeout | Cause::Backstop => stopped(Stop::Timeout),
        Cause::Overflow => stopped(Stop::OutputLimit),
        Cause::Stop => match seen.stop {
            Some(stop) => stopped(stop),
            // Runners of older operators did not tell a stop from the end of the time.
            None if ran >= seen.timeout => stopped(Stop::Timeout),
            None => Outcome::of(KILLED, "a signal told the runner to stop the command; why is not on record"),
        },
        Cause::RunnerKilled => match seen.stop {
            Some(stop) => stopped(stop),
            None => Outcome::of(KILLED, "a process of the runner was killed, and the command was ended with it"),
        },
    };
    let mut outcome = Outcome { exit_code: Some(code), evidence, ..outcome };
    let told = |number: u32| if number == 1 { "process was".to_owned() } else { "processes were".to_owned() };
    if ended > 0 && by == Cause::Script {
        let (told, policy) = (told(ended), "policy: lifecycle.processesAfterRun");
        outcome.message = format!("{}; {ended} background {told} ended ({policy})", outcome.message);
    }
    if remaining > 0 {
        outcome.message = format!("{}; {remaining} background {} left running", outcome.message, told(remaining));
    }
    outcome
}

const KILLED: (RunPhase, RunReason) = (RunPhase::Failed, RunReason::Killed);

fn stopped(stop: Stop) -> Outcome {
    Outcome::of(stop.outcome(), stop.message())
}

/// What a script ended with by itself is its outcome, whatever was sent meanwhile; that something was is said.
fn own_end(code: u8, stop: Option<Stop>) -> Outcome {
    let mut outcome = match code {
        0 => Outcome::of((RunPhase::Succeeded, RunReason::Completed), "the command exited 0"),
        137 => Outcome::of(
            KILLED,
            "the command was killed by signal 9, not sent by the operator: perhaps it ran out of memory",
        ),
        129..=192 => Outcome::of(
            (RunPhase::Failed, RunReason::NonZeroExit),
            format!("the command exited {code}: signal {}, if it did not choose that code", code - 128),
        ),
        code => Outcome::of((RunPhase::Failed, RunReason::NonZeroExit), format!("the command exited {code}")),
    };
    if let Some(stop) = stop {
        let (_, reason) = stop.outcome();
        outcome.message =
            format!("{}; a stop was requested ({reason}), and the command had ended by itself before", outcome.message);
    }
    outcome
}

#[cfg(test)]
mod tests;
