//! Runs of one session that have not started: what their order rests on, beyond what their objects say.
//!
//! Losing it costs exactness within one second of creation, and nothing else. Must not decide who is next.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use kube::ResourceExt as _;

use api::{Run, reasons::RunPhase};
use rules::{order::Candidate, session_name};

/// What is remembered of waiting Runs, by UID.
#[derive(Debug, Default)]
pub struct Queue {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// The resource version that each was first seen with: a status write changes it.
    stored: HashMap<String, u64>,
    /// Those whose own start failed: they try again by themselves, and hold nobody back.
    aside: HashSet<String>,
    /// Under which policies the spec of each was found to hold.
    judged: HashMap<String, Judged>,
}

/// Policies by name and generation.
pub type Judged = Vec<(String, i64)>;

impl Queue {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The start of a Run failed for a cause of its own.
    pub fn stand_aside(&self, uid: &str) {
        self.inner().aside.insert(uid.to_owned());
    }

    /// A Run started, or is over.
    pub fn leave(&self, uid: &str) {
        let mut inner = self.inner();
        inner.stored.remove(uid);
        inner.aside.remove(uid);
        inner.judged.remove(uid);
    }

    /// The spec of a Run holds under these policies. It cannot change.
    pub fn remember(&self, uid: &str, policies: Judged) {
        self.inner().judged.insert(uid.to_owned(), policies);
    }

    /// Whether the spec of a Run was found to hold under exactly these policies.
    pub fn holds(&self, uid: &str, policies: &Judged) -> bool {
        self.inner().judged.get(uid) == Some(policies)
    }

    /// The Runs that wait for this session, which is the one of `own`.
    pub fn candidates<'a>(&self, own: &Run, session: &str, runs: impl Iterator<Item = &'a Run>) -> Vec<Candidate> {
        let mut inner = self.inner();
        let waits = runs.filter(|run| is_waiting(run) && is_of_session(run, own, session));
        waits
            .filter_map(|run| {
                let uid = run.uid()?;
                let version = run.resource_version().and_then(|version| version.parse().ok()).unwrap_or(u64::MAX);
                let stored = *inner.stored.entry(uid.clone()).or_insert(version);
                let created = run.metadata.creation_timestamp.as_ref().map_or(i64::MAX, |at| at.0.as_second());
                let stands_aside = inner.aside.contains(&uid);
                Some(Candidate { uid, created, stored, stands_aside })
            })
            .collect()
    }
}

fn is_waiting(run: &Run) -> bool {
    let phase = run.status.as_ref().and_then(|status| status.phase);
    matches!(phase, None | Some(RunPhase::Pending)) && run.metadata.deletion_timestamp.is_none() && !run.spec.cancel
}

fn is_of_session(run: &Run, own: &Run, session: &str) -> bool {
    let (one, other) = (&run.spec.session, &own.spec.session);
    if one == other {
        // One with a drive alone has a session of its own.
        return one.name.is_some() || one.conversation.is_some() || run.uid() == own.uid();
    }
    if one.name.is_some() == other.name.is_some() {
        return false;
    }
    // By name, and by what the name is made of.
    run.metadata.uid.as_ref().is_some_and(|uid| session_name::selected(one, uid) == session)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use api::RunStatus;

    fn waiting(uid: &str, version: &str, session: &serde_json::Value) -> Run {
        let spec = json!({"session": session, "bash": {"command": "true"}});
        let mut run = Run::new("r", serde_json::from_value(spec).unwrap());
        run.metadata.uid = Some(uid.to_owned());
        run.metadata.resource_version = Some(version.to_owned());
        run
    }

    fn in_phase(run: Run, phase: RunPhase) -> Run {
        Run { status: Some(RunStatus { phase: Some(phase), ..RunStatus::default() }), ..run }
    }

    fn uids(queue: &Queue, own: &Run, runs: &[Run]) -> Vec<(String, u64)> {
        let session = session_name::selected(&own.spec.session, own.metadata.uid.as_ref().unwrap());
        let all = queue.candidates(own, &session, runs.iter());
        all.into_iter().map(|candidate| (candidate.uid, candidate.stored)).collect()
    }

    #[test]
    fn runs_of_one_session_that_have_not_started_are_candidates() {
        let queue = Queue::default();
        let by_name = json!({"name": "s"});
        let conversation = json!({"drive": "d", "conversation": "c"});
        let made = rules::session_name::conversation_session("d", "c");
        let mut cancelled = waiting("cancelled", "5", &by_name);
        cancelled.spec.cancel = true;
        let runs = [
            waiting("a", "1", &by_name),
            waiting("b", "2", &json!({"name": "other"})),
            in_phase(waiting("running", "3", &by_name), RunPhase::Running),
            in_phase(waiting("pending", "4", &by_name), RunPhase::Pending),
            cancelled,
            waiting("own", "6", &json!({"drive": "d"})),
            waiting("conversation", "7", &conversation),
            waiting("its name", "8", &json!({"name": made})),
            waiting("own too", "9", &json!({"drive": "d"})),
        ];
        let named = |names: &[(&str, u64)]| names.iter().map(|(uid, at)| ((*uid).to_owned(), *at)).collect::<Vec<_>>();
        assert_eq!(uids(&queue, &runs[0], &runs), named(&[("a", 1), ("pending", 4)]));
        assert_eq!(uids(&queue, &runs[5], &runs), named(&[("own", 6)]), "a session of its own");
        assert_eq!(uids(&queue, &runs[6], &runs), named(&[("conversation", 7), ("its name", 8)]));
        assert_eq!(uids(&queue, &runs[7], &runs), named(&[("conversation", 7), ("its name", 8)]));
        // A status write gives it another version, and not another place.
        let written = [waiting("a", "90", &by_name)];
        assert_eq!(uids(&queue, &written[0], &written), named(&[("a", 1)]));
        let policies = |generation| vec![("default".to_owned(), generation)];
        queue.remember("a", policies(1));
        assert!(queue.holds("a", &policies(1)) && !queue.holds("a", &policies(2)) && !queue.holds("b", &policies(1)));
        queue.leave("a");
        assert!(!queue.holds("a", &policies(1)));
        assert_eq!(uids(&queue, &written[0], &written), named(&[("a", 90)]));
    }
}
