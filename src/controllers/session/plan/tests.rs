//! The parts that decisions are put together from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;

use super::*;
use crate::controllers::session::{
    fixtures::{NOW, at, live, locked, observed, session, sprite, with},
    observed::Live,
};
use api::{conditions::ConditionUpdate, reasons::SpritePhase};

fn remembered() -> SessionActivity {
    SessionActivity {
        absent_since: Some(at(NOW - 5)),
        delete_answered: true,
        reverify_requested: 4,
        reverified: 1,
        relock_requested: 7,
        relocked: 5,
        relock_cause: Some("no runner"),
        relocks_in_a_row: 2,
        unsupported_until: Some(at(NOW - 1)),
        runs: 2,
        last_active: Some(at(NOW - 3)),
        activity_written: Some(at(NOW - 2)),
        ..SessionActivity::default()
    }
}

/// What is remembered now, when the decision was made at `reverify_requested: 3` and `relock_requested: 6`.
#[rstest]
#[case(Remember::AbsentSince(at(NOW)), SessionActivity { absent_since: Some(at(NOW)), ..remembered() })]
#[case(Remember::Present, SessionActivity { absent_since: None, ..remembered() })]
#[case::runs_of_before_have_not_seen_a_loss(Remember::Lost, SessionActivity { absent_since: None, runs_before_loss: 2, unsupported_until: None, ..remembered() })]
#[case::a_doubt_during_the_proof_stays(Remember::Proved, SessionActivity { absent_since: None, reverified: 3, ..remembered() })]
#[case::a_lockdown_settles_what_was_found_lost_before_it(Remember::Locked, SessionActivity { absent_since: None, reverified: 3, relocked: 6, relocks_in_a_row: 3, unsupported_until: None, ..remembered() })]
#[case(Remember::UnsupportedUntil(at(NOW + 9)), SessionActivity { unsupported_until: Some(at(NOW + 9)), ..remembered() })]
#[case(Remember::StoppingSince(at(NOW)), SessionActivity { stopping_since: Some(at(NOW)), ..remembered() })]
fn each_thing_is_remembered_without_touching_another(#[case] remember: Remember, #[case] expected: SessionActivity) {
    let mut o = observed(session(None), Live::NotAsked);
    o.activity.reverify_requested = 3;
    (o.activity.relock_requested, o.activity.relocked) = (6, 5);
    let mut activity = remembered();
    remember.apply(&mut activity, &o);
    assert_eq!(activity, expected);
}

#[test]
fn an_obstacle_degrades_only_what_exists() {
    let phase = |status: &SandboxSessionStatus| obstructed(status, SessionReason::Held, String::new()).phase;
    assert_eq!(phase(&SandboxSessionStatus::default()), SessionPhase::Pending);
    assert_eq!(phase(&with(None, None).status.unwrap()), SessionPhase::Pending, "asked for, perhaps not there");
    assert_eq!(phase(&with(Some("i"), None).status.unwrap()), SessionPhase::Degraded);
}

#[test]
fn a_created_sprite_keeps_what_was_intended_and_takes_what_the_platform_says() {
    let mut status = with(None, None).status.unwrap();
    status.sprite.as_mut().unwrap().incarnation = 3;
    let before = StatusDraft { data_lost: Some("gone".into()), ..provisioning(&status, "creating the Sprite") };
    let url = Some("https://so-1.example".to_owned());
    let live = LiveSprite { url: url.clone(), region: Some("ams".into()), state: Some(SpritePhase::Cold), ..live() };
    let draft = created(before, live);
    assert_eq!((draft.phase, draft.reason), (SessionPhase::LockingDown, SessionReason::Provisioned));
    assert_eq!((draft.data_lost.as_deref(), draft.lockdown, draft.settled), (Some("gone"), None, false));
    let expected = SpriteStatus {
        url,
        region: Some("ams".into()),
        state: Some(SpritePhase::Cold),
        incarnation: 3,
        ..sprite(Some("i"))
    };
    assert_eq!(draft.sprite, Some(expected));
}

#[test]
fn a_full_account_keeps_the_intent_and_stays_under_way() {
    let before = provisioning(&with(None, None).status.unwrap(), "creating the Sprite");
    let draft = at_capacity(&before);
    assert_eq!((draft.phase, draft.reason), (SessionPhase::Pending, SessionReason::PlatformCapacity));
    assert_eq!((draft.sprite, draft.stalled, draft.settled), (Some(sprite(None)), false, false));
}

/// Whether a loss that was reported is still told.
#[rstest]
#[case(None, None)]
#[case(Some(false), None)]
#[case(Some(true), Some("gone"))]
fn a_loss_is_told_while_its_condition_says_so(#[case] condition: Option<bool>, #[case] expected: Option<&str>) {
    let mut status = with(Some("i"), Some(locked(NOW))).status.unwrap();
    let update = |lost| vec![ConditionUpdate::new(DATA_LOST, lost, "Lost").with_message("gone")];
    status.conditions = condition.map(|lost| status.conditions.merged(update(lost), None, at(1))).unwrap_or_default();
    let draft = keep(&status, SessionPhase::Ready, SessionReason::LockedDown, String::new());
    assert_eq!(draft.data_lost.as_deref(), expected);
    assert_eq!((draft.sprite, draft.lockdown), (status.sprite, status.lockdown));
}

#[rstest]
#[case(300, 300)]
#[case(1, 1)]
#[case(0, 1)]
#[case(-40, 1)]
#[case(i64::MIN, 1)]
fn a_look_that_is_overdue_comes_in_a_second(#[case] seconds: i64, #[case] expected: u64) {
    assert_eq!(after(seconds), Next::After(Duration::from_secs(expected)));
}

#[test]
fn seconds_are_counted_by_the_clocks_whole_seconds() {
    let then = Time(Timestamp::from_millisecond(NOW * 1000 + 999).unwrap());
    assert_eq!(since(then.0, at(NOW + 1)), 1, "what status holds is cut to whole seconds");
    assert_eq!(since(at(NOW), at(NOW - 1)), -1);
    assert_eq!(since(Timestamp::MAX, Timestamp::MIN), Timestamp::MIN.as_second() - Timestamp::MAX.as_second());
}
