//! Services of one Sprite: programs that run whenever it does. Defined, stored, started at a cold boot, started again
//! when they end. Knows nothing of HTTP.
//!
//! A service alone keeps no Sprite awake; while it is frozen, so are its services. Lock order: `changing`, then what a
//! unit has, then `lifecycle` of the Sprite. What holds `lifecycle` may wait for a unit only when the sandbox has
//! ended.

pub(crate) mod definition;
mod follow;
mod journal;
mod state;
mod unit;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::warn;

pub(crate) use definition::Definition;
use definition::{Refusal, Service, boot_order, http_owner, is_valid_name, needed_by};
pub(crate) use follow::Follow;
use journal::Journal;
use state::{Event, Phase, State};
use unit::Unit;

use super::guest::Guest;
use super::lifecycle::Awake;
use super::sprite::{Sprite, blocking};

/// How long a service that is replaced or deleted may take to stop.
const LEAVE: Duration = Duration::from_secs(10);
/// Of how many deleted services the logs stay.
const MOST_LEFT: usize = 32;
/// The port of the URL when no service has one.
const DEFAULT_PORT: u16 = 8080;
/// How long after its start a service may take to listen.
const LISTENING: Duration = Duration::from_secs(10);

/// Why something about a service did not happen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    #[error("service not found: {0}")]
    NotFound(String),
    #[error("{0}")]
    Bad(String),
    #[error("{0}")]
    Conflict(String),
    #[error("service not running: {0}")]
    NotRunning(String),
    #[error("cannot save the service")]
    Io(#[from] io::Error),
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Bad(why) => Self::Bad(why),
            Refusal::Conflict(why) => Self::Conflict(why),
        }
    }
}

/// What the services of one Sprite are doing.
#[derive(Default)]
pub(crate) struct Services {
    units: Mutex<BTreeMap<String, Arc<Unit>>>,
    /// Those that a boot is still to start.
    booting: Mutex<BTreeSet<String>>,
    /// Serializes changes of the definitions.
    changing: tokio::sync::Mutex<()>,
}

impl Services {
    /// Returns when no service runs any more; the sandbox must have ended.
    pub(super) async fn ended(&self) {
        self.booting().clear();
        let units: Vec<Arc<Unit>> = self.lock().values().cloned().collect();
        join_all(units.iter().map(|unit| unit.ended())).await;
    }

    fn booting(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.booting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Unit>>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sprite {
    /// All services, by name.
    pub(crate) fn services(&self) -> Vec<Value> {
        self.meta().services.iter().map(|(name, service)| self.describe(name, &service.definition)).collect()
    }

    /// One service.
    pub(crate) fn service(&self, name: &str) -> Result<Value, ServiceError> {
        self.defined(name).map(|service| self.describe(name, &service.definition))
    }

    /// Makes or replaces a service and starts it. Followed for `duration`.
    pub(crate) async fn put_service(
        self: &Arc<Self>,
        awake: Awake,
        name: String,
        definition: Definition,
        duration: Duration,
    ) -> Result<Follow, ServiceError> {
        let _one = self.services.changing.lock().await;
        definition.check(&name, &self.meta().services)?;
        let service = Service { definition, stopped: false };
        let unit = self.unit(&name);
        if self.defined(&name).is_err()
            && let Err(error) = unit.forget().await
        {
            warn!(%error, "a service goes on with the log of one before it");
        }
        let stored = (name.clone(), service.clone());
        self.change(|meta| drop(meta.services.insert(stored.0, stored.1))).await?;
        self.record("service-put", json!({ "service": name, "argv": service.definition.spawn().argv }));
        Ok(self.starting(awake, &name, unit, &service.definition, true, duration).await)
    }

    /// Stops and removes a service. What it has written stays to be read.
    pub(crate) async fn delete_service(self: &Arc<Self>, name: &str) -> Result<(), ServiceError> {
        let _one = self.services.changing.lock().await;
        self.defined(name)?;
        if let Some(other) = needed_by(name, &self.meta().services) {
            return Err(ServiceError::Conflict(format!("service {other} needs {name}: delete it first")));
        }
        let unit = self.unit(name);
        // Out of the list first: what is listed is started at the next boot.
        self.change(|meta| drop(meta.services.remove(name))).await?;
        unit.hold().await.stop(LEAVE).await;
        self.services.lock().remove(name);
        self.services.booting().remove(name);
        let (own, services) = (self.shared.store.directory(&self.meta().name), self.meta().services);
        let pruned = blocking(move || journal::prune(&own, |name| services.contains_key(name), MOST_LEFT)).await;
        if let Err(error) = pruned {
            warn!(%error, "logs of deleted services stay behind");
        }
        self.record("service-delete", json!({ "service": name }));
        Ok(())
    }

    /// Starts a service, after stopping it if `anew`. Followed for `duration`.
    pub(crate) async fn start_service(
        self: &Arc<Self>,
        awake: Awake,
        name: String,
        anew: bool,
        duration: Duration,
    ) -> Result<Follow, ServiceError> {
        let _one = self.services.changing.lock().await;
        let service = self.defined(&name)?;
        self.set_stopped(&name, false).await?;
        let unit = self.unit(&name);
        Ok(self.starting(awake, &name, unit, &service.definition, anew, duration).await)
    }

    /// Stops a service until it is started by hand. Followed to its end.
    pub(crate) async fn stop_service(
        self: &Arc<Self>,
        awake: Awake,
        name: String,
        patience: Duration,
    ) -> Result<Follow, ServiceError> {
        let _one = self.services.changing.lock().await;
        let service = self.defined(&name)?;
        let unit = self.unit(&name);
        let mut held = unit.hold().await;
        // Just after a boot it may be about to be started: then it is not.
        if !held.is_live() && service.stopped {
            return Err(ServiceError::NotRunning(name));
        }
        self.set_stopped(&name, true).await?;
        self.services.booting().remove(&name);
        let events = unit.follow();
        let work = tokio::spawn(async move {
            held.stop(patience).await;
        });
        Ok(Follow::new(awake, &name, Vec::new(), events, Some(work), Duration::ZERO))
    }

    /// Signals the process of a service; what that ends is started again.
    pub(crate) async fn signal_service(&self, guest: &Guest, name: &str, signal: i32) -> Result<(), ServiceError> {
        self.defined(name)?;
        let sent = self.unit(name).signal(guest, signal).await;
        if sent { Ok(()) } else { Err(ServiceError::NotRunning(name.to_owned())) }
    }

    /// The last output of a service, followed for `duration`.
    pub(crate) async fn service_logs(
        &self,
        awake: Awake,
        name: &str,
        lines: Option<usize>,
        duration: Duration,
    ) -> Result<Follow, ServiceError> {
        let unit = if self.defined(name).is_ok() { self.unit(name) } else { self.deleted(name).await? };
        let (known, events) = unit.logs(lines).await?;
        Ok(Follow::new(awake, name, known, events, None, duration))
    }

    /// The port the URL leads to. The service it belongs to is started unless it was stopped by hand.
    pub(crate) async fn serve_http(self: &Arc<Self>, guest: &Arc<Guest>) -> u16 {
        let find = || http_owner(&self.meta().services).map(|(name, port)| (name.to_owned(), port));
        let Some((name, port)) = find() else {
            return DEFAULT_PORT;
        };
        if self.unit(&name).state().phase == Phase::Running {
            return port;
        }
        let _one = self.services.changing.lock().await;
        if let Ok(service) = self.defined(&name)
            && !service.stopped
        {
            self.unit(&name).hold().await.start(self, guest, service.definition.spawn()).await;
        }
        port
    }

    /// Whether the service of the URL may be about to listen.
    pub(crate) fn may_listen_soon(&self) -> bool {
        let services = self.meta().services;
        let Some((name, _)) = http_owner(&services) else {
            return false;
        };
        let state = self.unit(name).state();
        let young = |since: Timestamp| {
            Duration::try_from(Timestamp::now().duration_since(since)).is_ok_and(|age| age < LISTENING)
        };
        match state.phase {
            Phase::Starting => true,
            Phase::Running => state.started_at.is_some_and(young),
            Phase::Stopped | Phase::Stopping | Phase::Failed => false,
        }
    }

    /// Has all that is to run in a sandbox be seen as starting, before the sandbox is seen.
    pub(super) fn announce_services(&self) {
        let services = self.meta().services;
        let names = services.into_iter().filter(|(_, service)| !service.stopped).map(|(name, _)| name);
        *self.services.booting() = names.collect();
    }

    /// Starts all that is to run in a sandbox that has just started, each after those it needs.
    pub(super) async fn boot_services(self: Arc<Self>, guest: Arc<Guest>) {
        for name in boot_order(&self.meta().services) {
            // It may have been stopped or deleted meanwhile.
            let _one = self.services.changing.lock().await;
            if !guest.is_alive() {
                return;
            }
            if let Ok(service) = self.defined(&name)
                && !service.stopped
            {
                self.unit(&name).hold().await.start(&self, &guest, service.definition.spawn()).await;
            }
            self.services.booting().remove(&name);
        }
    }

    async fn starting(
        self: &Arc<Self>,
        awake: Awake,
        name: &str,
        unit: Arc<Unit>,
        definition: &Definition,
        anew: bool,
        duration: Duration,
    ) -> Follow {
        // Taken here and given on, so that calls take effect in the order they were answered.
        let mut held = unit.hold().await;
        let events = unit.follow();
        // Who starts what runs is told that it does.
        let runs = !anew && unit.state().phase == Phase::Running;
        let known = if runs { vec![journal::event("started", [])] } else { Vec::new() };
        let (sprite, guest, spawn) = (Arc::clone(self), Arc::clone(&awake), definition.spawn());
        // Goes on when the client leaves.
        let work = tokio::spawn(async move {
            if anew {
                held.stop(LEAVE).await;
            }
            held.start(&sprite, &guest, spawn).await;
        });
        Follow::new(awake, name, known, events, Some(work), duration)
    }

    async fn set_stopped(self: &Arc<Self>, name: &str, stopped: bool) -> io::Result<()> {
        if self.meta().services.get(name).is_some_and(|service| service.stopped != stopped) {
            self.change(|meta| {
                if let Some(service) = meta.services.get_mut(name) {
                    service.stopped = stopped;
                }
            })
            .await?;
        }
        Ok(())
    }

    /// What is left of a service that has been deleted.
    async fn deleted(&self, name: &str) -> Result<Arc<Unit>, ServiceError> {
        let journal = is_valid_name(name).then(|| Journal::new(&self.shared.store.directory(&self.meta().name), name));
        let found = blocking(move || Ok(journal.filter(Journal::exists))).await?;
        let journal = found.ok_or_else(|| ServiceError::NotFound(name.to_owned()))?;
        Ok(Unit::new(name, journal))
    }

    fn defined(&self, name: &str) -> Result<Service, ServiceError> {
        self.meta().services.remove(name).ok_or_else(|| ServiceError::NotFound(name.to_owned()))
    }

    fn unit(&self, name: &str) -> Arc<Unit> {
        let own = self.shared.store.directory(&self.meta().name);
        let mut units = self.services.lock();
        Arc::clone(units.entry(name.to_owned()).or_insert_with(|| Unit::new(name, Journal::new(&own, name))))
    }

    fn state_of(&self, name: &str) -> State {
        let state = self.unit(name).state();
        let waits = state.phase == Phase::Stopped && self.services.booting().contains(name);
        if waits { state.after(Event::Starting, Timestamp::now()).0 } else { state }
    }

    fn describe(&self, name: &str, definition: &Definition) -> Value {
        let Definition { cmd, args, env, dir, needs, http_port } = definition;
        let fields = [
            ("name", Some(name.into())),
            ("cmd", Some(cmd.as_str().into())),
            ("args", Some(json!(args))),
            ("needs", Some(json!(needs))),
            ("env", (!env.is_empty()).then(|| json!(env))),
            ("dir", dir.as_deref().map(Value::from)),
            ("http_port", Some(json!(http_port))),
            ("state", Some(self.state_of(name).describe(name))),
        ];
        journal::object(fields.into_iter().filter_map(|(field, value)| Some((field, value?))))
    }
}
