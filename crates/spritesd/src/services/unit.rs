//! One service in a running sandbox: started, watched, started again, stopped. What follows from what is decided in
//! [`super::state`]; here it is done.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{Notify, OwnedMutexGuard, broadcast, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tracing::warn;

use super::journal::{Decoder, Journal, event};
use super::state::{Event, Phase, State};
use crate::guest::Guest;
use crate::guest::protocol::{Answer, Request, Spawn};
use crate::lifecycle::Status;
use crate::sprite::{Sprite, blocking};

/// How many events a follower may be behind before it misses some.
const BACKLOG: usize = 128;
/// The most output in one event.
const CHUNK: usize = 8 * 1024;
/// How long output is taken after the end of a process and its group: others may hold the pipes for ever.
const STRAGGLERS: Duration = Duration::from_secs(1);

/// A service of one Sprite, whether it runs or not.
pub(crate) struct Unit {
    name: String,
    state: watch::Sender<State>,
    /// What happens, to those who follow. Sent with the journal locked, so that reading it and then following gives
    /// every event once.
    feed: broadcast::Sender<Value>,
    journal: Mutex<Journal>,
    /// Serializes start and stop.
    run: Arc<tokio::sync::Mutex<Option<Run>>>,
}

/// A service that is to run in a sandbox, until it is stopped or the sandbox ends.
struct Run {
    guest: Arc<Guest>,
    /// How long it may take to stop, once it is to.
    stop: watch::Sender<Option<Duration>>,
    /// Ends a pause before a restart.
    hurry: Arc<Notify>,
    keeper: JoinHandle<()>,
}

/// A started process.
struct Process {
    pid: u32,
    exit: oneshot::Receiver<u8>,
    pumps: JoinHandle<()>,
}

/// What came of starting it.
enum Begun {
    Process(Process),
    Refused(String),
    Gone,
}

/// How a process ended.
enum Over {
    ByItself(u8),
    Stopped(u8),
    Gone,
}

impl Unit {
    pub(super) fn new(name: &str, journal: Journal) -> Arc<Self> {
        Arc::new(Self {
            name: name.to_owned(),
            state: watch::Sender::default(),
            feed: broadcast::Sender::new(BACKLOG),
            journal: Mutex::new(journal),
            run: Arc::default(),
        })
    }

    pub(super) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    /// What happens from now on.
    pub(super) fn follow(&self) -> broadcast::Receiver<Value> {
        self.feed.subscribe()
    }

    /// The last output, and what happens after it.
    pub(super) async fn logs(
        self: &Arc<Self>,
        lines: Option<usize>,
    ) -> io::Result<(Vec<Value>, broadcast::Receiver<Value>)> {
        let unit = Arc::clone(self);
        blocking(move || {
            let journal = unit.journal();
            Ok((journal.read(lines)?, unit.feed.subscribe()))
        })
        .await
    }

    /// Removes what it has written.
    pub(super) async fn forget(self: &Arc<Self>) -> io::Result<()> {
        let unit = Arc::clone(self);
        blocking(move || unit.journal().remove()).await
    }

    /// Waits until nobody else starts or stops it.
    pub(super) async fn hold(self: &Arc<Self>) -> Held {
        Held { unit: Arc::clone(self), run: Arc::clone(&self.run).lock_owned().await }
    }

    /// Returns when nothing of it runs any more; its sandbox must have ended.
    pub(super) async fn ended(&self) {
        if let Some(run) = self.run.lock().await.take() {
            drop(run.keeper.await);
        }
    }

    /// Signals its process; false when it does not run.
    pub(super) async fn signal(&self, guest: &Guest, signal: i32) -> bool {
        match self.state().pid {
            Some(pid) => {
                let request = Request::Signal { pid, signal, group: false };
                matches!(guest.ask(request, &[]).await, Ok((Answer::Done, _)))
            }
            None => false,
        }
    }

    /// Runs it until it is stopped or the sandbox has ended.
    async fn keep(
        self: Arc<Self>,
        sprite: Arc<Sprite>,
        guest: Arc<Guest>,
        spawn: Spawn,
        mut orders: watch::Receiver<Option<Duration>>,
        hurry: Arc<Notify>,
    ) {
        loop {
            self.happens(Event::Starting);
            let (pause, code) = match self.begin(&sprite, &guest, spawn.clone()).await {
                Begun::Gone => break,
                Begun::Refused(why) => {
                    self.tell("error", [("data", why.as_str().into())]);
                    (self.happens(Event::Refused(why)), 255)
                }
                Begun::Process(process) => {
                    let began = Instant::now();
                    match self.attend(&guest, process, &mut orders).await {
                        Over::Gone => break,
                        Over::Stopped(code) => return self.stopped(code),
                        Over::ByItself(code) => {
                            let pause = self.happens(Event::Ended { code, ran: began.elapsed() });
                            self.tell("exit", [("exit_code", code.into())]);
                            (pause, code)
                        }
                    }
                }
            };
            tokio::select! {
                () = guest.ended() => break,
                _ = ordered(&mut orders) => return self.stopped(code),
                () = hurry.notified() => {}
                () = sleep(pause.unwrap_or_default()) => {}
            }
        }
        self.happens(Event::Lost);
    }

    fn stopped(&self, code: u8) {
        self.happens(Event::Stopped);
        self.tell("stopped", [("exit_code", code.into())]);
    }

    /// Starts its process, once the sandbox runs: not while it is frozen, nor while that changes.
    async fn begin(self: &Arc<Self>, sprite: &Sprite, guest: &Arc<Guest>, spawn: Spawn) -> Begun {
        let mut status = sprite.status.subscribe();
        loop {
            let running = async {
                drop(status.wait_for(|status| *status == Status::Running).await);
                sprite.lifecycle.lock().await
            };
            let _steady = tokio::select! {
                () = guest.ended() => return Begun::Gone,
                steady = running => steady,
            };
            if !guest.is_alive() {
                return Begun::Gone;
            }
            if sprite.status() == Status::Running {
                let detail = json!({ "service": self.name, "argv": spawn.argv, "policy": sprite.meta().network });
                sprite.record("service-start", detail);
                return match self.spawn(guest, spawn).await {
                    Ok(begun) => begun,
                    Err(_) if !guest.is_alive() => Begun::Gone,
                    Err(error) => Begun::Refused(error.to_string()),
                };
            }
        }
    }

    async fn spawn(self: &Arc<Self>, guest: &Guest, spawn: Spawn) -> io::Result<Begun> {
        let unit = Arc::clone(self);
        if let Err(error) = blocking(move || unit.journal().begin()).await {
            warn!(%error, "output of a service will not be kept");
        }
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        let (stdout_end, stderr_end) = (OwnedFd::from(stdout_end), OwnedFd::from(stderr_end));
        let started = guest.spawn(spawn, &[stdout_end.as_fd(), stderr_end.as_fd()]).await.map_err(io::Error::other)?;
        let started = match started {
            Ok(started) => started,
            Err((_, why)) => return Ok(Begun::Refused(why)),
        };
        // Our copies of the guest's ends must go, or the streams never end.
        drop((stdout_end, stderr_end));
        let stdout = pipe::Receiver::from_owned_fd(stdout.into())?;
        let stderr = pipe::Receiver::from_owned_fd(stderr.into())?;
        // Before any of its output, which may be there already.
        self.happens(Event::Started(started.pid));
        self.tell("started", []);
        let unit = Arc::clone(self);
        let pumps = tokio::spawn(async move {
            tokio::join!(unit.pump("stdout", stdout), unit.pump("stderr", stderr));
        });
        Ok(Begun::Process(Process { pid: started.pid, exit: started.exit, pumps }))
    }

    /// Waits for the end of a process, or brings it about.
    async fn attend(&self, guest: &Guest, process: Process, orders: &mut watch::Receiver<Option<Duration>>) -> Over {
        let Process { pid, mut exit, mut pumps } = process;
        let group = async |signal: Signal| {
            drop(guest.ask(Request::SignalGroup { pid, signal: signal.as_raw() }, &[]).await);
        };
        let (code, stopped) = tokio::select! {
            code = &mut exit => (code, false),
            patience = ordered(orders) => {
                self.happens(Event::Stopping);
                self.tell("stopping", []);
                group(Signal::TERM).await;
                let code = if let Ok(code) = timeout(patience, &mut exit).await {
                    code
                } else {
                    group(Signal::KILL).await;
                    exit.await
                };
                (code, true)
            }
        };
        // What it has started does not outlive it: it would be in the way of the next.
        group(Signal::KILL).await;
        if timeout(STRAGGLERS, &mut pumps).await.is_err() {
            pumps.abort();
            drop(pumps.await);
        }
        match code {
            Err(_) => Over::Gone,
            Ok(code) if stopped => Over::Stopped(code),
            Ok(code) => Over::ByItself(code),
        }
    }

    /// Keeps and tells what comes by one stream, to its end.
    async fn pump(self: &Arc<Self>, stream: &'static str, mut from: pipe::Receiver) {
        let (mut buffer, mut decoder) = (vec![0; CHUNK], Decoder::default());
        loop {
            let length = from.read(&mut buffer).await.unwrap_or(0);
            let raw = buffer.get(..length).unwrap_or_default().to_vec();
            let text = if raw.is_empty() { decoder.rest() } else { decoder.text(&raw) };
            let unit = Arc::clone(self);
            let kept = blocking(move || {
                let mut journal = unit.journal();
                let event = event(stream, [("data", text.as_str().into())]);
                let kept =
                    if raw.is_empty() && text.is_empty() { Ok(()) } else { journal.append(stream, &raw, &event) };
                let kept = if raw.is_empty() { kept.and_then(|()| journal.end(stream)) } else { kept };
                if !text.is_empty() {
                    // Nobody may be following.
                    drop(unit.feed.send(event));
                }
                kept
            });
            if let Err(error) = kept.await {
                warn!(%error, "output of a service is not kept");
            }
            if length == 0 {
                return;
            }
        }
    }

    /// Takes the next state; gives the pause before a restart, if there is to be one.
    fn happens(&self, event: Event) -> Option<Duration> {
        let mut pause = None;
        self.state.send_modify(|state| (*state, pause) = state.after(event, Timestamp::now()));
        pause
    }

    /// Tells those who follow, if anybody does.
    fn tell(&self, kind: &str, more: impl IntoIterator<Item = (&'static str, Value)>) {
        drop(self.feed.send(event(kind, more)));
    }

    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the order to stop; gives how long that may take.
async fn ordered(orders: &mut watch::Receiver<Option<Duration>>) -> Duration {
    orders.wait_for(Option::is_some).await.ok().and_then(|patience| *patience).unwrap_or_default()
}

/// A service that only its holder starts and stops.
pub(super) struct Held {
    unit: Arc<Unit>,
    run: OwnedMutexGuard<Option<Run>>,
}

impl Held {
    /// Whether it is to run: it does, or waits for its restart.
    pub(super) fn is_live(&self) -> bool {
        self.run.as_ref().is_some_and(|run| !run.keeper.is_finished())
    }

    /// Makes it run; returns after the first attempt. One that waits for its restart is started now.
    pub(super) async fn start(&mut self, sprite: &Arc<Sprite>, guest: &Arc<Guest>, spawn: Spawn) {
        let unit = Arc::clone(&self.unit);
        let mut state = unit.state.subscribe();
        match self.run.as_ref() {
            Some(live) if self.is_live() && Arc::ptr_eq(&live.guest, guest) => {
                if unit.state().phase == Phase::Failed {
                    live.hurry.notify_one();
                    // Starting, to begin with.
                    drop(state.changed().await);
                }
            }
            Some(_) | None => {
                if let Some(old) = self.run.take() {
                    // Its sandbox has ended, so this does not take long.
                    drop(old.keeper.await);
                }
                unit.happens(Event::Starting);
                let (stop, orders) = watch::channel(None);
                let hurry = Arc::<Notify>::default();
                let (sprite, guest) = (Arc::clone(sprite), Arc::clone(guest));
                let keeping = Arc::clone(&unit).keep(sprite, Arc::clone(&guest), spawn, orders, Arc::clone(&hurry));
                *self.run = Some(Run { guest, stop, hurry, keeper: tokio::spawn(keeping) });
            }
        }
        drop(state.wait_for(|state| state.phase != Phase::Starting).await);
    }

    /// Ends it, if it is to run: TERM to its process group, and KILL after `patience`.
    pub(super) async fn stop(&mut self, patience: Duration) {
        if let Some(run) = self.run.take() {
            run.stop.send_replace(Some(patience));
            drop(run.keeper.await);
        }
    }
}
