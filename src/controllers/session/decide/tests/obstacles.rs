//! Each obstacle against each state of a session: nothing is made, nothing is proved, nothing is forgotten.

use super::*;

/// The first of these that stands is the one that is told.
const OBSTACLES: [(Change, SessionReason); 7] = [
    (
        |o| drop(Arc::make_mut(&mut o.session).annotations_mut().insert(HOLD_ANNOTATION.into(), String::new())),
        SessionReason::Held,
    ),
    (|o| Arc::make_mut(&mut o.session).spec.suspend = true, SessionReason::Suspended),
    (|o| o.tenant.enabled = false, SessionReason::TenantNotEnabled),
    (|o| o.switch = Switch::Off, SessionReason::SwitchOff),
    (|o| o.switch = Switch::Frozen, SessionReason::SwitchOff),
    (|o| o.policy = PolicyView::NotFound("default".into()), SessionReason::PolicyNotReady),
    (|o| o.policy = PolicyView::NotReady("default".into(), "x".into()), SessionReason::PolicyNotReady),
];

fn proved() -> SandboxSession {
    with(Some("i"), Some(locked(NOW - 100)))
}

fn untokened() -> SandboxSession {
    with(Some("i"), Some(LockdownStatus { token: None, ..locked(NOW - 100) }))
}

/// Recorded just now, three attempts ago: it would be destroyed.
fn spent() -> SandboxSession {
    let lockdown = LockdownStatus { nonce: Some("n".into()), attempts: 3, ..LockdownStatus::default() };
    with(Some("i"), Some(lockdown))
}

fn seen(state: SpritePhase, rules: Option<Vec<ReadRule>>) -> Live {
    Live::Present(LiveSprite { state: Some(state), rules, ..live() })
}

fn awake() -> Live {
    seen(SpritePhase::Running, Some(rules_as_read()))
}

fn asleep() -> Live {
    seen(SpritePhase::Warm, None)
}

/// What the obstacle comes to: its own reason, unless what was seen weighs more.
#[rstest]
#[case::nothing(session(None), Live::NotAsked, (SessionPhase::Pending, None), (None, None))]
#[case::intent(with(None, None), Live::Absent, (SessionPhase::Pending, None), (None, None))]
#[case::intent_and_no_answer(with(None, None), Live::Unknown(NoAnswer::Other("timeout")), (SessionPhase::Degraded, Some(SessionReason::PlatformUnavailable)), (None, None))]
#[case::intent_and_it_came(with(None, None), awake(), (SessionPhase::LockingDown, Some(SessionReason::Provisioned)), (Some("i"), None))]
#[case::never_locked(with(Some("i"), None), awake(), (SessionPhase::Degraded, None), (Some("i"), None))]
#[case::spent(spent(), awake(), (SessionPhase::Degraded, None), (Some("i"), None))]
#[case::proved_and_not_asked(proved(), Live::NotAsked, (SessionPhase::Degraded, None), (Some("i"), Some("i")))]
#[case::proved_and_awake(proved(), awake(), (SessionPhase::Degraded, None), (Some("i"), Some("i")))]
#[case::proved_and_asleep(proved(), asleep(), (SessionPhase::Degraded, None), (Some("i"), Some("i")))]
#[case::proved_and_no_answer(proved(), Live::Unknown(NoAnswer::NoToken), (SessionPhase::Degraded, Some(SessionReason::PlatformDenied)), (Some("i"), Some("i")))]
#[case::proved_and_absent(proved(), Live::Absent, (SessionPhase::Degraded, Some(SessionReason::PlatformUnavailable)), (Some("i"), Some("i")))]
#[case::proved_and_without_labels(proved(), Live::Present(LiveSprite { ours: false, ..live() }), (SessionPhase::Degraded, Some(SessionReason::NotOurs)), (Some("i"), Some("i")))]
#[case::proved_and_public(proved(), Live::Present(LiveSprite { private: false, ..live() }), (SessionPhase::Degraded, Some(SessionReason::LockdownLost)), (Some("i"), None))]
#[case::proved_and_replaced(proved(), Live::Present(LiveSprite { id: "j".into(), ..live() }), (SessionPhase::LockingDown, Some(SessionReason::Provisioned)), (Some("j"), None))]
#[case::untokened_and_awake(untokened(), awake(), (SessionPhase::Degraded, None), (Some("i"), None))]
#[case::untokened_and_asleep(untokened(), asleep(), (SessionPhase::Degraded, None), (Some("i"), None))]
fn an_obstacle_stops_what_would_be_done_and_keeps_what_is_known(
    #[case] session: SandboxSession,
    #[case] live: Live,
    #[case] expected: (SessionPhase, Option<SessionReason>),
    #[case] record: (Option<&str>, Option<&str>),
) {
    let verified = |lockdown: Option<&LockdownStatus>| lockdown.and_then(|l| l.verified_at.clone());
    for (change, obstacle) in OBSTACLES {
        for waited_for in [false, true] {
            let mut o = Observed { waited_for, ..observed(session.clone(), live.clone()) };
            change(&mut o);
            let plan = decide(&o);
            assert_eq!(plan.effect, Effect::Nothing, "{obstacle:?}");
            let draft = plan.report.unwrap();
            assert_eq!((draft.phase, draft.reason), (expected.0, expected.1.unwrap_or(obstacle)));
            let recorded = o.session.status.as_ref().is_some_and(|s| s.sprite.is_some());
            assert_eq!(draft.sprite.is_some(), recorded, "not even an intent");
            let id = draft.sprite.as_ref().and_then(|s| s.id.as_deref());
            let of = draft.lockdown.as_ref().and_then(|l| l.token.clone());
            assert_eq!((id, of), (record.0, record.1.map(token)), "{obstacle:?}");
            if draft.reason == obstacle {
                assert_eq!((plan.next, draft.settled), (Next::Change, true), "nothing brings it back but a change");
                let old = o.session.status.as_ref().and_then(|s| s.lockdown.as_ref());
                assert_eq!(verified(draft.lockdown.as_ref()), verified(old), "nothing is verified meanwhile");
            }
        }
    }
}

#[test]
fn the_obstacle_that_only_a_person_lifts_is_told_first() {
    for (first, (_, expected)) in OBSTACLES.iter().enumerate() {
        let mut o = observed(session(None), Live::NotAsked);
        o.name = Err("there is no secret".into());
        // Of the switch and of the policy the last change stands.
        OBSTACLES.iter().skip(first).for_each(|(change, _)| change(&mut o));
        assert_eq!(reason(&decide(&o)), *expected, "{first}");
    }
}

/// The secret is needed to name a Sprite, and for nothing that has a name.
#[rstest]
#[case(session(None), Live::NotAsked, (SessionPhase::Pending, SessionReason::SecretMissing))]
#[case(session(Some(SandboxSessionStatus::default())), Live::NotAsked, (SessionPhase::Pending, SessionReason::SecretMissing))]
#[case(proved(), Live::NotAsked, (SessionPhase::Ready, SessionReason::LockedDown))]
#[case(proved(), Live::Unknown(NoAnswer::NoToken), (SessionPhase::Degraded, SessionReason::PlatformDenied))]
#[case(with(Some("i"), None), awake(), (SessionPhase::LockingDown, SessionReason::Provisioned))]
fn a_missing_secret_stops_only_what_has_no_name_yet(
    #[case] session: SandboxSession,
    #[case] live: Live,
    #[case] expected: (SessionPhase, SessionReason),
) {
    let mut o = observed(session, live);
    o.name = Err("there is no secret".into());
    let draft = decide(&o).report.unwrap();
    assert_eq!((draft.phase, draft.reason), expected);
}

/// What was asked for stands by its recorded name, also where the name would be another one today.
#[test]
fn a_recorded_name_is_never_computed_anew() {
    for computed in [Ok("so-2".to_owned()), Err("there is no secret".to_owned())] {
        for (session, live, instance) in [(with(None, None), Live::Absent, None), (spent(), awake(), Some("i"))] {
            let o = Observed { name: computed.clone(), ..observed(session, live) };
            let (name, id) = match decide(&o).effect {
                Effect::Create { name, .. } => (name, None),
                Effect::Destroy { name, id, .. } => (name, Some(id)),
                other => panic!("{other:?}"),
            };
            assert_eq!((name.as_str(), id.as_deref()), ("so-1", instance));
        }
    }
}

/// How long the platform is left alone when it does not help, usually and while nothing could be done anyhow.
#[rstest]
#[case(proved(), Live::Unknown(NoAnswer::Other("timeout")), SessionReason::PlatformUnavailable, 3, 60)]
#[case(proved(), Live::Unknown(NoAnswer::Denied(401)), SessionReason::PlatformDenied, 3, 60)]
#[case(with(None, None), Live::Unknown(NoAnswer::NoToken), SessionReason::PlatformDenied, 3, 60)]
#[case(proved(), Live::Present(LiveSprite { ours: false, ..live() }), SessionReason::NotOurs, 60, 60)]
#[case(with(None, None), Live::Present(LiveSprite { ours: false, ..live() }), SessionReason::NotOurs, 60, 60)]
#[case(proved(), Live::Absent, SessionReason::PlatformUnavailable, 10, 10)]
fn a_platform_that_does_not_help_is_asked_again_and_nothing_is_forgotten(
    #[case] session: SandboxSession,
    #[case] live: Live,
    #[case] expected: SessionReason,
    #[case] usual: i64,
    #[case] obstructed: i64,
) {
    let nothing: Change = |_| {};
    let obstacles = OBSTACLES.map(|(change, _)| (change, obstructed));
    for (change, wait) in obstacles.into_iter().chain([(nothing, usual)]) {
        let mut o = observed(session.clone(), live.clone());
        change(&mut o);
        let plan = decide(&o);
        let (draft, old) = (plan.report.unwrap(), o.session.status.clone().unwrap());
        assert_eq!((plan.effect, plan.next, draft.reason), (Effect::Nothing, after(wait), expected));
        assert_eq!((draft.sprite, draft.lockdown), (old.sprite, old.lockdown));
        assert_eq!(draft.stalled, expected == SessionReason::NotOurs);
    }
}

/// Incarnation, and seconds since it was intended; how long it is still waited before it is asked for.
#[rstest]
#[case(0, 0, 0)]
#[case(1, 0, 1)]
#[case(1, 1, 0)]
#[case(2, 1, 1)]
#[case(2, 2, 0)]
#[case(3, 0, 4)]
#[case(3, 4, 0)]
#[case(9, 255, 1)]
#[case(9, 256, 0)]
#[case(10, 0, 300)]
#[case(10, 299, 1)]
#[case(10, 300, 0)]
#[case(u32::MAX, 0, 300)]
fn each_new_incarnation_is_waited_for_longer(#[case] incarnation: u32, #[case] age: i64, #[case] wait: i64) {
    let intended = SpriteStatus { incarnation, create_requested_at: Some(Time(at(NOW - age))), ..sprite(None) };
    let status = SandboxSessionStatus { sprite: Some(intended.clone()), ..SandboxSessionStatus::default() };
    for waited_for in [false, true] {
        let plan = decide(&Observed { waited_for, ..observed(session(Some(status.clone())), Live::Absent) });
        let (draft, next) = match plan.effect {
            Effect::Create { before, .. } => (*before, after(0)),
            _ => (plan.report.unwrap(), plan.next),
        };
        assert_eq!((draft.phase, draft.sprite.as_ref()), (SessionPhase::Provisioning, Some(&intended)));
        assert_eq!((draft.message == "creating the Sprite", next), (wait == 0, after(wait)));
    }
}

/// The newest version of the session, read before the create.
#[rstest]
#[case::as_it_was(|_: &mut SandboxSession| {}, true)]
#[case::another_version(|s: &mut SandboxSession| s.metadata.resource_version = Some("2".into()), true)]
#[case::another_session_of_that_name(|s: &mut SandboxSession| s.metadata.uid = Some("v".into()), false)]
#[case::deleted(|s: &mut SandboxSession| s.metadata.deletion_timestamp = Some(Time(at(NOW))), false)]
#[case::created_by_another_replica(|s: &mut SandboxSession| s.status = with(Some("i"), None).status, false)]
#[case::never_recorded(|s: &mut SandboxSession| s.status = None, false)]
#[case::no_sprite(|s: &mut SandboxSession| s.status = Some(SandboxSessionStatus::default()), false)]
fn a_sprite_is_asked_for_only_while_the_newest_version_says_so(
    #[case] change: fn(&mut SandboxSession),
    #[case] expected: bool,
) {
    let o = observed(with(None, None), Live::Absent);
    let mut newest = with(None, None);
    change(&mut newest);
    assert_eq!(still_intended(&o, &newest, "so-1"), expected.then(|| sprite(None)));
    assert_eq!(still_intended(&o, &newest, "so-2"), None);
}
