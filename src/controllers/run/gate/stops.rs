//! Stops that need nothing else to be known: the Run itself, and the switch. Pure.

use crate::{access::switch::Switch, controllers::run::observed::Observed};
use api::reasons::RunReason;
use rules::outcome::{Outcome, Stop};

/// Ends a Run that is deleted or cancelled, or that comes while the switch is off.
pub fn check(o: &Observed) -> Result<(), Outcome> {
    if o.run.metadata.deletion_timestamp.is_some() {
        return Err(Outcome::stopped_before_start(Stop::Deleted));
    }
    if o.run.spec.cancel {
        return Err(Outcome::stopped_before_start(Stop::Cancel));
    }
    if o.switch == Switch::Off {
        let message = "the cluster-wide switch is off: in ConfigMap \"sprite-operator-switch\" of the operator's namespace, \
            CODE_EXECUTION_ENABLED is not exactly \"true\"";
        return Err(Outcome::denied(RunReason::KillSwitchOff, message));
    }
    Ok(())
}
