//! The closed vocabularies: phases and reasons of every resource, as written to status, Events and metric labels.
//!
//! Adding a word here is an API change: docs/api.md and the tables in `rules::outcome` follow. Must not decide anything.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Declares an enum of unit variants with its spelling.
macro_rules! string_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])+ $(#[serde($($serde:tt)+)])? $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        pub enum $name { $($(#[doc = $doc])+ $(#[serde($($serde)+)])? $variant),+ }

        impl $name {
            /// Every word, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }

            /// What the word means, in one sentence, for documentation.
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii()),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

string_enum! {
    /// Where a Run stands.
    RunPhase {
        /// Seen, waiting for what `message` names.
        Pending,
        /// Its command was started, or may have been.
        Running,
        /// Exit code 0.
        Succeeded,
        /// A result that is not success.
        Failed,
        /// Whether or how the command ended cannot be known.
        Unknown,
        /// Stopped on request.
        Cancelled,
        /// Refused; nothing was started.
        Denied,
    }
}

impl RunPhase {
    /// Whether a Run in this phase is over.
    pub const fn is_terminal(self) -> bool {
        match self {
            Self::Pending | Self::Running => false,
            Self::Succeeded | Self::Failed | Self::Unknown | Self::Cancelled | Self::Denied => true,
        }
    }
}

string_enum! {
    /// Why a Run is in its phase.
    RunReason {
        /// Pending: `message` says for what and until when.
        Waiting,
        /// Running: the command was started, or may have been.
        Started,
        /// Succeeded: the command exited 0.
        Completed,
        /// Failed: the command exited with another code, which is in `exitCode`.
        NonZeroExit,
        /// Failed: the timeout passed; the command was killed.
        Timeout,
        /// Failed: the output passed the policy's cap; the command was killed, the head is kept.
        OutputLimitExceeded,
        /// Failed: the command was killed by a signal that we did not send.
        Killed,
        /// Failed: the command provably never started.
        NotStarted,
        /// Failed: `limits.start` passed before the command could be started.
        StartDeadlineExceeded,
        /// Failed: the Sprite cannot run commands.
        SandboxBroken,
        /// Failed: the session was deleted.
        SessionDeleted,
        /// Failed: a file operation failed; `message` says why.
        FileError,
        /// Unknown: no evidence of how the command ended.
        OutcomeUnknown,
        /// Cancelled: `spec.cancel` was set.
        CancelRequested,
        /// Cancelled: the cluster-wide switch was turned off.
        KillSwitch,
        /// Cancelled: the session was suspended.
        Suspended,
        /// Cancelled: an administrator put a hold on the session.
        Held,
        /// Cancelled: the namespace was opted out.
        TenantDisabled,
        /// Cancelled or Denied: the policy was suspended.
        PolicySuspended,
        /// Cancelled: the Run was deleted.
        Deleted,
        /// Denied: the spec cannot be run.
        InvalidSpec,
        /// Denied: the spec asks for more than the policy allows.
        LimitExceeded,
        /// Denied: the session is suspended.
        SessionSuspended,
        /// Denied: an administrator holds the session.
        SessionHeld,
        /// Denied: the actor may not do this.
        AuthorizationDenied,
        /// Denied: nobody could say whether the actor may.
        AuthorizationUnavailable,
        /// Denied: the admission policies that protect identity are not in force.
        IdentityUnprotected,
        /// Denied: no such policy.
        PolicyNotFound,
        /// Denied: the policy has errors; its conditions name them.
        PolicyNotReady,
        /// Denied: the policy asks for other egress than the session's Sprite has.
        PolicyNotApplicable,
        /// Denied: the namespace is not opted in.
        TenantNotEnabled,
        /// Denied: the cluster-wide switch is off.
        KillSwitchOff,
        /// Denied: the command matches a deny expression of the policy, or connects to a metadata service or the platform's inside.
        BlockedCommand,
        /// Denied: a path leaves the workspace.
        PathEscape,
        /// Denied: an environment variable is not allowed.
        InvalidEnvironment,
        /// Denied: the object with its output could not be stored.
        TooLarge,
        /// Denied: too many Runs of this user at once.
        QuotaConcurrency,
        /// Denied: too many Runs in 24 hours.
        QuotaDaily,
        /// Denied: too many sessions.
        QuotaSessions,
        /// Denied: too much run time in 24 hours.
        QuotaRunTime,
        /// Denied: too much cost in 24 hours.
        QuotaCost,
        /// Denied: the queue timeout passed.
        QueueTimeout,
        /// Denied: the audit record could not be written, and the policy's `audit.failure` is `Closed`.
        AuditUnavailable,
        /// Denied: the session of that name is for another drive or conversation.
        SessionMismatch,
    }
}

impl RunReason {
    /// Whether a Run with this reason is over.
    pub const fn is_terminal(self) -> bool {
        !matches!(self, Self::Waiting | Self::Started)
    }

    /// Whether a Run with this reason was refused: its phase is Denied.
    pub const fn is_denial(self) -> bool {
        match self {
            Self::InvalidSpec
            | Self::LimitExceeded
            | Self::SessionSuspended
            | Self::SessionHeld
            | Self::AuthorizationDenied
            | Self::AuthorizationUnavailable
            | Self::IdentityUnprotected
            | Self::PolicyNotFound
            | Self::PolicyNotReady
            | Self::PolicyNotApplicable
            | Self::TenantNotEnabled
            | Self::KillSwitchOff
            | Self::BlockedCommand
            | Self::PathEscape
            | Self::InvalidEnvironment
            | Self::TooLarge
            | Self::QuotaConcurrency
            | Self::QuotaDaily
            | Self::QuotaSessions
            | Self::QuotaRunTime
            | Self::QuotaCost
            | Self::QueueTimeout
            | Self::AuditUnavailable
            | Self::SessionMismatch => true,
            Self::Waiting
            | Self::Started
            | Self::Completed
            | Self::NonZeroExit
            | Self::Timeout
            | Self::OutputLimitExceeded
            | Self::Killed
            | Self::NotStarted
            | Self::StartDeadlineExceeded
            | Self::SandboxBroken
            | Self::SessionDeleted
            | Self::FileError
            | Self::OutcomeUnknown
            | Self::CancelRequested
            | Self::KillSwitch
            | Self::Suspended
            | Self::Held
            | Self::TenantDisabled
            // A policy that is suspended refuses and stops.
            | Self::PolicySuspended
            | Self::Deleted => false,
        }
    }
}

string_enum! {
    /// What a Run that is Pending waits for; the reason of its condition `Admitted`.
    WaitingCause {
        /// The cluster-wide switch cannot be read.
        SwitchFrozen,
        /// The session is not there, not ready, or its lockdown is being verified again.
        SessionNotReady,
        /// The platform account is full.
        PlatformCapacity,
        /// As many Runs execute in the session as its policy allows.
        Queued,
    }
}

string_enum! {
    /// Where a session stands.
    SessionPhase {
        /// Nothing was asked of the platform yet.
        Pending,
        /// A Sprite is being created or adopted.
        Provisioning,
        /// Egress rules are being set and read back.
        LockingDown,
        /// Proved; Runs may start.
        Ready,
        /// Proved and paused by the platform.
        Hibernated,
        /// Destroyed after idling; the next Run provisions anew.
        Expired,
        /// Something is wrong or stands in the way; conditions say what. No Run starts.
        Degraded,
        /// Being destroyed.
        Terminating,
    }
}

string_enum! {
    /// What the platform says of a Sprite.
    SpritePhase {
        /// No VM; files are kept.
        #[serde(rename = "cold")]
        Cold,
        /// Suspended in memory.
        #[serde(rename = "warm")]
        Warm,
        /// Awake and billed.
        #[serde(rename = "running")]
        Running,
    }
}

string_enum! {
    /// Reasons of a session's conditions.
    SessionReason {
        /// The Sprite exists and is ours.
        Provisioned,
        /// The Sprite is being created.
        Provisioning,
        /// The rules were read back and are exactly those demanded; the URL is private.
        LockedDown,
        /// The rules read back are not those that were set.
        RulesDiffer,
        /// The Sprite's URL is public.
        UrlPublic,
        /// The policy, or the operator's runner, changed since the last proof.
        Stale,
        /// The Sprite differs from what was asked of the platform.
        Drifted,
        /// A lockdown that had been proved holds no longer: rules were weakened, or a Run found neither nonce nor runner.
        LockdownLost,
        /// The containment probe reached something it must not.
        Breach,
        /// The containment probe gave no evidence.
        NoEvidence,
        /// A Sprite of our name does not carry our labels.
        NotOurs,
        /// The platform does not answer.
        PlatformUnavailable,
        /// The platform account is full.
        PlatformCapacity,
        /// The Sprites API rejects the operator's token.
        PlatformDenied,
        /// The session secret is missing or too short.
        SecretMissing,
        /// The session is suspended.
        Suspended,
        /// An administrator holds the session.
        Held,
        /// The platform paused the Sprite.
        Hibernated,
        /// Destroyed after idling.
        Expired,
        /// A kill could not be confirmed.
        KillUnconfirmed,
        /// Awake without a Run.
        HeldAwakeByGuest,
        /// The runner does not exist for the Sprite's architecture.
        UnsupportedPlatform,
        /// The policy is missing or not ready.
        PolicyNotReady,
        /// The policy is suspended.
        PolicySuspended,
        /// The namespace is not opted in.
        TenantNotEnabled,
        /// The cluster-wide switch is off or cannot be read.
        SwitchOff,
        /// The Sprite of this session was lost and replaced.
        Lost,
        /// Nothing to report: the condition holds in its normal direction.
        AsExpected,
        /// The session is being destroyed.
        Terminating,
        /// Not done by this version.
        NotChecked,
    }
}

string_enum! {
    /// Reasons of a policy's conditions.
    PolicyReason {
        /// The policy is in force.
        Valid,
        /// Entries cannot be used; `message` names each.
        InvalidEntries,
        /// `egress.mode: Open` needs the operator's flag `--allow-open-egress`.
        OpenEgressNotAllowed,
        /// The policy is suspended: nothing starts under it.
        Suspended,
    }
}

string_enum! {
    /// How the end of a command is known.
    Evidence {
        /// The platform sent an exit frame.
        ExitFrame,
        /// The record that the runner left in the guest; code in the same session could forge it.
        GuestRecord,
        /// There is none.
        None,
    }
}

string_enum! {
    /// What is out of the ordinary about an audit record.
    Anomaly {
        /// A command was killed at its timeout.
        Timeout,
        /// A command was killed by a signal that we did not send.
        Killed,
        /// A command printed more than its cap.
        OutputFlood,
        /// A command was refused for what it is.
        BlockedCommand,
        /// A path left the workspace.
        PathEscape,
        /// Somebody asked for what they may not do.
        AuthorizationDenied,
        /// Rules could not be set, or read back as others.
        LockdownFailed,
        /// Rules that had been proved were found weakened.
        LockdownLost,
        /// A probe reached what it must not, or gave no evidence.
        ContainmentBreach,
        /// A Sprite was kept awake without a Run.
        HeldAwakeByGuest,
        /// How a command ended cannot be known.
        OutcomeUnknown,
        /// The switch stopped a command.
        KillSwitch,
        /// A kill could not be confirmed.
        KillUnconfirmed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_written_as_serde_writes_them() {
        for word in RunReason::ALL {
            assert_eq!(serde_json::to_value(word).unwrap(), word.as_str());
        }
        for word in SessionReason::ALL {
            assert_eq!(serde_json::to_value(word).unwrap(), word.as_str());
        }
    }

    #[test]
    fn only_pending_and_running_go_on() {
        let live: Vec<_> = RunPhase::ALL.iter().filter(|p| !p.is_terminal()).collect();
        assert_eq!(live, [&RunPhase::Pending, &RunPhase::Running]);
    }
}
