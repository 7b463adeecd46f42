//! Counts what exists, for metrics: gauges that are read from the caches, every few seconds. Must not write or decide anything.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt as _;
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
    let mut waits = Waits::default();
    loop {
        count(&context, &mut waits);
        tokio::select! {
            () = sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

fn count(context: &Context, waits: &mut Waits) {
    let mut runs = HashMap::new();
    for run in context.runs.all() {
        let phase = run.0.as_ref().ok().and_then(|run| run.status.as_ref()?.phase).unwrap_or(RunPhase::Pending);
        *runs.entry(phase).or_insert(0) += 1;
    }
    context.metrics.set_runs(|phase| runs.get(&phase).copied().unwrap_or_default());
    let (mut sessions, mut not_ready) = (HashMap::new(), Vec::new());
    for session in context.sessions.all() {
        let session = session.0.as_ref().ok();
        let phase = session.and_then(|session| session.status.as_ref()?.phase).unwrap_or(SessionPhase::Pending);
        *sessions.entry(phase).or_insert(0) += 1;
        not_ready.extend(session.and_then(|session| Some((session.uid()?, why_not_ready(session)?))));
    }
    context.metrics.set_sessions(|phase| sessions.get(&phase).copied().unwrap_or_default());
    let longest = waits.longest(not_ready, context.now());
    context.metrics.set_sessions_not_ready(|reason| longest.get(&reason).copied().unwrap_or_default());
    let policies = context.policies.all();
    let is_ready = |policy: &Guarded<ExecutionPolicy>| {
        policy.0.as_ref().is_ok_and(|policy| matches!(context.policy_view(policy), PolicyView::Ready(_)))
    };
    let ready = policies.iter().filter(|policy| is_ready(policy)).count();
    context.metrics.set_policies(ready, policies.len() - ready);
}

/// Why a session is not ready; `NotChecked` where it was never reconciled.
fn why_not_ready(session: &SandboxSession) -> Option<SessionReason> {
    match session.status.as_ref().and_then(|status| status.conditions.get(READY)) {
        Some(ready) if ready.status == "True" => None,
        Some(ready) => {
            let known = SessionReason::ALL.iter().find(|reason| reason.as_str() == ready.reason);
            Some(known.copied().unwrap_or(SessionReason::NotChecked))
        }
        None => Some(SessionReason::NotChecked),
    }
}

/// Since when each session has not been ready for the reason that it has now, by UID. A condition does not tell: its time stays when
/// the reason alone changes, and a session that was suspended for a day would count as one that has waited for a day.
#[derive(Default)]
struct Waits(HashMap<String, (SessionReason, Timestamp)>);

impl Waits {
    /// The longest of these waits by reason, in seconds. What is not named any more is forgotten.
    fn longest(&mut self, not_ready: Vec<(String, SessionReason)>, now: Timestamp) -> HashMap<SessionReason, i64> {
        let old = std::mem::take(&mut self.0);
        let mut longest = HashMap::new();
        for (uid, reason) in not_ready {
            let since = old.get(&uid).filter(|(known, _)| *known == reason).map_or(now, |(_, since)| *since);
            let seconds = now.duration_since(since).as_secs().max(0);
            longest.entry(reason).and_modify(|most: &mut i64| *most = seconds.max(*most)).or_insert(seconds);
            self.0.insert(uid, (reason, since));
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::ToSpan as _;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_session_is_not_ready_for_the_reason_of_its_condition() {
        let time = "2026-01-01T12:00:00Z";
        let ready = |status: &str, reason: &str| {
            json!([{"type": "LockedDown", "status": "False", "reason": "Stale", "message": "", "lastTransitionTime": time},
                {"type": "Ready", "status": status, "reason": reason, "message": "", "lastTransitionTime": time}])
        };
        let table: [(Value, Option<SessionReason>); 5] = [
            (ready("True", "LockedDown"), None),
            (ready("False", "NotOurs"), Some(SessionReason::NotOurs)),
            (ready("Unknown", "Provisioning"), Some(SessionReason::Provisioning)),
            // Of a later operator's vocabulary.
            (ready("False", "SomethingNew"), Some(SessionReason::NotChecked)),
            (json!([]), Some(SessionReason::NotChecked)),
        ];
        for (conditions, expected) in table {
            let session: SandboxSession = serde_json::from_value(json!({
                "apiVersion": "sprite-operator.io/v1alpha1", "kind": "SandboxSession", "metadata": {"name": "s"},
                "spec": {"drive": "d", "conversation": "c"},
                "status": {"observedGeneration": 1, "conditions": conditions.clone()},
            }))
            .unwrap();
            assert_eq!(why_not_ready(&session), expected, "{conditions}");
        }
    }

    type Named = [(&'static str, SessionReason)];
    type Told = [(SessionReason, i64)];

    #[test]
    fn a_wait_begins_when_the_reason_does_and_the_longest_of_a_reason_counts() {
        let start: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let (full, stopped) = (SessionReason::PlatformCapacity, SessionReason::Suspended);
        let mut waits = Waits::default();
        // Minute, who is not ready and why, and what is told.
        let table: [(i64, &Named, &Told); 6] = [
            (0, &[("a", full), ("b", stopped)], &[(full, 0), (stopped, 0)]),
            (10, &[("a", full), ("b", stopped), ("c", full)], &[(full, 600), (stopped, 600)]),
            // Resumed: it waits since now.
            (20, &[("b", full), ("c", full)], &[(full, 600)]),
            (30, &[("b", full)], &[(full, 600)]),
            (40, &[], &[]),
            (50, &[("b", full)], &[(full, 0)]),
        ];
        for (minute, named, expected) in table {
            let named = named.iter().map(|(uid, reason)| ((*uid).to_owned(), *reason)).collect();
            let told = waits.longest(named, start + minute.minutes());
            assert_eq!(told, expected.iter().copied().collect(), "minute {minute}");
        }
        assert_eq!(waits.longest(vec![("b".to_owned(), full)], start).get(&full), Some(&0), "a clock that went back");
    }
}
