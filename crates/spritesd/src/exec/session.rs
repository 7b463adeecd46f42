//! One command from its start to its last frame, whoever watches.
//!
//! Output goes through the bounded [`Replay`]; input through a bounded queue. The session leaves its Sprite's list
//! the moment the process ends; watchers then still get the rest of the output and the exit code.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use jiff::Timestamp;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::frames::Input;
use super::replay::Replay;
use super::signals;
use super::stream::{Descriptor, Size};
pub(crate) use super::watcher::{Next, Watcher};
use crate::activity::Activity;
use crate::guest::protocol::{Answer, Request, Spawn};
use crate::guest::{Guest, GuestError};

/// How much input may wait for a program that does not read. Above it the client's socket is not read either.
const INPUT_BUDGET: u32 = 8 << 20;
/// How long a program that is told to end because nobody watches any more may take to.
const LEAVE: Duration = Duration::from_secs(10);

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
    /// Process id inside the guest: the session's id.
    pub(crate) id: u32,
    /// Resolved program and arguments, joined by spaces.
    pub(crate) command: String,
    pub(crate) workdir: String,
    pub(crate) created: Timestamp,
    guest: Arc<Guest>,
    terminal: Option<Terminal>,
    pub(super) activity: Arc<Activity>,
    pub(super) state: Mutex<State>,
    /// There is a frame or an end.
    pub(super) output: Notify,
    /// There may be space again.
    pub(super) space: Notify,
    pub(super) watchers: watch::Sender<usize>,
    /// The process has ended; output may still be on its way.
    exited: watch::Sender<Option<End>>,
    input: mpsc::UnboundedSender<(Input, Option<OwnedSemaphorePermit>)>,
    budget: Arc<Semaphore>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) replay: Replay,
    pub(super) end: Option<End>,
    bytes: u64,
}

/// The terminal of a command: its master, which carries both directions.
struct Terminal {
    master: Descriptor,
    size: Mutex<Size>,
}

/// Our ends of a program's streams, and the ends to pass to it.
struct Streams {
    stdin: Option<Descriptor>,
    stdout: Descriptor,
    /// None where everything comes by one stream.
    stderr: Option<Descriptor>,
    theirs: Vec<OwnedFd>,
}

impl Streams {
    fn pipes(stdin: bool) -> io::Result<Self> {
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        let (stdin_end, stdin) = if stdin { Some(io::pipe()?) } else { None }.unzip();
        let mut theirs: Vec<OwnedFd> = stdin_end.map(OwnedFd::from).into_iter().collect();
        theirs.extend([stdout_end.into(), stderr_end.into()]);
        Ok(Self {
            stdin: stdin.map(|writer| Descriptor::new(writer.into())).transpose()?,
            stdout: Descriptor::new(stdout.into())?,
            stderr: Some(Descriptor::new(stderr.into())?),
            theirs,
        })
    }

    /// A terminal of the guest's own, so that its programs find it by name.
    async fn terminal(guest: &Guest, size: Size) -> Result<Self, GuestError> {
        let (Answer::Opened { .. }, Some(master)) = guest.ask(Request::OpenTerminal, &[]).await? else {
            return Err(GuestError::Confused);
        };
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let peer = ioctl_tiocgptpeer(&master, flags).map_err(io::Error::from)?;
        let theirs = vec![peer.try_clone()?, peer.try_clone()?, peer];
        let master = Descriptor::new(master)?;
        master.resize(size)?;
        Ok(Self { stdin: Some(master.clone()), stdout: master, stderr: None, theirs })
    }
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
        let (input, queue) = mpsc::unbounded_channel();
        let arguments = argv.iter().skip(1).map(String::as_str);
        let session = Arc::new(Self {
            id: started.pid,
            command: std::iter::once(started.program.as_str()).chain(arguments).collect::<Vec<_>>().join(" "),
            workdir,
            created: Timestamp::now(),
            guest: Arc::clone(guest),
            terminal: terminal.map(|size| Terminal { master: stdout.clone(), size: Mutex::new(size) }),
            activity,
            state: Mutex::default(),
            output: Notify::new(),
            space: Notify::new(),
            watchers: watch::Sender::new(0),
            exited: watch::Sender::new(None),
            input,
            budget: Arc::new(Semaphore::new(INPUT_BUDGET as usize)),
        });
        let watcher = session.watch();
        registered(&session);
        tokio::spawn(Arc::clone(&session).feed(stdin, queue));
        tokio::spawn(Arc::clone(&session).await_exit(started.exit, ended));
        tokio::spawn(super::pump::pump(Arc::clone(&session), stdout, stderr));
        if let Some(limit) = after_disconnect {
            tokio::spawn(Arc::clone(&session).end_when_left(limit));
        }
        Ok(Begun::Session(watcher))
    }

    /// Starts to watch, from the oldest output kept.
    pub(crate) fn watch(self: &Arc<Self>) -> Watcher {
        Watcher::new(self)
    }

    /// The size of its terminal, if it has one.
    pub(crate) fn terminal(&self) -> Option<Size> {
        self.terminal.as_ref().map(|terminal| *terminal.size.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives its terminal another size; without a terminal nothing happens.
    pub(crate) fn resize(&self, size: Size) {
        if let Some(terminal) = &self.terminal
            && terminal.master.resize(size).is_ok()
        {
            *terminal.size.lock().unwrap_or_else(PoisonError::into_inner) = size;
        }
    }

    /// Signals the process; by what asks it to end, everything in its process group. False when it has ended.
    pub(crate) async fn signal(&self, signal: i32) -> bool {
        if self.exited.borrow().is_some() {
            return false;
        }
        let request = Request::Signal { pid: self.id, signal, group: signals::ends(signal) };
        matches!(self.guest.ask(request, &[]).await, Ok((Answer::Done, _)))
    }

    /// Returns when the process has ended.
    pub(crate) async fn wait(&self) -> End {
        let mut exited = self.exited.subscribe();
        exited.wait_for(Option::is_some).await.ok().and_then(|end| *end).unwrap_or(End::Lost)
    }

    /// Gives input to the program; waits while too much of it is unread.
    pub(crate) async fn input(&self, input: Input) {
        let permit = match &input {
            Input::Data(data) => {
                let wanted = u32::try_from(data.len()).unwrap_or(u32::MAX).min(INPUT_BUDGET);
                match Arc::clone(&self.budget).acquire_many_owned(wanted).await {
                    Ok(permit) => Some(permit),
                    // Ended: nobody will read it.
                    Err(_) => return,
                }
            }
            Input::End => None,
        };
        self.activity.touch();
        drop(self.input.send((input, permit)));
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
    pub(super) async fn keep(&self, mut frame: Bytes) {
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

    /// Writes the input to the program until one of them ends.
    async fn feed(
        self: Arc<Self>,
        mut stdin: Option<Descriptor>,
        mut queue: mpsc::UnboundedReceiver<(Input, Option<OwnedSemaphorePermit>)>,
    ) {
        let feeding = async {
            while let Some((input, _permit)) = queue.recv().await {
                match (input, stdin.as_mut()) {
                    (Input::Data(data), Some(pipe)) => {
                        if pipe.write_all(&data).await.is_err() {
                            stdin = None;
                        }
                    }
                    (Input::End, _) => stdin = None,
                    // Closed by the program: swallow the rest.
                    (Input::Data(_), None) => {}
                }
            }
        };
        tokio::select! {
            () = feeding => {}
            _ = self.wait() => {}
        }
        self.budget.close();
    }

    async fn await_exit(self: Arc<Self>, exit: oneshot::Receiver<u8>, ended: impl FnOnce(&Arc<Self>, End)) {
        let end = exit.await.map_or(End::Lost, End::Exited);
        ended(&self, end);
        self.exited.send_replace(Some(end));
    }

    /// Ends a command nobody has watched for `limit`: as the kill call does.
    async fn end_when_left(self: Arc<Self>, limit: Duration) {
        let mut watchers = self.watchers.subscribe();
        loop {
            let alone = async {
                drop(watchers.wait_for(|count| *count == 0).await);
                tokio::time::timeout(limit, watchers.wait_for(|count| *count > 0)).await.is_err()
            };
            tokio::select! {
                _ = self.wait() => return,
                left = alone => if left { break },
            }
        }
        self.signal(rustix::process::Signal::TERM.as_raw()).await;
        if tokio::time::timeout(LEAVE, self.wait()).await.is_err() {
            self.signal(rustix::process::Signal::KILL.as_raw()).await;
        }
    }
}
