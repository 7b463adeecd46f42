//! `Run`: acquire the session, prove, say Running, execute once, report.
//!
//! Reconcile starts, stops or observes an execution and returns; the execution is a task of its own, whose end wakes
//! reconcile, which writes. Must not start anything that is not first recorded in status.

mod acquire;
mod act;
mod decide;
mod execution;
mod gate;
mod gather;
mod observed;
mod plan;
mod report;
mod status;

pub use report::is_warning;

use std::sync::Arc;

use kube::ResourceExt;

use super::{context::Context, driver::Next, error::Error};
use api::Run;

/// Brings a Run one step further.
pub async fn reconcile(run: Arc<Run>, context: Arc<Context>) -> Result<Next, Error> {
    let mut observed = gather::cached(&context, run);
    let mut plan = decide::decide(&observed);
    if plan.rests_on_cache() {
        // What cannot be taken back is decided on what is so now, not on what a cache says.
        observed = gather::fresh(&context, observed).await?;
        plan = decide::decide(&observed);
    }
    tracing::debug!(run = observed.run.name_any(), plan = plan.name(), "decided");
    act::act(&context, observed, plan).await
}
