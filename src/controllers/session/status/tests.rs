//! What a draft comes to as status, and when activity is written.

use std::sync::Arc;

use rstest::rstest;

use super::*;
use crate::controllers::session::{
    fixtures::{NOW, at, locked, observed, session, sprite, with},
    observed::Live,
    plan::{degraded, keep, obstructed, provisioning},
};
use api::{
    SandboxSession,
    sandbox_session::{ContainmentStatus, LockdownStatus, Totals},
};

/// A session before anything is recorded, and one that is proved.
fn nothing() -> SandboxSessionStatus {
    SandboxSessionStatus::default()
}

fn proved() -> SandboxSessionStatus {
    with(Some("i"), Some(locked(NOW - 10))).status.unwrap()
}

fn ready(phase: SessionPhase) -> StatusDraft {
    keep(&proved(), phase, SessionReason::LockedDown, "proved".into())
}

fn unproved(draft: StatusDraft) -> StatusDraft {
    StatusDraft { lockdown: draft.lockdown.map(|l| LockdownStatus { token: None, ..l }), ..draft }
}

fn unavailable() -> StatusDraft {
    degraded(&proved(), SessionReason::PlatformUnavailable, "silent".into())
}

fn weakened() -> StatusDraft {
    unproved(degraded(&proved(), SessionReason::LockdownLost, "weakened".into()))
}

fn not_ours() -> StatusDraft {
    StatusDraft { stalled: true, ..degraded(&proved(), SessionReason::NotOurs, "foreign".into()) }
}

fn lost() -> StatusDraft {
    StatusDraft { lockdown: None, data_lost: Some("gone".into()), ..provisioning(&proved(), "again") }
}

fn written(session: SandboxSession, draft: StatusDraft) -> SandboxSessionStatus {
    report(&observed(session, Live::NotAsked), draft, at(NOW))
}

const KINDS: [&str; 6] = [READY, LOCKED_DOWN, CONTAINED, DATA_LOST, RECONCILING, STALLED];
const FINE: &str = "False AsExpected";

/// Ready, LockedDown, DataLost, Reconciling, Stalled; nothing is ever said of containment.
#[rstest]
#[case::suspended_before_anything(obstructed(&nothing(), SessionReason::Suspended, "m".into()), ["False Suspended", "False Suspended", FINE, FINE, FINE])]
#[case::suspended_while_proved(obstructed(&proved(), SessionReason::Suspended, "m".into()), ["False Suspended", "True LockedDown", FINE, FINE, FINE])]
#[case::a_sprite_is_asked_for(provisioning(&nothing(), "m"), ["False Provisioning", "False Provisioning", FINE, "True Provisioning", FINE])]
#[case::a_lockdown_without_token(unproved(keep(&proved(), SessionPhase::LockingDown, SessionReason::Provisioned, "m".into())), ["False Provisioned", "False Provisioned", FINE, "True Provisioned", FINE])]
#[case::awake(ready(SessionPhase::Ready), ["True LockedDown", "True LockedDown", FINE, FINE, FINE])]
#[case::asleep(ready(SessionPhase::Hibernated), ["True LockedDown", "True LockedDown", FINE, FINE, FINE])]
#[case::no_answer_leaves_the_proof(unavailable(), ["False PlatformUnavailable", "True LockedDown", FINE, "True PlatformUnavailable", FINE])]
#[case::weakened(weakened(), ["False LockdownLost", "False LockdownLost", FINE, "True LockdownLost", FINE])]
#[case::only_a_person_can_help(not_ours(), ["False NotOurs", "True LockedDown", FINE, FINE, "True NotOurs"])]
#[case::files_were_lost(lost(), ["False Provisioning", "False Provisioning", "True Lost", "True Provisioning", FINE])]
#[case::lost_and_ready_again(StatusDraft { data_lost: Some("gone".into()), ..ready(SessionPhase::Ready) }, ["True LockedDown", "True LockedDown", "True Lost", FINE, FINE])]
#[case::being_destroyed(keep(&proved(), SessionPhase::Terminating, SessionReason::Terminating, "m".into()), ["False Terminating", "True LockedDown", FINE, "True Terminating", FINE])]
fn each_condition_says_its_own_of_a_draft(#[case] draft: StatusDraft, #[case] expected: [&str; 5]) {
    let [ready, locked, lost, reconciling, stalled] = expected;
    let status = written(session(None), draft);
    let said: Vec<_> =
        status.conditions.0.iter().map(|c| (c.type_.as_str(), format!("{} {}", c.status, c.reason))).collect();
    let expected = [ready, locked, "Unknown NotChecked", lost, reconciling, stalled].map(str::to_owned);
    assert_eq!(said, KINDS.into_iter().zip(expected).collect::<Vec<_>>());
}

#[test]
fn only_a_proved_phase_is_ready() {
    for phase in SessionPhase::ALL {
        let status = written(session(None), ready(*phase));
        let expected = [SessionPhase::Ready, SessionPhase::Hibernated].contains(phase);
        assert_eq!((status.conditions.is_true(READY), status.phase), (expected, Some(*phase)));
        assert_eq!(status.conditions.is_true(RECONCILING), !expected, "{phase:?}");
    }
}

/// Messages of Ready, LockedDown and DataLost.
#[rstest]
#[case(unavailable(), ["silent", "", ""])]
#[case(weakened(), ["weakened", "weakened", ""])]
#[case(lost(), ["again", "again", "gone"])]
fn a_message_stands_where_it_explains_something(#[case] draft: StatusDraft, #[case] expected: [&str; 3]) {
    let conditions = written(session(None), draft).conditions;
    let message = |kind| conditions.get(kind).unwrap().message.clone();
    assert_eq!([READY, LOCKED_DOWN, DATA_LOST].map(message), expected);
    assert_eq!([RECONCILING, STALLED].map(message), [const { String::new() }; 2]);
}

#[rstest]
#[case::nothing_new(ready(SessionPhase::Ready), ready(SessionPhase::Ready), &[])]
#[case::it_falls_asleep(ready(SessionPhase::Ready), ready(SessionPhase::Hibernated), &[])]
#[case::another_reason(provisioning(&nothing(), "m"), degraded(&nothing(), SessionReason::PlatformCapacity, "m".into()), &[])]
#[case::no_answer(ready(SessionPhase::Ready), unavailable(), &[READY, RECONCILING])]
#[case::weakened(ready(SessionPhase::Ready), weakened(), &[READY, LOCKED_DOWN, RECONCILING])]
#[case::weakened_when_nothing_answered(unavailable(), weakened(), &[LOCKED_DOWN])]
#[case::foreign(unavailable(), not_ours(), &[RECONCILING, STALLED])]
#[case::ours_again(not_ours(), ready(SessionPhase::Ready), &[READY, STALLED])]
#[case::lost(ready(SessionPhase::Ready), lost(), &[READY, LOCKED_DOWN, DATA_LOST, RECONCILING])]
#[case::lost_once_more(lost(), StatusDraft { data_lost: Some("gone again".into()), ..lost() }, &[])]
#[case::proved(provisioning(&nothing(), "m"), ready(SessionPhase::Ready), &[READY, LOCKED_DOWN, RECONCILING])]
fn a_transition_time_moves_when_the_answer_changes(
    #[case] before: StatusDraft,
    #[case] then: StatusDraft,
    #[case] moved: &[&str],
) {
    let old = report(&observed(session(None), Live::NotAsked), before, at(NOW - 100));
    let new = written(session(Some(old)), then);
    let changed = |kind: &&str| new.conditions.get(kind).unwrap().last_transition_time.0 == at(NOW);
    assert_eq!(KINDS.into_iter().filter(changed).collect::<Vec<_>>(), moved);
    let kept = |kind: &&str| new.conditions.get(kind).unwrap().last_transition_time.0 == at(NOW - 100);
    assert_eq!(KINDS.into_iter().filter(kept).count(), KINDS.len() - moved.len());
}

#[rstest]
#[case(None, None, None)]
#[case(None, Some("creator"), Some("creator"))]
#[case(Some("first"), Some("somebody who edits annotations"), Some("first"))]
#[case(Some("first"), None, Some("first"))]
fn an_owner_is_taken_from_the_creator_once(
    #[case] old: Option<&str>,
    #[case] annotation: Option<&str>,
    #[case] expected: Option<&str>,
) {
    let mut session = session(Some(SandboxSessionStatus { owner: old.map(str::to_owned), ..nothing() }));
    session.metadata.annotations = annotation.map(|who| [(CREATOR_ANNOTATION.to_owned(), who.to_owned())].into());
    assert_eq!(written(session, unavailable()).owner.as_deref(), expected);
}

#[test]
fn a_report_speaks_of_the_generation_that_was_looked_at() {
    let mut session = session(Some(SandboxSessionStatus { observed_generation: Some(3), ..nothing() }));
    session.metadata.generation = Some(4);
    let status = written(session, unavailable());
    assert_eq!(status.observed_generation, Some(4));
    assert!(status.conditions.0.iter().all(|c| c.observed_generation == Some(4)));
}

#[test]
fn what_a_draft_does_not_speak_of_is_kept_and_what_it_does_is_replaced() {
    let kept = SandboxSessionStatus {
        containment: Some(ContainmentStatus { verdict: Some("Contained".into()), ..ContainmentStatus::default() }),
        owner: Some("owner".into()),
        last_active_at: Some(Time(at(NOW - 500))),
        active_runs: Some(2),
        totals: Some(Totals { runs: 7, cpu_seconds: 8, cost_micro_usd: 9 }),
        ..proved()
    };
    let draft = StatusDraft { sprite: None, lockdown: None, ..unavailable() };
    let mut o = observed(session(Some(kept.clone())), Live::NotAsked);
    o.executions = 1;
    o.activity.runs = 5;
    let status = report(&o, draft, at(NOW));
    let expected = SandboxSessionStatus { phase: Some(SessionPhase::Degraded), sprite: None, lockdown: None, ..kept };
    assert_eq!(status, SandboxSessionStatus { conditions: status.conditions.clone(), ..expected });
    assert_eq!(written(session(None), unavailable()).sprite, Some(sprite(Some("i"))));
}

/// Seconds since something happened and since activity was written last.
#[rstest]
#[case(None, None, false)]
#[case(None, Some(1000), false)]
#[case(Some(0), None, true)]
#[case(Some(0), Some(0), false)]
#[case(Some(0), Some(29), false)]
#[case(Some(0), Some(30), true)]
#[case(Some(29), Some(31), true)]
#[case::the_clock_went_back(Some(0), Some(-60), false)]
fn activity_is_written_at_most_once_in_thirty_seconds(
    #[case] active: Option<i64>,
    #[case] written: Option<i64>,
    #[case] due: bool,
) {
    let mut o = observed(session(None), Live::NotAsked);
    o.executions = 3;
    o.activity.runs = 2;
    o.activity.last_active = active.map(|ago| at(NOW - ago));
    o.activity.activity_written = written.map(|ago| at(NOW - ago));
    assert_eq!(activity_due(&o), due);
    let status = report(&o, unavailable(), at(NOW));
    assert_eq!(status.last_active_at.map(|time| time.0), o.activity.last_active.filter(|_| due));
    assert_eq!(
        (status.active_runs, status.totals.map(|t| t.runs)),
        if due { (Some(3), Some(2)) } else { (None, None) }
    );
}

#[rstest]
#[case(None, 0, 0)]
#[case(None, 2, 2)]
#[case(Some(40), 2, 42)]
#[case(Some(u64::MAX - 1), 2, u64::MAX)]
fn totals_grow_by_what_was_not_written(#[case] old: Option<u64>, #[case] runs: u64, #[case] expected: u64) {
    let totals = old.map(|runs| Totals { runs, cpu_seconds: 8, cost_micro_usd: 9 });
    let mut o = observed(session(Some(SandboxSessionStatus { totals: totals.clone(), ..nothing() })), Live::NotAsked);
    o.activity = SessionActivity { runs, last_active: Some(at(NOW)), ..SessionActivity::default() };
    let expected = Totals { runs: expected, ..totals.unwrap_or_default() };
    assert_eq!(report(&o, unavailable(), at(NOW)).totals, Some(expected));
}

#[test]
fn a_run_that_starts_during_a_write_is_counted_by_the_next_one() {
    let mut o = observed(session(None), Live::NotAsked);
    o.activity = SessionActivity { runs: 2, last_active: Some(at(NOW - 1)), ..SessionActivity::default() };
    let mut activity = SessionActivity { runs: 3, last_active: Some(at(NOW)), ..o.activity.clone() };
    let first = report(&o, unavailable(), at(NOW));
    activity_written(&o, &mut activity);
    assert_eq!((activity.runs, activity.last_active, activity.activity_written), (1, Some(at(NOW)), Some(at(NOW))));
    let mut o = observed(session(Some(first)), Live::NotAsked);
    (o.now, o.activity) = (at(NOW + 30), activity.clone());
    let second = report(&o, unavailable(), o.now);
    activity_written(&o, &mut activity);
    assert_eq!((second.totals.unwrap().runs, second.last_active_at), (3, Some(Time(at(NOW)))));
    assert_eq!((activity.runs, activity.last_active), (0, None), "nothing is written twice");
}

const fn seconds(seconds: u64) -> Next {
    Next::After(Duration::from_secs(seconds))
}

/// Seconds since something happened and since activity was written last.
#[rstest]
#[case::never_written(Some(0), None, Next::Change, Next::Change)]
#[case::nothing_to_write(None, Some(10), seconds(300), seconds(300))]
#[case(Some(0), Some(0), Next::Change, seconds(30))]
#[case(Some(0), Some(29), Next::Change, seconds(1))]
#[case::a_later_look_comes_sooner(Some(0), Some(10), seconds(300), seconds(20))]
#[case::a_sooner_look_stays(Some(0), Some(10), seconds(3), seconds(3))]
fn activity_that_waits_for_its_turn_brings_the_session_back(
    #[case] active: Option<i64>,
    #[case] written: Option<i64>,
    #[case] next: Next,
    #[case] expected: Next,
) {
    let mut o = observed(session(None), Live::NotAsked);
    o.activity.last_active = active.map(|ago| at(NOW - ago));
    o.activity.activity_written = written.map(|ago| at(NOW - ago));
    assert_eq!(activity_next(&o, next), expected);
}

/// Whether a transition is announced, and as a warning.
#[rstest]
#[case::ready_for_the_first_time(None, Some(ready(SessionPhase::Ready)), Some(false))]
#[case::it_falls_asleep(Some(ready(SessionPhase::Ready)), Some(ready(SessionPhase::Hibernated)), None)]
#[case::weakened(Some(ready(SessionPhase::Ready)), Some(weakened()), Some(true))]
#[case::still_weakened(Some(weakened()), Some(StatusDraft { message: "otherwise".into(), ..weakened() }), None)]
#[case::proved_again(Some(weakened()), Some(ready(SessionPhase::Ready)), Some(false))]
#[case::not_ours(Some(unavailable()), Some(not_ours()), Some(true))]
#[case::denied(Some(ready(SessionPhase::Ready)), Some(degraded(&proved(), SessionReason::PlatformDenied, "m".into())), Some(true))]
#[case::a_short_silence_is_nobodys_business(Some(ready(SessionPhase::Ready)), Some(unavailable()), None)]
#[case::a_person_suspended_it(Some(ready(SessionPhase::Ready)), Some(obstructed(&proved(), SessionReason::Suspended, "m".into())), None)]
#[case::the_secret_is_missing(None, Some(obstructed(&nothing(), SessionReason::SecretMissing, "m".into())), Some(true))]
#[case::nothing_is_said(Some(ready(SessionPhase::Ready)), None, None)]
fn a_transition_is_announced_once(
    #[case] before: Option<StatusDraft>,
    #[case] then: Option<StatusDraft>,
    #[case] expected: Option<bool>,
) {
    let [old, new] = [before, then.clone()].map(|d| d.map_or_else(nothing, |draft| written(session(None), draft)));
    let announced = announced(&old, &new).map(|(c, reason, warning)| (c.message.clone(), reason, warning));
    let expected = expected.and_then(|warning| then.map(|draft| (draft.message, draft.reason, warning)));
    assert_eq!(announced, expected);
}

#[test]
fn a_session_that_changed_its_version_only_is_the_same_status() {
    let first = written(session(None), ready(SessionPhase::Ready));
    let mut again = session(Some(first.clone()));
    again.metadata.resource_version = Some("2".into());
    let mut o = observed(again, Live::NotAsked);
    (o.session, o.now) = (Arc::clone(&o.session), at(NOW + 1000));
    assert_eq!(report(&o, ready(SessionPhase::Ready), o.now), first, "a write would wake the session for ever");
}
