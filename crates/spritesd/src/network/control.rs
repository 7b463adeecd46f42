//! One guest's namespace and what is in force in it, kept equal: every change is made in the kernel first, under one
//! lock, and what cannot be made leaves the guest shut, never more open than before.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tracing::{debug, error, warn};

use super::NetworkError;
use super::dns::Outcome;
use super::enforcement::{Enforcement, Family, Verdict};
use super::namespace::Namespace;
use super::ruleset::{Mode, Ruleset, opening};
use super::tools::{NFT, ToolError};
use super::world::Lease;
use crate::policy::NetworkPolicy;

/// Ends the TCP connections that a filter selects, which it reads from standard input.
const SS_KILL: (&str, &[&str]) = ("ss", &["-K", "-t", "-n", "-H", "-F", "-"]);
/// With more addresses to spare than this the filter gets too long for the kernel.
const MOST_SPARED: usize = 256;

/// The control of one guest.
#[derive(Debug)]
pub(super) struct Control {
    namespace: Namespace,
    lease: Lease,
    life: Duration,
    state: Mutex<Enforcement>,
}

impl Control {
    /// Of a guest that was started from `lease`'s plan.
    pub(super) fn new(namespace: Namespace, lease: Lease) -> Self {
        let first = lease.first();
        Self { namespace, life: first.life(), state: Mutex::new(first), lease }
    }

    /// The life of answers.
    pub(super) fn answer_life(&self) -> Duration {
        self.life
    }

    /// Decides about a question; addresses are open when this returns them.
    pub(super) async fn answer(&self, name: &str, family: Family) -> Outcome {
        let mut state = self.state.lock().await;
        let now = Instant::now();
        match state.look_up(name, self.lease.world().addresses(name), family, now) {
            Verdict::Refused => Outcome::Refused,
            Verdict::Unknown => Outcome::NoSuchName,
            Verdict::Addresses { answer, to_open } => {
                if state.is_restricted() && !to_open.is_empty() {
                    let text = opening(&to_open, state.open_for());
                    if let Err(error) = self.namespace.feed(NFT, text).await {
                        warn!(%error, name, "cannot open the addresses of an answer");
                        return Outcome::Failed;
                    }
                }
                state.learn(name, &to_open, now);
                Outcome::Addresses(answer)
            }
        }
    }

    /// Puts `policy` in force.
    pub(super) async fn set_policy(self: Arc<Self>, policy: NetworkPolicy) -> Result<(), NetworkError> {
        self.change(move |state| state.under(&policy)).await
    }

    /// Ends all connections.
    pub(super) async fn cut(self: Arc<Self>) -> Result<(), NetworkError> {
        self.change(Enforcement::cut).await
    }

    /// Makes a change to the end even when whoever asked for it goes away.
    async fn change(
        self: Arc<Self>,
        change: impl FnOnce(&Enforcement) -> Enforcement + Send + 'static,
    ) -> Result<(), NetworkError> {
        let made = tokio::spawn(async move {
            let mut state = self.state.lock().await;
            let next = change(&state);
            let text = next.ruleset(Instant::now()).render();
            self.put_in_force(&mut state, next, text).await
        });
        made.await.map_err(|_| NetworkError::Stopping)?
    }

    /// Replaces `state` by `next`, whose rules are `text`; if that fails, by nothing being allowed.
    async fn put_in_force(&self, state: &mut Enforcement, next: Enforcement, text: String) -> Result<(), NetworkError> {
        if let Err(error) = self.namespace.feed(NFT, text).await {
            // One generation on, because it is not known how far the failed one got.
            *state = next.shut();
            return Err(self.shut(state, error).await);
        }
        // If this opened everything, what there was has been cut before, and new connections may have begun.
        let opened = state.is_restricted() && !next.is_restricted();
        *state = next;
        if !opened {
            self.end_connections(&state.ruleset(Instant::now())).await;
        }
        Ok(())
    }

    /// Puts rules in force that are none.
    #[cfg(test)]
    pub(super) async fn try_nonsense(&self, policy: &NetworkPolicy) -> Result<(), NetworkError> {
        let mut state = self.state.lock().await;
        let next = state.under(policy);
        self.put_in_force(&mut state, next, "nonsense\n".to_owned()).await
    }

    async fn shut(&self, shut: &Enforcement, reason: ToolError) -> NetworkError {
        let rules = shut.ruleset(Instant::now());
        match self.namespace.feed(NFT, rules.render()).await {
            Ok(()) => {
                self.end_connections(&rules).await;
                NetworkError::Shut(reason)
            }
            Err(second) => {
                error!(error = %second, "cannot shut the network of a sandbox");
                NetworkError::Loose(reason)
            }
        }
    }

    /// Ends the connections that are not carried over. The packet filter already lets nothing of them through; this
    /// tells programs that wait for data which will not come. Not all kernels can do it.
    async fn end_connections(&self, rules: &Ruleset) {
        let Some(filter) = connections_to_end(rules, &self.lease.own_addresses()) else { return };
        if let Err(error) = self.namespace.feed(SS_KILL, filter).await {
            debug!(%error, "connections end with their next packet only");
        }
    }
}

/// The filter for `ss` that selects the connections to the outside which are not carried over. None if there can be
/// none, or if it would be too long.
fn connections_to_end(rules: &Ruleset, own: &[IpAddr]) -> Option<String> {
    let carries_all = matches!(rules.mode, Mode::Unrestricted(Some(_)));
    if carries_all || rules.kept.len() > MOST_SPARED {
        return None;
    }
    let spared = own.iter().chain(rules.kept.iter().map(|(address, _)| address)).map(|address| match address {
        IpAddr::V4(v4) => v4.to_string(),
        IpAddr::V6(v6) => format!("[{v6}]"),
    });
    let loopback = ["127.0.0.0/8".to_owned(), "[::1]".to_owned()].into_iter();
    let conditions: Vec<String> = loopback.chain(spared).map(|address| format!("not dst {address}")).collect();
    Some(conditions.join(" and "))
}
