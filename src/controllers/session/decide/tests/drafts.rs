//! What is said of a session whose Sprite is there, was replaced, or was lost.

use super::*;
use crate::controllers::session::{plan::keep, status};
use api::SandboxSessionStatus;

/// A session with files that were lost, as its own report says so.
fn with_loss(session: SandboxSession) -> SandboxSession {
    let old = session.status.clone().unwrap();
    let draft = keep(&old, SessionPhase::Ready, SessionReason::LockedDown, String::new());
    let lost = StatusDraft { data_lost: Some("gone".into()), ..draft };
    let status = status::report(&observed(session.clone(), Live::NotAsked), lost, at(NOW - 50));
    SandboxSession { status: Some(status), ..session }
}

fn proved() -> SandboxSession {
    with(Some("i"), Some(locked(NOW - 100)))
}

fn seen(state: Option<SpritePhase>, read: bool) -> Live {
    Live::Present(LiveSprite { state, rules: read.then(rules_as_read), ..live() })
}

const RUNNING: Option<SpritePhase> = Some(SpritePhase::Running);

/// Seconds since it was verified before; seconds since it is verified now, and until the next look.
#[rstest]
#[case::not_asked(Live::NotAsked, 299, (299, 1))]
#[case::awake_and_not_read(seen(RUNNING, false), 299, (299, 1))]
#[case::awake_and_not_read_though_due(seen(RUNNING, false), 400, (400, 1))]
#[case::read(seen(RUNNING, true), 100, (0, 300))]
#[case::read_so_soon_that_a_write_is_not_worth_it(seen(RUNNING, true), 29, (29, 271))]
#[case::read_thirty_seconds_later(seen(RUNNING, true), 30, (0, 300))]
#[case::the_clock_went_back(seen(RUNNING, true), -60, (-60, 360))]
#[case::asleep_what_was_proved_stands(seen(Some(SpritePhase::Warm), false), 300, (0, 300))]
#[case::cold_what_was_proved_stands(seen(Some(SpritePhase::Cold), false), 300, (0, 300))]
fn a_proof_is_as_old_as_what_was_read(#[case] live: Live, #[case] before: i64, #[case] expected: (i64, i64)) {
    let (verified, next) = expected;
    let plan = decide(&observed(with(Some("i"), Some(locked(NOW - before))), live));
    assert_eq!(plan.next, after(next));
    assert_eq!(plan.report.unwrap().lockdown, Some(locked(NOW - verified)));
}

#[test]
fn a_short_interval_is_kept_also_by_what_is_written() {
    let mut o = observed(with(Some("i"), Some(locked(NOW - 10))), seen(RUNNING, true));
    o.timing.verify_interval = 10;
    let plan = decide(&o);
    assert_eq!((plan.next, plan.report.unwrap().lockdown), (after(10), Some(locked(NOW))));
}

#[rstest]
#[case(Live::NotAsked, SessionPhase::Ready, None)]
#[case(seen(RUNNING, true), SessionPhase::Ready, Some(Remember::Proved))]
#[case(seen(Some(SpritePhase::Warm), false), SessionPhase::Hibernated, Some(Remember::Proved))]
#[case(seen(Some(SpritePhase::Cold), false), SessionPhase::Hibernated, Some(Remember::Proved))]
#[case::a_state_of_tomorrow(seen(None, false), SessionPhase::Ready, Some(Remember::Proved))]
fn a_proved_session_is_ready_or_asleep(
    #[case] live: Live,
    #[case] phase: SessionPhase,
    #[case] remember: Option<Remember>,
) {
    let plan = decide(&observed(proved(), live.clone()));
    let draft = plan.report.unwrap();
    assert_eq!((draft.phase, plan.remember), (phase, remember));
    let state = if let Live::Present(live) = live { live.state } else { RUNNING };
    assert_eq!(draft.sprite.unwrap().state, state);
}

/// Runs that started and are not written yet, and how many of these started before the files were lost.
#[rstest]
#[case::nobody_came(0, 0, true)]
#[case::a_run_came(1, 0, false)]
#[case::those_of_before_have_not_seen_it(2, 2, true)]
#[case::another_came(3, 2, false)]
fn a_loss_is_told_until_a_run_has_started_since(#[case] runs: u64, #[case] before: u64, #[case] told: bool) {
    let lives = [
        Live::NotAsked,
        seen(RUNNING, true),
        Live::Unknown(NoAnswer::NoToken),
        Live::Absent,
        Live::Present(LiveSprite { private: false, ..live() }),
        Live::Present(LiveSprite { ours: false, ..live() }),
    ];
    for live in lives {
        let mut o = observed(with_loss(proved()), live);
        (o.activity.runs, o.activity.runs_before_loss) = (runs, before);
        assert_eq!(decide(&o).report.unwrap().data_lost.as_deref(), told.then_some("gone"), "{:?}", o.live);
    }
}

/// The whole way: a Run started shortly before its Sprite was lost, and its start is not written yet.
#[test]
fn a_run_from_before_a_loss_does_not_hide_it() {
    for live in [Live::Absent, Live::Present(LiveSprite { id: "j".into(), ..live() })] {
        let mut o = observed(proved(), live);
        o.activity = SessionActivity {
            runs: 1,
            last_active: Some(at(NOW - 15)),
            activity_written: Some(at(NOW - 20)),
            absent_since: Some(at(NOW - 10)),
            ..SessionActivity::default()
        };
        let plan = decide(&o);
        let mut activity = o.activity.clone();
        plan.remember.unwrap().apply(&mut activity, &o);
        o.activity = activity;
        let status = status::report(&o, plan.report.unwrap(), o.now);
        assert_eq!(o.activity.absent_since, None);
        // Created, locked down and proved at once; the loss is still there to be seen.
        let lost = SandboxSessionStatus { sprite: Some(sprite(Some("i"))), lockdown: Some(locked(NOW)), ..status };
        let mut again = Observed { activity: o.activity.clone(), ..observed(session(Some(lost)), seen(RUNNING, true)) };
        assert!(decide(&again).report.unwrap().data_lost.is_some());
        // Also when the old start is written meanwhile.
        again.now = at(NOW + 10);
        assert!(status::activity_due(&again));
        let mut activity = again.activity.clone();
        status::activity_written(&again, &mut activity);
        again.activity = activity;
        assert!(decide(&again).report.unwrap().data_lost.is_some());
        again.activity.runs += 1;
        assert_eq!(decide(&again).report.unwrap().data_lost, None);
    }
}

/// What is adopted, under an intent or in place of the recorded instance.
#[rstest]
#[case::under_an_intent(with(None, None), 0, Some("gone"))]
#[case::in_its_place(proved(), 1, Some("the platform replaced the Sprite"))]
fn what_is_adopted_is_taken_as_the_platform_shows_it(
    #[case] session: SandboxSession,
    #[case] incarnation: u32,
    #[case] data_lost: Option<&str>,
) {
    let url = Some("https://so-1.example".to_owned());
    let found = LiveSprite {
        id: "j".into(),
        url: url.clone(),
        region: Some("ams".into()),
        state: Some(SpritePhase::Warm),
        private: false,
        rules: Some(rules_as_read()),
        ..live()
    };
    let plan = decide(&observed(with_loss(session), Live::Present(found)));
    let draft = plan.report.unwrap();
    let adopted = SpriteStatus {
        url,
        region: Some("ams".into()),
        state: Some(SpritePhase::Warm),
        incarnation,
        ..sprite(Some("j"))
    };
    assert_eq!((draft.sprite, draft.data_lost.as_deref()), (Some(adopted), data_lost));
    assert_eq!(draft.lockdown, None, "rules that look right prove nothing of an instance that was never locked down");
    assert_eq!((plan.effect, plan.next), (Effect::Nothing, Next::Change));
}

/// Seconds since the recorded Sprite was first not found.
#[rstest]
#[case(None, Some((0, 10)))]
#[case(Some(0), Some((0, 10)))]
#[case(Some(9), Some((9, 1)))]
#[case(Some(10), None)]
#[case(Some(11), None)]
#[case::the_clock_went_back(Some(-5), Some((-5, 15)))]
fn an_absence_counts_from_its_first_look(#[case] ago: Option<i64>, #[case] expected: Option<(i64, i64)>) {
    let mut o = observed(proved(), Live::Absent);
    o.activity.absent_since = ago.map(|ago| at(NOW - ago));
    let plan = decide(&o);
    let draft = plan.report.unwrap();
    if let Some((since, next)) = expected {
        assert_eq!((plan.remember, plan.next), (Some(Remember::AbsentSince(at(NOW - since))), after(next)));
        assert_eq!((draft.sprite, draft.lockdown), (Some(sprite(Some("i"))), Some(locked(NOW - 100))));
        assert_eq!(draft.data_lost, None, "not before it is believed");
    } else {
        assert_eq!((draft.phase, draft.lockdown, plan.next), (SessionPhase::Provisioning, None, Next::Change));
        let intended = SpriteStatus {
            name: "so-1".into(),
            incarnation: 1,
            create_requested_at: Some(Time(at(NOW))),
            ..SpriteStatus::default()
        };
        assert_eq!(draft.sprite, Some(intended));
        assert!(draft.data_lost.is_some());
    }
}
