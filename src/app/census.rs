//! Counts what exists, for metrics: gauges that are read from the caches, every few seconds. Must not write or decide anything.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::{controllers::context::Context, kubernetes::scope::Guarded, policy::view::PolicyView};
use api::{
    ExecutionPolicy, SandboxSession,
    conditions::READY,
    reasons::{RunPhase, SessionPhase, SessionReason},
};

/// How often what exists is counted.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts until it is stopped.
pub async fn keep(context: Arc<Context>, stop: CancellationToken) {
    loop {
        count(&context);
        tokio::select! {
            () = sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

fn count(context: &Context) {
    let mut runs = HashMap::new();
    for run in context.runs.all() {
        let phase = run.0.as_ref().ok().and_then(|run| run.status.as_ref()?.phase).unwrap_or(RunPhase::Pending);
        *runs.entry(phase).or_insert(0) += 1;
    }
    context.metrics.set_runs(|phase| runs.get(&phase).copied().unwrap_or_default());
    let (mut sessions, mut waits) = (HashMap::new(), HashMap::new());
    for session in context.sessions.all() {
        let session = session.0.as_ref().ok();
        let phase = session.and_then(|session| session.status.as_ref()?.phase).unwrap_or(SessionPhase::Pending);
        *sessions.entry(phase).or_insert(0) += 1;
        if let Some((reason, seconds)) = session.and_then(|session| not_ready(session, context.now())) {
            let longest = waits.entry(reason).or_insert(seconds);
            *longest = seconds.max(*longest);
        }
    }
    context.metrics.set_sessions(|phase| sessions.get(&phase).copied().unwrap_or_default());
    context.metrics.set_sessions_not_ready(|reason| waits.get(&reason).copied().unwrap_or_default());
    let policies = context.policies.all();
    let is_ready = |policy: &Guarded<ExecutionPolicy>| {
        policy.0.as_ref().is_ok_and(|policy| matches!(context.policy_view(policy), PolicyView::Ready(_)))
    };
    let ready = policies.iter().filter(|policy| is_ready(policy)).count();
    context.metrics.set_policies(ready, policies.len() - ready);
}

/// Why a session is not ready, and for how many seconds. One without conditions was never reconciled: `NotChecked` since its creation.
fn not_ready(session: &SandboxSession, now: Timestamp) -> Option<(SessionReason, i64)> {
    let ready = session.status.as_ref().and_then(|status| status.conditions.get(READY));
    let (reason, since) = match ready {
        Some(ready) if ready.status == "True" => return None,
        Some(ready) => {
            let known = SessionReason::ALL.iter().find(|reason| reason.as_str() == ready.reason);
            (known.copied().unwrap_or(SessionReason::NotChecked), ready.last_transition_time.0)
        }
        None => (SessionReason::NotChecked, session.metadata.creation_timestamp.as_ref()?.0),
    };
    Some((reason, now.duration_since(since).as_secs().max(0)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::ToSpan as _;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_session_counts_from_when_it_ceased_to_be_ready() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let minutes = |minutes: i64| (now - minutes.minutes()).to_string();
        let ready = |status: &str, reason: &str, since: i64| {
            json!([{"type": "LockedDown", "status": "False", "reason": "Stale", "message": "", "lastTransitionTime": minutes(50)},
                {"type": "Ready", "status": status, "reason": reason, "message": "", "lastTransitionTime": minutes(since)}])
        };
        let table: [(Value, Option<(SessionReason, i64)>); 6] = [
            (ready("True", "LockedDown", 30), None),
            (ready("False", "NotOurs", 3), Some((SessionReason::NotOurs, 180))),
            (ready("Unknown", "Provisioning", 1), Some((SessionReason::Provisioning, 60))),
            // Of a later operator's vocabulary, or with a time that is still to come.
            (ready("False", "SomethingNew", 2), Some((SessionReason::NotChecked, 120))),
            (ready("False", "Terminating", -5), Some((SessionReason::Terminating, 0))),
            (json!([]), Some((SessionReason::NotChecked, 2400))),
        ];
        for (conditions, expected) in table {
            let session: SandboxSession = serde_json::from_value(json!({
                "apiVersion": "sprite-operator.io/v1alpha1", "kind": "SandboxSession",
                "metadata": {"name": "s", "creationTimestamp": minutes(40)},
                "spec": {"drive": "d", "conversation": "c"},
                "status": {"observedGeneration": 1, "conditions": conditions.clone()},
            }))
            .unwrap();
            assert_eq!(not_ready(&session, now), expected, "{conditions}");
        }
    }
}
