//! The network of Sprites: real, enforced by the kernel, and closed to the rest of the machine.
//!
//! One *world* namespace has all hosts that exist. Each guest has a namespace of its own, a link to the world, a
//! packet filter and a resolver. Guests cannot reach each other, the machine or its networks, and can change nothing
//! of this: their namespace belongs to the superuser of the machine.
//!
//! ```text
//! World::new(holder) ──► world.lease(policy) ──► lease.plan() ──► enter(plan)        in the process that becomes
//!                                        └─────► GuestNetwork::attach(lease, netns)  the guest; then in the daemon
//! ```
//!
//! What a policy means:
//! - No policy, or one without rules: all of the world answers, private ranges and metadata services too; every known
//!   name resolves.
//! - With rules: a name resolves if the most specific rule that covers it allows it (see [`matching`]); others get
//!   `REFUSED`. An address is open for as long as an answer with it lives, for all ports and protocols. Every other
//!   address is refused. So IP literals are blocked unless a name was looked up before, also under `* allow`, which
//!   allows all names and no literal; only the empty list of rules opens those.
//! - Private, link-local, shared, metadata and multicast ranges are closed while there are rules, also when an
//!   allowed name resolves there.
//! - A change is in force when [`GuestNetwork::set_policy`] returns. Connections to addresses of names that stay
//!   allowed go on; all others are cut.
//!
//! It must never change anything in the host's own network namespace, and leaves nothing behind however the daemon
//! ends.

mod addresses;
mod control;
mod dns;
mod enforcement;
mod enter;
mod hosts;
mod link;
mod matching;
mod namespace;
mod resolver;
mod ruleset;
#[cfg(test)]
mod tests;
mod tools;
mod world;

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::{CancellationToken, DropGuard};

use control::Control;
use namespace::Namespace;
use resolver::Sockets;

use super::policy::NetworkPolicy;
pub(crate) use enter::enter;
pub(crate) use hosts::Host;
pub(crate) use link::LinkPlan;
pub(crate) use resolver::RESOLVER;
use tools::ToolError;
pub(crate) use world::{AddError, Lease, NoNetwork, World};

/// What can go wrong with the network of a running guest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NetworkError {
    /// It has no network namespace of its own, or has ended.
    #[error("the sandbox's network cannot be reached: {0}")]
    Namespace(#[source] io::Error),
    /// Its resolver cannot listen.
    #[error("the resolver cannot listen: {0}")]
    Resolver(#[source] io::Error),
    /// The change was not made; the guest now reaches nothing, until a later change succeeds.
    #[error("the rules could not be put in force, so the sandbox's network was shut: {0}")]
    Shut(#[source] ToolError),
    /// The change was not made and the guest could not be shut either: it must be ended.
    #[error("the rules could not be put in force and the former ones may still be: {0}")]
    Loose(#[source] ToolError),
    /// The server is going down.
    #[error("the server is stopping")]
    Stopping,
}

/// The network of one running guest: its resolver, and what is in force. Dropping it stops the resolver and frees the
/// guest's number; while it exists so does the guest's network namespace.
#[derive(Debug)]
pub(crate) struct GuestNetwork {
    control: Arc<Control>,
    _resolving: DropGuard,
}

impl GuestNetwork {
    /// Takes charge of a guest whose first process has done [`enter`] with `lease`'s plan; `netns` is its
    /// `/proc/PID/ns/net`. From now on names resolve.
    pub(crate) async fn attach(lease: Lease, netns: &Path) -> Result<Self, NetworkError> {
        let namespace = Namespace::open(netns).map_err(NetworkError::Namespace)?;
        let sockets = Sockets::bind(&namespace).await.map_err(NetworkError::Resolver)?;
        let (control, stop) = (Arc::new(Control::new(namespace, lease)), CancellationToken::new());
        sockets.serve(&control, &stop);
        Ok(Self { control, _resolving: stop.drop_guard() })
    }

    /// Replaces the policy. When this returns the kernel enforces it and connections that it does not allow are cut.
    /// The change is made to its end even if this is dropped.
    pub(crate) async fn set_policy(&self, policy: &NetworkPolicy) -> Result<(), NetworkError> {
        Arc::clone(&self.control).set_policy(policy.clone()).await
    }

    /// Ends all connections to the outside, as a suspended machine loses them. New ones are decided as before.
    pub(crate) async fn cut_connections(&self) -> Result<(), NetworkError> {
        Arc::clone(&self.control).cut().await
    }
}
