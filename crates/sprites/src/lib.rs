//! The Sprites API: the only place that knows its wire.
//!
//! A [`Client`] speaks to the hosted service or to `spritesd` alike. It knows nothing of Kubernetes, policies or Runs.
//!
//! Five rules hold everywhere below:
//! - what may have changed something is never repeated here: whether it may be done again is known only to its caller, who
//!   asks [`Error::may_have_happened`] and [`ExecError::may_have_started`];
//! - a call that would wake a Sprite takes an [`Awake`]; lists and reads of the Sprite itself do not;
//! - what cannot be known is an error of its own (`Unknown`, `Lost`), never a guess;
//! - everything has a bound: time for every call, bytes for every answer, frames for every queue;
//! - text from the other side is cut, escaped and kept apart from our own words, and never holds the token.

#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects"))]

mod attempts;
mod awake;
mod call;
mod checkpoints;
mod client;
mod config;
mod error;
mod exec;
mod file_fingerprint;
mod files;
mod frame;
mod go_duration;
mod http;
mod kill;
mod lifecycle;
mod limiter;
mod metrics;
mod policy;
mod response;
mod retry;
mod retry_after;
mod run;
mod sanitize;
mod services;
mod sessions;
mod token;
mod transport;
mod types;

#[cfg(test)]
mod tests;

pub use awake::Awake;
pub use call::Priority;
pub use checkpoints::Checkpoint;
pub use client::Client;
pub use config::{Config, ConfigError};
pub use error::{Error, ExecError, HeldReason, LimitReason};
#[cfg(fuzzing)]
#[doc(hidden)]
pub use exec::replay;
pub use exec::{Exec, ExecEvent, ExecRequest, ExecStdin, LostReason, OnDrop};
pub use files::{DirEntry, EntryKind};
pub use kill::Killed;
pub use lifecycle::Target;
pub use limiter::Limits;
pub use metrics::Metrics;
pub use policy::NetworkRule;
pub use run::Output;
pub use sanitize::ProviderText;
pub use services::Service;
pub use sessions::{ExecSession, KillOutcome, KillReport};
pub use token::{TokenError, TokenSource};
pub use types::{CreateSprite, Sprite, SpriteConfig, SpriteState, UpdateSprite, UrlSettings};
