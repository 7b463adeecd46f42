//! Which of the Runs that wait in one session start next: first come, first served. Pure.
//!
//! Order is among Runs that could start but for a slot. One that waits for a cause of its own stands aside and holds nobody
//! back. Must not know why it does.

/// A Run that has not started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its UID.
    pub uid: String,
    /// When it was created, in seconds: the API server writes no more.
    pub created: i64,
    /// The resource version that it was first seen with: the order in which the server stored those of one second.
    pub stored: u64,
    /// Whether it waits for a cause of its own.
    pub stands_aside: bool,
}

/// The UIDs of those that may start where so many slots are free, first come first.
pub fn next(mut runs: Vec<Candidate>, free: usize) -> Vec<String> {
    runs.retain(|run| !run.stands_aside);
    runs.sort_by(|one, other| (one.created, one.stored, &one.uid).cmp(&(other.created, other.stored, &other.uid)));
    runs.truncate(free);
    runs.into_iter().map(|run| run.uid).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn run(uid: &str, created: i64, stored: u64) -> Candidate {
        Candidate { uid: uid.to_owned(), created, stored, stands_aside: false }
    }

    #[rstest]
    #[case("nobody waits", vec![], 3, &[])]
    #[case("no slot is free", vec![run("a", 1, 1)], 0, &[])]
    #[case("the oldest first", vec![run("a", 3, 1), run("b", 1, 9), run("c", 2, 5)], 2, &["b", "c"])]
    #[case("of one second, as the server stored them", vec![run("a", 1, 30), run("b", 1, 10), run("c", 1, 20)], 3, &["b", "c", "a"])]
    #[case("of one version, by UID", vec![run("b", 1, 1), run("a", 1, 1)], 1, &["a"])]
    #[case("one that stands aside holds nobody back", vec![Candidate { stands_aside: true, ..run("a", 1, 1) }, run("b", 2, 2)], 1, &["b"])]
    #[case("all stand aside", vec![Candidate { stands_aside: true, ..run("a", 1, 1) }], 1, &[])]
    fn the_first_that_came_start_next(
        #[case] name: &str,
        #[case] runs: Vec<Candidate>,
        #[case] free: usize,
        #[case] starts: &[&str],
    ) {
        assert_eq!(next(runs, free), starts, "{name}");
    }

    proptest! {
        /// A slot is never left free while somebody could take it, and nobody overtakes.
        #[test]
        fn nobody_overtakes(
            runs in proptest::collection::vec((0i64..4, 0u64..4, any::<bool>()), 0..12),
            free in 0usize..14,
        ) {
            let runs: Vec<_> = runs
                .into_iter()
                .enumerate()
                .map(|(n, (created, stored, stands_aside))| Candidate { stands_aside, ..run(&format!("{n:02}"), created, stored) })
                .collect();
            let could = runs.iter().filter(|run| !run.stands_aside).count();
            let started = next(runs.clone(), free);
            prop_assert_eq!(started.len(), could.min(free));
            let key = |run: &Candidate| (run.created, run.stored, run.uid.clone());
            for waits in runs.iter().filter(|run| !run.stands_aside && !started.contains(&run.uid)) {
                for starts in runs.iter().filter(|run| started.contains(&run.uid)) {
                    prop_assert!(key(starts) < key(waits));
                }
            }
        }
    }
}
