//! How a Run ended: phase, reason, exit code, evidence and message from what happened. One table.
//!
//! Exit codes come only from evidence; what cannot be known is Unknown. Must not look anything up.

use std::time::Duration;

use super::runner::{self, Guard};
use api::reasons::{Evidence, RunPhase, RunReason};

/// Why we stopped a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Its timeout passed.
    Timeout,
    /// Its output passed the cap.
    OutputLimit,
    /// `spec.cancel` was set.
    Cancel,
    /// The cluster-wide switch is off.
    KillSwitch,
    /// The session was suspended.
    Suspended,
    /// An administrator put a hold on the session.
    Held,
    /// The policy was suspended.
    PolicySuspended,
    /// The namespace was opted out.
    TenantDisabled,
    /// The Run was deleted.
    Deleted,
    /// The session was deleted.
    SessionDeleted,
}

impl Stop {
    const fn outcome(self) -> (RunPhase, RunReason) {
        match self {
            Self::Timeout => (RunPhase::Failed, RunReason::Timeout),
            Self::OutputLimit => (RunPhase::Failed, RunReason::OutputLimitExceeded),
            Self::Cancel => (RunPhase::Cancelled, RunReason::CancelRequested),
            Self::KillSwitch => (RunPhase::Cancelled, RunReason::KillSwitch),
            Self::Suspended => (RunPhase::Cancelled, RunReason::Suspended),
            Self::Held => (RunPhase::Cancelled, RunReason::Held),
            Self::TenantDisabled => (RunPhase::Cancelled, RunReason::TenantDisabled),
            Self::PolicySuspended => (RunPhase::Cancelled, RunReason::PolicySuspended),
            Self::Deleted => (RunPhase::Cancelled, RunReason::Deleted),
            Self::SessionDeleted => (RunPhase::Failed, RunReason::SessionDeleted),
        }
    }

    const fn message(self) -> &'static str {
        match self {
            Self::Timeout => "the timeout passed; the command was killed",
            Self::OutputLimit => {
                "stdout and stderr together passed limits.output; the command was stopped, the head is kept"
            }
            Self::Cancel => "cancel was requested; the command was killed",
            Self::KillSwitch => "the cluster-wide switch was turned off; the command was killed",
            Self::Suspended => "the session was suspended; the command was killed",
            Self::Held => "an administrator put a hold on the session; the command was killed",
            Self::PolicySuspended => "the policy was suspended; the command was killed",
            Self::TenantDisabled => "the namespace was opted out; the command was killed",
            Self::Deleted => "the Run was deleted; the command was killed",
            Self::SessionDeleted => "the session was deleted",
        }
    }
}

/// How a Run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Where it stands.
    pub phase: RunPhase,
    /// Why.
    pub reason: RunReason,
    /// For people.
    pub message: String,
    /// Exit code of the command; 128+n for signal n.
    pub exit_code: Option<u8>,
    /// How the end is known.
    pub evidence: Evidence,
    /// Whether the command provably never started: then it is not charged.
    pub never_started: bool,
}

impl Outcome {
    fn of((phase, reason): (RunPhase, RunReason), message: impl Into<String>) -> Self {
        Self { phase, reason, message: message.into(), exit_code: None, evidence: Evidence::None, never_started: false }
    }

    fn never((phase, reason): (RunPhase, RunReason), message: impl Into<String>) -> Self {
        Self { never_started: true, ..Self::of((phase, reason), message) }
    }

    /// A Run that was refused.
    pub fn denied(reason: RunReason, message: impl Into<String>) -> Self {
        debug_assert!(phases(reason).contains(&RunPhase::Denied), "{reason} is no reason to deny");
        Self::never((RunPhase::Denied, reason), message)
    }

    /// A Run that was stopped before its command was started.
    pub fn stopped_before_start(stop: Stop) -> Self {
        let message = match stop {
            // Neither is an end of what never began.
            Stop::Timeout => return Self::not_started("its timeout passed before it could be started"),
            Stop::OutputLimit => return Self::not_started("nothing had begun when it was stopped"),
            Stop::Cancel => "cancel was requested; nothing was started",
            Stop::KillSwitch => "the cluster-wide switch was turned off; nothing was started",
            Stop::Suspended => "the session was suspended; nothing was started",
            Stop::Held => "an administrator put a hold on the session; nothing was started",
            Stop::PolicySuspended => "the policy was suspended; nothing was started",
            Stop::TenantDisabled => "the namespace was opted out; nothing was started",
            Stop::Deleted => "the Run was deleted; nothing was started",
            Stop::SessionDeleted => "the session was deleted; nothing was started",
        };
        Self::never(stop.outcome(), message)
    }

    /// A Run that waited longer than `limits.start`.
    pub fn start_deadline(waited_for: &str) -> Self {
        Self::never(
            (RunPhase::Failed, RunReason::StartDeadlineExceeded),
            format!("limits.start passed while waiting: {waited_for}"),
        )
    }

    /// A Run whose session was deleted before its command was started.
    pub fn session_deleted() -> Self {
        Self::stopped_before_start(Stop::SessionDeleted)
    }

    /// A Run whose session, and its Sprite with it, was gone when its end was looked for.
    pub fn session_deleted_while_running() -> Self {
        Self::of(Stop::SessionDeleted.outcome(), "the session was deleted, and the command with its Sprite")
    }

    /// A command that provably never started.
    pub fn not_started(why: &str) -> Self {
        Self::never((RunPhase::Failed, RunReason::NotStarted), format!("the command never started: {why}"))
    }

    /// What cannot be known.
    pub fn unknown(why: &str) -> Self {
        Self::of(
            (RunPhase::Unknown, RunReason::OutcomeUnknown),
            format!("whether or how the command ended is not known: {why}"),
        )
    }
}

/// What an exec showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExecSeen {
    /// The code of the exit frame, if one came.
    pub exit: Option<u8>,
    /// Whether the start marker came first.
    pub started: bool,
    /// Why we stopped it, if we did.
    pub stop: Option<Stop>,
    /// Whether its timeout had passed when it ended.
    pub overtime: bool,
}

/// What to do with what an exec showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is over.
    Final(Outcome),
    /// Only the guest can tell: adopt.
    Adopt,
}

/// Judges an exec whose connection had been opened.
pub fn after_exec(seen: ExecSeen) -> Verdict {
    let ExecSeen { exit, started, stop, overtime } = seen;
    match (exit, started) {
        (Some(code), true) => Verdict::Final(ended(code, stop, overtime, Evidence::ExitFrame)),
        (Some(runner::EXIT_WRONG_INSTANCE), false) => {
            Verdict::Final(Outcome::not_started("the Sprite is not the instance that was locked down"))
        }
        (Some(runner::EXIT_INPUT_CUT), false) => Verdict::Final(unstarted(stop, "its input was cut short")),
        (Some(runner::EXIT_DISK), false) => Verdict::Final(Outcome::never(
            (RunPhase::Failed, RunReason::SandboxBroken),
            "the command never started: the Sprite's disk refuses, or cwd is no directory",
        )),
        // The guard exists, or something ended the runner before its marker came through: the guest knows.
        (Some(_) | None, _) => Verdict::Adopt,
    }
}

/// What an adopter concludes from the guard.
pub fn after_fence(guard: &Guard, stop: Option<Stop>, timeout: Duration) -> Outcome {
    match guard {
        Guard::Never => unstarted(stop, "nothing had begun when it was fenced"),
        Guard::Record { code, ran } => ended(*code, stop, *ran >= timeout, Evidence::GuestRecord),
        Guard::Started => Outcome::unknown("it started and left no record of its end"),
    }
}

/// A command that never started; where somebody asked for a stop, that is why.
fn unstarted(stop: Option<Stop>, why: &str) -> Outcome {
    match stop {
        // What had no output passed no cap.
        None | Some(Stop::OutputLimit) => Outcome::not_started(why),
        Some(stop) => Outcome::stopped_before_start(stop),
    }
}

fn ended(code: u8, stop: Option<Stop>, overtime: bool, evidence: Evidence) -> Outcome {
    // A killed script has a code above 128. One below is its own, whatever was sent meanwhile: an operator that was frozen, or
    // whose connection said nothing, sends a kill after the end. What passed the cap is lost all the same.
    let stop = stop.filter(|stop| *stop == Stop::OutputLimit || code > 128);
    // A 137 past the timeout that nobody of us sent came from the backstop in the guest.
    let stop = stop.or((overtime && code == 137).then_some(Stop::Timeout));
    let outcome = match (stop, code) {
        (Some(stop), _) => Outcome::of(stop.outcome(), stop.message()),
        (None, 0) => Outcome::of((RunPhase::Succeeded, RunReason::Completed), "the command exited 0"),
        (None, 137) => Outcome::of(
            (RunPhase::Failed, RunReason::Killed),
            "the command was killed by signal 9, which was not ours: perhaps it ran out of memory",
        ),
        (None, code @ 129..=192) => Outcome::of(
            (RunPhase::Failed, RunReason::NonZeroExit),
            format!("the command exited {code}: signal {}, if it did not choose that code", code - 128),
        ),
        (None, code) => Outcome::of((RunPhase::Failed, RunReason::NonZeroExit), format!("the command exited {code}")),
    };
    Outcome { exit_code: Some(code), evidence, ..outcome }
}

/// In which phases a reason may stand: the closed table of outcomes.
pub const fn phases(reason: RunReason) -> &'static [RunPhase] {
    match reason {
        RunReason::Waiting => &[RunPhase::Pending],
        RunReason::Started => &[RunPhase::Running],
        RunReason::Completed => &[RunPhase::Succeeded],
        RunReason::NonZeroExit
        | RunReason::Timeout
        | RunReason::OutputLimitExceeded
        | RunReason::Killed
        | RunReason::NotStarted
        | RunReason::StartDeadlineExceeded
        | RunReason::SandboxBroken
        | RunReason::SessionDeleted
        | RunReason::FileError => &[RunPhase::Failed],
        RunReason::OutcomeUnknown => &[RunPhase::Unknown],
        RunReason::CancelRequested
        | RunReason::KillSwitch
        | RunReason::Suspended
        | RunReason::Held
        | RunReason::TenantDisabled
        | RunReason::Deleted => &[RunPhase::Cancelled],
        // Before the start it is a refusal, after it an end.
        RunReason::PolicySuspended => &[RunPhase::Cancelled, RunPhase::Denied],
        RunReason::InvalidSpec
        | RunReason::LimitExceeded
        | RunReason::SessionSuspended
        | RunReason::SessionHeld
        | RunReason::AuthorizationDenied
        | RunReason::AuthorizationUnavailable
        | RunReason::IdentityUnprotected
        | RunReason::PolicyNotFound
        | RunReason::PolicyNotReady
        | RunReason::PolicyNotApplicable
        | RunReason::TenantNotEnabled
        | RunReason::KillSwitchOff
        | RunReason::BlockedCommand
        | RunReason::PathEscape
        | RunReason::InvalidEnvironment
        | RunReason::TooLarge
        | RunReason::QuotaConcurrency
        | RunReason::QuotaDaily
        | RunReason::QuotaSessions
        | RunReason::QuotaRunTime
        | RunReason::QuotaCost
        | RunReason::QueueTimeout
        | RunReason::AuditUnavailable
        | RunReason::SessionMismatch => &[RunPhase::Denied],
    }
}

/// What the conditions of a Run say; nothing: Unknown. `Reconciling` is the opposite of `finished`, `Stalled` never true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConditionStatuses {
    /// Whether the gate was passed.
    pub admitted: Option<bool>,
    /// Whether the command ended well.
    pub succeeded: Option<bool>,
    /// Whether it is over.
    pub finished: bool,
}

/// The conditions of a Run in this phase, which `was_admitted` before.
pub const fn story(phase: RunPhase, was_admitted: bool) -> ConditionStatuses {
    let (admitted, succeeded) = match phase {
        RunPhase::Pending => (None, None),
        RunPhase::Running => (Some(true), None),
        RunPhase::Succeeded => (Some(was_admitted), Some(true)),
        RunPhase::Failed | RunPhase::Cancelled => (Some(was_admitted), Some(false)),
        RunPhase::Unknown => (Some(was_admitted), None),
        RunPhase::Denied => (Some(false), Some(false)),
    };
    ConditionStatuses { admitted, succeeded, finished: phase.is_terminal() }
}

#[cfg(test)]
mod tests;
