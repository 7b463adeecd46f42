//! Who must look again when something else changed. Must not decide what comes of it.

use std::{collections::HashMap, sync::Arc};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Namespace, ObjectReference};
use kube::{Resource, ResourceExt};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    context::Context,
    events::{self, Notice},
};
use crate::access::tenant::Tenant;
use crate::{
    access::switch::Switch,
    kubernetes::scope::{Changes, Scoped},
};
use api::{ExecutionPolicy, Run, names::SWITCH_CONFIG_MAP};
use rules::outcome::Stop;

/// What Events and the gauge say of the switch.
pub const SWITCH: [(Switch, &str, &str); 3] = [
    (Switch::On, "SwitchOn", "code execution is on"),
    (Switch::Off, "SwitchOff", "code execution is off: nothing starts, running commands are killed"),
    (Switch::Frozen, "SwitchFrozen", "the switch could not be read for 10s: nothing starts, nothing is killed"),
];

/// Requeues everything when the switch changes, and publishes an Event on its ConfigMap for each change after the first read.
pub async fn switch(context: Arc<Context>, mut switch: watch::Receiver<Switch>, stop: CancellationToken) {
    let mut known = None;
    loop {
        let now = *switch.borrow_and_update();
        context.metrics.set_switch(now == Switch::On, now == Switch::Frozen);
        if known.is_some_and(|known| known != now)
            && let Some((_, reason, note)) = SWITCH.iter().find(|(switch, ..)| *switch == now)
        {
            let config = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("ConfigMap".to_owned()),
                name: Some(SWITCH_CONFIG_MAP.to_owned()),
                namespace: Some(context.settings.operator_namespace.clone()),
                ..ObjectReference::default()
            };
            let notice = Notice { warning: now != Switch::On, reason, action: "Switch", note: (*note).to_owned() };
            let publishing = Arc::clone(&context);
            // Beside the stop that it tells of.
            tokio::spawn(async move { events::publish(&publishing, config, notice).await });
        }
        known = known.or(Some(now).filter(|now| *now != Switch::Frozen)).map(|_| now);
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
    let mut known: HashMap<String, (Tenant, Tenant)> = HashMap::new();
    loop {
        let change = tokio::select! {
            change = changes.next() => change,
            () = stop.cancelled() => return,
        };
        let (namespace, itself) = match change {
            Some(Ok(namespace)) => (namespace.name_any(), Tenant::of(namespace.0.as_ref().ok())),
            Some(Err(error)) => {
                // A watch is begun again by itself; the whole answer is of interest to nobody else.
                tracing::debug!(%error, "watching namespaces");
                continue;
            }
            None => return,
        };
        // Both what came and what the cache holds: it is filled only at the end of a list, and empty after a deletion.
        let tenant = (itself, context.tenant(&namespace));
        if known.insert(namespace.clone(), tenant) != Some(tenant) {
            context.wake_namespace(&namespace);
        }
    }
}

/// UID and generation, and whether the cache holds it.
type Version = (Option<String>, Option<i64>, bool);

/// What depends on a policy looks again when its spec changed.
pub fn policies(context: &Arc<Context>, changes: Scoped<ExecutionPolicy>) -> Scoped<ExecutionPolicy> {
    let relate = |(key, changes): (Option<String>, Changes<ExecutionPolicy>)| {
        let context = Arc::clone(context);
        let mut known: HashMap<String, Version> = HashMap::new();
        let changes = changes.inspect(move |change| {
            let Ok(policy) = change else { return };
            let name = policy.name_any();
            // Both what came and what the cache holds: it is filled only at the end of a list, and empty after a deletion.
            let cached = context.policies.get_named(&name).is_some();
            let version = (policy.uid(), policy.meta().generation, cached);
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
