//! The status of a `SandboxSession`. Pure.

use std::time::Duration;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::ResourceExt;

use super::{observed::Observed, plan::StatusDraft};
use crate::controllers::{driver::Next, state::session_activity::SessionActivity};
use api::{
    SandboxSessionStatus,
    conditions::{CONTAINED, ConditionStatus, ConditionUpdate, DATA_LOST, LOCKED_DOWN, READY, RECONCILING, STALLED},
    names::CREATOR_ANNOTATION,
    reasons::{SessionPhase, SessionReason},
};

/// How often activity is written at most, in seconds.
pub const ACTIVITY_INTERVAL: i64 = 30;

/// Whether activity may be written now.
pub fn activity_due(o: &Observed) -> bool {
    let written = o.activity.activity_written.map_or(i64::MAX, |at| o.now.as_second().saturating_sub(at.as_second()));
    o.activity.last_active.is_some() && written >= ACTIVITY_INTERVAL
}

/// What was written of activity is remembered no more; what came up meanwhile is.
pub fn activity_written(o: &Observed, activity: &mut SessionActivity) {
    activity.runs = activity.runs.saturating_sub(o.activity.runs);
    activity.runs_before_loss = activity.runs_before_loss.saturating_sub(o.activity.runs);
    if activity.last_active == o.activity.last_active {
        activity.last_active = None;
    }
    activity.activity_written = Some(o.now);
}

/// Activity that waits for its turn brings us back when it comes.
pub fn activity_next(o: &Observed, next: Next) -> Next {
    let Some(written) = o.activity.activity_written.filter(|_| o.activity.last_active.is_some()) else { return next };
    let left = ACTIVITY_INTERVAL - o.now.as_second().saturating_sub(written.as_second());
    let wait = Duration::from_secs(left.max(1).unsigned_abs());
    match next {
        Next::After(delay) => Next::After(delay.min(wait)),
        Next::Change => Next::After(wait),
    }
}

/// Transitions that people wait for or must know of, and whether these are warnings.
pub const TOLD: [(SessionReason, bool); 9] = [
    (SessionReason::LockedDown, false),
    (SessionReason::RulesDiffer, true),
    (SessionReason::UrlPublic, true),
    (SessionReason::LockdownLost, true),
    (SessionReason::NotOurs, true),
    (SessionReason::PlatformCapacity, true),
    (SessionReason::PlatformDenied, true),
    (SessionReason::SecretMissing, true),
    (SessionReason::UnsupportedPlatform, true),
];

/// Whether a transition is one of [`TOLD`]: the condition that says so, its reason, and whether it is a warning.
pub fn announced<'a>(
    old: &SandboxSessionStatus,
    new: &'a SandboxSessionStatus,
) -> Option<(&'a Condition, SessionReason, bool)> {
    let before = old.conditions.get(READY).map(|c| c.reason.as_str());
    let ready = new.conditions.get(READY).filter(|c| before != Some(c.reason.as_str()))?;
    TOLD.iter().find(|(word, _)| word.as_str() == ready.reason).map(|(word, warning)| (ready, *word, *warning))
}

/// The whole status that a draft comes to; activity is added when it is due.
pub fn report(o: &Observed, draft: StatusDraft, now: Timestamp) -> SandboxSessionStatus {
    let StatusDraft { phase, reason, message, sprite, lockdown, data_lost, stalled, settled } = draft;
    let old = o.session.status.clone().unwrap_or_default();
    let ready = matches!(phase, SessionPhase::Ready | SessionPhase::Hibernated);
    let locked = lockdown.as_ref().is_some_and(|l| l.token.is_some());
    let settled = ready || stalled || settled;
    let word = reason.as_str();
    let as_expected = SessionReason::AsExpected.as_str();
    let locked_signal = if locked {
        ConditionUpdate::new(LOCKED_DOWN, true, SessionReason::LockedDown.as_str())
    } else {
        ConditionUpdate::new(LOCKED_DOWN, false, word).with_message(message.clone())
    };
    let lost_signal = match data_lost {
        Some(why) => ConditionUpdate::new(DATA_LOST, true, SessionReason::Lost.as_str()).with_message(why),
        None => ConditionUpdate::new(DATA_LOST, false, as_expected),
    };
    let signals = vec![
        ConditionUpdate::new(READY, ready, word).with_message(message.clone()),
        locked_signal,
        ConditionUpdate::new(CONTAINED, ConditionStatus::Unknown, SessionReason::NotChecked.as_str())
            .with_message("this version does not probe"),
        lost_signal,
        ConditionUpdate::new(RECONCILING, !settled, if settled { as_expected } else { word }),
        ConditionUpdate::new(STALLED, stalled, if stalled { word } else { as_expected }),
    ];
    let mut status = SandboxSessionStatus {
        observed_generation: o.session.metadata.generation,
        phase: Some(phase),
        sprite,
        lockdown,
        containment: old.containment,
        owner: old.owner.or_else(|| o.session.annotations().get(CREATOR_ANNOTATION).cloned()),
        last_active_at: old.last_active_at,
        active_runs: old.active_runs,
        totals: old.totals,
        conditions: old.conditions.merged(signals, o.session.metadata.generation, now),
    };
    if activity_due(o) {
        let mut totals = status.totals.unwrap_or_default();
        totals.runs = totals.runs.saturating_add(o.activity.runs);
        status.totals = Some(totals);
        status.last_active_at = o.activity.last_active.map(Time);
        status.active_runs = u32::try_from(o.executions).ok();
    }
    status
}

#[cfg(test)]
mod tests;
