//! What an instant Sprite remembers of Runs: its nonce and their guards. Lives as long as the Sprite, awake or not, whatever
//! happens to its files; gone with the server's process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use runner_protocol::{Cause, Counts, Guard, Record, SPOOLS_KEPT, State};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Exit code of what was killed.
pub(super) const KILLED: u8 = 137;

#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    nonce: Option<String>,
    guards: HashMap<Box<str>, Entry>,
    /// Whose output is kept, the oldest first.
    spools: VecDeque<Box<str>>,
}

#[derive(Debug)]
enum Entry {
    /// It was fenced before it started.
    Never,
    Running(Running),
    /// Its machine ended under it.
    Lost(Instant),
    Ended(Record),
}

#[derive(Debug)]
struct Running {
    began: Instant,
    counts: [Counts; 2],
    /// Ends it.
    end: oneshot::Sender<()>,
}

impl Running {
    fn kill(self) -> Record {
        let [stdout, stderr] = self.counts;
        // Nobody may be waiting any more: then it is just about to end.
        let _ = self.end.send(());
        Record {
            code: KILLED,
            by: Cause::RunnerKilled,
            ran: self.began.elapsed(),
            ended: 0,
            remaining: 0,
            stdout: Some(stdout),
            stderr: Some(stderr),
        }
    }
}

/// The guard of a Run that goes on. Dropped before its end is told, its machine has ended under it.
pub(super) struct Alive {
    memory: Arc<Memory>,
    uid: Box<str>,
}

impl Memory {
    /// Takes the nonce of this instance.
    pub(super) fn install(&self, nonce: &str) {
        self.lock().nonce = Some(nonce.to_owned());
    }

    /// Whether this instance was given that nonce.
    pub(super) fn has(&self, nonce: &str) -> bool {
        self.lock().nonce.as_deref() == Some(nonce)
    }

    /// Puts up the guard of a Run; none when something stands there. With it comes who ends it.
    pub(super) fn begin(self: &Arc<Self>, uid: &str) -> Option<(Alive, oneshot::Receiver<()>)> {
        let mut known = self.lock();
        if known.guards.contains_key(uid) {
            return None;
        }
        let (end, ended) = oneshot::channel();
        let running = Running { began: Instant::now(), counts: [Counts::default(); 2], end };
        known.guards.insert(uid.into(), Entry::Running(running));
        Some((Alive { memory: Arc::clone(self), uid: uid.into() }, ended))
    }

    /// Keeps a Run from starting for ever, and ends it if it runs.
    pub(super) fn fence(&self, uid: &str) -> Guard {
        let mut known = self.lock();
        known.kill(uid);
        match known.guards.entry(uid.into()).or_insert(Entry::Never) {
            Entry::Never => Guard::Never,
            Entry::Running(_) | Entry::Lost(_) => Guard::Started,
            Entry::Ended(record) => Guard::Ended(*record),
        }
    }

    /// Ends a Run if it runs.
    pub(super) fn sweep(&self, uid: &str) {
        self.lock().kill(uid);
    }

    /// How a Run stands. Of one whose end nobody recorded it is not known that it is over.
    pub(super) fn state(&self, uid: &str) -> State {
        match self.lock().guards.get(uid) {
            None => State::Absent,
            Some(Entry::Never | Entry::Ended(_)) => State::Over,
            Some(Entry::Running(Running { began, .. }) | Entry::Lost(began)) => State::Running(began.elapsed()),
        }
    }

    /// Counts one more Run whose output is kept, and tells whose is to go for it: the oldest, but none of those named.
    pub(super) fn spool(&self, uid: &str, named: &[String]) -> Vec<Box<str>> {
        let mut known = self.lock();
        known.spools.push_back(uid.into());
        let surplus = known.spools.len().saturating_sub(SPOOLS_KEPT);
        let mut gone = Vec::new();
        for kept in std::mem::take(&mut known.spools) {
            let goes = gone.len() < surplus && *kept != *uid && !named.iter().any(|live| **live == *kept);
            if goes { gone.push(kept) } else { known.spools.push_back(kept) }
        }
        gone
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn kill(&mut self, uid: &str) {
        let Some(entry) = self.guards.get_mut(uid).filter(|entry| matches!(entry, Entry::Running(_))) else { return };
        if let Entry::Running(running) = std::mem::replace(entry, Entry::Never) {
            *entry = Entry::Ended(running.kill());
        }
    }
}

impl Alive {
    /// How much it writes.
    pub(super) fn wrote(&self, counts: [Counts; 2]) {
        if let Some(Entry::Running(running)) = self.memory.lock().guards.get_mut(&self.uid) {
            running.counts = counts;
        }
    }

    /// Counts its time from now on, and tells from when.
    pub(super) fn begins(&self) -> Instant {
        let now = Instant::now();
        if let Some(Entry::Running(running)) = self.memory.lock().guards.get_mut(&self.uid) {
            running.began = now;
        }
        now
    }

    /// Records its end, unless there is a record: the first counts.
    pub(super) fn end(self, record: Record) -> Record {
        match self.memory.lock().guards.get_mut(&self.uid) {
            Some(Entry::Ended(first)) => return *first,
            Some(entry) => *entry = Entry::Ended(record),
            None => {}
        }
        record
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        if let Some(entry) = self.memory.lock().guards.get_mut(&self.uid)
            && let Entry::Running(Running { began, .. }) = entry
        {
            *entry = Entry::Lost(*began);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_the_last_is_kept_and_of_whom_the_operator_names() {
        let memory = Memory::default();
        let live = ["u-0".to_owned()];
        let gone: Vec<_> = (0..SPOOLS_KEPT + 3).flat_map(|n| memory.spool(&format!("u-{n}"), &live)).collect();
        assert_eq!(gone.iter().map(|uid| &**uid).collect::<Vec<_>>(), ["u-1", "u-2", "u-3"]);
        assert_eq!(memory.spool("last", &[]).first().map(|uid| &**uid), Some("u-0"), "terminal by now");
    }

    #[test]
    fn the_first_record_counts_and_a_guard_is_put_up_once() {
        let memory = Arc::new(Memory::default());
        let (alive, mut ended) = memory.begin("u-1").unwrap();
        assert!(memory.begin("u-1").is_none());
        let Guard::Ended(record) = memory.fence("u-1") else { panic!("it goes on") };
        assert_eq!((record.code, ended.try_recv()), (KILLED, Ok(())));
        assert_eq!(alive.end(Record { code: 0, ..record }), record);
        assert_eq!(memory.fence("u-1"), Guard::Ended(record));
        drop(memory.begin("u-2"));
        assert_eq!(memory.fence("u-2"), Guard::Started, "its machine ended under it");
        assert_eq!((memory.fence("u-3"), memory.state("u-3")), (Guard::Never, State::Over));
    }
}
