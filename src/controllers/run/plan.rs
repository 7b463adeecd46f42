//! What a Run's decision comes to. Types only.

use std::{sync::Arc, time::Duration};

use api::SandboxSession;
use k8s_openapi::jiff::Timestamp;
use rules::{
    egress::Ruleset,
    limits::Limits,
    outcome::{Outcome, Stop},
};

use crate::{
    controllers::{driver::Next, state::executions::Finished},
    lockdown::verify::Proof,
};

/// The decision.
#[derive(Debug, Clone)]
pub enum Plan {
    /// Nothing to do until something changes, or this time passed.
    Nothing(Next),
    /// Wait, and say for what.
    Wait(Wait),
    /// It is over without a command.
    Finish(Outcome),
    /// Make the session that it wants.
    CreateSession,
    /// Start, once the live Sprite is proved.
    Start(Box<Start>),
    /// It was started by somebody who is gone: find out.
    Adopt(Option<Stop>),
    /// Have its execution stop.
    Stop(Stop),
    /// Write how it ended.
    Conclude(Box<Finished>),
    /// Delete the session that it had of its own.
    DeleteSession,
    /// Its time to live is over.
    Expire,
    /// Let go of a deleted Run.
    Release,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// For people; the same as long as the cause is the same.
    pub cause: String,
    /// When it ends at the latest.
    pub until: Timestamp,
    /// When to look again.
    pub next: Next,
}

/// All that a start needs.
#[derive(Debug, Clone)]
pub struct Start {
    /// The session.
    pub session: Arc<SandboxSession>,
    /// What it has on record.
    pub proof: Proof,
    /// Whether recognisable secrets are masked in what is stored.
    pub redact: bool,
    /// The rules that the live Sprite must have.
    pub egress: Ruleset,
    /// The policy that is recorded: the session's.
    pub policy: (String, i64),
    /// Limits of this Run.
    pub limits: Limits,
    /// Its run time.
    pub timeout: Duration,
    /// Its working directory, absolute.
    pub directory: String,
    /// Its variables.
    pub environment: Vec<(String, String)>,
    /// Whether what it leaves behind is killed.
    pub kill_leftovers: bool,
    /// The session's files were lost before it.
    pub data_lost: Option<String>,
}

impl Plan {
    /// Whether it does what cannot be taken back on the word of a cache.
    pub const fn rests_on_cache(&self) -> bool {
        match self {
            Self::Finish(_) | Self::Start(_) | Self::CreateSession => true,
            Self::Nothing(_)
            | Self::Wait(_)
            | Self::Stop(_)
            | Self::Adopt(_)
            | Self::Conclude(_)
            | Self::DeleteSession
            | Self::Expire
            | Self::Release => false,
        }
    }

    /// A word for the log.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Nothing(_) => "Nothing",
            Self::Wait(_) => "Wait",
            Self::Finish(_) => "Finish",
            Self::CreateSession => "CreateSession",
            Self::Start(_) => "Start",
            Self::Adopt(_) => "Adopt",
            Self::Stop(_) => "Stop",
            Self::Conclude(_) => "Conclude",
            Self::DeleteSession => "DeleteSession",
            Self::Expire => "Expire",
            Self::Release => "Release",
        }
    }
}
