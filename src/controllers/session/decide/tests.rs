//! The table of a session's decisions.

use std::sync::Arc;

use rstest::rstest;

use super::*;
use crate::access::tenant::Tenant;
use crate::controllers::session::{
    fixtures::{NOW, at, deleted, live, locked, observed, policy, session, token, with},
    needs::{needs_policy_read, sprite_to_observe},
    observed::NoAnswer,
    release::STOPPING,
};
use crate::controllers::state::session_activity::SessionActivity;
use api::SandboxSession;
use rules::egress::{ReadRule, Rule, Ruleset};

mod drafts;
mod lockdown;
mod obstacles;

fn reason(plan: &Plan) -> SessionReason {
    plan.report.as_ref().unwrap().reason
}

#[test]
fn the_finalizer_comes_before_anything_external() {
    let mut without = session(None);
    without.metadata.finalizers = None;
    assert_eq!(decide(&observed(without, Live::NotAsked)).effect, Effect::AddFinalizer);
}

#[test]
fn the_intent_is_recorded_before_the_create() {
    let plan = decide(&observed(session(None), Live::NotAsked));
    assert_eq!(plan.effect, Effect::Nothing);
    let sprite = plan.report.unwrap().sprite.unwrap();
    assert_eq!((sprite.name.as_str(), sprite.id, sprite.create_requested_at), ("so-1", None, Some(Time(at(NOW)))));
    let plan = decide(&observed(with(None, None), Live::Absent));
    assert!(matches!(plan.effect, Effect::Create { ref name, .. } if name == "so-1"));
}

type Change = fn(&mut Observed);

#[rstest]
#[case(|o: &mut Observed| o.switch = Switch::Off, SessionReason::SwitchOff)]
#[case(|o: &mut Observed| o.switch = Switch::Frozen, SessionReason::SwitchOff)]
#[case(|o: &mut Observed| o.tenant.enabled = false, SessionReason::TenantNotEnabled)]
#[case(|o: &mut Observed| o.policy = PolicyView::NotFound("default".into()), SessionReason::PolicyNotReady)]
#[case(|o: &mut Observed| o.policy = PolicyView::NotReady("default".into(), "x".into()), SessionReason::PolicyNotReady)]
#[case(|o: &mut Observed| o.name = Err("short".into()), SessionReason::SecretMissing)]
#[case(|o: &mut Observed| Arc::make_mut(&mut o.session).spec.suspend = true, SessionReason::Suspended)]
#[case(|o: &mut Observed| drop(Arc::make_mut(&mut o.session).annotations_mut().insert(HOLD_ANNOTATION.into(), String::new())), SessionReason::Held)]
fn nothing_is_minted_while_anything_stands_against_it(#[case] change: Change, #[case] why: SessionReason) {
    let mut o = observed(session(None), Live::NotAsked);
    change(&mut o);
    let plan = decide(&o);
    assert_eq!((plan.effect.clone(), reason(&plan)), (Effect::Nothing, why));
    assert!(plan.report.unwrap().sprite.is_none(), "not even an intent");
    // An intent that was recorded before is not followed, either; the secret is no longer needed for it.
    let mut o = observed(with(None, None), Live::Absent);
    change(&mut o);
    let creates = matches!(decide(&o).effect, Effect::Create { .. });
    assert_eq!(creates, why == SessionReason::SecretMissing);
}

#[test]
fn exactly_ours_is_adopted_and_anything_else_is_left_alone() {
    let plan = decide(&observed(with(None, None), Live::Present(live())));
    assert_eq!(plan.report.unwrap().sprite.unwrap().id.as_deref(), Some("i"));
    for id in [None, Some("i")] {
        let foreign = Live::Present(LiveSprite { ours: false, ..live() });
        let plan = decide(&observed(with(id, None), foreign));
        assert_eq!((plan.effect.clone(), reason(&plan)), (Effect::Nothing, SessionReason::NotOurs));
        assert!(plan.report.unwrap().stalled);
    }
}

#[test]
fn a_fresh_instance_gets_its_nonce_on_record_and_then_its_lock() {
    let plan = decide(&observed(with(Some("i"), None), Live::Present(live())));
    assert_eq!(plan.effect, Effect::Nothing);
    assert_eq!(plan.report.unwrap().lockdown.unwrap().nonce.as_deref(), Some("fresh-nonce"));
    let recorded = LockdownStatus { nonce: Some("n".into()), ..LockdownStatus::default() };
    let plan = decide(&observed(with(Some("i"), Some(recorded)), Live::Present(live())));
    assert!(matches!(plan.effect, Effect::Lock(ref lock) if lock.nonce == "n" && lock.rules == Ruleset::deny_all()));
}

#[test]
fn a_fresh_instance_that_cannot_be_locked_is_destroyed_after_three_attempts_and_a_used_one_never() {
    let tried = |attempts, applied| LockdownStatus {
        nonce: Some("n".into()),
        attempts,
        applied_at: applied,
        ..LockdownStatus::default()
    };
    let effect = |lockdown| decide(&observed(with(Some("i"), Some(lockdown)), Live::Present(live()))).effect;
    assert!(matches!(effect(tried(2, None)), Effect::Lock(_)));
    let Effect::Destroy { name, id, then: Then::Reprovision(_) } = effect(tried(3, None)) else { panic!("kept") };
    assert_eq!((name.as_str(), id.as_str()), ("so-1", "i"));
    assert!(matches!(effect(tried(9, Some(Time(at(1))))), Effect::Lock(_)));
}

#[test]
fn a_proved_session_is_ready_and_asks_the_platform_only_when_it_is_due() {
    let o = observed(with(Some("i"), Some(locked(NOW - 10))), Live::NotAsked);
    assert_eq!(sprite_to_observe(&o), None);
    let plan = decide(&o);
    assert_eq!(plan.report.as_ref().unwrap().phase, SessionPhase::Ready);
    assert_eq!(plan.next, after(290));
    let due = observed(with(Some("i"), Some(locked(NOW - 300))), Live::NotAsked);
    assert_eq!(sprite_to_observe(&due).as_deref(), Some("so-1"));
    assert!(needs_policy_read(&due));
    let mut doubted = observed(with(Some("i"), Some(locked(NOW - 10))), Live::NotAsked);
    doubted.activity.reverify_requested = 1;
    assert!(sprite_to_observe(&doubted).is_some());
}

#[rstest]
#[case(Some(vec![]), true)]
#[case(Some(vec![Rule { action: Some("allow".into()), domain: Some("*".into()), include: None }]), true)]
#[case(Some(Ruleset::deny_all().rules().to_vec()), false)]
#[case(None, false)]
fn rules_that_were_weakened_take_the_token_back(#[case] rules: Option<Vec<Rule>>, #[case] lost: bool) {
    let read = |rules: Vec<Rule>| rules.into_iter().map(|rule| ReadRule { rule, unknown: Vec::new() }).collect();
    let rules = rules.map(read);
    let o = observed(with(Some("i"), Some(locked(NOW - 10))), Live::Present(LiveSprite { rules, ..live() }));
    let plan = decide(&o);
    assert_eq!(reason(&plan) == SessionReason::LockdownLost, lost);
    assert_eq!(plan.report.unwrap().lockdown.unwrap().token.is_none(), lost);
}

#[test]
fn a_policy_that_changed_takes_the_token_back_before_the_rules_move() {
    let mut o = observed(with(Some("i"), Some(locked(NOW - 10))), Live::Present(live()));
    o.policy = policy("{egress: {mode: Allowlist, allow: [api.example.com]}}");
    assert!(sprite_to_observe(&o).is_some());
    let plan = decide(&o);
    assert_eq!((plan.effect, plan.report.unwrap().lockdown.unwrap().token), (Effect::Nothing, None));
    let untokened = LockdownStatus { token: None, ..locked(NOW - 10) };
    let mut o = observed(with(Some("i"), Some(untokened)), Live::Present(live()));
    o.policy = policy("{egress: {mode: Allowlist, allow: [api.example.com]}}");
    assert!(matches!(decide(&o).effect, Effect::Lock(_)));
}

#[test]
fn a_sleeping_sprite_is_left_asleep_until_somebody_wants_it() {
    let asleep = LiveSprite { state: Some(SpritePhase::Warm), ..live() };
    let untokened = LockdownStatus { token: None, ..locked(NOW - 10) };
    let mut o = observed(with(Some("i"), Some(untokened)), Live::Present(asleep));
    let plan = decide(&o);
    assert_eq!((plan.effect.clone(), reason(&plan)), (Effect::Nothing, SessionReason::Stale));
    o.waited_for = true;
    assert!(matches!(decide(&o).effect, Effect::Lock(_)));
}

#[test]
fn no_answer_is_not_absence_and_one_absence_is_not_loss() {
    let proved = || with(Some("i"), Some(locked(NOW - 10)));
    let plan = decide(&observed(proved(), Live::Unknown(NoAnswer::Other("timeout"))));
    assert_eq!((plan.effect.clone(), reason(&plan)), (Effect::Nothing, SessionReason::PlatformUnavailable));
    assert_eq!(plan.report.unwrap().sprite.unwrap().id.as_deref(), Some("i"), "nothing is forgotten");
    let plan = decide(&observed(proved(), Live::Unknown(NoAnswer::Denied(401))));
    assert_eq!((plan.effect.clone(), reason(&plan)), (Effect::Nothing, SessionReason::PlatformDenied));
    assert!(
        plan.report.unwrap().message.ends_with("rejects the operator's token (401): check the Secret that holds it")
    );
    let plan = decide(&observed(proved(), Live::Unknown(NoAnswer::NoToken)));
    assert_eq!((plan.effect.clone(), reason(&plan)), (Effect::Nothing, SessionReason::PlatformDenied));
    let plan = decide(&observed(proved(), Live::Absent));
    assert_eq!(plan.remember, Some(Remember::AbsentSince(at(NOW))));
    assert_eq!(plan.report.unwrap().sprite.unwrap().id.as_deref(), Some("i"));
    let mut o = observed(proved(), Live::Absent);
    o.activity.absent_since = Some(at(NOW - 9));
    assert_eq!(decide(&o).report.unwrap().sprite.unwrap().incarnation, 0);
    o.activity.absent_since = Some(at(NOW - 10));
    let draft = decide(&o).report.unwrap();
    let sprite = draft.sprite.unwrap();
    assert_eq!((sprite.incarnation, sprite.id, draft.lockdown), (1, None, None));
    assert!(draft.data_lost.is_some());
}

#[test]
fn another_instance_under_our_name_starts_from_nothing() {
    let other = LiveSprite { id: "j".into(), ..live() };
    let draft = decide(&observed(with(Some("i"), Some(locked(NOW - 10))), Live::Present(other))).report.unwrap();
    let sprite = draft.sprite.unwrap();
    assert_eq!((sprite.id.as_deref(), sprite.incarnation, draft.lockdown), (Some("j"), 1, None));
    assert!(draft.data_lost.is_some());
}

#[rstest]
#[case("nothing was asked for", session(None), Live::NotAsked, Effect::RemoveFinalizer)]
#[case("ours is destroyed", with(Some("i"), None), Live::Present(live()), Effect::Destroy { name: "so-1".into(), id: "i".into(), then: Then::Release })]
#[case("a late one is destroyed, too", with(None, None), Live::Present(live()), Effect::Destroy { name: "so-1".into(), id: "i".into(), then: Then::Release })]
#[case("no answer", with(Some("i"), None), Live::Unknown(NoAnswer::Other("unknown")), Effect::Nothing)]
#[case("absent once", with(Some("i"), None), Live::Absent, Effect::Nothing)]
#[case("a create may be on its way", with(None, None), Live::Absent, Effect::Nothing)]
#[case("our instance, labels taken off", with(Some("i"), None), Live::Present(LiveSprite { ours: false, ..live() }), Effect::Nothing)]
fn a_deleted_session_lets_go_only_when_nothing_is_left(
    #[case] name: &str,
    #[case] session: SandboxSession,
    #[case] live: Live,
    #[case] effect: Effect,
) {
    assert_eq!(decide(&observed(deleted(session), live)).effect, effect, "{name}");
}

#[test]
fn absence_after_our_delete_counts_at_once_and_without_it_on_the_second_look() {
    let mut o = observed(deleted(with(Some("i"), None)), Live::Absent);
    o.activity.delete_answered = true;
    assert_eq!(decide(&o).effect, Effect::RemoveFinalizer);
    o.activity = SessionActivity { absent_since: Some(at(NOW - 10)), ..SessionActivity::default() };
    assert_eq!(decide(&o).effect, Effect::RemoveFinalizer);
    let mut late = observed(deleted(with(None, None)), Live::Absent);
    late.now = at(NOW + 115);
    assert_eq!(decide(&late).effect, Effect::Nothing, "one 404 is no proof, also 120 s after the create was asked for");
    late.activity.absent_since = Some(at(NOW + 105));
    assert_eq!(decide(&late).effect, Effect::RemoveFinalizer);
    late.now = at(NOW + 114);
    let early = decide(&late);
    assert_eq!((early.effect, early.next), (Effect::Nothing, after(1)), "it may still come");
    assert_eq!(early.remember, Some(Remember::Present), "the looks of the wait do not count");
}

#[test]
fn release_is_gated_by_nothing() {
    let mut o = observed(deleted(with(Some("i"), None)), Live::Present(live()));
    o.switch = Switch::Off;
    o.tenant = Tenant { enabled: false, terminating: true };
    o.policy = PolicyView::NotFound("default".into());
    o.name = Err("no secret".into());
    assert!(matches!(decide(&o).effect, Effect::Destroy { .. }));
}

#[test]
fn runs_are_stopped_before_their_sprite_is_destroyed_but_not_waited_for_for_ever() {
    let mut o = observed(deleted(with(Some("i"), None)), Live::Present(live()));
    o.executions = 1;
    assert_eq!(decide(&o).effect, Effect::StopRuns);
    o.activity.stopping_since = Some(at(NOW - STOPPING));
    assert!(matches!(decide(&o).effect, Effect::Destroy { .. }));
}

#[test]
fn a_lock_that_succeeds_records_exactly_what_was_confirmed() {
    let o = observed(with(Some("i"), None), Live::Present(live()));
    let before = StatusDraft {
        lockdown: Some(LockdownStatus { nonce: Some("n".into()), attempts: 2, ..LockdownStatus::default() }),
        ..degraded(o.session.status.as_ref().unwrap(), SessionReason::Provisioned, String::new())
    };
    let lock = Lock {
        name: "so-1".into(),
        id: "i".into(),
        nonce: "n".into(),
        rules: Ruleset::deny_all(),
        policy: ("default".into(), 7),
        before,
    };
    let demanded = Ruleset::deny_all();
    let rules = demanded.rules().iter().map(|rule| ReadRule { rule: rule.clone(), unknown: Vec::new() }).collect();
    let read = LiveSprite { rules: Some(rules), ..live() };
    let confirmed = Confirmed::of(&Ruleset::deny_all(), read.as_read()).unwrap();
    let lockdown = after_lock(&o, lock.clone(), Ok(confirmed)).report.unwrap().lockdown.unwrap();
    assert_eq!((lockdown.token, lockdown.attempts), (Some(token("i")), 0));
    assert_eq!((lockdown.policy_name.as_deref(), lockdown.policy_generation), (Some("default"), Some(7)));
    let failure = LockFailure::Differs(vec!["missing: deny *".into()]);
    let draft = after_lock(&o, lock.clone(), Err(&failure)).report.unwrap();
    let lockdown = draft.lockdown.unwrap();
    assert_eq!((lockdown.token, lockdown.attempts, draft.reason), (None, 3, SessionReason::RulesDiffer));
    // What says nothing about the instance is no attempt on it.
    let lockdown = after_lock(&o, lock, Err(&LockFailure::Replaced)).report.unwrap().lockdown.unwrap();
    assert_eq!(lockdown.attempts, 2);
}

/// A row for each effect; a new variant does not compile without one.
#[test]
fn every_effect_comes_from_a_row() {
    fn number(effect: &Effect) -> usize {
        match effect {
            Effect::Nothing => 0,
            Effect::AddFinalizer => 1,
            Effect::RemoveFinalizer => 2,
            Effect::StopRuns => 3,
            Effect::Create { .. } => 4,
            Effect::Lock(_) => 5,
            Effect::Destroy { then: Then::Reprovision(_), .. } => 6,
            Effect::Destroy { then: Then::Release, .. } => 7,
        }
    }
    let mut without = session(None);
    without.metadata.finalizers = None;
    let deleted = |mut session: SandboxSession| {
        session.metadata.deletion_timestamp = Some(Time(at(1)));
        session
    };
    let nonce = |attempts| LockdownStatus { nonce: Some("n".into()), attempts, ..LockdownStatus::default() };
    let mut stopping = observed(deleted(with(Some("i"), None)), Live::Present(live()));
    stopping.executions = 1;
    let rows = [
        observed(with(Some("i"), Some(locked(NOW - 10))), Live::NotAsked),
        observed(without, Live::NotAsked),
        observed(deleted(session(None)), Live::NotAsked),
        stopping,
        observed(with(None, None), Live::Absent),
        observed(with(Some("i"), Some(nonce(0))), Live::Present(live())),
        observed(with(Some("i"), Some(nonce(3))), Live::Present(live())),
        observed(deleted(with(Some("i"), None)), Live::Present(live())),
    ];
    let numbers: Vec<_> = rows.iter().map(|row| number(&decide(row).effect)).collect();
    assert_eq!(numbers, (0..rows.len()).collect::<Vec<_>>());
}

/// A row for each thing that is remembered.
#[test]
fn everything_that_is_remembered_comes_from_a_row() {
    fn number(remember: Option<&Remember>) -> usize {
        match remember {
            None => 0,
            Some(Remember::AbsentSince(_)) => 1,
            Some(Remember::Proved) => 2,
            Some(Remember::Present) => 3,
            Some(Remember::StoppingSince(_)) => 4,
            Some(Remember::Lost) => 5,
        }
    }
    let mut deleted = with(Some("i"), None);
    deleted.metadata.deletion_timestamp = Some(Time(at(1)));
    let mut stopping = observed(deleted, Live::Present(live()));
    stopping.executions = 1;
    let rows = [
        observed(session(None), Live::NotAsked),
        observed(with(Some("i"), Some(locked(NOW - 10))), Live::Absent),
        observed(with(Some("i"), Some(locked(NOW - 10))), Live::Present(live())),
        observed(with(None, None), Live::Present(live())),
        stopping,
        observed(with(Some("i"), None), Live::Present(LiveSprite { id: "j".into(), ..live() })),
    ];
    let numbers: Vec<_> = rows.iter().map(|row| number(decide(row).remember.as_ref())).collect();
    assert_eq!(numbers, (0..rows.len()).collect::<Vec<_>>());
}
