//! A slot of the session, in turn. Pure.

use super::check::Check;
use crate::controllers::{
    driver::Next,
    run::{observed::Observed, plan::Waiting},
};
use api::reasons::WaitingCause;
use rules::{limits::Limits, order};

/// Waits while as many Runs execute in the session as the policy allows, and while others that came first can take what is free.
pub fn check(o: &Observed, limits: &Limits) -> Result<(), Check> {
    let free = usize::try_from(limits.parallel_runs).unwrap_or(usize::MAX).saturating_sub(o.in_session);
    let in_turn = o.candidates.iter().any(|candidate| candidate.uid == o.key.uid && !candidate.stands_aside);
    let next = order::next(o.candidates.clone(), free);
    // One that stands aside takes what nobody else does.
    if next.contains(&o.key.uid) || (!in_turn && next.len() < free) {
        return Ok(());
    }
    let why =
        if free == 0 { "has as many Runs as its policy allows" } else { "has Runs that were created before this one" };
    let message = format!("SandboxSession \"{}\" {why}", o.session_name);
    Err(Check::Wait(Waiting::new(WaitingCause::Queued, message), Next::Change))
}
