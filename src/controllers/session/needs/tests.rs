//! When the platform is asked, for what, and how urgently.

use std::sync::Arc;

use rstest::rstest;

use super::*;
use crate::controllers::session::{
    fixtures::{NOW, at, deleted, locked, observed, policy, session, token, with},
    observed::Live,
};
use api::{SandboxSession, SandboxSessionStatus, sandbox_session::LockdownStatus};

type Change = fn(&mut Observed);

/// Verified that many seconds ago.
fn proved(ago: i64) -> SandboxSession {
    with(Some("i"), Some(locked(NOW - ago)))
}

fn token_of(text: Option<&str>) -> SandboxSession {
    with(Some("i"), Some(LockdownStatus { token: text.map(str::to_owned), ..locked(NOW - 10) }))
}

fn never_verified() -> SandboxSession {
    with(Some("i"), Some(LockdownStatus { verified_at: None, ..locked(NOW) }))
}

const SAME: Change = |_| {};
const CHANGED: Change = |o| o.policy = policy("{egress: {mode: Allowlist, allow: [api.example.com]}}");
const NO_POLICY: Change = |o| o.policy = PolicyView::NotFound("default".into());
const POLICY_WITH_ERRORS: Change = |o| o.policy = PolicyView::NotReady("default".into(), "x".into());

/// Whether the Sprite is looked at, and whether its rules are read then.
#[rstest]
#[case::nothing_is_recorded(session(None), SAME, false, false)]
#[case::a_status_without_a_sprite(session(Some(SandboxSessionStatus::default())), SAME, false, false)]
#[case::only_an_intent(with(None, None), SAME, true, false)]
#[case::never_locked(with(Some("i"), None), SAME, true, false)]
#[case::without_token(token_of(None), SAME, true, false)]
#[case::a_token_that_cannot_be_read(token_of(Some("i:abc")), SAME, true, true)]
#[case::a_token_of_another_instance(token_of(Some(&token("j"))), SAME, true, true)]
#[case::proved(proved(10), SAME, false, true)]
#[case::a_second_before_it_is_due(proved(299), SAME, false, true)]
#[case::due(proved(300), SAME, true, true)]
#[case::overdue(proved(301), SAME, true, true)]
#[case::verified_in_the_future(proved(-60), SAME, false, true)]
#[case::never_verified(never_verified(), SAME, true, true)]
#[case::a_shorter_interval(proved(60), |o: &mut Observed| o.timing.verify_interval = 60, true, true)]
#[case::another_policy(proved(10), CHANGED, true, true)]
#[case::the_policy_is_gone(proved(10), NO_POLICY, false, true)]
#[case::the_policy_is_gone_and_it_is_due(proved(300), NO_POLICY, true, true)]
#[case::the_policy_has_errors(proved(10), POLICY_WITH_ERRORS, false, true)]
#[case::the_policy_is_gone_and_nothing_is_proved(token_of(None), NO_POLICY, true, false)]
#[case::another_runner(proved(10), |o: &mut Observed| o.runner = "q", true, true)]
#[case::another_runner_without_a_policy(proved(10), |o: &mut Observed| (o.runner, o.policy) = ("q", PolicyView::NotFound("default".into())), false, true)]
#[case::found_lost_the_token_goes_first(proved(300), |o: &mut Observed| o.activity.request_relock("x"), false, true)]
#[case::found_lost_and_taken_back(token_of(None), |o: &mut Observed| o.activity.request_relock("x"), true, false)]
#[case::found_lost_and_deleted(deleted(proved(10)), |o: &mut Observed| o.activity.request_relock("x"), true, false)]
#[case::a_doubt(proved(10), |o: &mut Observed| o.activity.reverify_requested = 1, true, true)]
#[case::a_settled_doubt(proved(10), |o: &mut Observed| (o.activity.reverify_requested, o.activity.reverified) = (1, 1), false, true)]
#[case::a_doubt_after_a_settled_one(proved(10), |o: &mut Observed| (o.activity.reverify_requested, o.activity.reverified) = (2, 1), true, true)]
#[case::a_run_waits_for_what_is_proved(proved(10), |o: &mut Observed| o.waited_for = true, false, true)]
#[case::suspended(proved(10), |o: &mut Observed| Arc::make_mut(&mut o.session).spec.suspend = true, false, true)]
#[case::suspended_and_due(proved(300), |o: &mut Observed| Arc::make_mut(&mut o.session).spec.suspend = true, true, true)]
#[case::deleted(deleted(proved(10)), SAME, true, false)]
#[case::deleted_with_an_intent(deleted(with(None, None)), SAME, true, false)]
#[case::deleted_before_anything_was_recorded(deleted(session(None)), SAME, false, false)]
fn the_platform_is_asked_when_something_depends_on_it(
    #[case] session: SandboxSession,
    #[case] change: Change,
    #[case] sprite: bool,
    #[case] rules: bool,
) {
    let mut o = observed(session, Live::NotAsked);
    // What is asked for is the name on record, whatever it would be today.
    o.name = Ok("so-2".into());
    change(&mut o);
    assert_eq!((sprite_to_observe(&o).as_deref(), needs_policy_read(&o)), (sprite.then_some("so-1"), rules));
}

#[rstest]
#[case(proved(300), false, Priority::Verify)]
#[case(proved(300), true, Priority::Lockdown)]
#[case(deleted(proved(300)), false, Priority::Delete)]
#[case(deleted(proved(300)), true, Priority::Delete)]
fn what_somebody_waits_for_goes_first(
    #[case] session: SandboxSession,
    #[case] waited_for: bool,
    #[case] expected: Priority,
) {
    let mut o = observed(session, Live::NotAsked);
    (o.waited_for, o.now) = (waited_for, at(NOW));
    assert_eq!(priority(&o), expected);
}
