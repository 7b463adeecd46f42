//! `Run`: acquire the session, prove, say Running, execute once, report.
//!
//! Reconcile starts, stops or observes an execution and returns; the execution is a task of its own, whose end wakes
//! reconcile, which writes. Must not start anything that is not first recorded in status.

mod act;
mod decide;
mod execution;
mod explain;
mod finish;
#[cfg(test)]
mod fixtures;
mod gate;
mod gather;
mod gather_live;
mod observed;
mod plan;
mod report;
#[cfg(test)]
mod simulation;
mod status;

pub use explain::{Answer, HeldTool, Holds, ask};
pub use report::is_warning;

use std::sync::Arc;

use self::{
    observed::{LiveRead, Observed},
    plan::{Need, Plan},
};
use super::{context::Context, driver::Next, error::Error};
use crate::kubernetes::object_key::ObjectKey;
use api::Run;

/// Brings a Run one step further.
pub async fn reconcile(run: Arc<Run>, context: Arc<Context>) -> Result<Next, Error> {
    let key = ObjectKey::of(run.as_ref())?;
    let run = context.executions.newest(&key.uid, run);
    let mut observed = gather::cached(&context, run, key);
    let mut proved = None;
    let mut plan = decide(&context, &observed);
    // Each need is met once: what was gathered is not asked for again.
    while let Plan::Need(need) = plan {
        match need {
            Need::Servers => observed = gather::fresh(&context, observed).await?,
            Need::LiveSprite(proof) => {
                let (live, at) = match observed.session.known() {
                    Some(session) => gather_live::live(&context, &session.key, &proof).await,
                    None => (LiveRead::NoAnswer("there is no session to read it for".to_owned()), None),
                };
                observed.live = Some(live);
                proved = at;
            }
        }
        plan = decide(&context, &observed);
    }
    tracing::debug!(run = observed.key.name, plan = plan.name(), "decided");
    act::act(&context, observed, plan, proved).await
}

/// Decides, and remembers that a spec holds: a Run that waits is not judged from the start each time it looks.
fn decide(context: &Context, o: &Observed) -> Plan {
    let plan = decide::decide(o);
    if plan.shows_that_the_spec_holds() && !o.spec_holds {
        context.queue.remember(&o.key.uid, o.judges());
    }
    plan
}
