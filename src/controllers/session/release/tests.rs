//! Every cell of a release: what is recorded, what the platform says, what was seen and answered before.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use rstest::rstest;

use super::*;
use crate::{
    controllers::{
        session::{
            fixtures::{NOW, at, deleted, live, locked, observed, session, with},
            observed::NoAnswer,
        },
        state::session_activity::SessionActivity,
    },
    lockdown::instance::LiveSprite,
};
use api::{
    SandboxSessionStatus,
    conditions::{ConditionUpdate, DATA_LOST},
};

fn seen(id: &str, ours: bool) -> Live {
    Live::Present(LiveSprite { id: id.into(), ours, ..live() })
}

/// An absence seen so many seconds ago, and a DELETE of ours that was answered.
fn ago(seconds: i64) -> SessionActivity {
    SessionActivity { absent_since: Some(at(NOW - seconds)), ..SessionActivity::default() }
}

fn answered() -> SessionActivity {
    SessionActivity { delete_answered: true, ..SessionActivity::default() }
}

fn first() -> SessionActivity {
    SessionActivity::default()
}

/// A session that is being deleted, whose Sprite was asked for so many seconds ago.
fn asked(id: Option<&str>, requested: i64, live: Live, activity: SessionActivity) -> Observed {
    let mut session = deleted(with(id, Some(locked(NOW - 10))));
    let status = session.status.get_or_insert_default();
    status.sprite.as_mut().unwrap().create_requested_at = Some(Time(at(NOW - requested)));
    status.conditions =
        status.conditions.merged(vec![ConditionUpdate::new(DATA_LOST, true, "Lost").with_message("gone")], None, at(1));
    Observed { activity, ..observed(session, live) }
}

/// The decision in short: what is done, or what is waited for and how long.
fn told(plan: &Plan) -> String {
    let next = match plan.next {
        Next::Change => String::new(),
        Next::After(wait) => format!(" in {wait:?}"),
    };
    let word = match (&plan.effect, &plan.report, plan.remember) {
        (Effect::RemoveFinalizer, None, None) => "let go".to_owned(),
        (Effect::Destroy { name, id, then: Then::Release }, Some(_), Some(Remember::Present)) => {
            format!("destroy {name} {id}")
        }
        (Effect::StopRuns, Some(_), Some(Remember::StoppingSince(then))) => {
            format!("stop since {}", NOW - then.as_second())
        }
        (Effect::Nothing, None, None) => "look".to_owned(),
        (Effect::Nothing, Some(draft), None) => draft.reason.as_str().to_owned(),
        (Effect::Nothing, Some(_), Some(Remember::AbsentSince(then))) => {
            format!("confirm since {}", NOW - then.as_second())
        }
        (Effect::Nothing, Some(_), Some(Remember::Present)) => "may come".to_owned(),
        other => panic!("{other:?}"),
    };
    word + &next
}

#[rstest]
#[case::not_asked(Live::NotAsked, first(), "look in 1s")]
#[case::token_rejected(Live::Unknown(NoAnswer::Denied(401)), first(), "PlatformDenied in 3s")]
#[case::no_token(Live::Unknown(NoAnswer::NoToken), answered(), "PlatformDenied in 3s")]
#[case::no_answer(Live::Unknown(NoAnswer::Other("timeout")), first(), "PlatformUnavailable in 3s")]
#[case::no_answer_after_our_delete(Live::Unknown(NoAnswer::Other("timeout")), answered(), "PlatformUnavailable in 3s")]
#[case::no_answer_after_an_absence(Live::Unknown(NoAnswer::Other("timeout")), ago(500), "PlatformUnavailable in 3s")]
#[case::absent_for_the_first_time(Live::Absent, first(), "confirm since 0 in 10s")]
#[case::absent_again_a_second_early(Live::Absent, ago(9), "confirm since 9 in 1s")]
#[case::absent_again(Live::Absent, ago(10), "let go")]
#[case::absent_long_since(Live::Absent, ago(500), "let go")]
#[case::absent_and_the_clock_went_back(Live::Absent, ago(-5), "confirm since -5 in 15s")]
#[case::absent_after_our_delete(Live::Absent, answered(), "let go")]
#[case::ours(seen("i", true), first(), "destroy so-1 i in 200ms")]
#[case::ours_after_our_delete(seen("i", true), answered(), "destroy so-1 i in 200ms")]
#[case::ours_after_an_absence(seen("i", true), ago(500), "destroy so-1 i in 200ms")]
#[case::another_instance_with_our_labels(seen("j", true), first(), "destroy so-1 j in 200ms")]
#[case::our_instance_without_labels(seen("i", false), first(), "NotOurs in 30s")]
#[case::our_instance_without_labels_after_our_delete(seen("i", false), answered(), "NotOurs in 30s")]
#[case::our_instance_without_labels_after_an_absence(seen("i", false), ago(500), "NotOurs in 30s")]
#[case::somebody_elses(seen("j", false), first(), "confirm since 0 in 10s")]
#[case::somebody_elses_a_second_early(seen("j", false), ago(9), "confirm since 9 in 1s")]
#[case::somebody_elses_again(seen("j", false), ago(10), "let go")]
#[case::somebody_elses_after_our_delete(seen("j", false), answered(), "let go")]
fn a_recorded_instance_is_destroyed_and_its_end_confirmed(
    #[case] live: Live,
    #[case] activity: SessionActivity,
    #[case] expected: &str,
) {
    // However long ago it was asked for: it came.
    for requested in [0, 500] {
        let plan = release(&asked(Some("i"), requested, live.clone(), activity.clone()));
        assert_eq!(told(&plan), expected);
    }
}

/// Seconds since it was asked for; its grace is 120.
#[rstest]
#[case::not_asked(5, Live::NotAsked, first(), "look in 1s")]
#[case::no_answer(500, Live::Unknown(NoAnswer::Other("timeout")), answered(), "PlatformUnavailable in 3s")]
#[case::denied(500, Live::Unknown(NoAnswer::Denied(403)), ago(500), "PlatformDenied in 3s")]
#[case::it_came(5, seen("i", true), first(), "destroy so-1 i in 200ms")]
#[case::it_came_late(500, seen("i", true), ago(500), "destroy so-1 i in 200ms")]
#[case::just_asked_for(0, Live::Absent, first(), "may come in 10s")]
#[case::a_long_wait_is_cut(109, Live::Absent, first(), "may come in 10s")]
#[case::nearly_over(111, Live::Absent, first(), "may come in 9s")]
#[case::a_second_early(119, Live::Absent, first(), "may come in 1s")]
#[case::looks_of_the_wait_do_not_count(119, Live::Absent, ago(119), "may come in 1s")]
#[case::over(120, Live::Absent, first(), "confirm since 0 in 10s")]
#[case::over_and_confirmed_a_second_early(129, Live::Absent, ago(9), "confirm since 9 in 1s")]
#[case::over_and_confirmed(130, Live::Absent, ago(10), "let go")]
#[case::one_came_and_was_destroyed_and_another_may(5, Live::Absent, answered(), "may come in 10s")]
#[case::one_came_and_was_destroyed_and_no_other_can(120, Live::Absent, answered(), "let go")]
#[case::the_name_is_taken(5, seen("j", false), first(), "may come in 10s")]
#[case::the_name_is_taken_and_grace_is_over(120, seen("j", false), first(), "confirm since 0 in 10s")]
#[case::the_name_stays_taken(130, seen("j", false), ago(10), "let go")]
#[case::the_clock_went_back(-60, Live::Absent, first(), "may come in 10s")]
fn an_intent_is_let_go_when_nothing_can_come_of_it_any_more(
    #[case] requested: i64,
    #[case] live: Live,
    #[case] activity: SessionActivity,
    #[case] expected: &str,
) {
    assert_eq!(told(&release(&asked(None, requested, live, activity))), expected);
}

#[rstest]
#[case::none(0, None, "destroy so-1 i in 200ms")]
#[case::none_any_more(0, Some(1), "destroy so-1 i in 200ms")]
#[case::not_told_yet(2, None, "stop since 0 in 500ms")]
#[case::a_second_early(2, Some(STOPPING - 1), "stop since 14 in 500ms")]
#[case::they_had_their_time(2, Some(STOPPING), "destroy so-1 i in 200ms")]
fn runs_are_told_to_stop_and_given_their_time(
    #[case] executions: usize,
    #[case] told_ago: Option<i64>,
    #[case] expected: &str,
) {
    let stopping_since = told_ago.map(|seconds| at(NOW - seconds));
    let o = asked(Some("i"), 5, seen("i", true), SessionActivity { stopping_since, ..first() });
    assert_eq!(told(&release(&Observed { executions, ..o })), expected);
}

#[test]
fn runs_are_stopped_whatever_the_platform_says() {
    for live in [Live::Absent, Live::Unknown(NoAnswer::NoToken), seen("i", false), seen("j", false)] {
        let o = asked(Some("i"), 500, live, answered());
        assert_eq!(told(&release(&Observed { executions: 1, ..o })), "stop since 0 in 500ms");
    }
    let nothing = observed(deleted(session(Some(SandboxSessionStatus::default()))), Live::NotAsked);
    assert_eq!(told(&release(&Observed { executions: 1, ..nothing })), "let go", "no Sprite, no Run in it");
}

/// What holds in every cell, whatever its row says.
#[test]
fn nothing_of_the_record_is_lost_and_nothing_of_others_is_touched() {
    let lives = [
        Live::NotAsked,
        Live::Absent,
        Live::Unknown(NoAnswer::Denied(401)),
        Live::Unknown(NoAnswer::Other("unknown")),
        seen("i", true),
        seen("j", true),
        seen("i", false),
        seen("j", false),
    ];
    let mut cells = 0;
    for (live, id, requested) in lives.iter().flat_map(|live| {
        [None, Some("i")].into_iter().flat_map(move |id| [0, 119, 120, 500].map(|requested| (live, id, requested)))
    }) {
        for activity in [first(), answered(), ago(0), ago(500), SessionActivity { delete_answered: true, ..ago(500) }] {
            let o = asked(id, requested, live.clone(), activity);
            let (plan, status) = (release(&o), o.session.status.as_ref().unwrap());
            let cell = format!("{live:?} {id:?} {requested} {:?}", o.activity);
            let ours = matches!(live, Live::Present(live) if live.ours);
            assert_eq!(matches!(plan.effect, Effect::Destroy { .. }), ours, "{cell}");
            if plan.effect == Effect::RemoveFinalizer {
                let foreign = matches!(live, Live::Present(live) if !live.ours && id != Some(&live.id));
                assert!(matches!(live, Live::Absent) || foreign, "{cell}");
                let nothing_comes = id.is_some() || requested >= 120;
                let believed = o.activity.delete_answered || o.activity.absent_since.is_some();
                assert!(nothing_comes && believed, "{cell}");
            } else {
                assert_ne!(plan.next, Next::Change, "nobody else brings it back: {cell}");
            }
            if let Some(draft) = &plan.report {
                assert_eq!((&draft.sprite, &draft.lockdown), (&status.sprite, &status.lockdown), "{cell}");
                assert_eq!((draft.phase, draft.data_lost.as_deref()), (SessionPhase::Terminating, Some("gone")));
                let by_hand = matches!(live, Live::Present(live) if !live.ours && id == Some(&live.id));
                assert_eq!((draft.stalled, draft.settled), (by_hand, false), "{cell}");
            }
            cells += 1;
        }
    }
    assert_eq!(cells, 8 * 2 * 4 * 5);
}
