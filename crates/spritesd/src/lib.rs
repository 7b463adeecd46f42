//! `spritesd`: a local server that speaks the Sprites API. Each Sprite is a real Linux sandbox on this machine.
//!
//! It shares nothing with the client, the crate `sprite-operator-sprites`: a misread protocol must not cancel out. It trusts its callers
//! (they hold the token) and distrusts its guests: nothing a guest does may reach the host, another guest, the
//! token or the daemon's memory.
//!
//! ```text
//! routes ──► registry, sprite ──► exec (sessions) ──► guest ──► bubblewrap ──► agent (first process inside)
//!   files ──────────────────────────────────────────► guest
//!                 store: what survives      faults, log, admin: for tests
//! ```
//!
//! With `--guest instant` there is no sandbox: `instant` answers in the guest's place.

#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects"))]

mod activity;
mod admin;
mod blackhole;
mod cgroup;
mod checkpoints;
pub mod cli;
mod connection;
mod duration;
mod errors;
mod exec;
mod faults;
mod files;
mod guest;
mod guest_api;
mod instant;
mod lifecycle;
mod log;
mod names;
mod namespace_holder;
mod network;
mod platform;
mod policy;
mod process_trace;
mod registry;
mod routes;
mod services;
mod settings;
mod sprite;
mod storage;
mod store;
mod tasks;
#[cfg(test)]
pub(crate) mod tests;
mod world_cli;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use secrecy::{ExposeSecret as _, SecretString};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use cli::{AGENT, LAUNCH};
pub use faults::{Effect, FaultRule};
pub use guest::SelfProgram;
pub use settings::{Boot, GroupKind, GuestKind, Limit, NetworkKind, OnCold, Rate, RestorePolicy, Settings};

use connection::{Connection, CuttableListener};
use faults::Faults;
use namespace_holder::NamespaceHolder;
use registry::Registry;
use routes::App;

/// What a server needs to know.
#[derive(Debug)]
pub struct Config {
    /// Address of the API; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Loopback address of the log and the scripted failures.
    pub admin: Option<SocketAddr>,
    /// Directory of everything that survives; one server at a time.
    pub data: PathBuf,
    /// The bearer token clients must send.
    pub token: SecretString,
    /// Scripted failures to begin with.
    pub faults: Vec<FaultRule>,
    /// How the server starts parts of itself.
    pub program: SelfProgram,
    /// How the platform behaves.
    pub settings: Settings,
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A file or an address cannot be used.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Without a token everybody would be let in.
    #[error("the token is empty")]
    NoToken,
    /// The admin's address has no token, so nobody else may reach it.
    #[error("the admin address must be loopback")]
    AdminNotLoopback,
    /// The world cannot be made, or a host of it makes no sense.
    #[error("{0}")]
    Network(String),
    /// The scripted failures make no sense.
    #[error("invalid faults: {0}")]
    Faults(String),
}

/// A running server. Dropping it ends the guests at the latest with the process; [`Server::stop`] waits for that.
pub struct Server {
    address: SocketAddr,
    admin: Option<SocketAddr>,
    app: Arc<App>,
    holder: Option<NamespaceHolder>,
    serving: JoinHandle<io::Result<()>>,
    helping: Option<JoinHandle<io::Result<()>>>,
    failed: CancellationToken,
    /// Ends all connections of the API.
    cut: CancellationToken,
}

/// Starts a server. Every Sprite found in the data directory is cold.
pub async fn start(config: Config) -> Result<Server, StartError> {
    let Config { listen, admin, data, token, faults, program, settings } = config;
    if token.expose_secret().is_empty() {
        return Err(StartError::NoToken);
    }
    if admin.is_some_and(|admin| !admin.ip().is_loopback()) {
        return Err(StartError::AdminNotLoopback);
    }
    let scripted = Faults::default();
    scripted.replace(faults).map_err(StartError::Faults)?;
    let listener = bind("--listen", listen).await?;
    let address = listener.local_addr()?;
    let (shared, holder) = platform::build(&data, settings, program, address.port()).await?;
    let registry = Registry::load(Arc::new(shared)).await?;
    let app =
        Arc::new(App { registry, faults: scripted, token, holder: holder.as_ref().map_or(0, NamespaceHolder::pid) });
    let (failed, cut) = (CancellationToken::new(), CancellationToken::new());
    let listener = CuttableListener { listener, stop: cut.clone(), blackhole: Arc::default() };
    let service = routes::router(Arc::clone(&app)).into_make_service_with_connect_info::<Connection>();
    let serving = tokio::spawn({
        let failed = failed.clone().drop_guard();
        async move {
            let _failed = failed;
            axum::serve(listener, service).await
        }
    });
    let (admin, helping) = match admin {
        None => (None, None),
        Some(admin) => {
            let listener = bind("--admin", admin).await?;
            let address = listener.local_addr()?;
            let router = admin::router(Arc::clone(&app));
            (Some(address), Some(tokio::spawn(async move { axum::serve(listener, router).await })))
        }
    };
    Ok(Server { address, admin, app, holder, serving, helping, failed, cut })
}

async fn bind(flag: &str, address: SocketAddr) -> io::Result<TcpListener> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| io::Error::new(error.kind(), format!("{flag} {address}: {error}")))
}

impl Server {
    /// Where the API is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the log and the scripted failures are.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Returns if the API is not served any more, with what is known of why.
    pub async fn failed(&self) -> io::Error {
        self.failed.cancelled().await;
        io::Error::other("the listener ended")
    }

    /// Power loss: all guests end, Sprites stay with their files and policies.
    pub async fn stop(mut self) {
        self.serving.abort();
        if let Some(helping) = &self.helping {
            helping.abort();
        }
        self.app.registry.close().await;
        self.cut.cancel();
        if let Some(holder) = &mut self.holder {
            holder.stop().await;
        }
    }
}
