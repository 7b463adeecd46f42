//! When a Sprite runs, pauses and ends: cold → running → warm → cold, driven by activity alone, as there is no call
//! that sends one to sleep.
//!
//! Running is metered. Warm means: every process stopped where it is, memory kept, connections to the outside gone.
//! Cold means: no process, only files, policy and definitions.

use std::io;
use std::ops::Deref;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use super::activity::Hold;
use super::cgroup::{Bounds, Group};
use super::guest::etc::write_resolver;
use super::guest::launch::{LaunchPlan, Parts};
use super::guest::{Guest, GuestError, Sandbox};
use super::guest_api;
use super::instant::Machine;
use super::network::{GuestNetwork, Lease, NetworkError, RESOLVER};
use super::policy::NetworkPolicy;
use super::settings::OnCold;
use super::sprite::{Sprite, WakeError};

/// How long the first process may take to answer.
const ANSWER: Duration = Duration::from_secs(5);

/// What a Sprite looks like from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Cold,
    Warm,
    Running,
}

impl Status {
    /// The word on the wire.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Running => "running",
        }
    }
}

/// A started sandbox with what belongs to it.
pub(crate) struct Vm {
    guest: Arc<Guest>,
    group: Group,
    network: Option<GuestNetwork>,
    /// Serves the guest's API for as long as the sandbox is there; nobody needs it where there is none.
    api: Option<AbortHandle>,
}

/// Whether there is a sandbox, and whether its processes run.
#[derive(Default)]
pub(crate) enum Power {
    #[default]
    Cold,
    Warm(Arc<Vm>),
    /// With its share of the account's capacity, if that is limited.
    Running(Arc<Vm>, #[expect(dead_code, reason = "held, not read")] Option<OwnedSemaphorePermit>),
}

/// Time spent running.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    total: Duration,
    since: Option<Instant>,
}

impl Meter {
    /// All of it so far.
    pub(crate) fn total(&self) -> Duration {
        self.total + self.since.map(|since| since.elapsed()).unwrap_or_default()
    }
}

/// A Sprite that runs, and does not stop running for want of activity while this exists.
pub(crate) struct Awake {
    guest: Arc<Guest>,
    _hold: Hold,
}

impl Deref for Awake {
    type Target = Arc<Guest>;

    fn deref(&self) -> &Arc<Guest> {
        &self.guest
    }
}

impl Sprite {
    /// `cold`, `warm` or `running`.
    pub(crate) fn status(&self) -> Status {
        match &*self.power() {
            Power::Running(vm, _) if vm.guest.is_alive() => Status::Running,
            Power::Warm(vm) if vm.guest.is_alive() => Status::Warm,
            Power::Cold | Power::Running(..) | Power::Warm(_) => Status::Cold,
        }
    }

    /// How long it has been running since the server started.
    pub(crate) fn awake_time(&self) -> Duration {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner).total()
    }

    /// Makes it run.
    pub(crate) async fn wake(self: &Arc<Self>) -> Result<Awake, WakeError> {
        let sprite = Arc::clone(self);
        // To its end: a sandbox that is half started when the caller leaves would be nobody's.
        let waking = tokio::spawn(async move {
            let hold = sprite.activity.hold();
            let closed = sprite.lifecycle.lock().await;
            if *closed {
                return Err(WakeError::Closing);
            }
            let guest = sprite.resume_or_boot().await?;
            Ok(Awake { guest, _hold: hold })
        });
        waking.await.map_err(|_| GuestError::Gone)?
    }

    /// Makes it run, or waits until something else does, as chosen for calls that need a running VM.
    pub(crate) async fn need(self: &Arc<Self>, on_cold: OnCold) -> Result<Awake, WakeError> {
        if on_cold == OnCold::Hang {
            let mut status = self.status.subscribe();
            if *status.borrow() == Status::Cold {
                info!(sprite = self.meta().name, "a call waits for a cold sprite: an exec wakes it");
            }
            // Goes on for as long as the client does.
            drop(status.wait_for(|status| *status != Status::Cold).await);
        }
        self.wake().await
    }

    /// With the lifecycle lock held.
    async fn resume_or_boot(self: &Arc<Self>) -> Result<Arc<Guest>, WakeError> {
        let found = match &*self.power() {
            Power::Running(vm, _) if vm.guest.is_alive() => return Ok(Arc::clone(&vm.guest)),
            Power::Warm(vm) if vm.guest.is_alive() => Some(Arc::clone(vm)),
            Power::Cold | Power::Running(..) | Power::Warm(_) => None,
        };
        let settings = &self.shared.settings;
        let permit = match settings.running_limit {
            None => None,
            Some(limit) => {
                let permit = Arc::clone(&self.shared.capacity).try_acquire_owned();
                Some(permit.map_err(|_| WakeError::Capacity(limit))?)
            }
        };
        let (vm, from) = if let Some(vm) = found {
            sleep(settings.warm_start).await;
            vm.pause(false).await.map_err(GuestError::Io)?;
            (vm, Status::Warm)
        } else {
            sleep(settings.cold_start).await;
            let vm = Arc::new(self.boot().await?);
            tokio::spawn(Arc::clone(self).monitor(Arc::clone(&vm)));
            (vm, Status::Cold)
        };
        let guest = Arc::clone(&vm.guest);
        if from == Status::Cold {
            self.announce_services();
        }
        self.become_(Power::Running(vm, permit));
        if from == Status::Cold {
            tokio::spawn(Arc::clone(self).boot_services(Arc::clone(&guest)));
        }
        self.record("wake", json!({ "from": from.word() }));
        info!(sprite = self.meta().name, from = from.word(), "awake");
        let sprite = Arc::clone(self);
        // The first program need not wait for the disk.
        tokio::spawn(async move {
            let now = Timestamp::now();
            if let Err(error) = sprite.change(|meta| meta.last_running_at = Some(now)).await {
                warn!(%error, "cannot save the time of waking");
            }
        });
        Ok(guest)
    }

    async fn boot(self: &Arc<Self>) -> Result<Vm, WakeError> {
        let (meta, shared) = (self.meta(), &self.shared);
        let bounds = Bounds { memory: shared.settings.memory_limit, processes: shared.settings.process_limit };
        let group = shared.groups.group(&meta.id, bounds).map_err(GuestError::Io)?;
        if let Some(instance) = &self.instance {
            let guest = Arc::new(Guest::Instant(Machine::start(instance)));
            return Ok(Vm { guest, group, network: None, api: None });
        }
        let lease = shared.world.as_ref().map(|world| world.lease(&meta.network)).transpose();
        let lease = lease.map_err(|error| GuestError::Io(io::Error::other(error)))?;
        let own = shared.store.directory(&meta.name);
        let resolver = lease.as_ref().map(|_| RESOLVER.into());
        write_resolver(&own.join("etc"), resolver).map_err(GuestError::Io)?;
        let files = shared.storage.directory(&meta.id);
        // Before the sandbox: its end of the socket is mounted into it.
        let api = guest_api::serve(self, &own.join("run")).map_err(GuestError::Io)?;
        let plan = LaunchPlan {
            hostname: meta.name.clone(),
            parts: Parts {
                files: files.join("fs"),
                checkpoints: files.join("checkpoints"),
                own,
                common: shared.common.directory.clone(),
                system: None,
            },
            mounts: shared.storage.mounts().map(Into::into),
            link: lease.as_ref().map(Lease::plan),
            groups: group.joining(),
            user: meta.user,
            layered: shared.storage.layered(),
            agent: shared.program.path.clone(),
            loader: shared.common.loader.clone(),
            agent_args: shared.program.agent.clone(),
        };
        let started = async {
            let sandbox = Sandbox::start(&shared.spawner, &shared.program, &plan).await?;
            let network = match (lease, sandbox.network()) {
                (None, _) => Ok(None),
                (Some(lease), Some(namespace)) => GuestNetwork::attach(lease, &namespace).await.map(Some),
                (Some(_), None) => return Err(GuestError::Gone),
            };
            match network {
                Ok(network) => Ok((Guest::Sandbox(sandbox), network)),
                Err(error) => {
                    sandbox.stop().await;
                    Err(GuestError::Io(io::Error::other(error)))
                }
            }
        };
        match started.await {
            Ok((guest, network)) => Ok(Vm { guest: Arc::new(guest), group, network, api: Some(api) }),
            Err(error) => {
                api.abort();
                drop(group.remove().await);
                Err(error.into())
            }
        }
    }

    /// Lets a started sandbox sleep when nothing has happened for long enough, until it has ended.
    async fn monitor(self: Arc<Self>, vm: Arc<Vm>) {
        let (idle_after, cold_after) = (self.shared.settings.idle_after, self.shared.settings.cold_after);
        let mut status = self.status.subscribe();
        loop {
            tokio::select! {
                () = vm.guest.ended() => break,
                () = self.activity.idle_for(idle_after) => {}
            }
            if !self.try_suspend(&vm).await {
                continue;
            }
            tokio::select! {
                () = vm.guest.ended() => break,
                _ = status.wait_for(|status| *status == Status::Running) => continue,
                () = sleep(cold_after) => {}
            }
            let _closed = self.lifecycle.lock().await;
            if self.status() == Status::Warm {
                self.power_off().await;
                break;
            }
        }
        let _closed = self.lifecycle.lock().await;
        let ours = match &*self.power() {
            Power::Running(current, _) | Power::Warm(current) => Arc::ptr_eq(current, &vm),
            Power::Cold => false,
        };
        if ours {
            warn!(sprite = self.meta().name, "its sandbox ended by itself");
            self.power_off().await;
        }
    }

    /// Running → warm, if still nothing has happened; false when something has.
    async fn try_suspend(self: &Arc<Self>, vm: &Arc<Vm>) -> bool {
        let _closed = self.lifecycle.lock().await;
        let idle = self.activity.idle_since();
        if idle.is_none_or(|since| since.elapsed() < self.shared.settings.idle_after)
            || self.status() != Status::Running
        {
            return false;
        }
        if let Err(error) = vm.pause(true).await {
            warn!(%error, "cannot pause a sprite; ending it");
            self.power_off().await;
            return true;
        }
        if let Some(network) = &vm.network
            && let Err(error) = network.cut_connections().await
        {
            warn!(%error, "connections of a paused sprite stay open");
        }
        self.become_(Power::Warm(Arc::clone(vm)));
        self.record_sleep(Status::Warm);
        true
    }

    /// Anything → cold. With the lifecycle lock held.
    pub(super) async fn power_off(&self) {
        let power = std::mem::take(&mut *self.power());
        let vm = match power {
            Power::Cold => return,
            Power::Warm(vm) | Power::Running(vm, _) => vm,
        };
        vm.end().await;
        self.services.ended().await;
        self.tasks.clear();
        self.become_(Power::Cold);
        self.record_sleep(Status::Cold);
    }

    /// Replaces its network policy: known first, then in force in a running sandbox. When this fails the sandbox is
    /// more closed than before, or ended.
    pub(crate) async fn set_network(self: &Arc<Self>, policy: NetworkPolicy) -> io::Result<()> {
        let sprite = Arc::clone(self);
        tokio::spawn(async move { sprite.put_in_force(&policy).await }).await.map_err(io::Error::other)?
    }

    /// The network policy once no change of it is under way: what is in force.
    pub(crate) async fn network(&self) -> NetworkPolicy {
        let _closed = self.lifecycle.lock().await;
        self.meta().network
    }

    async fn put_in_force(self: &Arc<Self>, policy: &NetworkPolicy) -> io::Result<()> {
        // No sandbox starts or ends meanwhile.
        let _closed = self.lifecycle.lock().await;
        self.change(|meta| meta.network = policy.clone()).await?;
        let vm = match &*self.power() {
            Power::Running(vm, _) | Power::Warm(vm) => Arc::clone(vm),
            Power::Cold => return Ok(()),
        };
        let Some(network) = &vm.network else {
            return Ok(());
        };
        let set = network.set_policy(policy).await;
        if let Err(NetworkError::Loose(_)) = &set {
            self.power_off().await;
        }
        set.map_err(io::Error::other)
    }

    /// Ends all its processes and starts it anew.
    pub(crate) async fn restart(self: &Arc<Self>) -> Result<(), WakeError> {
        let _hold = self.activity.hold();
        let closed = self.lifecycle.lock().await;
        if *closed {
            return Err(WakeError::Closing);
        }
        self.power_off().await;
        self.record("restart", json!({}));
        self.resume_or_boot().await.map(drop)
    }

    /// Whether the first process of a running sandbox answers.
    pub(crate) async fn answers(&self) -> bool {
        let guest = match &*self.power() {
            Power::Running(vm, _) => Arc::clone(&vm.guest),
            Power::Cold | Power::Warm(_) => return false,
        };
        matches!(timeout(ANSWER, guest.pause(false)).await, Ok(Ok(())))
    }

    /// Ends its sandbox for good and returns when no process of it is left.
    pub(crate) async fn close(&self) {
        let mut closed = self.lifecycle.lock().await;
        *closed = true;
        self.power_off().await;
        self.seal().await;
    }

    /// Takes a new state, meters it and tells who watches.
    fn become_(&self, power: Power) {
        *self.power() = power;
        let status = self.status();
        {
            let mut meter = self.meter.lock().unwrap_or_else(PoisonError::into_inner);
            meter.total = meter.total();
            meter.since = (status == Status::Running).then(Instant::now);
        }
        self.status.send_replace(status);
        // Nobody may be watching.
        drop(self.shared.changes.send(self.meta().name));
    }

    fn record_sleep(&self, to: Status) {
        self.record("sleep", json!({ "to": to.word(), "usage": self.usage() }));
        debug!(sprite = self.meta().name, to = to.word(), "asleep");
    }

    /// Awake seconds and what they cost.
    pub(crate) fn usage(&self) -> Value {
        let awake = self.awake_time().as_secs_f64();
        let cost = awake / 3600.0 * self.shared.settings.price_per_hour * 1e6;
        json!({ "awake_seconds": awake, "cost_micro_usd": cost })
    }

    fn power(&self) -> MutexGuard<'_, Power> {
        self.power.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Vm {
    /// Stops every process where it is, or lets them go on.
    async fn pause(&self, paused: bool) -> std::io::Result<()> {
        if self.group.freeze(paused).await? {
            return Ok(());
        }
        // No freezer: the agent stops the processes one by one.
        self.guest.pause(paused).await
    }

    async fn end(&self) {
        // What is frozen cannot end.
        drop(self.group.freeze(false).await);
        self.guest.stop().await;
        if let Some(api) = &self.api {
            api.abort();
        }
        if let Err(error) = timeout(Duration::from_secs(10), self.group.remove()).await.unwrap_or(Ok(())) {
            warn!(%error, "a control group stays behind");
        }
    }
}
