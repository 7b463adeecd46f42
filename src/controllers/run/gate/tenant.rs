//! Whether the namespace may run code. Pure.

use crate::controllers::run::observed::Observed;
use api::reasons::RunReason;
use rules::outcome::Outcome;

/// Denies a Run in a namespace that is not opted in.
pub fn check(o: &Observed) -> Result<(), Outcome> {
    if o.tenant.enabled {
        return Ok(());
    }
    let message = "the namespace is not opted in: label it sprite-operator.io/code-execution=enabled";
    Err(Outcome::denied(RunReason::TenantNotEnabled, message))
}
