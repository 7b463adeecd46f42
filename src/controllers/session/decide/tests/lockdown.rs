//! When rules are applied, what is on record before, and what follows from each end of it.

use super::*;
use sprites::{Error, ExecError, LimitReason, ProviderText, TokenError};

const ALLOW: &str = "{egress: {mode: Allowlist, allow: [api.example.com]}}";

/// On record of an instance: whether it was ever proved, its nonce, its token, attempts.
fn record(used: bool, nonce: Option<&str>, token_of: Option<&str>, attempts: u32) -> LockdownStatus {
    LockdownStatus {
        token: token_of.map(token),
        nonce: nonce.map(str::to_owned),
        runner: Some(RUNNER.into()),
        applied_at: used.then(|| Time(at(NOW - 1000))),
        verified_at: used.then(|| Time(at(NOW - 1000))),
        attempts,
        ..LockdownStatus::default()
    }
}

/// What is decided of it under a policy that demands other rules than those of the tokens.
fn decided(lockdown: LockdownStatus, state: Option<SpritePhase>, waited_for: bool) -> Plan {
    let live = Live::Present(LiveSprite { state, ..live() });
    let mut o = Observed { waited_for, ..observed(with(Some("i"), Some(lockdown)), live) };
    o.policy = policy(ALLOW);
    decide(&o)
}

/// The hash of what it demands.
fn demanded() -> String {
    let PolicyView::Ready(policy) = policy(ALLOW) else { panic!("in force") };
    policy.egress.hash().to_owned()
}

fn told(plan: &Plan) -> &'static str {
    match &plan.effect {
        Effect::Lock(_) => "lock",
        Effect::Destroy { then: Then::Reprovision(_), .. } => "destroy",
        Effect::Nothing => match plan.report.as_ref().map(|draft| draft.reason) {
            Some(SessionReason::Stale) => "leave asleep",
            Some(SessionReason::Provisioned) => "record",
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

const RUNNING: Option<SpritePhase> = Some(SpritePhase::Running);
const WARM: Option<SpritePhase> = Some(SpritePhase::Warm);
const COLD: Option<SpritePhase> = Some(SpritePhase::Cold);

#[rstest]
#[case::fresh(record(false, None, None, 0), RUNNING, false, "record")]
#[case::fresh_and_asleep(record(false, None, None, 0), COLD, false, "record")]
#[case::fresh_with_nonce(record(false, Some("n"), None, 0), COLD, false, "lock")]
#[case::fresh_and_the_last_attempt(record(false, Some("n"), None, 2), WARM, false, "lock")]
#[case::fresh_and_spent(record(false, Some("n"), None, 3), WARM, false, "destroy")]
#[case::fresh_and_spent_without_nonce(record(false, None, None, 4), RUNNING, true, "destroy")]
#[case::fresh_with_a_token_that_nobody_confirmed(record(false, Some("n"), Some("i"), 0), RUNNING, true, "record")]
#[case::used_and_awake(record(true, Some("n"), None, 9), RUNNING, false, "lock")]
#[case::used_and_asleep(record(true, Some("n"), None, 9), WARM, false, "leave asleep")]
#[case::used_and_cold(record(true, Some("n"), None, 9), COLD, false, "leave asleep")]
#[case::used_in_a_state_of_tomorrow(record(true, Some("n"), None, 0), None, false, "leave asleep")]
#[case::used_and_wanted(record(true, Some("n"), None, 9), WARM, true, "lock")]
#[case::used_with_old_rules(record(true, Some("n"), Some("i"), 0), RUNNING, false, "record")]
#[case::used_with_old_rules_and_asleep(record(true, Some("n"), Some("i"), 0), WARM, false, "leave asleep")]
#[case::used_with_old_rules_and_wanted(record(true, Some("n"), Some("i"), 0), WARM, true, "record")]
#[case::used_and_its_nonce_is_gone(record(true, None, None, 0), RUNNING, false, "record")]
fn rules_move_only_with_a_nonce_and_without_a_token_on_record(
    #[case] lockdown: LockdownStatus,
    #[case] state: Option<SpritePhase>,
    #[case] waited_for: bool,
    #[case] expected: &str,
) {
    let plan = decided(lockdown.clone(), state, waited_for);
    assert_eq!(told(&plan), expected);
    let draft = match &plan.effect {
        Effect::Lock(lock) => {
            assert_eq!(
                (lock.name.as_str(), lock.id.as_str(), Some(&lock.nonce)),
                ("so-1", "i", lockdown.nonce.as_ref())
            );
            assert_eq!(lock.rules.hash(), demanded(), "what the policy demands now");
            &lock.before
        }
        Effect::Destroy { then: Then::Reprovision(before), .. } => before,
        _ => plan.report.as_ref().unwrap(),
    };
    let kept = draft.lockdown.clone().unwrap();
    // Leaving it asleep needs no nonce; whatever else is done has the recorded one, or a new one on record first.
    let nonce = lockdown.nonce.clone().or_else(|| (expected == "record").then(|| "fresh-nonce".to_owned()));
    assert_eq!(kept, LockdownStatus { token: None, egress_hash: None, nonce, ..lockdown });
}

#[test]
fn without_the_platforms_answer_nothing_is_applied() {
    let o = observed(with(Some("i"), Some(record(true, Some("n"), None, 0))), Live::NotAsked);
    assert_eq!(decide(&o), Plan::without_report(Effect::Nothing, after(1)));
}

pub(super) fn lock(o: &Observed, lockdown: LockdownStatus) -> Lock {
    let before = StatusDraft {
        lockdown: Some(lockdown),
        data_lost: Some("gone".into()),
        ..degraded(o.session.status.as_ref().unwrap(), SessionReason::Provisioned, String::new())
    };
    let rules = Ruleset::deny_all();
    Lock { name: "so-1".into(), id: "i".into(), nonce: "n".into(), rules, policy: ("default".into(), 7), before }
}

fn limited(seconds: Option<u64>) -> LockFailure {
    let (retry_after, message) = (seconds.map(Duration::from_secs), ProviderText::default());
    LockFailure::Platform(Error::RateLimited { retry_after, reason: LimitReason::Other, message })
}

fn denied() -> LockFailure {
    LockFailure::Platform(Error::Denied { status: 403, message: ProviderText::default() })
}

/// Its reason, and attempts and pause in milliseconds: of a fresh instance after two attempts, and of a used one.
#[rstest]
#[case(LockFailure::Differs(vec!["missing: deny *".into()]), SessionReason::RulesDiffer, (3, 500), 5000)]
#[case(LockFailure::UrlPublic, SessionReason::UrlPublic, (3, 500), 5000)]
#[case(LockFailure::Guest("no shell"), SessionReason::PlatformUnavailable, (3, 500), 5000)]
#[case(LockFailure::Replaced, SessionReason::PlatformUnavailable, (2, 5000), 5000)]
#[case(denied(), SessionReason::PlatformDenied, (2, 5000), 5000)]
#[case(LockFailure::Platform(TokenError::Empty.into()), SessionReason::PlatformDenied, (2, 5000), 5000)]
#[case(LockFailure::Platform(Error::Ended), SessionReason::PlatformUnavailable, (2, 5000), 5000)]
#[case(limited(None), SessionReason::PlatformUnavailable, (2, 5000), 5000)]
#[case(limited(Some(17)), SessionReason::PlatformUnavailable, (2, 17_000), 17_000)]
#[case(LockFailure::Exec(ExecError::Unknown(Error::Ended)), SessionReason::PlatformUnavailable, (2, 5000), 5000)]
fn a_lockdown_that_fails_counts_only_against_a_fresh_instance(
    #[case] failure: LockFailure,
    #[case] reason: SessionReason,
    #[case] fresh: (u32, u64),
    #[case] used: u64,
) {
    for (lockdown, (attempts, pause)) in
        [(record(false, Some("n"), None, 2), fresh), (record(true, Some("n"), None, 2), (2, used))]
    {
        let o = observed(with(Some("i"), Some(lockdown.clone())), Live::Present(live()));
        let plan = after_lock(&o, lock(&o, lockdown.clone()), Err(&failure));
        assert_eq!((plan.effect, plan.remember), (Effect::Nothing, None), "a doubt is not settled by a failure");
        assert_eq!(plan.next, Next::After(Duration::from_millis(pause)));
        let draft = plan.report.unwrap();
        assert_eq!((draft.phase, draft.reason, draft.message), (SessionPhase::Degraded, reason, failure.to_string()));
        assert_eq!(
            (draft.sprite, draft.lockdown),
            (Some(sprite(Some("i"))), Some(LockdownStatus { attempts, ..lockdown }))
        );
        assert_eq!((draft.data_lost.as_deref(), draft.stalled, draft.settled), (Some("gone"), false, false));
    }
}

#[test]
fn a_lockdown_that_succeeds_records_what_was_confirmed_and_when() {
    let o = observed(with(Some("i"), None), Live::Present(LiveSprite { state: COLD, ..live() }));
    let read = LiveSprite { rules: Some(rules_as_read()), ..live() };
    let confirmed = Confirmed::of(&Ruleset::deny_all(), read.as_read()).unwrap();
    let before = LockdownStatus { runner: None, ..record(false, Some("n"), None, 2) };
    let mut lock = lock(&o, before);
    lock.before.sprite.as_mut().unwrap().state = COLD;
    let plan = after_lock(&o, lock, Ok(confirmed));
    assert_eq!((plan.next, plan.remember), (after(300), Some(Remember::Locked)));
    let draft = plan.report.unwrap();
    assert_eq!((draft.phase, draft.sprite.unwrap().state), (SessionPhase::Ready, RUNNING), "it was woken for it");
    let lockdown = draft.lockdown.unwrap();
    assert_eq!((lockdown.token, lockdown.attempts), (Some(token("i")), 0));
    assert_eq!(lockdown.runner.as_deref(), Some(RUNNER));
    assert_eq!(lockdown.egress_hash.as_deref(), Some(Ruleset::deny_all().hash()));
    assert_eq!((lockdown.policy_name.as_deref(), lockdown.policy_generation), (Some("default"), Some(7)));
    assert_eq!((lockdown.applied_at, lockdown.verified_at), (Some(Time(at(NOW))), Some(Time(at(NOW)))));
    assert_eq!((lockdown.nonce.as_deref(), draft.data_lost.as_deref()), (Some("n"), Some("gone")));
}

#[test]
fn a_fresh_instance_that_was_destroyed_is_no_loss_and_leaves_no_proof() {
    let o = observed(with(Some("i"), Some(record(false, Some("n"), None, 3))), Live::Present(live()));
    for told in [None, Some("gone before")] {
        let mut before = lock(&o, record(false, Some("n"), None, 3)).before;
        before.data_lost = told.map(str::to_owned);
        before.sprite.as_mut().unwrap().incarnation = 4;
        let plan = after_destroy(&o, &before);
        let draft = plan.report.unwrap();
        let again = SpriteStatus {
            name: "so-1".into(),
            incarnation: 5,
            create_requested_at: Some(Time(at(NOW))),
            ..SpriteStatus::default()
        };
        assert_eq!((draft.sprite, draft.lockdown, draft.data_lost.as_deref()), (Some(again), None, told));
        assert_eq!((plan.effect, plan.next), (Effect::Nothing, Next::Change));
    }
}
