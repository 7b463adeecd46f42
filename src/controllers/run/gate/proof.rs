//! What the session has on record of its lockdown. Pure.

use super::check::Check;
use crate::{
    controllers::{
        driver::Next,
        run::{observed::Observed, plan::Waiting},
    },
    lockdown::verify::{self, Proof},
};
use api::{SandboxSession, reasons::WaitingCause};
use rules::egress::Ruleset;

/// Waits until the recorded lockdown is of the recorded instance, with exactly these rules.
pub fn check(o: &Observed, session: &SandboxSession, egress: &Ruleset) -> Result<Proof, Check> {
    verify::recorded(session, egress).map_err(|why| {
        let message = format!("SandboxSession {}: {why}", o.session_name);
        Check::Wait(Waiting::new(WaitingCause::SessionNotReady, message), Next::Change)
    })
}
