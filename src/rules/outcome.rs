//! How a Run ended: phase, reason, exit code, evidence and message from what happened. One table.
//!
//! Exit codes come only from evidence; what cannot be known is Unknown. Must not look anything up.

use std::time::Duration;

use super::runner::{self, Guard};
use crate::api::reasons::{Evidence, RunPhase, RunReason};

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
    /// The session was suspended or held.
    Suspended,
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
            Self::Suspended | Self::TenantDisabled => (RunPhase::Cancelled, RunReason::Suspended),
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
        Self::never((RunPhase::Denied, reason), message)
    }

    /// A Run that was stopped before its command was started.
    pub fn stopped_before_start(stop: Stop) -> Self {
        let (phase, reason) = stop.outcome();
        let message = match stop {
            Stop::Timeout | Stop::OutputLimit => stop.message(),
            Stop::Cancel => "cancel was requested; nothing was started",
            Stop::KillSwitch => "the cluster-wide switch was turned off; nothing was started",
            Stop::Suspended => "the session was suspended; nothing was started",
            Stop::PolicySuspended => "the policy was suspended; nothing was started",
            Stop::TenantDisabled => "the namespace was opted out; nothing was started",
            Stop::Deleted => "the Run was deleted; nothing was started",
            Stop::SessionDeleted => "the session was deleted; nothing was started",
        };
        Self::never((phase, reason), message)
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
        None | Some(Stop::OutputLimit) => Outcome::not_started(why),
        Some(Stop::Timeout) => Outcome::not_started("its timeout passed before it could be started"),
        Some(
            stop @ (Stop::Cancel
            | Stop::KillSwitch
            | Stop::Suspended
            | Stop::PolicySuspended
            | Stop::TenantDisabled
            | Stop::Deleted
            | Stop::SessionDeleted),
        ) => Outcome::stopped_before_start(stop),
    }
}

fn ended(code: u8, stop: Option<Stop>, overtime: bool, evidence: Evidence) -> Outcome {
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

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn seen(exit: Option<u8>, started: bool, stop: Option<Stop>, overtime: bool) -> ExecSeen {
        ExecSeen { exit, started, stop, overtime }
    }

    #[rstest]
    #[case(seen(Some(0), true, None, false), RunPhase::Succeeded, RunReason::Completed)]
    #[case(seen(Some(3), true, None, false), RunPhase::Failed, RunReason::NonZeroExit)]
    #[case(seen(Some(139), true, None, false), RunPhase::Failed, RunReason::NonZeroExit)]
    #[case(seen(Some(137), true, None, false), RunPhase::Failed, RunReason::Killed)]
    #[case(seen(Some(137), true, None, true), RunPhase::Failed, RunReason::Timeout)]
    #[case(seen(Some(137), true, Some(Stop::Timeout), true), RunPhase::Failed, RunReason::Timeout)]
    #[case(seen(Some(0), true, Some(Stop::Timeout), true), RunPhase::Failed, RunReason::Timeout)]
    #[case(seen(Some(137), true, Some(Stop::OutputLimit), false), RunPhase::Failed, RunReason::OutputLimitExceeded)]
    #[case(seen(Some(137), true, Some(Stop::Cancel), false), RunPhase::Cancelled, RunReason::CancelRequested)]
    #[case(seen(Some(137), true, Some(Stop::KillSwitch), false), RunPhase::Cancelled, RunReason::KillSwitch)]
    #[case(seen(Some(137), true, Some(Stop::Suspended), false), RunPhase::Cancelled, RunReason::Suspended)]
    #[case(seen(Some(137), true, Some(Stop::PolicySuspended), false), RunPhase::Cancelled, RunReason::PolicySuspended)]
    #[case(seen(Some(137), true, Some(Stop::Deleted), false), RunPhase::Cancelled, RunReason::Deleted)]
    #[case(seen(Some(137), true, Some(Stop::SessionDeleted), false), RunPhase::Failed, RunReason::SessionDeleted)]
    #[case(seen(Some(90), false, None, false), RunPhase::Failed, RunReason::NotStarted)]
    #[case(seen(Some(92), false, None, false), RunPhase::Failed, RunReason::SandboxBroken)]
    #[case(seen(Some(93), false, None, false), RunPhase::Failed, RunReason::NotStarted)]
    #[case(seen(Some(90), true, None, false), RunPhase::Failed, RunReason::NonZeroExit)]
    #[case(seen(Some(93), false, Some(Stop::Cancel), false), RunPhase::Cancelled, RunReason::CancelRequested)]
    #[case(seen(Some(93), false, Some(Stop::Timeout), false), RunPhase::Failed, RunReason::NotStarted)]
    fn an_exit_frame_gives_one_outcome(#[case] seen: ExecSeen, #[case] phase: RunPhase, #[case] reason: RunReason) {
        let Verdict::Final(outcome) = after_exec(seen) else { panic!("{seen:?} was not final") };
        assert_eq!((outcome.phase, outcome.reason), (phase, reason));
        assert_eq!(
            outcome.exit_code.is_some(),
            seen.started,
            "an exit code counts as the command's only after the marker"
        );
    }

    #[rstest]
    #[case(seen(None, true, None, false))]
    #[case(seen(None, false, None, false))]
    #[case(seen(None, true, Some(Stop::Timeout), true))]
    #[case(seen(Some(91), false, None, false))]
    #[case(seen(Some(0), false, None, false))]
    #[case(seen(Some(137), false, Some(Stop::Cancel), false))]
    fn without_an_exit_of_the_command_itself_the_guest_is_asked(#[case] seen: ExecSeen) {
        assert_eq!(after_exec(seen), Verdict::Adopt);
    }

    #[test]
    fn an_adopter_never_guesses() {
        let timeout = Duration::from_secs(10);
        let record = |code, ran| Guard::Record { code, ran: Duration::from_secs(ran) };
        let cases = [
            (Guard::Never, None, RunReason::NotStarted, Evidence::None),
            (Guard::Never, Some(Stop::Cancel), RunReason::CancelRequested, Evidence::None),
            (Guard::Never, Some(Stop::Timeout), RunReason::NotStarted, Evidence::None),
            (Guard::Started, None, RunReason::OutcomeUnknown, Evidence::None),
            (Guard::Started, Some(Stop::Timeout), RunReason::OutcomeUnknown, Evidence::None),
            (record(0, 1), None, RunReason::Completed, Evidence::GuestRecord),
            (record(5, 1), None, RunReason::NonZeroExit, Evidence::GuestRecord),
            (record(137, 11), None, RunReason::Timeout, Evidence::GuestRecord),
            (record(137, 1), None, RunReason::Killed, Evidence::GuestRecord),
            (record(137, 1), Some(Stop::Cancel), RunReason::CancelRequested, Evidence::GuestRecord),
        ];
        for (guard, stop, reason, evidence) in cases {
            let outcome = after_fence(&guard, stop, timeout);
            assert_eq!((outcome.reason, outcome.evidence), (reason, evidence), "{guard:?} {stop:?}");
        }
    }
}
