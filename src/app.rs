//! Wiring and shutdown: from a configuration to running controllers.
//!
//! One cancellation for the process. A lost Lease ends it; running commands are left for adoption. Must not decide.

mod census;
pub mod reference;
mod wiring;

use std::{path::Path, sync::Arc, time::Duration};

use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::ConfigMap},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams},
};
use thiserror::Error;
use tokio::{net::TcpListener, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    cli::Config,
    config::{SecretFile, Settings},
    controllers::{error::RESULTS, session, state::own_secrets::OwnSecrets},
    kubernetes::{
        apply::within,
        clock::{self, Clock},
        lease::{Elector, LeaseEnd},
    },
    lockdown::apply::OUTCOMES,
    serve::health::{self, Readiness},
    telemetry::metrics::Metrics,
};
use api::{
    ExecutionPolicy,
    names::{INSTALLATION_CONFIG_MAP, LEASE},
    reasons::SessionReason,
};

/// How long what is under way may take to end once a stop was asked for.
const GRACE: Duration = Duration::from_secs(20);
/// No call to the API server is quiet for longer; watches have a limit of their own below it.
const READ_TIMEOUT: Duration = Duration::from_secs(330);

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
    /// A controller or a watch ended, which only a mistake of ours makes.
    #[error("a part of the operator ended by itself")]
    PartEnded,
    /// The API server does not read it as a label selector.
    #[error(
        "--policy-selector: the API server refuses `{selector}`: {message}; write one such as team=blue or tier in (a,b)"
    )]
    Selector {
        /// As given.
        selector: String,
        /// What the API server says.
        message: String,
    },
    /// Somebody else works now.
    #[error("the Lease was lost")]
    LeaseLost,
}

/// How long a call of a reconcile may wait for its turn: a pause the platform asks for must not keep stops waiting.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(2);

/// Runs the operator until a signal, or until it cannot go on.
pub async fn run(config: Config) -> Result<(), AppError> {
    let stop = CancellationToken::new();
    tokio::spawn(signals(stop.clone())?);
    let readiness = Readiness::new();
    let metrics = Arc::new(Metrics::new(
        &RESULTS,
        &OUTCOMES.map(SessionReason::as_str),
        &session::TOLD.map(|(reason, _)| reason.as_str()),
    )?);
    if let Some(address) = config.listen {
        let listener = TcpListener::bind(address).await?;
        tracing::info!(address = %listener.local_addr()?, "listening");
        tokio::spawn(health::serve(listener, readiness.clone(), Arc::clone(&metrics), stop.clone()));
    }
    let client = client().await?;
    let counted = sprites::Config { metrics: Some(metrics.sprites()), ..config.sprites.clone() };
    // A reconcile that waits for its turn holds a worker: what is held back longer comes again by its own back-off.
    let sprites = sprites::Client::new(counted)?.sent_within(QUEUE_TIMEOUT);
    let secret = SecretFile(config.session_secret_file.clone());
    let own = [config.sprites.token.file(), Some(config.session_secret_file.as_path())];
    let own_secrets = OwnSecrets::new(own.into_iter().flatten().map(Path::to_path_buf).collect());
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
    // Given back only once the controllers ended, so that nothing is sent without it.
    let ended = CancellationToken::new();
    let holding = tokio::spawn({
        let (ended, working) = (ended.clone(), working.clone());
        async move {
            let held = elector.hold(ended).await;
            working.cancel();
            held
        }
    });
    let settings = settings(&client, &config).await?;
    let clock = Arc::new(Clock::default());
    clock.look(&client).await;
    tokio::spawn(keep_time(Arc::clone(&clock), client.clone(), working.clone()));
    tracing::info!(installation = settings.installation, "starting controllers");
    let parts = wiring::Parts {
        client,
        sprites,
        secret,
        own_secrets,
        settings,
        metrics,
        readiness,
        lease,
        clock,
        scope: config.scope,
    };
    let asked = wiring::controllers(parts, working.clone()).await;
    ended.cancel();
    match timeout(GRACE, holding).await {
        _ if stop.is_cancelled() => Ok(()),
        Ok(Ok(LeaseEnd::Released)) if !asked => Err(AppError::PartEnded),
        _ => Err(AppError::LeaseLost),
    }
}

/// Keeps the API server's clock.
async fn keep_time(clock: Arc<Clock>, client: Client, stop: CancellationToken) {
    let look = async {
        loop {
            tokio::time::sleep(clock::INTERVAL).await;
            clock.look(&client).await;
        }
    };
    tokio::select! {
        () = look => {}
        () = stop.cancelled() => {}
    }
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
    config.read_timeout = Some(READ_TIMEOUT);
    config.reset_reader_on_write = true;
    config.write_timeout = Some(Duration::from_secs(30));
    Ok(Client::try_from(config)?)
}

async fn settings(client: &Client, config: &Config) -> Result<Settings, AppError> {
    let installation = match &config.installation {
        Some(id) => id.clone(),
        None => installation(client, &config.operator_namespace).await?,
    };
    if let Some(selector) = &config.policy_selector {
        check_selector(client, selector).await?;
    }
    Ok(Settings {
        instance: hostname(),
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

/// Has the API server read a selector: with a wrong one, a watch would only fail again and again.
async fn check_selector(client: &Client, selector: &str) -> Result<(), AppError> {
    let policies: Api<ExecutionPolicy> = Api::all(client.clone());
    match within(policies.list_metadata(&ListParams::default().labels(selector).limit(1))).await {
        Err(kube::Error::Api(status)) if status.code == 400 => {
            Err(AppError::Selector { selector: selector.to_owned(), message: status.message.clone() })
        }
        // Other answers, such as 403, say nothing of the selector: the watch tells of them, and tries again.
        Ok(_) | Err(kube::Error::Api(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The UID of the ConfigMap that stands for this installation, which is made if need be.
async fn installation(client: &Client, namespace: &str) -> Result<String, AppError> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    if let Some(found) = within(api.get_opt(INSTALLATION_CONFIG_MAP)).await? {
        return found.uid().ok_or(AppError::Installation);
    }
    let new = ConfigMap {
        metadata: ObjectMeta { name: Some(INSTALLATION_CONFIG_MAP.to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let made = match within(api.create(&PostParams::default(), &new)).await {
        Ok(made) => made,
        Err(kube::Error::Api(status)) if status.code == 409 => within(api.get(INSTALLATION_CONFIG_MAP)).await?,
        Err(error) => return Err(error.into()),
    };
    made.uid().ok_or(AppError::Installation)
}
