//! The Lease that makes one operator work at a time.
//!
//! Written by compare-and-swap. A request that cannot be repeated is sent only with more lease left than it may take; a
//! Lease allows a short overlap all the same, so nothing may rest on it alone. Must not know what is started.

use std::{sync::Arc, time::Duration};

use super::apply::brief;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, api::PostParams};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;

/// How long a Lease is good for.
pub const DURATION: Duration = Duration::from_secs(30);
/// How often it is renewed.
const RENEW: Duration = Duration::from_secs(5);
/// How long one write may take.
const WRITE: Duration = Duration::from_secs(5);
/// How often a waiting operator looks.
const LOOK: Duration = Duration::from_secs(2);
/// How much lease must be left when a request that cannot be repeated is sent: such a request has 15 s to be sent.
pub const MIN_REMAINING: Duration = Duration::from_secs(15);

/// Why something may not be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("less of the Lease is left than the request may take")]
pub struct InsufficientLease;

/// What is left of our Lease.
#[derive(Debug, Clone)]
pub struct Handle {
    until: watch::Receiver<Option<Instant>>,
}

impl Handle {
    /// Whether it is ours at all: who lost it writes, kills and adopts nothing, since somebody else does.
    pub fn ensure_held(&self) -> Result<(), InsufficientLease> {
        let until = *self.until.borrow();
        if until.is_some_and(|until| until > Instant::now()) { Ok(()) } else { Err(InsufficientLease) }
    }

    /// Whether a request that cannot be repeated may be sent now.
    pub fn ensure_time_left(&self) -> Result<(), InsufficientLease> {
        let until = *self.until.borrow();
        match until {
            Some(until) if until.saturating_duration_since(Instant::now()) > MIN_REMAINING => Ok(()),
            Some(_) | None => Err(InsufficientLease),
        }
    }
}

/// What a candidate does next. Pure.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Write it: it is ours, free, or has run out as far as we watched it.
    Take,
    /// Somebody else holds it.
    Wait,
}

/// The last change that we saw, by our own clock: the holder's clock may differ from ours.
#[derive(Debug, Clone, PartialEq)]
struct Sighting {
    resource_version: Option<String>,
    at: Instant,
}

fn decide(spec: &LeaseSpec, identity: &str, seen: &Sighting, now: Instant) -> Step {
    let holder = spec.holder_identity.as_deref().unwrap_or_default();
    let lasts = spec.lease_duration_seconds.and_then(|s| u64::try_from(s).ok()).map_or(DURATION, Duration::from_secs);
    if holder.is_empty() || holder == identity || now.saturating_duration_since(seen.at) > lasts {
        Step::Take
    } else {
        Step::Wait
    }
}

/// Takes, renews and gives back one Lease.
pub struct Elector {
    api: Api<Lease>,
    name: String,
    identity: String,
    until: watch::Sender<Option<Instant>>,
}

impl Elector {
    /// A candidate of that identity, which must be new for every process.
    pub fn new(api: Api<Lease>, name: &str, identity: String) -> (Arc<Self>, Handle) {
        let (until, handle) = watch::channel(None);
        let elector = Self { api, name: name.to_owned(), identity, until };
        (Arc::new(elector), Handle { until: handle })
    }

    /// Waits until the Lease is ours.
    pub async fn acquire(&self) {
        let mut seen: Option<Sighting> = None;
        loop {
            match timeout(WRITE, self.attempt(&mut seen)).await {
                Ok(Ok(true)) => return,
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    tracing::warn!(error = brief(&error), "the Lease could not be read or written");
                }
                Err(_) => tracing::warn!("the Lease could not be read or written in time"),
            }
            sleep(LOOK).await;
        }
    }

    /// Renews until it is lost (then returns) or `stop` (then gives it back).
    pub async fn hold(&self, stop: CancellationToken) -> LeaseEnd {
        loop {
            tokio::select! {
                () = sleep(RENEW) => {}
                () = stop.cancelled() => {
                    self.until.send_replace(None);
                    self.release().await;
                    return LeaseEnd::Released;
                }
            }
            let mut seen = None;
            let renewed = timeout(WRITE, self.attempt(&mut seen)).await;
            let failure = match renewed {
                Ok(Ok(true)) => continue,
                Ok(Ok(false)) => "somebody else holds it".to_owned(),
                Ok(Err(error)) => brief(&error),
                Err(_) => "no answer in time".to_owned(),
            };
            let over = self.until.borrow().is_none_or(|until| until <= Instant::now());
            if over || failure == "somebody else holds it" {
                self.until.send_replace(None);
                tracing::error!(failure, "the Lease is lost");
                return LeaseEnd::Lost;
            }
            tracing::warn!(failure, "the Lease was not renewed, will try again");
        }
    }

    async fn attempt(&self, seen: &mut Option<Sighting>) -> Result<bool, kube::Error> {
        // From before the request was sent: what the server did with it can only be later.
        let sent = Instant::now();
        let now = MicroTime(Timestamp::now());
        let Some(mut lease) = self.api.get_opt(&self.name).await? else {
            let lease = Lease {
                metadata: ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() },
                spec: Some(self.spec(now, None)),
            };
            return self.settle(self.api.create(&PostParams::default(), &lease).await, sent);
        };
        let version = lease.metadata.resource_version.clone();
        let sighting = match seen.take() {
            Some(old) if old.resource_version == version => old,
            _ => Sighting { resource_version: version, at: sent },
        };
        let spec = lease.spec.take().unwrap_or_default();
        let step = decide(&spec, &self.identity, &sighting, sent);
        *seen = Some(sighting);
        match step {
            Step::Wait => Ok(false),
            Step::Take => {
                lease.spec = Some(self.spec(now, Some(spec)));
                lease.metadata.managed_fields = None;
                self.settle(self.api.replace(&self.name, &PostParams::default(), &lease).await, sent)
            }
        }
    }

    fn spec(&self, now: MicroTime, old: Option<LeaseSpec>) -> LeaseSpec {
        let old = old.unwrap_or_default();
        let ours = old.holder_identity.as_deref() == Some(&self.identity);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: if ours { old.acquire_time } else { Some(now.clone()) },
            renew_time: Some(now),
            lease_transitions: Some(old.lease_transitions.unwrap_or(0) + i32::from(!ours)),
            ..LeaseSpec::default()
        }
    }

    fn settle(&self, written: Result<Lease, kube::Error>, sent: Instant) -> Result<bool, kube::Error> {
        match written {
            Ok(_) => {
                self.until.send_replace(Some(sent + DURATION));
                Ok(true)
            }
            // A conflict says that somebody wrote it, not who holds it: the next attempt looks.
            Err(error) => Err(error),
        }
    }

    async fn release(&self) {
        let give_back = async {
            let Some(mut lease) = self.api.get_opt(&self.name).await? else { return Ok(()) };
            let ours = lease.spec.as_ref().and_then(|s| s.holder_identity.as_deref()) == Some(&self.identity);
            if let (true, Some(spec)) = (ours, &mut lease.spec) {
                spec.holder_identity = None;
                self.api.replace(&self.name, &PostParams::default(), &lease).await?;
            }
            Ok::<(), kube::Error>(())
        };
        match timeout(WRITE, give_back).await {
            Ok(Ok(())) => tracing::info!("the Lease was given back"),
            Ok(Err(error)) => tracing::warn!(%error, "the Lease was not given back; it runs out by itself"),
            Err(_) => tracing::warn!("the Lease was not given back in time; it runs out by itself"),
        }
    }
}

/// How holding a Lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEnd {
    /// Given back on request.
    Released,
    /// Lost.
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(holder: Option<&str>) -> LeaseSpec {
        LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: Some(30),
            ..LeaseSpec::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_foreign_lease_is_taken_only_when_it_did_not_move_for_its_whole_duration() {
        let start = Instant::now();
        let seen = Sighting { resource_version: Some("1".to_owned()), at: start };
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(decide(&spec(Some("other")), "me", &seen, at(30)), Step::Wait);
        assert_eq!(decide(&spec(Some("other")), "me", &seen, at(31)), Step::Take);
        assert_eq!(decide(&spec(Some("me")), "me", &seen, at(0)), Step::Take);
        assert_eq!(decide(&spec(Some("")), "me", &seen, at(0)), Step::Take);
        assert_eq!(decide(&spec(None), "me", &seen, at(0)), Step::Take);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_starts_with_less_lease_left_than_it_may_take() {
        let (until, receiver) = watch::channel(None);
        let handle = Handle { until: receiver };
        assert_eq!(handle.ensure_time_left(), Err(InsufficientLease));
        until.send_replace(Some(Instant::now() + DURATION));
        assert_eq!(handle.ensure_time_left(), Ok(()));
        tokio::time::advance(Duration::from_secs(15)).await;
        assert_eq!(handle.ensure_time_left(), Err(InsufficientLease));
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_held_until_it_runs_out_and_not_before_it_is_taken() {
        let (until, receiver) = watch::channel(None);
        let handle = Handle { until: receiver };
        assert_eq!(handle.ensure_held(), Err(InsufficientLease));
        until.send_replace(Some(Instant::now() + DURATION));
        tokio::time::advance(Duration::from_secs(29)).await;
        assert_eq!(handle.ensure_held(), Ok(()));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(handle.ensure_held(), Err(InsufficientLease));
    }
}
