//! From clients and settings to running controllers. Must not decide.

use std::{fmt::Debug, sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Client, Resource, runtime::watcher};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{GRACE, census};
use crate::{
    access::switch::{self, Switch},
    config::{SecretFile, Settings},
    controllers::{
        context::Context,
        driver::{Controller, Next, Waker, Wakes},
        error::Error,
        policy, run, session,
        state::{
            executions::Executions, own_secrets::OwnSecrets, queue::Queue, session_activity::SessionActivities,
            shared_reads::Reads, waiting::Waiting,
        },
        triggers,
    },
    kubernetes::{
        clock::Clock,
        lease,
        scope::{self, Cache, Guarded, Scope, Scoped},
    },
    policy::cache::Compilations,
    serve::health::Readiness,
    telemetry::metrics::Metrics,
};
use api::{ExecutionPolicy, Run, SandboxSession};

/// How long the first reading of the switch is waited for.
const FIRST_READING: Duration = Duration::from_secs(10);
/// How often the secret's file is looked at.
const SECRET: Duration = Duration::from_secs(5);

/// What controllers are made from.
pub struct Parts {
    pub client: Client,
    pub sprites: sprites::Client,
    pub secret: SecretFile,
    pub own_secrets: OwnSecrets,
    pub settings: Settings,
    pub metrics: Arc<Metrics>,
    pub readiness: Readiness,
    pub lease: lease::Handle,
    /// The API server's clock.
    pub clock: Arc<Clock>,
    pub scope: Scope,
}

/// Runs every controller until told to stop; whether that is why it ends.
pub async fn controllers(parts: Parts, stop: CancellationToken) -> bool {
    let Parts { client, sprites, secret, own_secrets, settings, metrics, readiness, lease, clock, scope } = parts;
    let (switch_sender, switch) = watch::channel(Switch::Frozen);
    let selector = settings.policy_selector.clone();
    let policy_config = watcher::Config { label_selector: selector, ..watcher::Config::default() };
    let (policies, policy_changes) = scope::cluster::<ExecutionPolicy>(&client, vec![(None, policy_config)]);
    let (namespaces, namespace_changes) = scope::cluster::<Namespace>(&client, namespace_scopes(&scope));
    let (sessions, session_changes) = scope::namespaced::<SandboxSession>(&client, &scope);
    let (runs, run_changes) = scope::namespaced::<Run>(&client, &scope);
    let (wake_runs, run_wakes) = Waker::new(run_changes.iter().map(|(key, _)| key));
    let (wake_sessions, session_wakes) = Waker::new(session_changes.iter().map(|(key, _)| key));
    let context = Arc::new(Context {
        executions: Executions::new(Arc::clone(&metrics)),
        compilations: Compilations::default(),
        reads: Reads::default(),
        activities: SessionActivities::default(),
        waiting: Waiting::default(),
        queue: Queue::default(),
        client,
        sprites,
        settings,
        metrics,
        readiness,
        lease,
        clock,
        switch: switch.clone(),
        secret,
        own_secrets,
        policies,
        sessions,
        runs,
        namespaces,
        wake_runs,
        wake_sessions,
    });

    let mut tasks = JoinSet::new();
    tasks.spawn(switch::follow(context.config_maps(), switch_sender, stop.clone()));
    tasks.spawn(triggers::switch(Arc::clone(&context), switch, stop.clone()));
    tasks.spawn(watch_secret(Arc::clone(&context), stop.clone()));
    tasks.spawn(census::keep(Arc::clone(&context), stop.clone()));
    for (_, changes) in namespace_changes {
        tasks.spawn(triggers::namespaces(Arc::clone(&context), changes, stop.clone()));
    }
    let policy_changes = triggers::policies(&context, policy_changes);
    let run_changes = triggers::runs(&context, run_changes);
    let start = Start { context: &context, stop: &stop };
    start.all("ExecutionPolicy", 2, &context.policies, policy_changes, Wakes::new(), policy::reconcile, &mut tasks);
    known(&context, &stop).await;
    start.all("SandboxSession", 32, &context.sessions, session_changes, session_wakes, session::reconcile, &mut tasks);
    start.all("Run", 64, &context.runs, run_changes, run_wakes, run::reconcile, &mut tasks);

    // A part that ends before it was asked to takes the others with it: half an operator is worse than none.
    let ended = tasks.join_next().await.is_some();
    let asked = stop.is_cancelled();
    if ended && !asked {
        tracing::error!("a part of the operator ended by itself");
        stop.cancel();
    }
    let all = async { while tasks.join_next().await.is_some() {} };
    if timeout(GRACE, all).await.is_err() {
        tracing::warn!("something did not end in time and is left");
    }
    asked
}

fn namespace_scopes(scope: &Scope) -> Vec<(Option<String>, watcher::Config)> {
    match scope {
        Scope::All => vec![(None, watcher::Config::default())],
        Scope::Namespaces(names) => {
            let one = |name: &String| watcher::Config::default().fields(&format!("metadata.name={name}"));
            names.iter().map(|name| (Some(name.clone()), one(name))).collect()
        }
    }
}

struct Start<'a> {
    context: &'a Arc<Context>,
    stop: &'a CancellationToken,
}

impl Start<'_> {
    /// One controller a scope.
    #[expect(clippy::too_many_arguments, reason = "three calls, in one place")]
    fn all<K, F, R>(
        &self,
        kind: &'static str,
        concurrency: u16,
        cache: &Cache<K>,
        changes: Scoped<K>,
        mut wakes: Wakes<K>,
        reconcile: F,
        tasks: &mut JoinSet<()>,
    ) where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
        Guarded<K>: Resource<DynamicType = ()>,
        F: Fn(Arc<K>, Arc<Context>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<Next, Error>> + Send + 'static,
    {
        for (key, changes) in changes {
            let Some(store) = cache.store(key.as_deref()).cloned() else { continue };
            let controller = Controller {
                kind,
                concurrency,
                context: Arc::clone(self.context),
                metrics: Arc::clone(&self.context.metrics),
                store,
                changes,
                wakes: wakes.remove(&key).unwrap_or_else(|| futures::stream::pending().boxed()),
            };
            tasks.spawn(controller.run(reconcile.clone(), self.stop.clone()));
        }
    }
}

/// Decided on without policies, namespaces and switch, everything would be refused at first.
async fn known(context: &Context, stop: &CancellationToken) {
    let known = async {
        context.policies.ready().await;
        context.namespaces.ready().await;
        let mut switch = context.switch.clone();
        // Without a reading in time it is Frozen, and that is something to go on.
        let _ = timeout(FIRST_READING, switch.wait_for(|s| *s != Switch::Frozen)).await;
    };
    tokio::select! {
        () = known => {}
        () = stop.cancelled() => {}
    }
}

/// Keeps readiness true to the secret's file, which may come or go later.
async fn watch_secret(context: Arc<Context>, stop: CancellationToken) {
    let mut missing = false;
    loop {
        let problem = context.secret.read().err().map(|problem| problem.to_string());
        if missing && problem.is_none() {
            context.wake_everything();
        }
        missing = problem.is_some();
        context.readiness.set("secret", problem);
        tokio::select! {
            () = sleep(SECRET) => {}
            () = stop.cancelled() => return,
        }
    }
}
