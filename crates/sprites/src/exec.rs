//! A command in a Sprite, over its own WebSocket, without a terminal. The socket lives in a task of its own, so a
//! slow reader never stops pings, and writing never waits for reading. Dropping an [`Exec`], or the future that opens it,
//! closes the connection and ends the command, unless it is meant to be left running: see [`OnDrop`].
//!
//! An exit code comes from the peer's exit message or not at all.

mod open;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod replay;
mod task;

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::error::Error;
use super::sanitize::ProviderText;

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecRequest {
    /// The arguments, the program's own name first. They travel in the request's URL: keep them far below 4 KB, and send
    /// everything else on standard input.
    pub argv: Vec<String>,
    /// Whether standard input will be used; it stays open until [`Exec::close_stdin`]. Otherwise it is closed from the start.
    /// [`Client::run`](super::Client::run) sets it by the input that it is given.
    pub stdin: bool,
    /// How long the command lives on when the connection is lost. Always stated: the default, zero, is sent as one
    /// millisecond, since `0` would mean for ever.
    pub max_run_after_disconnect: Duration,
    /// The program; looked up by `argv[0]` if `None`.
    pub path: Option<String>,
    /// What dropping the [`Exec`] does to the command.
    pub on_drop: OnDrop,
}

/// What happens to a command whose [`Exec`] is dropped before its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrop {
    /// It is ended by its session's id: SIGTERM, after 5 s SIGKILL. Best effort, behind it stands
    /// `max_run_after_disconnect`.
    #[default]
    Kill,
    /// It lives on for `max_run_after_disconnect`, to be attached to again.
    Leave,
}

/// What happens to a command. Exactly one [`Exit`](Self::Exit) or [`Lost`](Self::Lost) comes, last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExecEvent {
    /// The session's id, to attach to or to kill. Once, at the beginning.
    Session {
        /// Never empty.
        id: String,
    },
    /// Bytes of standard output; never empty.
    Stdout(Bytes),
    /// Bytes of standard error; never empty.
    Stderr(Bytes),
    /// The command ended with this code. Death by signal N is 128+N.
    Exit(u8),
    /// The connection ended without an exit code: the command may be running, or have ended with any code.
    Lost(LostReason),
}

impl ExecEvent {
    /// Whether nothing comes after it.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::Exit(_) | Self::Lost(_))
    }
}

/// Why a connection ended without an exit code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostReason {
    /// The peer closed the WebSocket.
    Closed {
        /// The close code; `None` when it sent none.
        code: Option<u16>,
        /// The peer's words.
        reason: ProviderText,
    },
    /// The connection broke.
    Reset {
        /// The operating system's words.
        error: ProviderText,
    },
    /// The peer said what the protocol does not allow.
    Protocol {
        /// What, in our words or the WebSocket library's.
        violation: ProviderText,
    },
    /// The peer sent nothing at all, no pong either.
    DeadPeer {
        /// For how long.
        silent_for: Duration,
    },
    /// The task that owns the connection is gone; a bug, or the runtime is shutting down.
    Aborted,
}

impl LostReason {
    /// A short fixed word for a metrics label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Closed { .. } => "closed",
            Self::Reset { .. } => "reset",
            Self::Protocol { .. } => "protocol",
            Self::DeadPeer { .. } => "dead_peer",
            Self::Aborted => "aborted",
        }
    }
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed { code: Some(code), reason } => write!(f, "closed with code {code}: {reason}"),
            Self::Closed { code: None, reason: _ } => f.write_str("closed without a code"),
            Self::Reset { error } => write!(f, "connection broke: {error}"),
            Self::Protocol { violation } => write!(f, "protocol violation: {violation}"),
            Self::DeadPeer { silent_for } => write!(f, "peer silent for {silent_for:?}"),
            Self::Aborted => f.write_str("aborted"),
        }
    }
}

/// A running command. Read it until a terminal event.
#[derive(Debug)]
pub struct Exec {
    events: mpsc::Receiver<Delivery>,
    stdin: ExecStdin,
    session: Option<String>,
    terminal: Option<ExecEvent>,
    /// Dropped with the exec: so its task learns of that.
    parting: Option<oneshot::Sender<OnDrop>>,
}

/// An event, and the share of the memory budget that it holds until it is taken.
#[derive(Debug)]
struct Delivery {
    event: ExecEvent,
    _held: Option<OwnedSemaphorePermit>,
}

impl Exec {
    /// The next event; waits for it. After the terminal event it returns that one again. Safe to cancel.
    pub async fn next(&mut self) -> ExecEvent {
        if let Some(terminal) = &self.terminal {
            return terminal.clone();
        }
        let event = match self.events.recv().await {
            Some(delivery) => delivery.event,
            None => ExecEvent::Lost(LostReason::Aborted),
        };
        match &event {
            ExecEvent::Session { id } => self.session = Some(id.clone()),
            ExecEvent::Exit(_) | ExecEvent::Lost(_) => {
                self.terminal = Some(event.clone());
                // Nothing after the end is delivered, and the socket need not stay for it.
                self.events.close();
            }
            ExecEvent::Stdout(_) | ExecEvent::Stderr(_) => {}
        }
        event
    }

    /// Closes the connection and leaves the command running for `max_run_after_disconnect`, whatever was asked for before.
    pub fn leave(mut self) {
        // Nobody is there to hear it only when it has ended.
        let _ = self.parting.take().map(|parting| parting.send(OnDrop::Leave));
    }

    /// Queues bytes for standard input; see [`ExecStdin::send`].
    pub async fn send_stdin(&mut self, data: Bytes) -> Result<(), Error> {
        self.stdin.send(data).await
    }

    /// Queues the end of standard input.
    pub async fn close_stdin(&mut self) -> Result<(), Error> {
        self.stdin.close().await
    }

    /// A handle of its own to standard input, to write from one place and read in another.
    pub fn stdin(&self) -> ExecStdin {
        self.stdin.clone()
    }

    /// The session's id, once [`next`](Self::next) has returned it.
    pub fn session_id(&self) -> Option<&str> {
        self.session.as_deref()
    }
}

/// Standard input of a running command.
#[derive(Clone, Debug)]
pub struct ExecStdin {
    queue: mpsc::Sender<StdinPiece>,
}

#[derive(Debug)]
enum StdinPiece {
    Data(Bytes),
    End,
}

impl ExecStdin {
    /// Queues bytes of any size, without copying them. Waits only when several pieces are still unsent, so a whole input given
    /// at once cannot wait for a reader that waits for us. That it was queued does not mean that the command has read it.
    pub async fn send(&self, data: Bytes) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        self.queue.send(StdinPiece::Data(data)).await.map_err(|_| Error::Ended)
    }

    /// Queues the end. Whatever is sent afterwards is [`Error::Ended`] or dropped.
    pub async fn close(&self) -> Result<(), Error> {
        self.queue.send(StdinPiece::End).await.map_err(|_| Error::Ended)
    }
}
