//! One Sprite: what is known of it, its guest while one runs, and its sessions. Knows nothing of HTTP.
//!
//! Lock order: `lifecycle` (async, held across starting and stopping) before the plain mutexes, which are held for
//! moments and never across an await.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::exec::session::{Begun, Command, Session};
use super::guest::launch::LaunchPlan;
use super::guest::{Guest, GuestError, SelfProgram, Spawner};
use super::log::EventLog;
use super::store::{Meta, Store};

/// How many ended sessions are remembered, to tell "ended" from "never was".
const REMEMBERED: usize = 1024;

/// What all Sprites of a server share.
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) log: EventLog,
    pub(crate) spawner: Spawner,
    pub(crate) program: SelfProgram,
}

/// Why a Sprite could not be woken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WakeError {
    /// It is being deleted, or the server stops.
    #[error("the sprite is going away")]
    Closing,
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
    shared: Arc<Shared>,
    meta: Mutex<Meta>,
    guest: Mutex<Option<Arc<Guest>>>,
    sessions: Mutex<Sessions>,
    /// Serializes wake and close; true once closed for good.
    lifecycle: tokio::sync::Mutex<bool>,
    /// Serializes changes of the stored metadata; true once there must be no more, because the name may soon be
    /// another Sprite's.
    saving: tokio::sync::Mutex<bool>,
}

#[derive(Default)]
struct Sessions {
    live: BTreeMap<u32, Arc<Session>>,
    ended: VecDeque<u32>,
}

impl Sprite {
    pub(crate) fn new(shared: Arc<Shared>, meta: Meta) -> Arc<Self> {
        Arc::new(Self {
            shared,
            meta: Mutex::new(meta),
            guest: Mutex::default(),
            sessions: Mutex::default(),
            lifecycle: tokio::sync::Mutex::default(),
            saving: tokio::sync::Mutex::default(),
        })
    }

    /// A copy of what is known of it.
    pub(crate) fn meta(&self) -> Meta {
        self.lock_meta().clone()
    }

    /// `cold` or `running`; there is no idle life cycle yet.
    pub(crate) fn status(&self) -> &'static str {
        if self.running_guest().is_some() { "running" } else { "cold" }
    }

    /// Changes what is known, durably; in memory only once it is on disk.
    pub(crate) async fn change(self: &Arc<Self>, change: impl FnOnce(&mut Meta)) -> std::io::Result<Meta> {
        let closed = self.saving.lock().await;
        if *closed {
            return Err(std::io::ErrorKind::NotFound.into());
        }
        let mut changed = self.meta();
        change(&mut changed);
        let (sprite, saved) = (Arc::clone(self), changed.clone());
        blocking(move || sprite.shared.store.save(&saved)).await?;
        *self.lock_meta() = changed.clone();
        Ok(changed)
    }

    /// Adds an event about it to the log.
    pub(crate) fn record(&self, event: &str, detail: Value) {
        let meta = self.lock_meta();
        self.shared.log.add(event, &meta.name, &meta.id, detail);
    }

    /// Its guest, started if there is none.
    pub(crate) async fn wake(self: &Arc<Self>) -> Result<Arc<Guest>, WakeError> {
        let closed = self.lifecycle.lock().await;
        if *closed {
            return Err(WakeError::Closing);
        }
        if let Some(guest) = self.running_guest() {
            return Ok(guest);
        }
        let meta = self.meta();
        let program = &self.shared.program;
        let plan = LaunchPlan {
            hostname: meta.name.clone(),
            directory: self.shared.store.directory(&meta.name),
            user: meta.user,
            agent: program.path.clone(),
            agent_args: program.agent.clone(),
        };
        let guest = Guest::start(&self.shared.spawner, program, &plan).await?;
        *self.lock_guest() = Some(Arc::clone(&guest));
        self.record("wake", json!({}));
        info!(sprite = meta.name, "awake");
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

    /// Starts a command in its guest.
    pub(crate) async fn begin(self: &Arc<Self>, command: Command) -> Result<Begun, WakeError> {
        let guest = self.wake().await?;
        let argv = command.spawn.argv.clone();
        self.record("exec", json!({ "argv": argv, "policy": self.lock_meta().network.clone() }));
        let (registering, ending) = (Arc::clone(self), Arc::clone(self));
        let begun = Session::begin(
            &guest,
            command,
            |session| registering.register(session),
            move |session, end| {
                ending.unregister(session);
                ending.record("exec-end", json!({ "session": session.id, "end": format!("{end:?}") }));
            },
        )
        .await?;
        Ok(begun)
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

    /// Ends its guest for good and returns when no process of it is left.
    pub(crate) async fn close(&self) {
        let mut closed = self.lifecycle.lock().await;
        *closed = true;
        let guest = self.lock_guest().take();
        if let Some(guest) = guest {
            guest.stop().await;
        }
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

    fn running_guest(&self) -> Option<Arc<Guest>> {
        self.lock_guest().as_ref().filter(|guest| guest.is_alive()).cloned()
    }

    fn lock_meta(&self) -> MutexGuard<'_, Meta> {
        self.meta.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_guest(&self) -> MutexGuard<'_, Option<Arc<Guest>>> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
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
