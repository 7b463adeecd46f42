//! A slot of the session. Pure.

use super::check::Check;
use crate::controllers::{
    driver::Next,
    run::{observed::Observed, plan::Waiting},
};
use api::reasons::WaitingCause;
use rules::limits::Limits;

/// Waits while as many Runs execute in the session as the policy allows.
pub fn check(o: &Observed, limits: &Limits) -> Result<(), Check> {
    if o.in_session < usize::try_from(limits.parallel_runs).unwrap_or(usize::MAX) {
        return Ok(());
    }
    let message = format!("SandboxSession {} has as many Runs as its policy allows", o.session_name);
    Err(Check::Wait(Waiting::new(WaitingCause::Queued, message), Next::Change))
}
