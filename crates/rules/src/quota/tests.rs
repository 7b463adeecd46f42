use proptest::prelude::*;
use rstest::rstest;

use super::*;

/// 2026-11-01T12:00:00Z.
const NOON: i64 = 1_793_534_400_000;
const HOUR: i64 = 60 * 60 * 1000;
const NONE: Quota = Quota { concurrent: 2, user: None, drive: None, tenant: None };

fn charge(run: impl std::fmt::Display, at: i64) -> Charge {
    Charge { run: run.to_string(), user: "alice".into(), drive: "research".into(), at: Some(at), active: false }
}

fn ledger(charges: impl IntoIterator<Item = Charge>) -> Ledger {
    Ledger::new(charges, [])
}

/// Whether one more fits with this daily limit of the user, and when if not.
fn verdict(ledger: &Ledger, limit: u32, now: i64) -> Result<(), Option<u32>> {
    let usage = ledger.usage("alice", "research", now);
    match usage.exceeded(&Quota { user: Some(limit), ..NONE }, now)[..] {
        [] => Ok(()),
        [one] => Err(one.retry_after),
        ref more => panic!("{more:?}"),
    }
}

#[rstest]
#[case::a_tenth_of_a_second_left(NOON - DAY + 100, Err(Some(1)))]
#[case::exactly_a_day_old(NOON - DAY, Ok(()))]
#[case::a_second_and_a_bit_left(NOON - DAY + 1001, Err(Some(2)))]
#[case::just_now(NOON, Err(Some(86_400)))]
fn a_charge_leaves_exactly_24_hours_after_itself(#[case] oldest: i64, #[case] expected: Result<(), Option<u32>>) {
    let charges = (0..10).map(|n| charge(n, if n == 0 { oldest } else { NOON }));
    assert_eq!(verdict(&ledger(charges), 10, NOON), expected);
}

#[test]
fn forty_days_without_a_run_leave_nothing_and_carry_nothing_over() {
    let ledger = ledger((0..10).map(|n| charge(n, NOON - 40 * DAY)));
    assert_eq!(ledger.usage("alice", "research", NOON).used(Scope::User), 0);
    assert_eq!(verdict(&ledger, 1, NOON), Ok(()));
}

#[test]
fn a_run_over_midnight_is_charged_once_at_its_admission() {
    let admitted = NOON + 12 * HOUR - 2 * 60_000;
    let ledger = ledger([charge("r", admitted)]);
    for later in [0, 7 * 60_000, DAY - 1] {
        assert_eq!(ledger.usage("alice", "research", admitted + later).used(Scope::User), 1);
    }
    assert_eq!(ledger.usage("alice", "research", admitted + DAY).used(Scope::User), 0);
}

#[rstest]
#[case::five_seconds(5000)]
#[case::twenty_six_hours(26 * HOUR)]
#[case::before_the_epoch(NOON + 5000)]
#[case::further_than_there_is_time(i64::MAX)]
fn charges_from_the_future_count_and_no_wait_is_longer_than_a_day(#[case] back: i64) {
    let now = NOON.saturating_sub(back);
    let ledger = ledger([charge("r", NOON)]);
    assert_eq!(ledger.usage("alice", "research", now).used(Scope::User), 1);
    assert_eq!(verdict(&ledger, 1, now), Err(Some(86_400)));
    // It never counts longer than 24 hours after itself.
    assert_eq!(ledger.usage("alice", "research", NOON + DAY).used(Scope::User), 0);
}

#[test]
fn a_limit_of_zero_refuses_all_and_no_waiting_helps() {
    let empty = ledger([]);
    assert_eq!(verdict(&empty, 0, NOON), Err(None));
    let nothing = Quota { concurrent: 0, ..NONE };
    let exceeded = empty.usage("alice", "research", NOON).exceeded(&nothing, NOON);
    assert_eq!(exceeded.iter().map(|one| one.scope).collect::<Vec<_>>(), [Scope::Concurrent]);
    assert!(exceeded[0].to_string().contains("allows no"));
}

#[test]
fn without_a_limit_there_is_none() {
    let ledger = ledger((0..10_000).map(|n| charge(n, NOON)));
    assert_eq!(ledger.usage("alice", "research", NOON).exceeded(&NONE, NOON), []);
}

#[test]
fn each_scope_counts_what_concerns_it() {
    let of =
        |run: &str, user: &str, drive: &str| Charge { user: user.into(), drive: drive.into(), ..charge(run, NOON) };
    let history =
        |drive: &str, count| UsageHistory::new([Bucket { minute: NOON / 60_000, drive: drive.into(), count }], []);
    let ledger = Ledger::new(
        [
            of("1", "alice", "research"),
            of("2", "alice", "other"),
            of("3", "bob", "research"),
            of("4", "bob", "other"),
            of("5", "bob", "other"),
        ],
        [
            ("alice".to_owned(), history("research", 10)),
            ("carol".to_owned(), history("other", 20)),
            ("dave".to_owned(), history("", 40)),
        ],
    );
    let usage = ledger.usage("alice", "research", NOON);
    assert_eq!(usage.used(Scope::User), 2 + 10);
    assert_eq!(usage.used(Scope::Drive), 2 + 10 + 40, "what a full book cannot tell apart counts for each");
    assert_eq!(usage.used(Scope::Tenant), 5 + 70);
}

#[test]
fn the_words_of_scopes_are_those_of_the_status() {
    let words = [Scope::Concurrent, Scope::User, Scope::Drive, Scope::Tenant].map(Scope::as_str);
    assert_eq!(words, ["concurrent", "user", "drive", "tenant"]);
}

#[test]
fn slots_are_of_running_and_reserved_runs_of_the_user_each_once() {
    let running = |run: &str, user: &str, at| Charge { user: user.into(), at, active: true, ..charge(run, 0) };
    let ledger = ledger([
        running("reserved", "alice", None),
        running("both", "alice", None),
        running("both", "alice", Some(NOON)),
        running("of somebody else", "bob", Some(NOON)),
        charge("over", NOON),
    ]);
    let usage = ledger.usage("alice", "research", NOON);
    assert_eq!((usage.used(Scope::Concurrent), usage.used(Scope::User)), (2, 2));
    assert_eq!(usage.exceeded(&NONE, NOON).len(), 1);
    assert!(usage.exceeded(&Quota { concurrent: 3, ..NONE }, NOON).is_empty());
}

#[rstest]
#[case::listed(Some("pro"), 4)]
#[case::unknown(Some("gold"), 2)]
#[case::none(None, 2)]
fn a_tier_that_is_not_listed_has_the_default(#[case] tier: Option<&str>, #[case] expected: u32) {
    assert_eq!(slots(2, &BTreeMap::from([("pro".to_owned(), 4)]), tier), expected);
}

#[test]
fn a_folded_run_is_never_counted_twice_and_never_forgotten() {
    let mut history = UsageHistory::default();
    let of_runs = |history: &UsageHistory| {
        Ledger::new([charge("r", NOON)], [("alice".to_owned(), history.clone())])
            .usage("alice", "research", NOON + HOUR)
            .used(Scope::User)
    };
    assert_eq!(of_runs(&history), 1);
    // However often the fold is repeated: after a conflict, after a crash.
    for _ in 0..3 {
        assert!(history.fold("r", NOON, "research", NOON + HOUR));
        assert_eq!(of_runs(&history), 1);
    }
    // The Run is seen gone, then pruned.
    let alone = |history: &UsageHistory| {
        Ledger::new([], [("alice".to_owned(), history.clone())])
            .usage("alice", "research", NOON + HOUR)
            .used(Scope::User)
    };
    assert_eq!(alone(&history), 1);
    history.prune(["r"]);
    assert_eq!(alone(&history), 1);
    assert!(!history.is_empty(), "the charge is in it");
    history.forget_old(NOON + DAY + 60_000);
    assert!(history.is_empty());
}

#[test]
fn a_book_is_not_empty_while_a_run_may_still_be_folded_anew() {
    let mut history = UsageHistory::default();
    assert!(history.fold("r", NOON, "research", NOON));
    history.forget_old(NOON + DAY + 60_000);
    assert_eq!(history.buckets().count(), 0);
    assert!(!history.is_empty());
    history.prune(["r"]);
    assert!(history.is_empty());
}

#[test]
fn a_charge_older_than_a_day_needs_no_fold() {
    let mut history = UsageHistory::default();
    assert!(history.fold("r", NOON - DAY, "research", NOON));
    assert!(history.is_empty());
}

#[test]
fn a_bucket_counts_until_its_whole_minute_is_a_day_old() {
    let mut history = UsageHistory::default();
    assert!(history.fold("r", NOON + 1, "research", NOON + 1));
    let used = |now| {
        Ledger::new([], [("alice".to_owned(), history.clone())]).usage("alice", "research", now).used(Scope::User)
    };
    assert_eq!((used(NOON + DAY + 59_999), used(NOON + DAY + 60_000)), (1, 0));
}

#[test]
fn a_book_takes_no_more_runs_than_its_schema_and_says_so() {
    let mut history = UsageHistory::default();
    for n in 0..MAX_FOLDING {
        assert!(history.fold(&n.to_string(), NOON, "research", NOON));
    }
    assert!(!history.fold("one more", NOON, "research", NOON));
    assert!(history.fold("0", NOON, "research", NOON), "known already");
    history.prune(["0"]);
    assert!(history.fold("one more", NOON, "research", NOON));
}

fn total(history: &UsageHistory) -> u64 {
    history.buckets().map(|bucket| bucket.count).sum()
}

fn bytes(history: &UsageHistory) -> usize {
    history.buckets().map(|bucket| 80 + bucket.drive.len()).sum()
}

/// A charge in each of so many minutes.
fn minutes(many: usize, apart: i64, drive: &str) -> Vec<Bucket> {
    (0..many).zip(0_i64..).map(|(_, n)| Bucket { minute: n * apart, drive: drive.to_owned(), count: 1 }).collect()
}

#[test]
fn a_full_book_counts_two_minutes_as_the_later_one() {
    assert_eq!(UsageHistory::new(minutes(MAX_BUCKETS, 1, "d"), []).buckets().count(), MAX_BUCKETS);
    let over = UsageHistory::new(minutes(MAX_BUCKETS + 1, 1, "d"), []);
    let first: Vec<_> = over.buckets().take(2).map(|bucket| (bucket.minute, bucket.count)).collect();
    assert_eq!(first, [(1, 2), (3, 2)]);
    assert_eq!((over.buckets().count(), total(&over)), (MAX_BUCKETS / 2 + 1, MAX_BUCKETS as u64 + 1));
}

#[test]
fn drives_are_told_apart_as_long_as_coarser_minutes_are_enough() {
    // An hour apart: only the last and coarsest step makes less of them.
    let history = UsageHistory::new(minutes(MAX_BUCKETS + 2, 60, "d"), []);
    assert_eq!(history.buckets().count(), MAX_BUCKETS.div_ceil(4) + 1);
    assert!(history.buckets().all(|bucket| bucket.drive == "d"));
    // At one time, and each on a drive of its own: then they count for every drive.
    let drives = (0..=MAX_BUCKETS).map(|n| Bucket { minute: 0, drive: n.to_string(), count: 1 });
    let all = Bucket { minute: 239, drive: String::new(), count: MAX_BUCKETS as u64 + 1 };
    assert_eq!(UsageHistory::new(drives, []).buckets().collect::<Vec<_>>(), [all]);
}

#[rstest]
#[case::letter("a", 1)]
#[case::space(" ", 1)]
#[case::just_above_the_space("!", 1)]
#[case::control("\u{1f}", 6)]
#[case::delete("\u{7f}", 6)]
#[case::quote("\"", 6)]
#[case::backslash("\\", 6)]
#[case::less("<", 6)]
#[case::greater(">", 6)]
#[case::ampersand("&", 6)]
#[case::two_bytes("é", 2)]
#[case::line_separator("\u{2028}", 8)]
fn a_drive_takes_the_bytes_it_has_when_encoded(#[case] text: &str, #[case] bytes: usize) {
    let drive = text.repeat(200);
    let most = MAX_BYTES / (80 + 200 * bytes);
    assert_eq!(UsageHistory::new(minutes(most, 1, &drive), []).buckets().count(), most);
    assert_eq!(UsageHistory::new(minutes(most + 1, 1, &drive), []).buckets().count(), (most + 1).div_ceil(2));
}

#[rstest]
#[case::one_drive(1)]
#[case::ten_drives(10)]
#[case::a_drive_each(100_000)]
fn a_hundred_thousand_charges_keep_a_book_bounded_and_none_is_lost(#[case] drives: i64) {
    let mut history = UsageHistory::default();
    for n in 0..100_000_i64 {
        let drive = format!("{}-{}", "d".repeat(200), n % drives);
        let at = NOON + n * (DAY / 100_000);
        assert!(history.fold("r", at, &drive, NOON + DAY - 1));
        history.prune(["r"]);
    }
    assert_eq!(total(&history), 100_000);
    assert!(history.buckets().count() <= MAX_BUCKETS && bytes(&history) <= MAX_BYTES);
    if drives == 1 {
        // 1,440 minutes fit as they are.
        assert_eq!(history.buckets().count(), 1440);
    }
}

proptest! {
    /// Against a ledger that never folds: a book never counts less, and to the minute not longer.
    #[test]
    fn folding_never_undercounts_and_is_exact_to_the_minute(
        charges in prop::collection::vec((0_i64..2 * DAY, 0_usize..3), 0..60),
        look in 0_i64..3 * DAY,
    ) {
        let drives = ["a", "b", "c"];
        let all = |from: i64| charges.iter().filter(move |(at, _)| *at + DAY > from).count() as u64;
        let mut history = UsageHistory::default();
        for (n, (at, drive)) in charges.iter().enumerate() {
            prop_assert!(history.fold(&n.to_string(), *at, drives[*drive], 0));
        }
        let folded = Ledger::new([], [("alice".to_owned(), history)]).usage("alice", "a", look);
        prop_assert!(folded.used(Scope::User) >= all(look));
        prop_assert!(folded.used(Scope::User) <= all(look - 60_000));
        prop_assert!(folded.used(Scope::Drive) <= folded.used(Scope::Tenant));
    }

    /// Waiting as long as was said helps, and a second less does not.
    #[test]
    fn the_wait_that_is_told_is_the_wait_that_is_needed(
        charges in prop::collection::vec(NOON - DAY..=NOON, 1..40),
        limit in 1_u32..10,
    ) {
        let ledger = ledger(charges.iter().enumerate().map(|(n, at)| charge(n, *at)));
        match verdict(&ledger, limit, NOON) {
            Ok(()) => {}
            Err(None) => prop_assert!(false, "a limit above 0 is waited for"),
            Err(Some(seconds)) => {
                prop_assert!((1..=86_400).contains(&seconds));
                let until = NOON + i64::from(seconds) * 1000;
                prop_assert_eq!(verdict(&ledger, limit, until), Ok(()));
                prop_assert!(verdict(&ledger, limit, until - 1000).is_err());
            }
        }
    }

    #[test]
    fn tightening_never_allows_what_either_forbids(
        a in prop::option::of(0_u32..5), b in prop::option::of(0_u32..5), c in 0_u32..5, d in 0_u32..5, used in 0_u64..6,
    ) {
        let (one, two) = (Quota { concurrent: c, user: a, ..NONE }, Quota { concurrent: d, user: b, ..NONE });
        let ledger = ledger((0..used).map(|n| Charge { active: true, ..charge(n, NOON) }));
        let usage = ledger.usage("alice", "research", NOON);
        let refused = |quota: &Quota| !usage.exceeded(quota, NOON).is_empty();
        prop_assert_eq!(refused(&one.tightened_by(&two)), refused(&one) || refused(&two));
    }

    #[test]
    fn nothing_overflows(at in any::<i64>(), now in any::<i64>(), minute in any::<i64>(), count in any::<u64>()) {
        let mut history = UsageHistory::new([Bucket { minute, drive: "d".into(), count }, Bucket { minute, drive: "d".into(), count }], []);
        let _ = history.fold("r", at, "d", now);
        let ledger = Ledger::new([charge("r", at)], [("alice".to_owned(), history)]);
        for limit in [0, 1] {
            let _ = verdict(&ledger, limit, now);
        }
    }
}

#[test]
fn a_run_that_is_reserved_and_observed_counts_once_whichever_is_older() {
    let reserved = Charge { active: true, ..charge("r", NOON) };
    let stale = Charge { at: None, active: false, ..reserved.clone() };
    for both in [[reserved.clone(), stale.clone()], [stale, reserved]] {
        let usage = ledger(both).usage("alice", "research", NOON);
        assert_eq!(usage.active, 1);
        assert_eq!(usage.exceeded(&Quota { user: Some(1), ..NONE }, NOON).len(), 1, "one Run of one");
        assert!(usage.exceeded(&Quota { user: Some(2), ..NONE }, NOON).is_empty(), "not two");
    }
}
