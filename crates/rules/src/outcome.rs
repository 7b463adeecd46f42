//! How a Run ended: phase, reason, exit code, evidence and message from what happened. One table.
//!
//! Exit codes come only from evidence; what cannot be known is Unknown. Must not look anything up.

mod judge;

use api::reasons::{Evidence, RunPhase, RunReason};
use runner_protocol::EXIT_FILE_ESCAPE;

pub use judge::{LostLockdown, Seen, Verdict, judge, lost_lockdown, needs_sweep};

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
            Stop::OutputLimit => return Self::not_started("it was stopped before it could be started"),
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

    /// The end of a file operation, by what the runner said on stderr; the codes are its own.
    #[must_use]
    pub fn of_file(self, done: &str, said: &str) -> Self {
        let outcome = if self.reason == RunReason::Completed {
            Self { message: self.message.replacen("the command exited 0", done, 1), ..self }
        } else if self.reason == RunReason::NonZeroExit {
            let escapes = self.exit_code == Some(EXIT_FILE_ESCAPE);
            let (phase, reason) = if escapes {
                (RunPhase::Denied, RunReason::PathEscape)
            } else {
                (RunPhase::Failed, RunReason::FileError)
            };
            let said = if said.is_empty() { "the file operation failed and did not say why" } else { said };
            Self { phase, reason, message: said.to_owned(), ..self }
        } else {
            self
        };
        Self { exit_code: None, ..outcome }
    }

    /// What cannot be known.
    pub fn unknown(why: &str) -> Self {
        Self::of(
            (RunPhase::Unknown, RunReason::OutcomeUnknown),
            format!("whether or how the command ended is not known: {why}"),
        )
    }
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
        // A file operation is also denied by what the guest finds.
        RunPhase::Failed | RunPhase::Cancelled | RunPhase::Denied => (Some(was_admitted), Some(false)),
        RunPhase::Unknown => (Some(was_admitted), None),
    };
    ConditionStatuses { admitted, succeeded, finished: phase.is_terminal() }
}

#[cfg(test)]
mod tests;
