//! `ExecutionPolicy`: rules built, hash, Ready.
//!
//! Only reports: what is in force is always computed from the spec by [`compile`], never read from a status that
//! somebody may have edited. Must not touch a Sprite.

pub mod compile;
mod status;

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

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
use compile::{Compiled, PolicyErrors};

/// A compiled policy, or everything that is wrong with it.
pub type Compilation = Result<Arc<Compiled>, PolicyErrors>;

/// Compiled policies by UID and generation: expressions are costly to compile for every Run.
#[derive(Debug, Default)]
pub struct Compilations {
    done: Mutex<HashMap<String, (i64, Compilation)>>,
}

impl Compilations {
    /// Most policies that are kept; beyond, all are forgotten.
    const MOST: usize = 10_000;

    /// The policy, compiled once a generation.
    pub fn of(&self, policy: &ExecutionPolicy, open_allowed: bool) -> Compilation {
        let (uid, generation) = (policy.uid().unwrap_or_default(), policy.metadata.generation.unwrap_or_default());
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, compilation)) = done.get(&uid)
            && *known == generation
        {
            return compilation.clone();
        }
        let compilation = compile::compile(policy, open_allowed).map(Arc::new);
        if done.len() >= Self::MOST {
            done.clear();
        }
        done.insert(uid, (generation, compilation.clone()));
        compilation
    }
}

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
