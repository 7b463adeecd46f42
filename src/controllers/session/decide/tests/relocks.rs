//! A runner that is not the operator's, one that cannot be executed, and lockdowns that Runs find lost.

use super::*;
use crate::controllers::session::status;

const UPGRADED: &str = "the operator's runner changed; it is put into the Sprite on next use";
const CHANGED: &str = "the policy changed; egress rules will be re-applied on next use";
const OTHER: &str = "the Sprite is not locked down; it will be on next use";

fn with_runner(runner: Option<&str>) -> LockdownStatus {
    LockdownStatus { runner: runner.map(str::to_owned), ..locked(NOW - 10) }
}

fn seen(state: SpritePhase) -> Live {
    let rules = (state == SpritePhase::Running).then(rules_as_read);
    Live::Present(LiveSprite { state: Some(state), rules, ..live() })
}

/// The token is gone before anything is put into the Sprite, and the old runner is on record until the new one is there.
#[rstest]
#[case::of_an_operator_without_one(None)]
#[case::another(Some("q"))]
fn another_runner_is_replaced_when_the_sprite_is_awake_or_wanted(#[case] runner: Option<&str>) {
    let told = LockdownStatus { token: None, egress_hash: None, ..with_runner(runner) };
    for (state, waited_for) in [(SpritePhase::Running, false), (SpritePhase::Warm, true), (SpritePhase::Cold, true)] {
        let session = with(Some("i"), Some(with_runner(runner)));
        let plan = decide(&Observed { waited_for, ..observed(session, seen(state)) });
        let draft = plan.report.unwrap();
        assert_eq!((plan.effect, draft.reason), (Effect::Nothing, SessionReason::Provisioned));
        assert_eq!(draft.lockdown.as_ref(), Some(&told));
        let plan = decide(&Observed { waited_for, ..observed(with(Some("i"), draft.lockdown), seen(state)) });
        let Effect::Lock(lock) = plan.effect else { panic!("{:?}", plan.effect) };
        assert_eq!(lock.before.lockdown.as_ref(), Some(&told));
    }
}

/// The message is the same at the second look, when the token is gone.
#[rstest]
#[case::another_runner(with_runner(Some("q")), "{}", UPGRADED)]
#[case::another_policy(with_runner(Some(RUNNER)), "{egress: {mode: Allowlist, allow: [api.example.com]}}", CHANGED)]
#[case::both(with_runner(None), "{egress: {mode: Allowlist, allow: [api.example.com]}}", UPGRADED)]
#[case::no_token(LockdownStatus { token: None, ..with_runner(Some(RUNNER)) }, "{}", OTHER)]
#[case::a_token_of_another(LockdownStatus { token: Some(token("j")), ..with_runner(Some(RUNNER)) }, "{}", OTHER)]
fn a_sprite_that_sleeps_is_left_asleep_and_says_what_changed(
    #[case] lockdown: LockdownStatus,
    #[case] spec: &str,
    #[case] message: &str,
) {
    let mut session = with(Some("i"), Some(lockdown));
    for look in 0..3 {
        let o = Observed { policy: policy(spec), ..observed(session.clone(), seen(SpritePhase::Warm)) };
        let plan = decide(&o);
        assert_eq!((&plan.effect, plan.next), (&Effect::Nothing, Next::Change));
        let draft = plan.report.unwrap();
        assert_eq!((draft.reason, draft.message.as_str()), (SessionReason::Stale, message), "look {look}");
        let lockdown = draft.lockdown.as_ref().unwrap();
        assert!(lockdown.token.is_none() && lockdown.nonce.is_some());
        session.status = Some(status::report(&o, draft, o.now));
    }
}

#[rstest]
#[case::fresh(LockdownStatus { nonce: Some("n".into()), attempts: 2, ..LockdownStatus::default() })]
#[case::used(LockdownStatus { token: None, ..with_runner(Some("q")) })]
fn a_sprite_that_cannot_execute_the_runner_is_kept_and_tried_again_in_five_minutes(#[case] lockdown: LockdownStatus) {
    let failure = LockFailure::UnsupportedPlatform;
    let mut o = observed(with(Some("i"), Some(lockdown.clone())), Live::Present(live()));
    let Effect::Lock(lock) = decide(&o).effect else { panic!("it is tried") };
    let plan = after_lock(&o, *lock, Err(&failure));
    assert_eq!((plan.next, plan.remember), (after(300), Some(Remember::UnsupportedUntil(at(NOW + 300)))));
    let mut activity = o.activity.clone();
    plan.remember.unwrap().apply(&mut activity, &o);
    o.activity = activity;
    let first = plan.report.unwrap();
    assert_eq!((first.reason, first.stalled), (SessionReason::UnsupportedPlatform, true));
    assert_eq!(first.lockdown.as_ref(), Some(&lockdown), "no attempt counts");
    // Whoever wakes it meanwhile, a Run that waits or our own write.
    o.waited_for = true;
    for (second, left) in [(0, 300), (1, 299), (299, 1)] {
        o.now = at(NOW + second);
        let plan = decide(&o);
        assert_eq!((plan.effect, plan.next), (Effect::Nothing, after(left)));
        let draft = plan.report.unwrap();
        let told = |draft: &StatusDraft| (draft.phase, draft.reason, draft.message.clone(), draft.stalled);
        assert_eq!(told(&draft), told(&first), "nothing new is written");
        assert_eq!(draft.lockdown.as_ref(), Some(&lockdown));
    }
    o.now = at(NOW + 300);
    assert!(matches!(decide(&o).effect, Effect::Lock(_)));
}

/// Whatever the platform says, and whatever stands in the way.
#[test]
fn a_lockdown_that_a_run_found_lost_is_taken_back_at_once() {
    let obstacles: [Change; 3] = [|_| {}, |o| o.switch = Switch::Off, |o| o.policy = PolicyView::NotFound("p".into())];
    let lives = [
        Live::NotAsked,
        Live::Absent,
        Live::Unknown(NoAnswer::NoToken),
        seen(SpritePhase::Running),
        seen(SpritePhase::Cold),
    ];
    for (obstacle, live) in obstacles.into_iter().flat_map(|obstacle| lives.iter().map(move |live| (obstacle, live))) {
        let mut o = observed(with(Some("i"), Some(locked(NOW - 10))), live.clone());
        obstacle(&mut o);
        o.activity.request_relock("the runner is not there");
        let plan = decide(&o);
        assert_eq!((plan.effect, plan.remember, plan.next), (Effect::Nothing, None, after(1)));
        let draft = plan.report.unwrap();
        assert_eq!((draft.phase, draft.reason), (SessionPhase::Degraded, SessionReason::LockdownLost));
        assert_eq!(draft.message, "the lockdown no longer holds: the runner is not there");
        assert_eq!(draft.lockdown, Some(LockdownStatus { token: None, ..locked(NOW - 10) }));
    }
    // A deletion comes first, and there is nothing to take back where nothing is on record.
    let mut o = observed(deleted(with(Some("i"), Some(locked(NOW - 10)))), seen(SpritePhase::Running));
    o.activity.request_relock("the runner is not there");
    assert!(matches!(decide(&o).effect, Effect::Destroy { .. }));
    let mut o = observed(with(None, None), Live::Absent);
    o.activity.request_relock("the runner is not there");
    assert!(matches!(decide(&o).effect, Effect::Create { .. }));
}

fn untokened(applied: i64) -> LockdownStatus {
    LockdownStatus { token: None, applied_at: Some(Time(at(applied))), ..locked(NOW - 10) }
}

/// How many lockdowns in a row Runs found lost, seconds since the last, and how long it is still waited.
#[rstest]
#[case(0, 0, 0)]
#[case(19, 0, 0)]
#[case(20, 0, 5)]
#[case(20, 4, 1)]
#[case(20, 5, 0)]
#[case(21, 0, 10)]
#[case(25, 0, 160)]
#[case(26, 0, 300)]
#[case(u32::MAX, 0, 300)]
#[case(u32::MAX, 300, 0)]
fn lockdowns_that_are_lost_in_a_row_are_made_less_often(#[case] times: u32, #[case] ago: i64, #[case] wait: i64) {
    let mut o = observed(with(Some("i"), Some(untokened(NOW - ago))), seen(SpritePhase::Running));
    o.activity.request_relock("the runner is not there");
    o.activity.relocks_in_a_row = times;
    let plan = decide(&o);
    if wait == 0 {
        assert!(matches!(plan.effect, Effect::Lock(_)), "{plan:?}");
        return;
    }
    assert_eq!((plan.effect, plan.next), (Effect::Nothing, after(wait)));
    let draft = plan.report.unwrap();
    assert_eq!((draft.phase, draft.reason), (SessionPhase::Degraded, SessionReason::LockdownLost));
    assert!(draft.message.contains("the runner is not there"), "{}", draft.message);
    // A countdown would be a write each second.
    o.now = at(NOW + wait - 1);
    assert_eq!(decide(&o).report.unwrap().message, draft.message);
    // A Run that started says that it holds; nobody who asks: another cause.
    o.activity.lockdown_held();
    assert!(matches!(decide(&o).effect, Effect::Lock(_)));
    o.activity = SessionActivity { relocks_in_a_row: times, ..SessionActivity::default() };
    assert!(matches!(decide(&o).effect, Effect::Lock(_)));
}

/// The whole way, again and again: found lost, taken back, locked, and found lost by the next Run.
#[test]
fn twenty_lockdowns_are_made_at_once_and_then_fewer_until_a_run_starts() {
    let (mut now, mut session) = (NOW, with(Some("i"), Some(locked(NOW - 10))));
    let mut activity = SessionActivity::default();
    let mut pauses = Vec::new();
    for _ in 0..30 {
        activity.request_relock("the runner is not there");
        let began = now;
        loop {
            let mut o = observed(session.clone(), seen(SpritePhase::Running));
            (o.activity, o.now) = (activity.clone(), at(now));
            let mut plan = decide(&o);
            if let Effect::Lock(lock) = plan.effect {
                let live = LiveSprite { rules: Some(rules_as_read()), ..live() };
                plan = after_lock(&o, *lock, Ok(Confirmed::of(&Ruleset::deny_all(), live.as_read()).unwrap()));
            } else if let (Next::After(wait), true) = (plan.next, activity.needs_relock().is_some()) {
                now += i64::try_from(wait.as_secs()).unwrap();
            }
            if let Some(remember) = plan.remember {
                remember.apply(&mut activity, &o);
            }
            session.status = Some(status::report(&o, plan.report.unwrap(), o.now));
            if activity.needs_relock().is_none() {
                break;
            }
        }
        pauses.push(now - began);
    }
    assert_eq!(pauses[..20], [1; 20]);
    assert_eq!(pauses[20..28], [5, 10, 20, 40, 80, 160, 300, 300]);
    activity.lockdown_held();
    assert_eq!(activity.relocks_in_a_row, 0);
}

#[test]
fn what_a_run_found_while_a_lockdown_was_made_brings_about_another() {
    let mut o = observed(with(Some("i"), Some(untokened(NOW - 10))), seen(SpritePhase::Running));
    o.activity.request_relock("the runner is not there");
    let mut activity = o.activity.clone();
    activity.request_relock("the nonce is another one");
    Remember::Locked.apply(&mut activity, &o);
    assert_eq!((activity.needs_relock(), activity.relocks_in_a_row), (Some("the nonce is another one"), 1));
    o.activity = activity.clone();
    Remember::Locked.apply(&mut activity, &o);
    assert_eq!((activity.needs_relock(), activity.relocks_in_a_row), (None, 2));
    // A lockdown for another reason is none that was lost.
    o.activity = activity.clone();
    Remember::Locked.apply(&mut activity, &o);
    assert_eq!(activity.relocks_in_a_row, 2);
}
