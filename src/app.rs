//! Wiring and shutdown: from a configuration to running controllers.
//!
//! One cancellation for the process. A lost Lease ends it; running commands are left for adoption. Must not decide.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{ConfigMap, Namespace},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, ResourceExt, api::PostParams, runtime::watcher};
use thiserror::Error;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    access::switch::{self, Switch},
    api::{
        ExecutionPolicy, Run, SandboxSession,
        names::{INSTALLATION_CONFIG_MAP, LEASE},
    },
    cli::Config,
    controllers::{
        context::{Context, SecretFile, Settings, Waiting},
        driver::{Controller, Waker},
        policy, run,
        run::{executions::Executions, reads::Reads},
        session,
        session::memory::Memories,
    },
    kubernetes::{
        lease::{Elector, Held},
        scope::{self, Changes, Scope},
    },
    serve::{
        health::{self, Readiness},
        metrics::Metrics,
    },
    sprites,
};

/// How long what is under way may take to end once a stop was asked for.
const GRACE: Duration = Duration::from_secs(20);
/// How long the first reading of the switch is waited for.
const FIRST_READING: Duration = Duration::from_secs(10);
/// No call to the API server is quiet for longer; watches have a limit of their own below it.
const QUIET: Duration = Duration::from_secs(330);

/// Why the operator ended.
#[derive(Debug, Error)]
pub enum AppError {
    /// No usable client configuration.
    #[error("no Kubernetes client configuration: {0}")]
    Infer(#[from] kube::config::InferConfigError),
    /// The API server.
    #[error("the API server: {0}")]
    Kubernetes(#[from] kube::Error),
    /// The Sprites client.
    #[error("the Sprites client: {0}")]
    Sprites(#[from] sprites::ConfigError),
    /// Metrics.
    #[error("metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    /// Listening, or signals.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The installation's ConfigMap has no UID.
    #[error("the ConfigMap {INSTALLATION_CONFIG_MAP} came without a UID")]
    Installation,
    /// Somebody else works now.
    #[error("the Lease was lost")]
    LeaseLost,
}

/// Runs the operator until a signal, or until it cannot go on.
pub async fn run(config: Config) -> Result<(), AppError> {
    let stop = CancellationToken::new();
    tokio::spawn(signals(stop.clone())?);
    let readiness = Readiness::new();
    let metrics = Arc::new(Metrics::new()?);
    if let Some(address) = config.listen {
        let listener = TcpListener::bind(address).await?;
        tracing::info!(address = %listener.local_addr()?, "listening");
        tokio::spawn(health::serve(listener, readiness.clone(), Arc::clone(&metrics), stop.clone()));
    }
    let client = client().await?;
    let sprites = sprites::Client::new(config.sprites.clone())?;
    let secret = SecretFile(config.session_secret_file.clone());
    // Said before anything else: without a secret nothing is created.
    readiness.set("secret", secret.read().err().map(|problem| problem.to_string()));

    let leases: Api<Lease> = Api::namespaced(client.clone(), &config.operator_namespace);
    let identity = format!("{}_{}", hostname(), uuid::Uuid::new_v4());
    let (elector, lease) = Elector::new(leases, LEASE, identity.clone());
    // A waiting operator is ready: it does what it is there for.
    readiness.set("start", None);
    tracing::info!(identity, "waiting for the Lease");
    tokio::select! {
        () = elector.acquire() => {}
        () = stop.cancelled() => return Ok(()),
    }
    tracing::info!(identity, "holding the Lease");
    metrics.set_leading(true);
    let working = stop.child_token();
    let holding = tokio::spawn({
        let (elector, stop) = (Arc::clone(&elector), CancellationToken::new());
        let release = stop.clone();
        let task = tokio::spawn(async move { elector.hold(stop).await });
        let working = working.clone();
        async move {
            // Held until the controllers ended, so that nothing is sent without it.
            tokio::pin!(task);
            tokio::select! {
                held = &mut task => {
                    working.cancel();
                    held
                }
                () = finished(&working) => {
                    release.cancel();
                    task.await
                }
            }
        }
    });
    let settings = settings(&client, &config).await?;
    tracing::info!(installation = settings.installation, "starting controllers");
    let result =
        controllers(client, sprites, secret, settings, metrics, readiness, lease, &config, working.clone()).await;
    working.cancel();
    let held = timeout(GRACE, holding).await;
    result?;
    match held {
        Ok(Ok(Ok(Held::Released))) => Ok(()),
        _ if stop.is_cancelled() => Ok(()),
        _ => Err(AppError::LeaseLost),
    }
}

/// Ends when the controllers were told to stop and had their time.
async fn finished(working: &CancellationToken) {
    working.cancelled().await;
}

fn signals(stop: CancellationToken) -> Result<impl Future<Output = ()>, std::io::Error> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("asked to stop");
        stop.cancel();
    })
}

fn hostname() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

async fn client() -> Result<Client, AppError> {
    let mut config = kube::Config::infer().await?;
    // Retries are ours, by what may be repeated; and no answer at all is an answer, too.
    config.default_retry = false;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.read_timeout = Some(QUIET);
    config.reset_reader_on_write = true;
    config.write_timeout = Some(Duration::from_secs(30));
    Ok(Client::try_from(config)?)
}

async fn settings(client: &Client, config: &Config) -> Result<Settings, AppError> {
    let installation = match &config.installation {
        Some(id) => id.clone(),
        None => installation(client, &config.operator_namespace).await?,
    };
    Ok(Settings {
        operator_namespace: config.operator_namespace.clone(),
        installation,
        default_policy: config.default_policy.clone(),
        policy_selector: config.policy_selector.clone(),
        open_egress: config.open_egress,
        absent_after: config.absent_after,
        create_grace: config.create_grace,
        verify_interval: config.verify_interval,
    })
}

/// The UID of the ConfigMap that stands for this installation, which is made if need be.
async fn installation(client: &Client, namespace: &str) -> Result<String, AppError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let found = match api.get_opt(INSTALLATION_CONFIG_MAP).await? {
        Some(found) => found,
        None => {
            let new = ConfigMap {
                metadata: ObjectMeta { name: Some(INSTALLATION_CONFIG_MAP.to_owned()), ..ObjectMeta::default() },
                ..ConfigMap::default()
            };
            match api.create(&PostParams::default(), &new).await {
                Ok(made) => made,
                Err(kube::Error::Api(status)) if status.code == 409 => api.get(INSTALLATION_CONFIG_MAP).await?,
                Err(error) => return Err(error.into()),
            }
        }
    };
    found.uid().ok_or(AppError::Installation)
}

#[expect(clippy::too_many_arguments, reason = "wiring happens once, here")]
async fn controllers(
    client: Client,
    sprites: sprites::Client,
    secret: SecretFile,
    settings: Settings,
    metrics: Arc<Metrics>,
    readiness: Readiness,
    lease: crate::kubernetes::lease::Handle,
    config: &Config,
    stop: CancellationToken,
) -> Result<(), AppError> {
    let (switch_sender, switch) = watch::channel(Switch::Frozen);
    let config_maps: Api<ConfigMap> = Api::namespaced(client.clone(), &settings.operator_namespace);
    let mut tasks = JoinSet::new();
    tasks.spawn(switch::follow(config_maps, switch_sender, stop.clone()));

    let selector = settings.policy_selector.clone();
    let policy_config = watcher::Config { label_selector: selector, ..watcher::Config::default() };
    let (policies, policy_changes) = scope::cluster::<ExecutionPolicy>(&client, vec![(None, policy_config)]);
    let namespace_scopes = match &config.scope {
        Scope::All => vec![(None, watcher::Config::default())],
        Scope::Namespaces(names) => {
            let one = |name: &String| watcher::Config::default().fields(&format!("metadata.name={name}"));
            names.iter().map(|name| (Some(name.clone()), one(name))).collect()
        }
    };
    let (namespaces, namespace_changes) = scope::cluster::<Namespace>(&client, namespace_scopes);
    let (sessions, session_changes) = scope::namespaced::<SandboxSession>(&client, &config.scope);
    let (runs, run_changes) = scope::namespaced::<Run>(&client, &config.scope);
    let (wake_runs, mut run_wakes) = Waker::new(run_changes.iter().map(|(key, _)| key));
    let (wake_sessions, mut session_wakes) = Waker::new(session_changes.iter().map(|(key, _)| key));

    let context = Arc::new(Context {
        executions: Executions::new(Arc::clone(&metrics)),
        compilations: policy::Compilations::default(),
        reads: Reads::default(),
        memories: Memories::default(),
        waiting: Waiting::default(),
        client,
        sprites,
        settings,
        metrics,
        readiness,
        lease,
        switch: switch.clone(),
        secret,
        policies,
        sessions,
        runs,
        namespaces,
        wake_runs,
        wake_sessions,
    });

    tasks.spawn(on_switch(Arc::clone(&context), switch, stop.clone()));
    tasks.spawn(watch_secret(Arc::clone(&context), stop.clone()));
    for (_, changes) in namespace_changes {
        tasks.spawn(on_namespace(Arc::clone(&context), changes, stop.clone()));
    }
    for (_, changes) in policy_changes {
        let relate = Arc::clone(&context);
        // What depends on a policy looks again when it changes.
        let changes: Changes<ExecutionPolicy> = changes.inspect(move |_| relate.wake_everything()).boxed();
        let Some(store) = context.policies.store(None).cloned() else { continue };
        let controller = Controller {
            kind: "ExecutionPolicy",
            concurrency: 2,
            context: Arc::clone(&context),
            metrics: Arc::clone(&context.metrics),
            store,
            changes,
            wakes: futures::stream::pending().boxed(),
        };
        tasks.spawn(controller.run(policy::reconcile, stop.clone()));
    }
    // Decided on without policies, namespaces and switch, everything would be refused at first.
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
    for (key, changes) in session_changes {
        let Some(store) = context.sessions.store(key.as_deref()).cloned() else { continue };
        let controller = Controller {
            kind: "SandboxSession",
            concurrency: 32,
            context: Arc::clone(&context),
            metrics: Arc::clone(&context.metrics),
            store,
            changes,
            wakes: session_wakes.remove(&key).unwrap_or_else(|| futures::stream::pending().boxed()),
        };
        tasks.spawn(controller.run(session::reconcile, stop.clone()));
    }
    for (key, changes) in run_changes {
        let Some(store) = context.runs.store(key.as_deref()).cloned() else { continue };
        let controller = Controller {
            kind: "Run",
            concurrency: 64,
            context: Arc::clone(&context),
            metrics: Arc::clone(&context.metrics),
            store,
            changes,
            wakes: run_wakes.remove(&key).unwrap_or_else(|| futures::stream::pending().boxed()),
        };
        tasks.spawn(controller.run(run::reconcile, stop.clone()));
    }
    // A part that ends before it was asked to takes the others with it: half an operator is worse than none.
    if tasks.join_next().await.is_some() && !stop.is_cancelled() {
        tracing::error!("a part of the operator ended by itself");
        stop.cancel();
    }
    let all = async { while tasks.join_next().await.is_some() {} };
    if timeout(GRACE, all).await.is_err() {
        tracing::warn!("something did not end in time and is left");
    }
    Ok(())
}

/// The switch starts and stops things.
async fn on_switch(context: Arc<Context>, mut switch: watch::Receiver<Switch>, stop: CancellationToken) {
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

/// A namespace that is opted in or out starts and stops things. Without it the cache would not be filled, either.
async fn on_namespace(context: Arc<Context>, mut changes: Changes<Namespace>, stop: CancellationToken) {
    loop {
        tokio::select! {
            change = changes.next() => match change {
                Some(Ok(_)) => context.wake_everything(),
                Some(Err(error)) => tracing::warn!(%error, "watching namespaces"),
                None => return,
            },
            () = stop.cancelled() => return,
        }
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
            () = sleep(Duration::from_secs(5)) => {}
            () = stop.cancelled() => return,
        }
    }
}
