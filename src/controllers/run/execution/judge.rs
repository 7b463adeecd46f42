//! What follows from what an execution showed: may it be sent, was it, how did it end. Pure.
//!
//! Must not read, send or wait; whoever asks does.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::place::RecoveryWindow;
use api::reasons::Evidence;
use rules::{
    outcome::{self, Outcome, Stop},
    runner::Guard,
};
use sprites::{Error, ExecError};

/// How old the read of the rules may be when the command is started.
pub const PROOF_GOOD_FOR: Duration = Duration::from_secs(5);
/// How long after the Running write a command may take to start in the guest. Then it is fenced, and the guard asked.
pub const START_WITHIN: Duration = Duration::from_secs(15);
/// The pauses between attempts to open a connection.
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];
/// How long after a Run's own deadline its end may still be looked for.
const GRACE: Duration = Duration::from_secs(30);
/// How long at least, from when we began: after an outage the deadline may have passed long ago.
const AT_LEAST: Duration = Duration::from_mins(1);
/// The same for a command whose connection was lost: what went before has taken some of those 30 s.
const SHORT: Duration = Duration::from_secs(25);

/// Why an exec is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSent {
    /// Somebody asked for a stop first.
    Stopped(Stop),
    /// It never will be, for this reason.
    Never(String),
}

/// Whether an exec may be sent now, and within what time its answer must come.
pub fn may_send(stop: Option<Stop>, proof_age: Duration, has_lease: bool) -> Result<Duration, NotSent> {
    if let Some(stop) = stop {
        return Err(NotSent::Stopped(stop));
    }
    let Some(left) = PROOF_GOOD_FOR.checked_sub(proof_age) else {
        return Err(NotSent::Never("the proof of lockdown had become too old".to_owned()));
    };
    if !has_lease {
        return Err(NotSent::Never("the operator is about to lose its Lease".to_owned()));
    }
    // No later than the proof is good for.
    Ok(left)
}

/// What follows from an exec that could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing was started: try again after this pause.
    Again(Duration),
    /// Nothing was started, and nothing will be.
    Never(String),
    /// The command may run: the guest must be asked.
    Unknown,
}

/// Only what was not sent, or was refused with 429, is tried again. `tried`: how often that was done before.
pub fn after_refusal(error: &ExecError, tried: usize) -> Refusal {
    if error.may_have_started() {
        // A gateway may answer for a command that already runs.
        return Refusal::Unknown;
    }
    let cause = error.error();
    let again = match error {
        // Refused for now: the limiter holds the next try back for as long as the platform asks.
        ExecError::NotStarted(_) | ExecError::Refused(Error::RateLimited { .. }) => !cause.is_capacity(),
        ExecError::Refused(_) | ExecError::Unknown(_) => false,
    };
    match PAUSES.get(tried) {
        Some(pause) if again => Refusal::Again(*pause),
        None if again => Refusal::Never(format!("the platform could not be reached ({})", cause.kind())),
        Some(_) | None => Refusal::Never(format!("the platform refused the exec ({})", cause.kind())),
    }
}

/// Whether something of a command may be left after its end: then it is killed, and that confirmed. Its runner may have been
/// killed before it could sweep. Without an exit the guest is asked anyhow.
pub const fn needs_sweep(exit: Option<u8>, stop: Option<Stop>) -> bool {
    match exit {
        None => false,
        Some(code) => stop.is_some() || code >= 128,
    }
}

/// Until when the end of a command is looked for, which was to end at `ends`.
pub fn recovery_deadline(window: RecoveryWindow, ends: Timestamp, now: Timestamp) -> Duration {
    let left = |grace: Duration| left(ends, grace, now);
    match window {
        RecoveryWindow::Short => left(SHORT),
        RecoveryWindow::AfterOutage => left(GRACE).max(AT_LEAST),
    }
}

/// How long it is until so long after `ends`; zero once that is over.
pub fn left(ends: Timestamp, grace: Duration, now: Timestamp) -> Duration {
    let until = ends.checked_add(grace).unwrap_or(Timestamp::MAX);
    Duration::try_from(until.duration_since(now)).unwrap_or_default()
}

/// How an exec session was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecEnd {
    /// There was none any more.
    Gone,
    /// With this exit frame.
    Exit(u8),
    /// Killed, and that confirmed.
    Killed,
}

/// What an adopter saw, once nothing of the command runs and nothing can start.
#[derive(Debug, Clone)]
pub struct Recovered<'a> {
    /// What stands at the guard.
    pub guard: &'a Guard,
    /// How its session was left.
    pub end: ExecEnd,
    /// Why it was told to stop before its connection was lost. What ended before that keeps its own end.
    pub stopped: Option<Stop>,
    /// Why it was told to stop since.
    pub asked: Option<Stop>,
    /// Whether its start marker was seen.
    pub seen_started: bool,
    /// Whether the output passed the cap; nothing: it could not be read.
    pub over_cap: Option<bool>,
    /// Its timeout.
    pub timeout: Duration,
}

/// What became of it, and whether some of its output may be missing.
pub fn recovered(seen: &Recovered<'_>) -> (Outcome, bool) {
    let Recovered { guard, end, stopped, asked, seen_started, over_cap, timeout } = *seen;
    if *guard == Guard::Never && seen_started {
        return (Outcome::unknown("it started, and the guest's record of that was taken away"), true);
    }
    let stop = stopped.or(asked).or((over_cap == Some(true)).then_some(Stop::OutputLimit));
    // Killed without anybody's asking: its time was over.
    let stop = stop.or((end == ExecEnd::Killed).then_some(Stop::Timeout));
    let mut outcome = outcome::after_fence(guard, stop, timeout);
    if let (Guard::Record { code, .. }, ExecEnd::Exit(exit)) = (guard, end)
        && *code == exit
    {
        outcome.evidence = Evidence::ExitFrame;
    }
    (outcome, over_cap.is_none() || *guard == Guard::Started)
}

#[cfg(test)]
mod tests;
