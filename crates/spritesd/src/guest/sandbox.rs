//! One running sandbox, as the daemon holds it: bubblewrap with the agent as first process, and the socket to that.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use tokio::io::{AsyncBufReadExt as _, BufReader, Interest};
use tokio::net::UnixDatagram;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::launch::{LaunchPlan, PLAN};
use super::protocol::{Answer, Envelope, LARGEST_PACKET, Message, Request, Spawn, encode, receive, send};
use super::{GuestError, SelfProgram, Spawner, Started};

/// How long a sandbox may take to start.
const START: Duration = Duration::from_secs(15);
/// How long it may take to end by itself before its monitor is killed.
const STOP: Duration = Duration::from_secs(5);

enum Pending {
    Answer(oneshot::Sender<(Answer, Option<OwnedFd>)>),
    Start(oneshot::Sender<Result<Started, (u8, String)>>),
}

/// A running sandbox.
pub(crate) struct Sandbox {
    /// A sequenced-packet socket; the type lends its readiness only, sending and receiving are ours.
    socket: UnixDatagram,
    /// Process id of the monitor, outside.
    pid: Option<u32>,
    next: AtomicU64,
    pending: Mutex<HashMap<u64, Pending>>,
    exits: Mutex<HashMap<u32, oneshot::Sender<u8>>>,
    /// The agent's socket has closed: nothing more will be answered.
    deaf: CancellationToken,
    /// The sandbox's monitor has ended, and every process inside before it.
    ended: CancellationToken,
    kill: CancellationToken,
}

impl Sandbox {
    /// Starts a sandbox and waits until its agent takes requests.
    pub(crate) async fn start(
        spawner: &Spawner,
        program: &SelfProgram,
        plan: &LaunchPlan,
    ) -> Result<Arc<Self>, GuestError> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
            .map_err(io::Error::from)?;
        rustix::io::ioctl_fionbio(&ours, true).map_err(io::Error::from)?;
        let mut command = Command::new(&program.path);
        command
            .args(&program.launch)
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env(PLAN, serde_json::to_string(plan).map_err(io::Error::from)?)
            .current_dir("/")
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = spawner.spawn(command).await?;
        let (said, stderr) = (Arc::new(Mutex::new(String::new())), child.stderr.take());
        let listener = tokio::spawn(relay(stderr, Arc::clone(&said)));
        let (ready, is_ready) = oneshot::channel();
        let sandbox = Arc::new(Self {
            socket: UnixDatagram::from_std(ours.into())?,
            pid: child.id(),
            next: AtomicU64::new(0),
            pending: Mutex::default(),
            exits: Mutex::default(),
            deaf: CancellationToken::new(),
            ended: CancellationToken::new(),
            kill: CancellationToken::new(),
        });
        tokio::spawn(Arc::clone(&sandbox).listen(ready));
        tokio::spawn(watch(child, sandbox.kill.clone(), sandbox.ended.clone()));
        if let Ok(Ok(())) = tokio::time::timeout(START, is_ready).await {
            return Ok(sandbox);
        }
        sandbox.stop().await;
        // It ends with the process; then all that was said is there.
        drop(tokio::time::timeout(Duration::from_secs(1), listener).await);
        let said = said.lock().unwrap_or_else(PoisonError::into_inner);
        Err(GuestError::NotStarted(said.trim().to_owned()))
    }

    /// Stops every process where it is, or lets them go on.
    pub(crate) async fn pause(&self, paused: bool) -> io::Result<()> {
        match self.ask(Request::Pause { paused }, &[]).await {
            Ok((Answer::Done, _)) => Ok(()),
            Ok(_) => Err(io::Error::other("the processes do not stop")),
            Err(error) => Err(io::Error::other(error)),
        }
    }

    /// The network namespace its processes are in.
    pub(crate) fn network(&self) -> Option<PathBuf> {
        self.pid.map(|pid| format!("/proc/{pid}/ns/net").into())
    }

    /// Returns when the sandbox has ended.
    pub(crate) async fn ended(&self) {
        self.deaf.cancelled().await;
    }

    /// Whether it still answers.
    pub(crate) fn is_alive(&self) -> bool {
        !self.deaf.is_cancelled()
    }

    /// Ends every process of the sandbox and returns when they are gone.
    pub(crate) async fn stop(&self) {
        // The agent exits at the end of its input, and the kernel takes its whole PID namespace along.
        let _ = shutdown(&self.socket, Shutdown::Both);
        if tokio::time::timeout(STOP, self.ended.cancelled()).await.is_err() {
            warn!("a sandbox did not end by itself; killing its monitor");
            self.kill.cancel();
            drop(tokio::time::timeout(STOP, self.ended.cancelled()).await);
        }
    }

    /// Starts a program with the given streams.
    pub(crate) async fn spawn(
        &self,
        spawn: Spawn,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Result<Started, (u8, String)>, GuestError> {
        let (sender, answer) = oneshot::channel();
        self.send(Request::Spawn(spawn), fds, Pending::Start(sender)).await?;
        answer.await.map_err(|_| GuestError::Gone)
    }

    /// Asks for anything but a start.
    pub(crate) async fn ask(
        &self,
        request: Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Option<OwnedFd>), GuestError> {
        let (sender, answer) = oneshot::channel();
        self.send(request, fds, Pending::Answer(sender)).await?;
        answer.await.map_err(|_| GuestError::Gone)
    }

    async fn send(&self, request: Request, fds: &[BorrowedFd<'_>], pending: Pending) -> Result<(), GuestError> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let packet = encode(&Envelope { id, request })?;
        self.pending().insert(id, pending);
        if self.deaf.is_cancelled() {
            self.pending().remove(&id);
            return Err(GuestError::Gone);
        }
        let sent = self.socket.async_io(Interest::WRITABLE, || send(self.socket.as_fd(), &packet, fds)).await;
        sent.map_err(|error| {
            self.pending().remove(&id);
            if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
                GuestError::Gone
            } else {
                GuestError::Io(error)
            }
        })
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn exits(&self) -> MutexGuard<'_, HashMap<u32, oneshot::Sender<u8>>> {
        self.exits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands out what the agent says, in its order, until it falls silent.
    async fn listen(self: Arc<Self>, ready: oneshot::Sender<()>) {
        let mut ready = Some(ready);
        let mut buffer = vec![0; LARGEST_PACKET];
        loop {
            let received =
                self.socket.async_io(Interest::READABLE, || receive::<Message>(&self.socket, &mut buffer)).await;
            match received {
                Ok(Some((message, fds))) => self.dispatch(message, fds, &mut ready),
                Ok(None) => break,
                Err(error) => {
                    debug!(%error, "the agent's socket failed");
                    break;
                }
            }
        }
        self.deaf.cancel();
        // Dropped senders tell everyone who waits.
        self.pending().clear();
        self.exits().clear();
    }

    fn dispatch(&self, message: Message, fds: Vec<OwnedFd>, ready: &mut Option<oneshot::Sender<()>>) {
        match message {
            Message::Ready => {
                if let Some(ready) = ready.take() {
                    let _ = ready.send(());
                }
            }
            Message::Answer { id, answer } => match (self.pending().remove(&id), answer) {
                (Some(Pending::Start(sender)), Answer::Spawned { pid, program }) => {
                    let (ended, exit) = oneshot::channel();
                    self.exits().insert(pid, ended);
                    drop(sender.send(Ok(Started { pid, program, exit })));
                }
                (Some(Pending::Start(sender)), Answer::NotSpawned { text, code }) => {
                    drop(sender.send(Err((code, text))));
                }
                (Some(Pending::Answer(sender)), answer) => {
                    drop(sender.send((answer, fds.into_iter().next())));
                }
                (Some(Pending::Start(_)) | None, _) => debug!(id, "an answer nobody waits for"),
            },
            Message::Exited { pid, code } => {
                if let Some(ended) = self.exits().remove(&pid) {
                    let _ = ended.send(code);
                }
            }
        }
    }
}

/// Waits for the monitor of a sandbox, and kills it when asked to.
async fn watch(mut child: Child, kill: CancellationToken, ended: CancellationToken) {
    let waited = tokio::select! {
        waited = child.wait() => waited,
        () = kill.cancelled() => {
            drop(child.start_kill());
            child.wait().await
        }
    };
    debug!(?waited, "a sandbox ended");
    ended.cancel();
}

/// Relays what bubblewrap and the agent complain about to the log, and keeps the beginning for an error message.
async fn relay(stderr: Option<ChildStderr>, said: Arc<Mutex<String>>) {
    let Some(stderr) = stderr else { return };
    let mut lines = BufReader::new(stderr).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        warn!(line, "sandbox");
        let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
        if said.len() < 4096 {
            said.push_str(&line);
            said.push('\n');
        }
    }
}
