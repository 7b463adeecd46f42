//! What is out of the ordinary: one table from reasons to anomalies. A non-zero exit is a result and no anomaly.
//!
//! Must not look at anything but the reason.

use api::reasons::{Anomaly, RunReason, SessionReason};

/// The anomaly of a Run that ended, or was refused, for this reason.
pub const fn of_run(reason: RunReason) -> Option<Anomaly> {
    match reason {
        RunReason::Timeout => Some(Anomaly::Timeout),
        RunReason::Killed => Some(Anomaly::Killed),
        RunReason::OutputLimitExceeded => Some(Anomaly::OutputFlood),
        RunReason::BlockedCommand => Some(Anomaly::BlockedCommand),
        RunReason::PathEscape => Some(Anomaly::PathEscape),
        RunReason::AuthorizationDenied => Some(Anomaly::AuthorizationDenied),
        RunReason::OutcomeUnknown => Some(Anomaly::OutcomeUnknown),
        RunReason::KillSwitch => Some(Anomaly::KillSwitch),
        RunReason::Waiting
        | RunReason::Started
        | RunReason::Completed
        | RunReason::NonZeroExit
        | RunReason::NotStarted
        | RunReason::StartDeadlineExceeded
        | RunReason::SandboxBroken
        | RunReason::SessionDeleted
        | RunReason::FileError
        | RunReason::CancelRequested
        | RunReason::Suspended
        | RunReason::Held
        | RunReason::TenantDisabled
        | RunReason::PolicySuspended
        | RunReason::Deleted
        | RunReason::InvalidSpec
        | RunReason::LimitExceeded
        | RunReason::SessionSuspended
        | RunReason::SessionHeld
        | RunReason::AuthorizationUnavailable
        | RunReason::IdentityUnprotected
        | RunReason::PolicyNotFound
        | RunReason::PolicyNotReady
        | RunReason::PolicyNotApplicable
        | RunReason::TenantNotEnabled
        | RunReason::KillSwitchOff
        | RunReason::InvalidEnvironment
        | RunReason::TooLarge
        | RunReason::QuotaConcurrency
        | RunReason::QuotaDaily
        | RunReason::QuotaSessions
        | RunReason::QuotaRunTime
        | RunReason::QuotaCost
        | RunReason::QueueTimeout
        | RunReason::AuditUnavailable
        | RunReason::SessionMismatch => None,
    }
}

/// The anomaly of a session that came to this reason.
pub const fn of_session(reason: SessionReason) -> Option<Anomaly> {
    match reason {
        SessionReason::RulesDiffer | SessionReason::UrlPublic => Some(Anomaly::LockdownFailed),
        SessionReason::LockdownLost => Some(Anomaly::LockdownLost),
        // What cannot be shown to be contained is not.
        SessionReason::Breach | SessionReason::NoEvidence => Some(Anomaly::ContainmentBreach),
        SessionReason::HeldAwakeByGuest => Some(Anomaly::HeldAwakeByGuest),
        SessionReason::KillUnconfirmed => Some(Anomaly::KillUnconfirmed),
        SessionReason::Provisioned
        | SessionReason::Provisioning
        | SessionReason::LockedDown
        | SessionReason::Stale
        | SessionReason::Drifted
        | SessionReason::NotOurs
        | SessionReason::PlatformUnavailable
        | SessionReason::PlatformCapacity
        | SessionReason::PlatformDenied
        | SessionReason::SecretMissing
        | SessionReason::Suspended
        | SessionReason::Held
        | SessionReason::Hibernated
        | SessionReason::Expired
        | SessionReason::UnsupportedPlatform
        | SessionReason::PolicyNotReady
        | SessionReason::PolicySuspended
        | SessionReason::TenantNotEnabled
        | SessionReason::SwitchOff
        | SessionReason::Lost
        | SessionReason::AsExpected
        | SessionReason::Terminating
        | SessionReason::NotChecked => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_anomaly_has_a_reason_and_plain_results_have_none() {
        let runs = RunReason::ALL.iter().filter_map(|reason| of_run(*reason));
        let sessions = SessionReason::ALL.iter().filter_map(|reason| of_session(*reason));
        let mut found: Vec<_> = runs.chain(sessions).collect();
        found.sort();
        found.dedup();
        assert_eq!(found, Anomaly::ALL);
        for reason in [RunReason::Completed, RunReason::NonZeroExit, RunReason::CancelRequested, RunReason::NotStarted]
        {
            assert_eq!(of_run(reason), None);
        }
    }

    #[test]
    fn reasons_that_say_so_are_called_the_same() {
        for reason in RunReason::ALL {
            let same = Anomaly::ALL.iter().find(|anomaly| anomaly.as_str() == reason.as_str());
            assert!(same.is_none_or(|anomaly| of_run(*reason) == Some(*anomaly)), "{reason}");
        }
    }
}
