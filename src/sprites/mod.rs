//! The Sprites API: the only place that knows its wire.
//!
//! A [`Client`] speaks to the hosted service or to `spritesd` alike. It knows nothing of Kubernetes, policies or Runs, and
//! it never repeats a request: whether a thing may be done again is known only to its caller, who asks
//! [`Error::may_have_happened`] and [`ExecError`].
//!
//! Three rules hold everywhere below:
//! - what cannot be known is an error of its own (`Unknown`, `Lost`), never a guess;
//! - everything has a bound: time for every call, bytes for every answer, frames for every queue;
//! - text from the other side is cut, escaped and kept apart from our own words, and never holds the token.

mod answer;
mod client;
mod config;
mod error;
mod exec;
mod files;
mod frame;
mod http;
mod lifecycle;
mod policy;
mod run;
mod services;
mod sessions;
mod text;
mod token;
mod types;

#[cfg(test)]
mod tests;

pub use client::Client;
pub use config::{Config, ConfigError};
pub use error::{Error, ExecError, LimitReason};
pub use exec::{Exec, ExecEvent, ExecRequest, ExecStdin, LostReason};
pub use files::{DirEntry, EntryKind};
pub use policy::NetworkRule;
pub use run::Output;
pub use services::Service;
pub use sessions::{ExecSession, KillOutcome, KillReport};
pub use text::ProviderText;
pub use token::{TokenError, TokenSource};
pub use types::{CreateSprite, Sprite, SpriteConfig, SpriteState, UpdateSprite, UrlSettings};
