//! Commands that are running or being adopted: one task a Run UID, counted by session.
//!
//! Must not outlive the process: what it forgets is found again in status.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use k8s_openapi::jiff::Timestamp;
use tokio::sync::watch;

use crate::{kubernetes::object_key::ObjectKey, telemetry::metrics::Metrics};
use api::{Run, run_status::FileResult};
use rules::{
    outcome::{Outcome, Stop},
    output::Captured,
};

/// Most executions of one process.
pub const MAX_EXECUTIONS: usize = 1024;

/// How an execution ended.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How.
    pub outcome: Outcome,
    /// What was written; nothing when the command never started.
    pub captured: Option<Captured>,
    /// The file, of an operation that succeeded.
    pub file: Option<FileResult>,
    /// Whether some output may be missing.
    pub incomplete: bool,
    /// The platform's exec session.
    pub id: Option<String>,
    /// When the end was known.
    pub finished_at: Timestamp,
    /// How long the command ran.
    pub duration_ms: Option<u64>,
}

/// What an execution shows.
#[derive(Debug, Clone)]
pub enum ExecutionView {
    /// It goes on; perhaps it was told to stop.
    Running(Option<Stop>),
    /// It ended; that has still to be written.
    Done(Box<Finished>),
    /// Its end was written then; caches may not show it yet.
    Concluded(Timestamp),
}

#[derive(Debug)]
enum Progress {
    Running,
    Done(Box<Finished>),
    Concluded(Timestamp),
}

#[derive(Debug)]
struct Entry {
    key: ObjectKey,
    session: String,
    stop: watch::Sender<Option<Stop>>,
    progress: Progress,
    /// The Run as its last status write answered, until the cache shows that.
    written: Option<Arc<Run>>,
}

/// Who an execution is of.
#[derive(Debug, Clone)]
pub struct Owner {
    /// The Run.
    pub key: ObjectKey,
    /// UID of the session.
    pub session: String,
}

/// All of them.
#[derive(Debug)]
pub struct Executions {
    entries: Mutex<HashMap<String, Entry>>,
    metrics: Arc<Metrics>,
}

/// Why there is no slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSlot {
    /// This Run has one already.
    Taken,
    /// The session has as many Runs as its policy allows.
    Session,
    /// This process has as many as it can hold.
    Process,
}

impl Executions {
    /// None yet.
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { entries: Mutex::default(), metrics }
    }

    /// Takes a slot for a Run; the receiver says when to stop.
    pub fn reserve(&self, owner: Owner, in_session: usize) -> Result<watch::Receiver<Option<Stop>>, NoSlot> {
        let Owner { key, session } = owner;
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.contains_key(&key.uid) {
            return Err(NoSlot::Taken);
        }
        if held(&entries) >= MAX_EXECUTIONS {
            return Err(NoSlot::Process);
        }
        if live(&entries, &session) >= in_session {
            return Err(NoSlot::Session);
        }
        let (stop, receiver) = watch::channel(None);
        let uid = key.uid.clone();
        entries.insert(uid, Entry { key, session, stop, progress: Progress::Running, written: None });
        self.metrics.set_executions(held(&entries));
        Ok(receiver)
    }

    /// What the execution of a Run shows, if there is one.
    pub fn view(&self, uid: &str) -> Option<ExecutionView> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.get(uid).map(|entry| match &entry.progress {
            Progress::Running => ExecutionView::Running(*entry.stop.borrow()),
            Progress::Done(done) => ExecutionView::Done(done.clone()),
            Progress::Concluded(at) => ExecutionView::Concluded(*at),
        })
    }

    /// A status write of a Run was answered with this.
    pub fn wrote(&self, uid: &str, run: Run) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(uid) {
            entry.written = Some(Arc::new(run));
        }
    }

    /// The newer of what the cache has of a Run, and what its last status write answered: nothing is concluded on an older version
    /// than this process wrote. Resource versions of one resource are numbers that grow (Kubernetes API concepts, since 1.35).
    pub fn newest(&self, uid: &str, cached: Arc<Run>) -> Arc<Run> {
        let version =
            |run: &Run| run.metadata.resource_version.as_ref().and_then(|version| version.parse::<u64>().ok());
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(entry) = entries.get_mut(uid) else { return cached };
        match entry.written.take() {
            Some(written) if version(&written) > version(&cached) => Arc::clone(entry.written.insert(written)),
            Some(_) | None => cached,
        }
    }

    /// Tells an execution to stop; the first reason stays.
    pub fn stop(&self, uid: &str, stop: Stop) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get(uid) {
            send(entry, stop);
        }
    }

    /// Tells all executions of a session to stop.
    pub fn stop_session(&self, session: &str, stop: Stop) {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().filter(|e| e.session == session).for_each(|entry| send(entry, stop));
    }

    /// An execution ended. It counts in its session until that is written: who reads the API sees it Running until then.
    pub fn finish(&self, uid: &str, finished: Finished) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(uid) {
            entry.progress = Progress::Done(Box::new(finished));
        }
    }

    /// The end is written: its output and its slot are given back. That there was one is remembered, so that a cache which
    /// still says Running has nobody adopt it.
    pub fn conclude(&self, uid: &str, now: Timestamp) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get_mut(uid) {
            entry.progress = Progress::Concluded(now);
        }
        self.metrics.set_executions(held(&entries));
    }

    /// Nothing remains to be known of it.
    pub fn forget(&self, uid: &str) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.remove(uid);
        self.metrics.set_executions(held(&entries));
    }

    /// The end of a Run that is gone is of use to nobody.
    pub fn forget_done(&self, uid: &str) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if entries.get(uid).is_some_and(|entry| !entry.is_running()) {
            entries.remove(uid);
            self.metrics.set_executions(held(&entries));
        }
    }

    /// How many go on in a session, or have an end that is not written yet.
    pub fn in_session(&self, session: &str) -> usize {
        live(&self.entries.lock().unwrap_or_else(PoisonError::into_inner), session)
    }

    /// UIDs of the Runs of a session that have an execution here, also one whose end is not written yet.
    pub fn uids_of(&self, session: &str) -> Vec<String> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().filter(|(_, entry)| entry.session == session).map(|(uid, _)| uid.clone()).collect()
    }

    /// The Runs whose commands go on in a session.
    pub fn runs_of(&self, session: &str) -> Vec<String> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().filter(|e| e.session == session && e.is_running()).map(|e| e.key.name.clone()).collect()
    }

    /// Namespace and Run of every one.
    pub fn all(&self) -> Vec<(String, String)> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.values().map(|e| (e.key.namespace.clone(), e.key.name.clone())).collect()
    }
}

impl Entry {
    const fn is_running(&self) -> bool {
        matches!(self.progress, Progress::Running)
    }
}

/// How many take a slot of this process.
fn held(entries: &HashMap<String, Entry>) -> usize {
    entries.values().filter(|entry| !matches!(entry.progress, Progress::Concluded(_))).count()
}

fn live(entries: &HashMap<String, Entry>, session: &str) -> usize {
    entries.values().filter(|e| e.session == session && !matches!(e.progress, Progress::Concluded(_))).count()
}

fn send(entry: &Entry, stop: Stop) {
    entry.stop.send_if_modified(|old| {
        let first = old.is_none();
        if first {
            *old = Some(stop);
        }
        first
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str, session: &str) -> Owner {
        let key = ObjectKey { namespace: "n".into(), name: uid.into(), uid: uid.into() };
        Owner { key, session: session.into() }
    }

    #[test]
    fn a_run_has_one_slot_and_a_session_as_many_as_its_policy_says() {
        let executions = Executions::new(Arc::new(Metrics::new(&[], &[], &[]).unwrap()));
        let _a = executions.reserve(owner("a", "s"), 2).unwrap();
        assert_eq!(executions.reserve(owner("a", "s"), 2).unwrap_err(), NoSlot::Taken);
        let _b = executions.reserve(owner("b", "s"), 2).unwrap();
        assert_eq!(executions.reserve(owner("c", "s"), 2).unwrap_err(), NoSlot::Session);
        executions.forget("a");
        assert!(executions.reserve(owner("c", "s"), 2).is_ok());
        assert_eq!(executions.in_session("s"), 2);
    }

    #[test]
    fn an_end_that_is_written_gives_its_slot_back_and_is_remembered_until_it_is_forgotten() {
        let executions = Executions::new(Arc::new(Metrics::new(&[], &[], &[]).unwrap()));
        let now = Timestamp::from_second(1_000_000).unwrap();
        for number in 0..MAX_EXECUTIONS {
            drop(executions.reserve(owner(&number.to_string(), "s"), usize::MAX).unwrap());
        }
        assert_eq!(executions.reserve(owner("more", "s"), usize::MAX).unwrap_err(), NoSlot::Process);
        executions.conclude("0", now);
        assert!(matches!(executions.view("0"), Some(ExecutionView::Concluded(at)) if at == now));
        assert_eq!(executions.reserve(owner("0", "s"), usize::MAX).unwrap_err(), NoSlot::Taken, "not once more");
        assert!(executions.reserve(owner("more", "s"), usize::MAX).is_ok());
        assert_eq!(executions.in_session("s"), MAX_EXECUTIONS);
        executions.conclude("nobody", now);
        executions.forget_done("0");
        executions.forget_done("1");
        assert!(executions.view("0").is_none() && executions.view("1").is_some());
    }

    #[test]
    fn what_a_write_answered_counts_until_the_cache_is_as_new() {
        let executions = Executions::new(Arc::new(Metrics::new(&[], &[], &[]).unwrap()));
        drop(executions.reserve(owner("a", "s"), 1).unwrap());
        let run = |version: &str| {
            let spec = serde_json::json!({"session": {"name": "s"}, "bash": {"command": "true"}});
            let mut run = Run::new("a", serde_json::from_value(spec).unwrap());
            run.metadata.resource_version = Some(version.to_owned());
            run
        };
        let newest = |uid: &str, cached: &str| {
            let newest = executions.newest(uid, Arc::new(run(cached)));
            newest.metadata.resource_version.clone().unwrap()
        };
        assert_eq!(newest("a", "9"), "9");
        executions.wrote("a", run("10"));
        assert_eq!(newest("a", "9"), "10", "numbers, not text");
        assert_eq!(newest("a", "9"), "10", "again");
        assert_eq!(newest("a", "10"), "10");
        assert_eq!(newest("a", "9"), "9", "the cache was as new, so nothing is kept");
        executions.wrote("a", run("10"));
        assert_eq!(newest("a", "11"), "11", "somebody else wrote since");
        executions.wrote("b", run("10"));
        assert_eq!(newest("b", "9"), "9", "nothing of it is executed here");
    }

    #[test]
    fn a_slot_is_given_back_when_the_end_is_written() {
        let executions = Executions::new(Arc::new(Metrics::new(&[], &[], &[]).unwrap()));
        let now = Timestamp::from_second(1_000_000).unwrap();
        drop(executions.reserve(owner("a", "s"), 1).unwrap());
        let finished = Finished {
            outcome: Outcome::not_started("x"),
            captured: None,
            file: None,
            incomplete: false,
            id: None,
            finished_at: now,
            duration_ms: None,
        };
        executions.finish("a", finished);
        assert_eq!(
            (executions.in_session("s"), executions.runs_of("s")),
            (1, Vec::new()),
            "it ended, and says Running"
        );
        assert_eq!(executions.reserve(owner("b", "s"), 1).unwrap_err(), NoSlot::Session);
        executions.conclude("a", now);
        assert_eq!(executions.in_session("s"), 0);
        assert!(executions.reserve(owner("b", "s"), 1).is_ok());
    }

    #[test]
    fn the_first_reason_to_stop_stays() {
        let executions = Executions::new(Arc::new(Metrics::new(&[], &[], &[]).unwrap()));
        let stop = executions.reserve(owner("a", "s"), 1).unwrap();
        executions.stop("a", Stop::Cancel);
        executions.stop_session("s", Stop::SessionDeleted);
        assert_eq!(*stop.borrow(), Some(Stop::Cancel));
    }
}
