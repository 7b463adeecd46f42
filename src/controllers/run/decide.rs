//! What a Run needs next. Pure: no client, no clock, no log.
//!
//! The gate, cheapest first; each stage can only refuse. Decides from the beginning each time, never from why it was
//! woken.

use std::time::Duration;

use k8s_openapi::jiff::SignedDuration;
use kube::ResourceExt;

use super::{
    gate::{gate, owns},
    observed::Observed,
    plan::Plan,
};
use crate::{
    access::switch::Switch,
    controllers::{
        driver::Next,
        state::{executions::ExecutionView, session_view::SessionView},
    },
    policy::view::PolicyView,
};
use api::{
    RunStatus,
    conditions::FINISHED,
    names::{HOLD_ANNOTATION, RUN_FINALIZER},
    reasons::RunPhase,
    values::GoDuration,
};
use rules::outcome::Stop;

/// How long a cache may show less than what we wrote.
const CACHE_LAG: SignedDuration = SignedDuration::from_secs(30);
/// When such a Run is looked at again, without a change before.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Decides.
pub fn decide(o: &Observed) -> Plan {
    let status = o.run.status.clone().unwrap_or_default();
    match status.phase {
        Some(phase) if phase.is_terminal() => after_the_end(o, &status),
        Some(RunPhase::Running) => running(o),
        // A status that was set back, by hand perhaps, does not undo what runs.
        Some(_) | None if o.execution.is_some() => running(o),
        Some(_) | None => gate(o),
    }
}

/// Over: nothing may change any more but the object itself.
fn after_the_end(o: &Observed, status: &RunStatus) -> Plan {
    match o.execution {
        // An end that somebody else wrote, by hand perhaps: what runs must not go on unseen.
        Some(ExecutionView::Running(None)) => return Plan::Stop(Stop::Deleted),
        // One that was adopted because a cache said Running when it was long over, or whose end is seen by now.
        Some(ExecutionView::Done(_) | ExecutionView::Concluded(_)) => return Plan::Forget,
        Some(ExecutionView::Running(Some(_))) | None => {}
    }
    if let SessionView::Present(session) = &o.session
        && session.metadata.deletion_timestamp.is_none()
        && owns(o, session)
    {
        return Plan::DeleteSession;
    }
    if o.run.metadata.deletion_timestamp.is_some() {
        let held = o.run.finalizers().iter().any(|f| f == RUN_FINALIZER);
        return if held { Plan::Release } else { Plan::Nothing(Next::Change) };
    }
    let lives = o.run.spec.ttl_after_finished.as_ref().map_or(Duration::from_hours(24), GoDuration::get);
    let finished = status.conditions.get(FINISHED).map_or(o.now, |c| c.last_transition_time.0);
    let age = Duration::from_secs(o.now.as_second().saturating_sub(finished.as_second()).max(0).unsigned_abs());
    match lives.checked_sub(age) {
        Some(left) if !left.is_zero() => Plan::Nothing(Next::After(left)),
        Some(_) | None => Plan::Expire,
    }
}

/// Its command was started, or may have been.
fn running(o: &Observed) -> Plan {
    let stop = stop(o);
    match (&o.execution, stop) {
        (None, stop) => Plan::Adopt(stop),
        (Some(ExecutionView::Done(finished)), _) => Plan::Conclude(finished.clone()),
        // What was read is older than the end that we wrote; unless somebody set the status back since.
        (Some(ExecutionView::Concluded(at)), _) if o.now.duration_since(*at) < CACHE_LAG => {
            Plan::Nothing(Next::After(LOOK_AGAIN))
        }
        (Some(ExecutionView::Concluded(_)), _) => Plan::Forget,
        (Some(ExecutionView::Running(None)), Some(stop)) => Plan::Stop(stop),
        (Some(ExecutionView::Running(_)), _) => Plan::Nothing(Next::Change),
    }
}

/// Why a running command must stop.
fn stop(o: &Observed) -> Option<Stop> {
    if o.run.metadata.deletion_timestamp.is_some() {
        return Some(Stop::Deleted);
    }
    if o.run.spec.cancel {
        return Some(Stop::Cancel);
    }
    if o.switch == Switch::Off {
        return Some(Stop::KillSwitch);
    }
    // A namespace that is being deleted deletes its Runs itself.
    if !o.tenant.enabled && !o.tenant.terminating {
        return Some(Stop::TenantDisabled);
    }
    if let SessionView::Present(session) = &o.session {
        if session.metadata.deletion_timestamp.is_some() {
            return Some(Stop::SessionDeleted);
        }
        if session.annotations().contains_key(HOLD_ANNOTATION) {
            return Some(Stop::Held);
        }
        if session.spec.suspend {
            return Some(Stop::Suspended);
        }
    }
    let suspended = |policy: &PolicyView| matches!(policy, PolicyView::Ready(compiled) if compiled.suspended);
    if suspended(&o.session_policy) || o.run_policy.as_ref().is_some_and(suspended) {
        return Some(Stop::PolicySuspended);
    }
    None
}

#[cfg(test)]
mod tests;
