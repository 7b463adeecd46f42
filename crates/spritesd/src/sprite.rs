//! One Sprite: what is known of it, and its sessions. When it sleeps and wakes is the business of `lifecycle`. Knows
//! nothing of HTTP.
//!
//! Lock order: `lifecycle` (async, held across starting and stopping) before the plain mutexes, which are held for
//! moments and never across an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{Semaphore, broadcast, watch};
use tracing::warn;

use super::activity::Activity;
use super::cgroup::Groups;
use super::exec::session::{Begun, Command, End, Session};
use super::guest::common::Common;
use super::guest::{Guest, GuestError, SelfProgram, Spawner};
use super::instant::{Answers, Instance};
use super::lifecycle::{Meter, Power, Status};
use super::log::EventLog;
use super::network::World;
use super::process_trace::ProcessTrace;
use super::services::Services;
use super::settings::Settings;
use super::storage::Storage;
use super::store::{Meta, Store};
use super::tasks::Tasks;

/// How many ended sessions are remembered, to tell "ended" from "never was".
const REMEMBERED: usize = 1024;

/// What all Sprites of a server share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) log: Arc<EventLog>,
    /// Sees processes start; none where the kernel does not let us.
    pub(crate) process_trace: Option<Arc<ProcessTrace>>,
    pub(crate) spawner: Spawner,
    pub(crate) program: SelfProgram,
    /// What all guests have at `/.sprite`.
    pub(crate) common: Common,
    /// What is outside of Sprites, if they have a network.
    pub(crate) world: Option<World>,
    pub(crate) settings: Settings,
    /// Port of the API, for the URLs of Sprites.
    pub(crate) port: u16,
    pub(crate) storage: Storage,
    pub(crate) groups: Groups,
    /// What commands are answered in the place of guests, if there are none.
    pub(crate) answers: Option<Arc<Answers>>,
    /// How many more Sprites may be running.
    pub(crate) capacity: Arc<Semaphore>,
    /// Names of Sprites that have just changed their state.
    pub(crate) changes: broadcast::Sender<String>,
}

impl Shared {
    /// The URL of a Sprite.
    pub(crate) fn url(&self, name: &str) -> String {
        format!("http://{name}.{}:{}", self.settings.url_suffix, self.port)
    }

    /// Lets the trace see what starts in a Sprite.
    pub(super) fn watch(&self, meta: &Meta) {
        let etc = self.store.directory(&meta.name).join("etc");
        if let Some(Err(error)) =
            self.process_trace.as_ref().map(|process_trace| process_trace.watch(&meta.name, &meta.id, &etc))
        {
            warn!(%error, sprite = meta.name, "starts of processes are not witnessed");
        }
    }
}

/// Why a Sprite could not be woken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WakeError {
    /// It is being deleted, or the server stops.
    #[error("the sprite is going away")]
    Closing,
    /// As many Sprites as may be running are.
    #[error("{0} sprites are running, which is the limit")]
    Capacity(u32),
    /// Its sandbox failed.
    #[error(transparent)]
    Guest(#[from] GuestError),
}

/// Where a session id leads.
pub(crate) enum Found {
    Live(Arc<Session>),
    Ended,
    Unknown,
}

/// A Sprite.
pub(crate) struct Sprite {
    pub(super) shared: Arc<Shared>,
    meta: Mutex<Meta>,
    /// What stands for its guest, if it is an instant one.
    pub(super) instance: Option<Arc<Instance>>,
    /// Its sandbox, if there is one.
    pub(super) power: Mutex<Power>,
    /// What it looks like from outside.
    pub(super) status: watch::Sender<Status>,
    /// How long it has been awake.
    pub(super) meter: Mutex<Meter>,
    sessions: Mutex<Sessions>,
    /// What keeps it awake.
    pub(crate) activity: Arc<Activity>,
    /// What its guest asked to be kept awake for.
    pub(crate) tasks: Arc<Tasks>,
    /// The programs that run whenever it does.
    pub(super) services: Services,
    /// Serializes wake, sleep and close; true once closed for good.
    pub(super) lifecycle: tokio::sync::Mutex<bool>,
    /// Serializes the making, putting back and removing of copies of its files. Taken before `lifecycle`.
    pub(super) copying: tokio::sync::Mutex<()>,
    /// Serializes changes of the stored metadata; true once there must be no more, because the name may soon be
    /// another Sprite's.
    saving: Arc<tokio::sync::Mutex<bool>>,
}

#[derive(Default)]
struct Sessions {
    live: BTreeMap<u32, Arc<Session>>,
    ended: VecDeque<u32>,
}

impl Sprite {
    pub(crate) fn new(shared: Arc<Shared>, meta: Meta) -> Arc<Self> {
        let answers = shared.answers.as_ref();
        let instance = answers.map(|answers| Arc::new(Instance::new(&shared.storage.directory(&meta.id), answers)));
        Arc::new(Self {
            shared,
            meta: Mutex::new(meta),
            instance,
            power: Mutex::default(),
            status: watch::Sender::new(Status::Cold),
            meter: Mutex::default(),
            sessions: Mutex::default(),
            activity: Activity::new(),
            tasks: Arc::default(),
            services: Services::default(),
            lifecycle: tokio::sync::Mutex::default(),
            copying: tokio::sync::Mutex::default(),
            saving: Arc::default(),
        })
    }

    /// A copy of what is known of it.
    pub(crate) fn meta(&self) -> Meta {
        self.lock_meta().clone()
    }

    /// The host user of its guest.
    pub(crate) fn user(&self) -> Option<u32> {
        self.lock_meta().user
    }

    /// Changes what is known, durably; in memory only once it is on disk.
    pub(crate) async fn change(self: &Arc<Self>, change: impl FnOnce(&mut Meta)) -> std::io::Result<Meta> {
        let closed = Arc::clone(&self.saving).lock_owned().await;
        if *closed {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        let mut changed = self.meta();
        change(&mut changed);
        let sprite = Arc::clone(self);
        // To its end, with the lock, whether or not the caller waits for it: an older save must not end after a newer.
        blocking(move || {
            let _closed = closed;
            sprite.shared.store.save(&changed)?;
            *sprite.lock_meta() = changed.clone();
            Ok(changed)
        })
        .await
    }

    /// Its URL.
    pub(crate) fn url(&self) -> String {
        self.shared.url(&self.lock_meta().name)
    }

    /// Adds an event about it to the log.
    pub(crate) fn record(&self, event: &str, detail: Value) {
        let meta = self.lock_meta();
        self.shared.log.add(event, &meta.name, &meta.id, detail);
    }

    /// Starts a command in its guest.
    pub(crate) async fn begin(self: &Arc<Self>, command: Command) -> Result<Begun, WakeError> {
        // To its end: a process must not run that no session knows.
        let sprite = Arc::clone(self);
        let begun = tokio::spawn(async move { sprite.start(command).await });
        begun.await.map_err(|_| GuestError::Gone)?
    }

    async fn start(self: &Arc<Self>, command: Command) -> Result<Begun, WakeError> {
        let awake = self.wake().await?;
        let argv = command.spawn.argv.clone();
        self.record("exec", json!({ "argv": argv, "policy": self.lock_meta().network.clone() }));
        let (registering, ending) = (Arc::clone(self), Arc::clone(self));
        let activity = Arc::clone(&self.activity);
        let registered = |session: &Arc<Session>| registering.register(session);
        let ended = move |session: &Arc<Session>, end: End| {
            ending.unregister(session);
            ending.record("exec-end", json!({ "session": session.id, "end": format!("{end:?}") }));
        };
        match &**awake {
            Guest::Sandbox(_) => Ok(Session::begin(&awake, activity, command, registered, ended).await?),
            Guest::Instant(machine) => Ok(machine.begin(activity, command, registered, ended)),
        }
    }

    /// The live sessions, by id.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.lock_sessions().live.values().cloned().collect()
    }

    /// Looks a session up.
    pub(crate) fn session(&self, id: &str) -> Found {
        let sessions = self.lock_sessions();
        match id.parse::<u32>() {
            Err(_) => Found::Unknown,
            Ok(id) => match sessions.live.get(&id) {
                Some(session) => Found::Live(Arc::clone(session)),
                None if sessions.ended.contains(&id) => Found::Ended,
                None => Found::Unknown,
            },
        }
    }

    /// Nothing may be saved after this.
    pub(super) async fn seal(&self) {
        *self.saving.lock().await = true;
    }

    fn register(&self, session: &Arc<Session>) {
        let mut sessions = self.lock_sessions();
        // The number may have been another session's before.
        sessions.ended.retain(|id| *id != session.id);
        sessions.live.insert(session.id, Arc::clone(session));
    }

    fn unregister(&self, session: &Arc<Session>) {
        let mut sessions = self.lock_sessions();
        if sessions.live.get(&session.id).is_some_and(|live| Arc::ptr_eq(live, session)) {
            sessions.live.remove(&session.id);
            sessions.ended.push_back(session.id);
            if sessions.ended.len() > REMEMBERED {
                sessions.ended.pop_front();
            }
        }
    }

    fn lock_meta(&self) -> MutexGuard<'_, Meta> {
        self.meta.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs blocking file work off the runtime's threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(std::io::Error::other)?
}
