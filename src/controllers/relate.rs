//! Who must look again when something else changed. Must not decide what comes of it.

use std::{collections::HashMap, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Resource, ResourceExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::context::{Context, Tenant};
use crate::{
    access::switch::Switch,
    api::{ExecutionPolicy, Run},
    kubernetes::scope::{Changes, Scoped},
    rules::outcome::Stop,
};

/// The switch starts and stops everything.
pub async fn switch(context: Arc<Context>, mut switch: watch::Receiver<Switch>, stop: CancellationToken) {
    loop {
        tokio::select! {
            changed = switch.changed() => match changed {
                Ok(()) => context.wake_everything(),
                Err(_) => return,
            },
            () = stop.cancelled() => return,
        }
    }
}

/// A namespace that is opted in or out starts and stops what is in it; its other changes are nothing to us. Without this
/// task the cache of namespaces would not be filled, either.
pub async fn namespaces(context: Arc<Context>, mut changes: Changes<Namespace>, stop: CancellationToken) {
    let mut known: HashMap<String, Tenant> = HashMap::new();
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            () = stop.cancelled() => return,
        };
        let namespace = match change {
            Some(Ok(namespace)) => namespace.name_any(),
            Some(Err(error)) => {
                // A watch is begun again by itself; the whole answer is of interest to nobody else.
                tracing::debug!(%error, "watching namespaces");
                continue;
            }
            None => return,
        };
        let tenant = context.tenant(&namespace);
        if known.insert(namespace.clone(), tenant) != Some(tenant) {
            context.wake_namespace(&namespace);
        }
    }
}

/// UID and generation; nothing where there is no such policy.
type Version = Option<(Option<String>, Option<i64>)>;

/// What depends on a policy looks again when its spec changed.
pub fn policies(context: &Arc<Context>, changes: Scoped<ExecutionPolicy>) -> Scoped<ExecutionPolicy> {
    let relate = |(key, changes): (Option<String>, Changes<ExecutionPolicy>)| {
        let context = Arc::clone(context);
        let mut known: HashMap<String, Version> = HashMap::new();
        let changes = changes.inspect(move |change| {
            let Ok(policy) = change else { return };
            let name = policy.name_any();
            // The cache was changed before: nothing there means that it is gone.
            let cached = context.policies.get_named(&name);
            let version = cached.map(|policy| (policy.uid(), policy.meta().generation));
            if known.insert(name.clone(), version.clone()) != Some(version) {
                context.wake_policy(&name);
            }
        });
        (key, changes.boxed())
    };
    changes.into_iter().map(relate).collect()
}

/// A Run that vanished, its finalizer taken off by force, is reconciled no more: what it started is stopped from here.
pub fn runs(context: &Arc<Context>, changes: Scoped<Run>) -> Scoped<Run> {
    let relate = |(key, changes): (Option<String>, Changes<Run>)| {
        let context = Arc::clone(context);
        let changes = changes.inspect(move |change| {
            let Ok(run) = change else { return };
            let Some(uid) = run.uid() else { return };
            let cached = context.runs.get(run.namespace().as_deref(), &run.name_any());
            if cached.and_then(|cached| cached.uid()).as_ref() != Some(&uid) {
                context.executions.stop(&uid, Stop::Deleted);
                context.executions.forget_done(&uid);
            }
        });
        (key, changes.boxed())
    };
    changes.into_iter().map(relate).collect()
}
