//! What a session's decision rests on. Types only: must not read anything.

use std::{fmt, sync::Arc};

use api::{SandboxSession, reasons::SessionReason};
use k8s_openapi::jiff::Timestamp;

use super::super::state::session_activity::SessionActivity;
use crate::{
    access::{switch::Switch, tenant::Tenant},
    kubernetes::object_key::ObjectKey,
    lockdown::instance::LiveSprite,
    policy::view::PolicyView,
};

/// Everything that a decision rests on.
#[derive(Debug)]
pub struct Observed {
    /// Which session.
    pub key: ObjectKey,
    /// The session, from the cache; every write compares its version.
    pub session: Arc<SandboxSession>,
    /// Its policy.
    pub policy: PolicyView,
    /// Its tenant.
    pub tenant: Tenant,
    /// The switch.
    pub switch: Switch,
    /// The computed name of its Sprite.
    pub name: Result<String, String>,
    /// Our labels for it.
    pub labels: [String; 3],
    /// What the platform says of that name.
    pub live: Live,
    /// Commands running in it.
    pub executions: usize,
    /// Whether a Run waits for it.
    pub waited_for: bool,
    /// A nonce for an instance that has none yet: 32 random hex digits.
    pub nonce: String,
    /// Hash of this operator's runner.
    pub runner: &'static str,
    /// What is remembered.
    pub activity: SessionActivity,
    /// The time.
    pub now: Timestamp,
    /// Times that were configured.
    pub timing: Timing,
}

impl Observed {
    /// Whether a Run waits for this session.
    pub const fn wanted(&self) -> bool {
        self.waited_for
    }
}

/// Times that were configured, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long a Sprite must be absent before that is believed.
    pub absent_after: i64,
    /// How long a create may still be on its way.
    pub create_grace: i64,
    /// How often an awake Sprite is verified.
    pub verify_interval: i64,
}

/// What the platform says.
#[derive(Debug, Clone)]
pub enum Live {
    /// It was not asked: nothing depends on it now.
    NotAsked,
    /// There is none of that name. One answer is not yet the truth.
    Absent,
    /// No answer that says anything about the Sprite.
    Unknown(NoAnswer),
    /// There is one.
    Present(LiveSprite),
}

/// Why the platform's answer says nothing about a Sprite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoAnswer {
    /// It rejects the operator's token, with this status.
    Denied(u16),
    /// There is no token to send.
    NoToken,
    /// The kind of error.
    Other(&'static str),
}

impl NoAnswer {
    /// What an error of the client says.
    pub fn of(error: &sprites::Error) -> Self {
        if let sprites::Error::Denied { status, .. } = error {
            Self::Denied(*status)
        } else if let sprites::Error::Token(_) = error {
            Self::NoToken
        } else {
            Self::Other(error.kind())
        }
    }

    /// The word for it.
    pub const fn reason(&self) -> SessionReason {
        match self {
            Self::Denied(_) | Self::NoToken => SessionReason::PlatformDenied,
            Self::Other(_) => SessionReason::PlatformUnavailable,
        }
    }
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(401) => {
                f.write_str("the Sprites API rejects the operator's token (401): check the Secret that holds it")
            }
            Self::Denied(status) => write!(
                f,
                "the Sprites API does not let the operator's token do this ({status}): check which organization the token is for"
            ),
            Self::NoToken => {
                f.write_str("the operator has no usable token for the Sprites API: check the Secret that holds it")
            }
            Self::Other(kind) => write!(f, "the Sprites API gave no usable answer ({kind}); trying again"),
        }
    }
}

#[cfg(test)]
mod tests;
