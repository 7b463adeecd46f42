//! One command from its start to its last frame, whoever watches.
//!
//! Output goes through the bounded [`Replay`]; input through a bounded queue. The session leaves its Sprite's list
//! the moment the process ends; watchers then still get the rest of the output and the exit code.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{Notify, oneshot, watch};

use super::absence;
use super::frames::Input;
use super::inputs::{Inbox, Inputs, inputs};
use super::replay::Replay;
use super::signals;
use super::stream::Size;
use super::streams::{Streams, Terminal};
pub(crate) use super::watcher::{Next, Watcher};
use crate::activity::{Activity, Hold};
use crate::guest::protocol::{Answer, Request, Spawn};
use crate::guest::{Guest, GuestError};

/// How a session ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The process ended, with the code a shell would show.
    Exited(u8),
    /// The sandbox ended under it; nobody knows the code.
    Lost,
}

/// What is asked of a new session.
#[derive(Debug, Clone)]
pub(crate) struct Command {
    pub(crate) spawn: Spawn,
    /// How long it lives while nobody watches; none is forever.
    pub(crate) after_disconnect: Option<Duration>,
    /// The size of its terminal, if it is to have one.
    pub(crate) terminal: Option<Size>,
}

/// A command that was started, or what a shell would have said.
pub(crate) enum Begun {
    /// Its first watcher: there before any output, so that nothing is taken for output nobody wants.
    Session(Watcher),
    Refused {
        text: String,
        code: u8,
    },
}

/// A running command.
pub(crate) struct Session {
    /// Process id inside the guest, or what stands for it: the session's id.
    pub(crate) id: u32,
    /// Resolved program and arguments, joined by spaces.
    pub(crate) command: String,
    pub(crate) workdir: String,
    pub(crate) created: Timestamp,
    runs: Runs,
    pub(super) activity: Arc<Activity>,
    pub(super) state: Mutex<State>,
    /// There is a frame or an end.
    pub(super) output: Notify,
    /// There may be space again.
    pub(super) space: Notify,
    pub(super) watchers: watch::Sender<usize>,
    /// The process has ended; output may still be on its way.
    exited: watch::Sender<Option<End>>,
    inbox: Inbox,
}

/// What a session runs.
enum Runs {
    /// A process of the guest, with its terminal if it has one.
    Process(Arc<Guest>, Option<Terminal>),
    /// Work of the server's own; what it is told last of the signals that end a program.
    Work(watch::Sender<Option<i32>>),
}

/// What a new session is called.
pub(crate) struct Named {
    pub(crate) id: u32,
    pub(crate) command: String,
    pub(crate) workdir: String,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) replay: Replay,
    pub(super) end: Option<End>,
    bytes: u64,
}

impl Session {
    /// Starts a command. `ended` runs when its process has, before any watcher is told.
    pub(crate) async fn begin(
        guest: &Arc<Guest>,
        activity: Arc<Activity>,
        command: Command,
        registered: impl FnOnce(&Arc<Self>),
        ended: impl FnOnce(&Arc<Self>, End) + Send + 'static,
    ) -> Result<Begun, GuestError> {
        let Command { spawn, after_disconnect, terminal } = command;
        let Streams { stdin, stdout, stderr, theirs } = match terminal {
            None => Streams::pipes(spawn.stdin)?,
            Some(size) => Streams::terminal(guest, size).await?,
        };
        let (argv, workdir) = (spawn.argv.clone(), spawn.dir.clone());
        let fds: Vec<BorrowedFd<'_>> = theirs.iter().map(OwnedFd::as_fd).collect();
        let started = match guest.spawn(spawn, &fds).await? {
            Ok(started) => started,
            Err((code, text)) => return Ok(Begun::Refused { text, code }),
        };
        // Our copies of the guest's ends must go, or the streams never end.
        drop(fds);
        drop(theirs);
        let arguments = argv.iter().skip(1).map(String::as_str);
        let command = std::iter::once(started.program.as_str()).chain(arguments).collect::<Vec<_>>().join(" ");
        let terminal = terminal.map(|size| Terminal::new(stdout.clone(), size));
        let named = Named { id: started.pid, command, workdir };
        let (session, inputs) = Self::new(named, Runs::Process(Arc::clone(guest), terminal), activity);
        let watcher = session.watch();
        registered(&session);
        tokio::spawn(super::inputs::feed(Arc::clone(&session), inputs, stdin));
        tokio::spawn(Arc::clone(&session).await_exit(started.exit, ended));
        tokio::spawn(super::pump::pump(Arc::clone(&session), stdout, stderr));
        absence::limit(&session, after_disconnect);
        Ok(Begun::Session(watcher))
    }

    /// Starts what no process does: `work` reads the input, hears the signals that end a program, keeps the output and says
    /// how it ended. `ended` runs then, before any watcher is told.
    pub(crate) fn work<W: Future<Output = End> + Send + 'static>(
        named: Named,
        activity: Arc<Activity>,
        after_disconnect: Option<Duration>,
        registered: impl FnOnce(&Arc<Self>),
        ended: impl FnOnce(&Arc<Self>, End) + Send + 'static,
        work: impl FnOnce(Arc<Self>, Inputs, watch::Receiver<Option<i32>>) -> W,
    ) -> Watcher {
        let (sender, signals) = watch::channel(None);
        let (session, inputs) = Self::new(named, Runs::Work(sender), activity);
        let watcher = session.watch();
        registered(&session);
        let working = work(Arc::clone(&session), inputs, signals);
        let worked = Arc::clone(&session);
        tokio::spawn(async move {
            let end = working.await;
            ended(&worked, end);
            worked.exited.send_replace(Some(end));
            worked.finish(end);
        });
        absence::limit(&session, after_disconnect);
        watcher
    }

    fn new(named: Named, runs: Runs, activity: Arc<Activity>) -> (Arc<Self>, Inputs) {
        let Named { id, command, workdir } = named;
        let (inbox, inputs) = inputs();
        let session = Self {
            id,
            command,
            workdir,
            created: Timestamp::now(),
            runs,
            activity,
            state: Mutex::default(),
            output: Notify::new(),
            space: Notify::new(),
            watchers: watch::Sender::new(0),
            exited: watch::Sender::new(None),
            inbox,
        };
        (Arc::new(session), inputs)
    }

    /// Starts to watch, from the oldest output kept.
    pub(crate) fn watch(self: &Arc<Self>) -> Watcher {
        Watcher::new(self)
    }

    /// The size of its terminal, if it has one.
    pub(crate) fn terminal(&self) -> Option<Size> {
        match &self.runs {
            Runs::Process(_, terminal) => terminal.as_ref().map(Terminal::size),
            Runs::Work(_) => None,
        }
    }

    /// Gives its terminal another size; without a terminal nothing happens.
    pub(crate) fn resize(&self, size: Size) {
        if let Runs::Process(_, Some(terminal)) = &self.runs {
            terminal.resize(size);
        }
    }

    /// Signals the process; by what asks it to end, everything in its process group. False when it has ended.
    pub(crate) async fn signal(&self, signal: i32) -> bool {
        if self.exited.borrow().is_some() {
            return false;
        }
        match &self.runs {
            Runs::Process(guest, _) => {
                let request = Request::Signal { pid: self.id, signal, group: signals::ends(signal) };
                matches!(guest.ask(request, &[]).await, Ok((Answer::Done, _)))
            }
            Runs::Work(told) => {
                if signals::ends(signal) {
                    told.send_replace(Some(signal));
                }
                true
            }
        }
    }

    /// Returns when the process has ended.
    pub(crate) async fn wait(&self) -> End {
        let mut exited = self.exited.subscribe();
        exited.wait_for(Option::is_some).await.ok().and_then(|end| *end).unwrap_or(End::Lost)
    }

    /// Gives input to the program; waits while too much of it is unread.
    pub(crate) async fn input(&self, input: Input) {
        if self.inbox.give(input).await {
            self.activity.touch();
        }
    }

    /// Keeps its Sprite awake, whether or not anybody watches.
    pub(crate) fn keep_awake(&self) -> Hold {
        self.activity.hold()
    }

    /// Bytes of output per second since the start.
    pub(crate) fn rate(&self) -> u64 {
        let seconds = Timestamp::now().as_second().saturating_sub(self.created.as_second()).max(1);
        self.state().bytes / seconds.unsigned_abs().max(1)
    }

    /// Whether anybody watches.
    pub(crate) fn is_watched(&self) -> bool {
        self.state().replay.is_watched()
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a frame for the watchers; waits while the slowest of them needs the space.
    pub(crate) async fn keep(&self, mut frame: Bytes) {
        loop {
            let space = self.space.notified();
            tokio::pin!(space);
            space.as_mut().enable();
            {
                let mut state = self.state();
                let length = frame.len() as u64;
                match state.replay.push(frame) {
                    Ok(()) => {
                        state.bytes += length;
                        drop(state);
                        self.activity.touch();
                        self.output.notify_waiters();
                        return;
                    }
                    Err(back) => frame = back,
                }
            }
            space.await;
        }
    }

    /// Tells the watchers that there is no more.
    pub(super) fn finish(&self, end: End) {
        self.state().end = Some(end);
        self.output.notify_waiters();
    }

    async fn await_exit(self: Arc<Self>, exit: oneshot::Receiver<u8>, ended: impl FnOnce(&Arc<Self>, End)) {
        let end = exit.await.map_or(End::Lost, End::Exited);
        ended(&self, end);
        self.exited.send_replace(Some(end));
    }
}
