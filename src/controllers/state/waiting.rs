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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two namespaces with a session of the same name.
    fn waiting() -> Waiting {
        let waiting = Waiting::default();
        for (namespace, session, run) in
            [("n", "s", "a"), ("n", "s", "b"), ("n", "s", "a"), ("n", "other", "a"), ("m", "s", "a")]
        {
            waiting.add(namespace, session, run);
        }
        waiting
    }

    fn all(waiting: &Waiting) -> Vec<(String, String)> {
        let mut all = waiting.all();
        all.sort();
        all
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(namespace, run)| ((*namespace).to_owned(), (*run).to_owned())).collect()
    }

    #[test]
    fn runs_wait_for_one_session_of_one_namespace() {
        let waiting = waiting();
        assert_eq!(waiting.take("n", "s"), HashSet::from(["a".to_owned(), "b".to_owned()]), "each once");
        assert!(!waiting.any("n", "s") && waiting.any("n", "other") && waiting.any("m", "s"));
        assert_eq!(all(&waiting), pairs(&[("m", "a"), ("n", "a")]));
        assert_eq!(waiting.take("n", "s"), HashSet::new(), "they wait no more");
        assert_eq!(waiting.take("nowhere", "s"), HashSet::new());
    }

    #[test]
    fn a_session_that_nobody_waits_for_any_more_is_not_waited_for() {
        let waiting = waiting();
        waiting.remove("n", "s", "a");
        assert!(waiting.any("n", "s"), "another one waits");
        waiting.remove("n", "s", "nobody");
        waiting.remove("n", "none", "b");
        assert_eq!(all(&waiting), pairs(&[("m", "a"), ("n", "a"), ("n", "b")]));
        waiting.remove("n", "s", "b");
        assert!(!waiting.any("n", "s") && waiting.any("m", "s"));
        waiting.add("n", "s", "b");
        assert!(waiting.any("n", "s"), "it waits again");
    }

    #[test]
    fn a_run_that_waits_for_two_sessions_is_named_for_each() {
        let waiting = Waiting::default();
        waiting.add("n", "s", "a");
        waiting.add("n", "other", "a");
        assert_eq!(all(&waiting), pairs(&[("n", "a"), ("n", "a")]));
    }
}
