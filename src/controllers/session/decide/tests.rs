//! The table of a session's decisions.

use std::sync::Arc;

use rstest::rstest;

use super::*;
use crate::{
    access::tenant::Tenant,
    controllers::{
        session::{
            fixtures::{
                NOW, RUNNER, at, deleted, live, locked, observed, policy, rules_as_read, session, sprite, token, with,
            },
            observed::NoAnswer,
        },
        state::session_activity::SessionActivity,
    },
};
use api::SandboxSession;
use rules::egress::{ReadRule, Rule, Ruleset};

mod drafts;
mod lockdown;
mod obstacles;
mod relocks;

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
fn release_is_gated_by_nothing() {
    let mut o = observed(deleted(with(Some("i"), None)), Live::Present(live()));
    o.switch = Switch::Off;
    o.tenant = Tenant { enabled: false, terminating: true };
    o.policy = PolicyView::NotFound("default".into());
    o.name = Err("no secret".into());
    assert!(matches!(decide(&o).effect, Effect::Destroy { .. }));
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
            Some(Remember::Locked) => 6,
            Some(Remember::UnsupportedUntil(_)) => 7,
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
    let o = observed(with(Some("i"), None), Live::Present(live()));
    let locked = Confirmed::of(&Ruleset::deny_all(), LiveSprite { rules: Some(rules_as_read()), ..live() }.as_read());
    let locks = [Ok(locked.unwrap()), Err(&LockFailure::UnsupportedPlatform)]
        .map(|result| after_lock(&o, lockdown::lock(&o, LockdownStatus::default()), result));
    let plans: Vec<_> = rows.iter().map(decide).chain(locks).collect();
    let numbers: Vec<_> = plans.iter().map(|plan| number(plan.remember.as_ref())).collect();
    assert_eq!(numbers, (0..plans.len()).collect::<Vec<_>>());
}
