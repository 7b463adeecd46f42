//! When a lockdown that was proved is taken back and made again: what Runs found, what is waited for, what is said. Pure.
//!
//! Must not judge what is live: that is `rules::lockdown::assess`.

use std::fmt;

use super::{
    observed::Observed,
    plan::{Plan, StatusDraft, after, degraded},
};
use crate::lockdown::apply::LockFailure;
use api::{SandboxSessionStatus, conditions::READY, reasons::SessionReason, sandbox_session::LockdownStatus};
use rules::lockdown::ApplyReason;

/// Lockdowns in a row that Runs found lost, from which on it is waited before the next.
const RELOCKS_AT_ONCE: u32 = 20;
/// The first such wait, in seconds; each is twice as long.
const RELOCK_PAUSE: i64 = 5;
/// The longest, in seconds.
const LONGEST_RELOCK_PAUSE: i64 = 300;

/// Why the recorded token is to be taken back whatever the platform says.
pub fn lost_to_a_run(o: &Observed, lockdown: &LockdownStatus) -> Option<&'static str> {
    o.activity.needs_relock().filter(|_| lockdown.token.is_some())
}

/// A lockdown that was proved and holds no longer: nothing starts on it until it is made again.
pub fn take_back(status: &SandboxSessionStatus, lockdown: LockdownStatus, why: impl fmt::Display) -> Plan {
    let message = format!("the lockdown no longer holds: {why}");
    let draft = StatusDraft {
        lockdown: Some(LockdownStatus { token: None, egress_hash: None, ..lockdown }),
        ..degraded(status, SessionReason::LockdownLost, message)
    };
    Plan::report(draft, after(1))
}

/// Why a Sprite that sleeps is not locked down, for people: also once the token is taken back for it.
pub fn stale_message(base: &SandboxSessionStatus, why: ApplyReason) -> String {
    let told = base.conditions.get(READY).filter(|ready| ready.reason == SessionReason::Stale.as_str());
    match (why, told) {
        (ApplyReason::RunnerDiffers, _) => {
            "the operator's runner changed; it is put into the Sprite on next use".to_owned()
        }
        (ApplyReason::EgressDiffers, _) => "the policy changed; egress rules will be re-applied on next use".to_owned(),
        (ApplyReason::NoToken, Some(told)) => told.message.clone(),
        (
            ApplyReason::NoToken | ApplyReason::InstanceDiffers | ApplyReason::InstanceUnknown | ApplyReason::Fresh,
            _,
        ) => "the Sprite is not locked down; it will be on next use".to_owned(),
    }
}

/// What is waited for before a lockdown that would most likely be in vain.
pub fn pause(o: &Observed, base: &SandboxSessionStatus, lockdown: &LockdownStatus) -> Option<Plan> {
    let left = |until: i64| Some(until - o.now.as_second()).filter(|left| *left > 0);
    if let Some(left) = o.activity.unsupported_until.and_then(|until| left(until.as_second())) {
        let failure = LockFailure::UnsupportedPlatform;
        let draft = StatusDraft { stalled: true, ..degraded(base, failure.reason(), failure.to_string()) };
        return Some(Plan::report(draft, after(left)));
    }
    let (cause, times) = (o.activity.needs_relock()?, o.activity.relocks_in_a_row);
    let more = times.checked_sub(RELOCKS_AT_ONCE)?;
    let pause = (RELOCK_PAUSE << more.min(10)).min(LONGEST_RELOCK_PAUSE);
    let left = left(lockdown.applied_at.as_ref()?.0.as_second() + pause)?;
    let message =
        format!("the lockdown was lost {times} times in a row: {cause}; it is made again {pause} s after the last one");
    Some(Plan::report(degraded(base, SessionReason::LockdownLost, message), after(left)))
}
