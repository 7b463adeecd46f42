//! What each check of the gate says by itself, and in which order they speak.

use std::sync::Arc;

use api::reasons::{RunReason, WaitingCause};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{
    access::{switch::Switch, tenant::Tenant},
    controllers::{
        run::{
            fixtures::{NOW, at, named, observed, policy, run, with_session},
            observed::Source,
        },
        state::session_view::SessionView,
    },
    policy::view::PolicyView,
};

type Change = fn(Observed) -> Observed;

fn admitted(o: &Observed) -> Result<Start, Check> {
    let in_force = policy::check(o).map_err(Check::Over)?;
    let request = request::check(o, &in_force.effective).map_err(Check::Over)?;
    admit(o, in_force, Some(request))
}

/// A row for each thing that a check may say; a new variant does not compile without one.
#[test]
fn every_check_comes_from_a_row() {
    fn number(said: &Result<Start, Check>) -> usize {
        match said {
            Err(Check::Over(_)) => 0,
            Err(Check::Wait(..)) => 1,
            Err(Check::CreateSession(_)) => 2,
            Ok(_) => 3,
        }
    }
    let drive = run(json!({"session": {"drive": "d"}, "bash": {"command": "true"}}));
    let rows = [
        with_session(observed(named()), |session| session.spec.suspend = true),
        Observed { in_session: 4, ..observed(named()) },
        Observed { session: SessionView::Absent, ..observed(drive) },
        observed(named()),
    ];
    let numbers: Vec<_> = rows.iter().map(|row| number(&admitted(row))).collect();
    assert_eq!(numbers, (0..rows.len()).collect::<Vec<_>>());
}

/// Each stage with everything after it wrong, too: the first that refuses is the one that is told. `design`, section 4.1.
#[test]
fn the_cheapest_check_speaks_first() {
    let all_wrong = || {
        let mut wrong =
            run(json!({"session": {"name": "s"}, "cancel": true, "bash": {"command": "true", "cwd": "../x"}}));
        wrong.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(NOW)));
        let o = Observed {
            switch: Switch::Off,
            tenant: Tenant { enabled: false, terminating: false },
            session_policy: PolicyView::NotFound("x".into()),
            in_session: 9,
            ..observed(wrong)
        };
        with_session(o, |session| {
            session.spec.suspend = true;
            session.status = None;
        })
    };
    // Each step rights what was told; the next wrong thing is told then.
    let steps: [(&str, Change); 10] = [
        ("Deleted", |mut o| {
            Arc::make_mut(&mut o.run).metadata.deletion_timestamp = None;
            o
        }),
        ("CancelRequested", |mut o| {
            Arc::make_mut(&mut o.run).spec.cancel = false;
            o
        }),
        ("KillSwitchOff", |o| Observed { switch: Switch::On, ..o }),
        ("TenantNotEnabled", |o| Observed { tenant: Tenant { enabled: true, terminating: false }, ..o }),
        ("PolicyNotFound", |o| Observed { session_policy: policy("x", "{suspend: true}"), ..o }),
        ("PolicySuspended", |o| Observed { session_policy: policy("x", "{}"), ..o }),
        ("PathEscape", |mut o| {
            Arc::make_mut(&mut o.run).spec.bash.as_mut().unwrap().cwd = None;
            Observed { switch: Switch::Frozen, ..o }
        }),
        ("SwitchFrozen", |o| Observed { switch: Switch::On, ..o }),
        ("SessionSuspended", |o| with_session(o, |_| ())),
        ("Queued", |o| Observed { in_session: 0, ..o }),
    ];
    let mut o = all_wrong();
    for (expected, mend) in steps {
        let told = match gate(&o) {
            Plan::Finish(outcome) => outcome.reason.to_string(),
            Plan::Wait(wait) => wait.waiting.cause.to_string(),
            other => other.name().to_owned(),
        };
        assert_eq!(told, expected);
        o = mend(o);
    }
    assert_eq!(gate(&o).name(), "Start");
}

/// `limits.start` counts from the creation; a Run that waits is looked at again no later than then.
#[rstest]
#[case("just made", 0, Some(299))]
#[case("a moment before", 298, Some(1))]
#[case("at it", 299, None)]
#[case("long after", 9_999, None)]
fn a_wait_ends_at_limits_start(#[case] name: &str, #[case] later: i64, #[case] left: Option<u64>) {
    let o = Observed { in_session: 4, now: at(NOW + later), ..observed(named()) };
    match (gate(&o), left) {
        (Plan::Wait(wait), Some(left)) => {
            assert_eq!((wait.until, wait.next), (at(NOW + 299), Next::After(Duration::from_secs(left))), "{name}");
        }
        (Plan::Finish(outcome), None) => {
            assert_eq!(outcome.reason, RunReason::StartDeadlineExceeded, "{name}");
            assert!(outcome.message.contains("Queued"), "{name}: says what it waited for: {}", outcome.message);
            assert!(outcome.never_started, "{name}: not charged");
        }
        (other, _) => panic!("{name}: {}", other.name()),
    }
}

#[rstest]
#[case("the session's policy says so", "{limits: {start: 10s}}", None, 10)]
#[case("the Run's own is tighter", "{limits: {start: 10s}}", Some("{limits: {start: 5s}}"), 5)]
#[case("the Run's own is wider", "{limits: {start: 10s}}", Some("{limits: {start: 1h}}"), 10)]
fn the_tighter_policy_gives_the_deadline(
    #[case] name: &str,
    #[case] session: &str,
    #[case] own: Option<&str>,
    #[case] seconds: i64,
) {
    let o = Observed {
        session_policy: policy("session", session),
        run_policy: own.map(|own| policy("own", own)),
        in_session: 9,
        ..observed(named())
    };
    let Plan::Wait(wait) = gate(&o) else { panic!("{name}: no wait") };
    // The Run was made a second ago.
    assert_eq!(wait.until, at(NOW - 1 + seconds), "{name}");
}

#[rstest]
#[case("4 of 4", "{}", 4, false)]
#[case("3 of 4", "{}", 3, true)]
#[case("1 of 1", "{limits: {parallelRuns: 1}}", 1, false)]
#[case("0 of 1", "{limits: {parallelRuns: 1}}", 0, true)]
#[case("more than allowed, after the policy was tightened", "{limits: {parallelRuns: 1}}", 3, false)]
fn a_session_has_as_many_slots_as_its_policy_says(
    #[case] name: &str,
    #[case] spec: &str,
    #[case] taken: usize,
    #[case] free: bool,
) {
    let o = Observed { session_policy: policy("x", spec), in_session: taken, ..observed(named()) };
    match gate(&o) {
        Plan::Start(_) => assert!(free, "{name}"),
        Plan::Wait(wait) => assert_eq!((free, wait.waiting.cause), (false, WaitingCause::Queued), "{name}"),
        other => panic!("{name}: {}", other.name()),
    }
}

/// Nothing that cannot be taken back rests on a cache, whatever the check.
#[rstest]
#[case(|o: Observed| Observed { switch: Switch::Off, ..o })]
#[case(|o: Observed| Observed { session_policy: PolicyView::NotFound("x".into()), ..o })]
#[case(|o: Observed| Observed { now: at(NOW + 999), ..o })]
#[case(|o: Observed| with_session(o, |session| session.spec.suspend = true))]
#[case(|o: Observed| o)]
fn what_a_cache_says_is_asked_of_the_servers_before_it_counts(#[case] change: Change) {
    let o = Observed { source: Source::Caches, live: None, ..change(observed(named())) };
    assert!(matches!(gate(&o), Plan::Need(Need::Servers)));
    let Plan::Need(Need::Servers) = gate(&o) else { unreachable!() };
    let asked = gate(&Observed { source: Source::Servers, ..o });
    assert!(!matches!(asked, Plan::Need(Need::Servers)), "asked twice: {}", asked.name());
}

/// A Run that waits is judged once under each set of policies, and again before it starts.
#[test]
fn a_spec_that_is_known_to_hold_is_judged_again_only_for_its_start() {
    let wrong = || observed(run(json!({"session": {"name": "s"}, "bash": {"command": "true", "cwd": "../x"}})));
    let queued = Observed { in_session: 4, spec_holds: true, ..wrong() };
    assert!(matches!(gate(&queued), Plan::Wait(_)));
    let Plan::Finish(outcome) = gate(&Observed { spec_holds: true, ..wrong() }) else { panic!("started") };
    assert_eq!(outcome.reason.as_str(), "PathEscape");
    assert!(matches!(gate(&Observed { in_session: 4, ..wrong() }), Plan::Finish(_)), "not known");
    assert!(gate(&queued).shows_that_the_spec_holds() && !gate(&wrong()).shows_that_the_spec_holds());
}
