//! What a Run's decision comes to. Types only.

use std::{fmt, time::Duration};

use api::{SandboxSession, reasons::WaitingCause};
use k8s_openapi::jiff::Timestamp;
use rules::{
    egress::Ruleset,
    limits::Limits,
    outcome::{Outcome, Stop},
    output::{self, Shape},
};
use runner_protocol::FileOperation;

use crate::{
    controllers::{
        driver::Next,
        state::{executions::Finished, session_view::KnownSession},
    },
    lockdown::verify::Proof,
};

/// The decision.
#[derive(Debug, Clone)]
pub enum Plan {
    /// More has to be known first.
    Need(Need),
    /// Nothing to do until something changes, or this time passed.
    Nothing(Next),
    /// Wait, and say for what.
    Wait(Wait),
    /// It is over without a command.
    Finish(Outcome),
    /// Make the session that it wants.
    CreateSession(Box<SandboxSession>),
    /// Wake this Sprite; wait where it does not.
    Wake(String, Wait),
    /// The live Sprite is not as recorded: the session looks again, the Run waits.
    Reverify {
        /// Why.
        doubt: String,
        /// The Sprite.
        sprite: String,
        /// What the Run waits for.
        wait: Wait,
    },
    /// Start: the live Sprite is proved.
    Start(Box<Start>),
    /// It was started by somebody who is gone: find out.
    Adopt(Option<Stop>),
    /// Have its execution stop.
    Stop(Stop),
    /// Write how it ended.
    Conclude(Box<Finished>),
    /// Its end is on record, and caches show it: forget its execution.
    Forget,
    /// Delete the session that it had of its own.
    DeleteSession,
    /// Its time to live is over.
    Expire,
    /// Let go of a deleted Run.
    Release,
}

/// What has to be gathered before a decision can be made.
#[derive(Debug, Clone)]
pub enum Need {
    /// Session, policies, namespace and switch from the API server.
    Servers,
    /// The live Sprite and its rules.
    LiveSprite(Proof),
}

/// What a Run waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// In a word.
    pub cause: WaitingCause,
    /// For people; the same as long as the cause is the same.
    pub message: String,
}

impl Waiting {
    /// For this.
    pub fn new(cause: WaitingCause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into() }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.cause, self.message)
    }
}

/// A wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// For what.
    pub waiting: Waiting,
    /// When it ends at the latest.
    pub until: Timestamp,
    /// When to look again.
    pub next: Next,
}

/// What is executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tool {
    /// A bash script.
    Bash {
        /// The script.
        command: String,
        /// What it reads.
        stdin: Vec<u8>,
        /// Its working directory, absolute.
        directory: String,
        /// Its variables.
        environment: Vec<(String, String)>,
    },
    /// A file operation.
    File(FileOperation),
}

/// A request that was judged against its policies.
#[derive(Debug, Clone)]
pub struct ValidatedRun {
    /// What is executed.
    pub tool: Tool,
    /// Its run time.
    pub timeout: Duration,
    /// Its limits.
    pub limits: Limits,
}

impl ValidatedRun {
    /// Bytes of output that are stored.
    pub const fn output_limit(&self) -> u64 {
        match &self.tool {
            Tool::Bash { .. } => self.limits.output,
            Tool::File(FileOperation::Read { length, .. }) => *length,
            Tool::File(FileOperation::Write { .. } | FileOperation::Edit { .. }) => 0,
        }
    }

    /// What is kept of what it sends.
    pub const fn shape(&self) -> Shape {
        match &self.tool {
            Tool::Bash { .. } => output::shape(self.limits.output, self.limits.stop_at_output),
            Tool::File(_) => output::file_shape(self.output_limit()),
        }
    }
}

/// All that a start needs.
#[derive(Debug, Clone)]
pub struct Start {
    /// What was asked for.
    pub request: ValidatedRun,
    /// The session.
    pub session: KnownSession,
    /// What it has on record.
    pub proof: Proof,
    /// Whether recognisable secrets are masked in what is stored.
    pub redact: bool,
    /// The rules that the live Sprite must have.
    pub egress: Ruleset,
    /// The policy that is recorded: the session's.
    pub policy: (String, i64),
    /// Whether what it leaves behind is killed.
    pub kill_leftovers: bool,
    /// The session's files were lost before it.
    pub data_lost: Option<String>,
}

impl Plan {
    /// Whether it comes only of a spec that holds under the policies that were looked at.
    pub const fn shows_that_the_spec_holds(&self) -> bool {
        match self {
            Self::Need(Need::LiveSprite(_))
            | Self::Wait(_)
            | Self::Wake(..)
            | Self::Reverify { .. }
            | Self::CreateSession(_) => true,
            Self::Need(Need::Servers)
            | Self::Nothing(_)
            | Self::Finish(_)
            // It has left the queue.
            | Self::Start(_)
            | Self::Adopt(_)
            | Self::Stop(_)
            | Self::Conclude(_)
            | Self::Forget
            | Self::DeleteSession
            | Self::Expire
            | Self::Release => false,
        }
    }

    /// A word for the log.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Need(Need::Servers) => "NeedServers",
            Self::Need(Need::LiveSprite(_)) => "NeedLiveSprite",
            Self::Nothing(_) => "Nothing",
            Self::Wait(_) => "Wait",
            Self::Finish(_) => "Finish",
            Self::CreateSession(_) => "CreateSession",
            Self::Wake(..) => "Wake",
            Self::Reverify { .. } => "Reverify",
            Self::Start(_) => "Start",
            Self::Adopt(_) => "Adopt",
            Self::Stop(_) => "Stop",
            Self::Conclude(_) => "Conclude",
            Self::Forget => "Forget",
            Self::DeleteSession => "DeleteSession",
            Self::Expire => "Expire",
            Self::Release => "Release",
        }
    }
}
