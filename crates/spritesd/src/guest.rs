//! One running guest, as the daemon holds it. Knows nothing of HTTP, sessions or names.
//!
//! A guest ends with its [`Guest::stop`], with the daemon (a sandbox's agent sees its socket close), or by itself.

pub(crate) mod agent;
mod agent_copy;
mod agent_files;
mod agent_net;
mod agent_pattern;
mod agent_pause;
mod agent_tree;
mod agent_watch;
pub(crate) mod common;
pub(crate) mod etc;
mod filter;
pub(crate) mod launch;
pub(crate) mod layers;
pub(crate) mod protocol;
mod root;
mod sandbox;
mod spawner;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::oneshot;

pub(crate) use agent_files::{Files, failure, temporary};
use protocol::{Answer, Request, Spawn};
pub(crate) use sandbox::Sandbox;
pub(crate) use spawner::Spawner;

use crate::instant::Machine;

/// How the server starts parts of itself: the program that becomes a sandbox, and the agent inside it.
#[derive(Debug, Clone)]
pub struct SelfProgram {
    /// The program file.
    pub path: PathBuf,
    /// Arguments that make it launch a sandbox.
    pub launch: Vec<String>,
    /// Arguments that make it the agent of a guest.
    pub agent: Vec<String>,
}

impl SelfProgram {
    /// The program that runs now.
    pub fn current() -> io::Result<Self> {
        Ok(Self {
            path: std::env::current_exe()?,
            launch: vec![crate::LAUNCH.into()],
            agent: vec![crate::AGENT.into()],
        })
    }
}

/// What a request to a guest can come to besides its answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuestError {
    /// The sandbox ended before it answered.
    #[error("the sandbox is gone")]
    Gone,
    /// It could not be asked.
    #[error("the sandbox cannot be reached")]
    Io(#[from] io::Error),
    /// It did not start; what bubblewrap said.
    #[error("the sandbox did not start: {0}")]
    NotStarted(String),
    /// It answered something that does not belong to the question.
    #[error("the sandbox gave an answer of another kind")]
    Confused,
}

/// A started program.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) pid: u32,
    /// The resolved program.
    pub(crate) program: String,
    /// Gives the exit code; closed without one when the sandbox ends first.
    pub(crate) exit: oneshot::Receiver<u8>,
}

/// What a running Sprite is made of.
pub(crate) enum Guest {
    /// Processes in a sandbox.
    Sandbox(Arc<Sandbox>),
    /// None: it is answered for.
    Instant(Machine),
}

impl Guest {
    /// Stops every process where it is, or lets them go on.
    pub(crate) async fn pause(&self, paused: bool) -> io::Result<()> {
        match self {
            Self::Sandbox(sandbox) => sandbox.pause(paused).await,
            Self::Instant(_) => Ok(()),
        }
    }

    /// Returns when it has ended.
    pub(crate) async fn ended(&self) {
        match self {
            Self::Sandbox(sandbox) => sandbox.ended().await,
            Self::Instant(machine) => machine.ended().await,
        }
    }

    /// Whether it still answers.
    pub(crate) fn is_alive(&self) -> bool {
        match self {
            Self::Sandbox(sandbox) => sandbox.is_alive(),
            Self::Instant(machine) => machine.is_alive(),
        }
    }

    /// Ends every process of it and returns when they are gone.
    pub(crate) async fn stop(&self) {
        match self {
            Self::Sandbox(sandbox) => sandbox.stop().await,
            Self::Instant(machine) => machine.stop(),
        }
    }

    /// Starts a program with the given streams.
    pub(crate) async fn spawn(
        &self,
        spawn: Spawn,
        fds: &[BorrowedFd<'_>],
    ) -> Result<Result<Started, (u8, String)>, GuestError> {
        match self {
            Self::Sandbox(sandbox) => sandbox.spawn(spawn, fds).await,
            Self::Instant(_) => Ok(Err(Machine::refusal(&spawn))),
        }
    }

    /// Asks for anything but a start.
    pub(crate) async fn ask(
        &self,
        request: Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Option<OwnedFd>), GuestError> {
        match self {
            Self::Sandbox(sandbox) => sandbox.ask(request, fds).await,
            Self::Instant(machine) => machine.ask(request, fds).await,
        }
    }
}
