//! Any charges, folded at any time: a book never counts fewer than there are, and counts none twice.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use rules::quota::{UsageHistory, Charge, DAY, Ledger, MAX_BUCKETS, MAX_BYTES, Scope};

#[derive(Debug, Arbitrary)]
struct Folded {
    run: u8,
    /// Within the last two days, or anywhere.
    ago: i32,
    anywhere: Option<i64>,
    drive: String,
    gone: bool,
    /// Stands for many charges of their own drives.
    crowd: u8,
}

fuzz_target!(|input: (i64, Vec<Folded>)| {
    let (now, folds) = input;
    let mut history = UsageHistory::default();
    let mut charges: Vec<Charge> = Vec::new();
    for (number, fold) in folds.iter().enumerate() {
        let at = fold.anywhere.unwrap_or_else(|| now.saturating_sub(i64::from(fold.ago).rem_euclid(2 * DAY)));
        for n in 0..=u32::from(fold.crowd) * u32::from(fold.gone) {
            // A Run is charged once: a second fold of one that is still listed says nothing new.
            let run = if n == 0 && !fold.gone { format!("run-{}", fold.run) } else { format!("run-{number}-{n}") };
            let drive = if n == 0 { fold.drive.clone() } else { format!("{}{n}", fold.drive) };
            if charges.iter().any(|charge| charge.run == run) {
                assert!(history.fold(&run, at, &drive, now));
                continue;
            }
            assert!(history.fold(&run, at, &drive, now), "the history is full");
            if fold.gone {
                history.prune([run.as_str()]);
            }
            charges.push(Charge { run, user: "alice".to_owned(), drive, at: Some(at), active: false });
        }
        if history.folding().count() > 900 || charges.len() > 3000 {
            return;
        }
    }
    let buckets: Vec<_> = history.buckets().collect();
    assert!(buckets.len() <= MAX_BUCKETS);
    assert!(buckets.iter().map(|bucket| bucket.drive.len()).sum::<usize>() <= MAX_BYTES);
    let stored = UsageHistory::new(buckets, history.folding().cloned().collect::<Vec<_>>());
    assert_eq!(stored, history, "what is stored reads back otherwise");
    let existing: Vec<Charge> = charges.iter().filter(|c| history.folding().any(|run| *run == c.run)).cloned().collect();
    let ledger = Ledger::new(existing, [("alice".to_owned(), history)]);
    let truth = Ledger::new(charges.iter().cloned(), []);
    for drive in charges.iter().map(|charge| charge.drive.as_str()).take(20).chain(["other"]) {
        for later in [0, DAY / 2, DAY - 1, DAY] {
            let then = now.saturating_add(later);
            let (kept, true_) = (ledger.usage("alice", drive, then), truth.usage("alice", drive, then));
            for scope in [Scope::User, Scope::Drive, Scope::Tenant] {
                assert!(kept.used(scope) >= true_.used(scope), "{scope:?} of {drive:?} counts too few at +{later}");
            }
            if later == 0 {
                assert!(kept.used(Scope::User) <= charges.len() as u64, "a charge counts twice");
            }
        }
    }
});
