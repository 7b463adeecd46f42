//! `ExecutionPolicy`: rules built, hash, Ready.
//!
//! Only reports: what is in force is always computed from the spec by [`compile`](crate::policy::compile), never read from a status
//! that somebody may have edited. Must not touch a Sprite.

mod act;
mod decide;
mod gather;
mod observed;
mod plan;
mod status;

use std::sync::Arc;

use super::{context::Context, driver::Next, error::Error};
use crate::kubernetes::object_key::ObjectKey;
use api::ExecutionPolicy;

/// Reports what a policy comes to.
pub async fn reconcile(policy: Arc<ExecutionPolicy>, context: Arc<Context>) -> Result<Next, Error> {
    let key = ObjectKey::of(policy.as_ref())?;
    let observed = gather::gather(&context, policy, &key);
    let plan = decide::decide(&observed);
    act::act(&context, &observed, plan).await
}
