//! `ExecutionPolicy`: rules built, hash, Ready.
//!
//! Only reports: what is in force is always computed from the spec by [`compile`], never read from a status that
//! somebody may have edited. Must not touch a Sprite.

mod status;

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::{Resource, ResourceExt};

use super::{
    context::Context,
    driver::Next,
    error::Error,
    events::{self, Notice},
};
use crate::kubernetes::apply::{self, Target};
use api::{ExecutionPolicy, reasons::PolicyReason};

/// Sessions come and go without waking their policy: they are counted now and then, which keeps writes few.
const RECOUNT: Next = Next::After(Duration::from_secs(30));

/// Reports what a policy comes to.
pub async fn reconcile(policy: Arc<ExecutionPolicy>, context: Arc<Context>) -> Result<Next, Error> {
    if policy.metadata.deletion_timestamp.is_some() {
        return Ok(Next::Change);
    }
    let compilation = context.compilations.of(&policy, context.settings.open_egress);
    let sessions = context.sessions_of_policy(&policy.name_any());
    let old = policy.status.clone().unwrap_or_default();
    let new = status::report(&old, policy.metadata.generation, &compilation, sessions, Timestamp::now());
    if old == new {
        return Ok(RECOUNT);
    }
    let target = Target::of(policy.as_ref())?;
    let _: ExecutionPolicy = apply::status(&context.client, &target, &new).await?;
    let (was, is) = (old.conditions.is_true("Ready"), new.conditions.is_true("Ready"));
    if let (Err(errors), true) = (&compilation, was || old.observed_generation != new.observed_generation) {
        let notice =
            Notice { warning: true, reason: errors.reason.as_str(), action: "Compile", note: errors.to_string() };
        events::publish(&context.client, &context.metrics, policy.object_ref(&()), notice).await;
    } else if is && !was {
        let notice = Notice {
            warning: false,
            reason: PolicyReason::Valid.as_str(),
            action: "Compile",
            note: "the policy is in force".to_owned(),
        };
        events::publish(&context.client, &context.metrics, policy.object_ref(&()), notice).await;
    }
    Ok(RECOUNT)
}
