//! A switch that cannot be read. Pure.

use std::time::Duration;

use super::check::Check;
use crate::{
    access::switch::Switch,
    controllers::{
        driver::Next,
        run::{observed::Observed, plan::Waiting},
    },
};
use api::reasons::WaitingCause;

/// Waits until the switch can be read.
pub fn check(o: &Observed) -> Result<(), Check> {
    if o.switch == Switch::Frozen {
        let waiting = Waiting::new(WaitingCause::SwitchFrozen, "the cluster-wide switch cannot be read");
        return Err(Check::Wait(waiting, Next::After(Duration::from_secs(2))));
    }
    Ok(())
}
