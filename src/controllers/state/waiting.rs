//! Runs that wait for a session. Losing it costs time: waiting Runs also look again by themselves.
//!
//! Must not decide who is next.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    sync::{Mutex, PoisonError},
};

/// Runs that wait for a session, by namespace and session name.
#[derive(Debug, Default)]
pub struct Waiting {
    runs: Mutex<HashMap<(String, String), HashSet<String>>>,
}

impl Waiting {
    /// A Run waits for a session.
    pub fn add(&self, namespace: &str, session: &str, run: &str) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.entry((namespace.to_owned(), session.to_owned())).or_default().insert(run.to_owned());
    }

    /// Whether a Run waits for a session.
    pub fn any(&self, namespace: &str, session: &str) -> bool {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.get(&(namespace.to_owned(), session.to_owned())).is_some_and(|names| !names.is_empty())
    }

    /// The Runs that wait for a session; they wait no more.
    pub fn take(&self, namespace: &str, session: &str) -> HashSet<String> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        runs.remove(&(namespace.to_owned(), session.to_owned())).unwrap_or_default()
    }

    /// A Run waits no more.
    pub fn remove(&self, namespace: &str, session: &str, run: &str) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Entry::Occupied(mut waiting) = runs.entry((namespace.to_owned(), session.to_owned())) {
            waiting.get_mut().remove(run);
            if waiting.get().is_empty() {
                waiting.remove();
            }
        }
    }

    /// All Runs that wait, by namespace and name.
    pub fn all(&self) -> Vec<(String, String)> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |((namespace, _), names): (&(String, String), &HashSet<String>)| {
            names.iter().map(|name| (namespace.clone(), name.clone())).collect::<Vec<_>>()
        };
        runs.iter().flat_map(of).collect()
    }
}
