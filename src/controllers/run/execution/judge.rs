//! What follows from what an execution showed: may it be sent, was it, how did it end. Pure.
//!
//! Must not read, send or wait; whoever asks does.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::place::RecoveryWindow;
use rules::outcome::Stop;
use sprites::{Error, ExecError};

/// How old the read of the rules may be when the command is started.
pub const PROOF_GOOD_FOR: Duration = Duration::from_secs(5);
/// How long after the Running write a command may take to start in the guest. Then it is fenced, and the guard asked.
pub const START_WITHIN: Duration = Duration::from_secs(15);
/// How much of the proof's time an exec must have for its answer; with less of it the Sprite is read once more. A handshake that is
/// given up may have reached the guest: then the Run is fenced, and lost.
const SHORTEST: Duration = Duration::from_secs(2);
/// The pauses between attempts to open a connection.
const DENIED: Duration = Duration::from_secs(2);
const PAUSES: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(1)];
/// How long after its own deadline the end of a command is looked for whose connection was lost: G3's bound less what a write takes.
const SHORT: Duration = Duration::from_secs(25);
/// The same after an outage, by an adopter.
const AFTER_OUTAGE: Duration = Duration::from_secs(90);
/// What an adopter has at least, however long ago that was.
const ONE_TRY: Duration = Duration::from_secs(20);

/// Why an exec is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotSent {
    /// Somebody asked for a stop first.
    Stopped(Stop),
    /// It never will be, for this reason.
    Never(String),
}

/// What comes next for an exec that is not sent yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// It may be sent; its answer must come within this time.
    Send(Duration),
    /// The proof is too old: the Sprite is read once more.
    ProveAgain,
    /// It may be sent later.
    Wait,
    /// It is not sent.
    Not(NotSent),
}

/// Whether an exec may be sent now. `left`: until a Run whose start is on record must have started.
pub fn next(stop: Option<Stop>, proof_age: Duration, has_lease: bool, left: Duration) -> Next {
    if let Some(stop) = stop {
        return Next::Not(NotSent::Stopped(stop));
    }
    match (has_lease, left.is_zero()) {
        (false, true) => return Next::Not(NotSent::Never("the operator is about to lose its Lease".to_owned())),
        (false, false) => return Next::Wait,
        (true, true) => return Next::Not(NotSent::Never("it could not be sent in time".to_owned())),
        (true, false) => {}
    }
    match PROOF_GOOD_FOR.checked_sub(proof_age) {
        // No later than the proof is good for.
        Some(good) if good >= SHORTEST => Next::Send(good),
        Some(_) | None => Next::ProveAgain,
    }
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
    /// Refused as if there were no runner: the guest must be asked.
    NoRunner,
}

/// Only what was not sent, or was refused with 429, is tried again. `tried`: how often that was done before.
pub fn after_refusal(error: &ExecError, tried: usize) -> Refusal {
    if error.may_have_started() {
        // A gateway may answer for a command that already runs.
        return Refusal::Unknown;
    }
    let cause = error.error();
    // A token may be rotated on the platform before it is in the file. The time to start bounds these tries.
    if matches!(cause, Error::Denied { .. } | Error::Token(_)) {
        return Refusal::Again(DENIED);
    }
    if matches!(error, ExecError::Refused(Error::Invalid { .. })) {
        return Refusal::NoRunner;
    }
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

/// Until when the end of a command is looked for, which was to end at `ends`: counted from the time on record, so that a
/// restarted adopter does not start a new period. At least one try each.
pub fn recovery_deadline(window: RecoveryWindow, ends: Timestamp, now: Timestamp) -> Duration {
    match window {
        RecoveryWindow::Short => left(ends, SHORT, now),
        RecoveryWindow::AfterOutage => left(ends, AFTER_OUTAGE, now).max(ONE_TRY),
    }
}

/// How long it is until so long after `ends`; zero once that is over.
pub fn left(ends: Timestamp, grace: Duration, now: Timestamp) -> Duration {
    let until = ends.checked_add(grace).unwrap_or(Timestamp::MAX);
    Duration::try_from(until.duration_since(now)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
