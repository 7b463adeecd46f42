//! Drives the reconciles of one kind: queue, concurrency, deadline, back-off per object, metrics.
//!
//! kube's runtime has no per-object back-off and never tells the error policy of success, so both are here. Must not know
//! what is reconciled.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Debug,
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{Stream, StreamExt, stream};
use kube::{
    Resource, ResourceExt,
    runtime::{
        controller::{self, Action, applier},
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use rand::RngExt as _;
use serde::de::DeserializeOwned;
use tokio::{sync::mpsc, time::timeout};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tokio_util::sync::CancellationToken;

use super::error::{Class, Error};
use crate::{
    kubernetes::{
        object_key::ObjectKey,
        scope::{Changes, Guarded, references},
    },
    telemetry::metrics::Metrics,
};

/// Deadline of one whole reconcile; a wake of a cold Sprite is the longest step in one.
const DEADLINE: Duration = Duration::from_mins(2);
const BACKOFF_INITIAL: Duration = Duration::from_millis(500);
const BACKOFF_MAX: Duration = Duration::from_mins(1);
/// Even without a change every object is looked at: watches may miss events.
const RESYNC: Duration = Duration::from_mins(5);

type Queue<K> = mpsc::UnboundedSender<ObjectRef<Guarded<K>>>;

/// Wakes reconciles of one kind from elsewhere.
#[derive(Debug)]
pub struct Waker<K: Resource<DynamicType = ()> + Clone> {
    queues: Arc<BTreeMap<Option<String>, Queue<K>>>,
}

impl<K: Resource<DynamicType = ()> + Clone> Clone for Waker<K> {
    fn clone(&self) -> Self {
        Self { queues: Arc::clone(&self.queues) }
    }
}

/// What a [`Waker`] puts in, by scope.
pub type Wakes<K> = BTreeMap<Option<String>, stream::BoxStream<'static, ObjectRef<Guarded<K>>>>;

impl<K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static> Waker<K> {
    /// A waker and what it feeds. The queues need no bound: the scheduler behind them keeps one entry an object.
    pub fn new<'a>(scopes: impl Iterator<Item = &'a Option<String>>) -> (Self, Wakes<K>) {
        let mut queues = BTreeMap::new();
        let mut wakes: Wakes<K> = BTreeMap::new();
        for scope in scopes {
            let (queue, receiver) = mpsc::unbounded_channel();
            queues.insert(scope.clone(), queue);
            wakes.insert(scope.clone(), UnboundedReceiverStream::new(receiver).boxed());
        }
        (Self { queues: Arc::new(queues) }, wakes)
    }

    /// Has an object looked at soon.
    pub fn wake(&self, namespace: &str, name: &str) {
        let exact = self.queues.get(&Some(namespace.to_owned()));
        if let Some(queue) = exact.or_else(|| self.queues.get(&None)) {
            // The receiver ends only with the process.
            let _ = queue.send(ObjectRef::<Guarded<K>>::new(name).within(namespace));
        }
    }
}

/// Failures in a row, by object UID. A wake-up before the delay is over is not another failure.
#[derive(Debug, Default)]
struct Backoff {
    failures: Mutex<HashMap<String, u32>>,
}

impl Backoff {
    fn failed(&self, uid: &str) -> Duration {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let count = failures.entry(uid.to_owned()).or_insert(0);
        *count += 1;
        let delay = BACKOFF_INITIAL.saturating_mul(1 << (*count - 1).min(10)).min(BACKOFF_MAX);
        delay.mul_f64(rand::rng().random_range(0.75..1.25))
    }

    fn succeeded(&self, uid: &str) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

/// What a reconcile asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Nothing until something changes (or the slow resync).
    Change,
    /// Come back after this time at the latest.
    After(Duration),
}

/// What one controller is made of.
pub struct Controller<K: Resource<DynamicType = ()> + Clone + 'static, C> {
    /// A short word for logs and metrics.
    pub kind: &'static str,
    /// Reconciles at the same time.
    pub concurrency: u16,
    /// What it works with.
    pub context: Arc<C>,
    /// Where metrics go.
    pub metrics: Arc<Metrics>,
    /// The cache of this scope.
    pub store: Store<Guarded<K>>,
    /// Changes in this scope.
    pub changes: Changes<K>,
    /// Wake-ups from elsewhere; those for objects of other scopes find nothing here.
    pub wakes: stream::BoxStream<'static, ObjectRef<Guarded<K>>>,
}

impl<K, C> Controller<K, C>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    Guarded<K>: Resource<DynamicType = ()>,
    C: Send + Sync + 'static,
{
    /// Reconciles until told to stop; what is under way then is finished.
    pub async fn run<F, R>(self, reconcile: F, stop: CancellationToken)
    where
        F: Fn(Arc<K>, Arc<C>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<Next, Error>> + Send + 'static,
    {
        let Self { kind, concurrency, context, metrics, store, changes, wakes } = self;
        let backoff = Arc::new(Backoff::default());
        let queue = queue(changes, wakes).take_until(stop.cancelled_owned());
        let for_errors = Arc::clone(&backoff);
        let reconcile = move |object: Arc<Guarded<K>>, context: Arc<C>| {
            let (reconcile, backoff, metrics) = (reconcile.clone(), Arc::clone(&backoff), Arc::clone(&metrics));
            // Its own task: a slow one must not hold up the queue's polling.
            Box::pin(async move {
                let (Ok(key), Ok(object)) = (ObjectKey::of(&*object), &object.0) else {
                    tracing::warn!(kind, object = object.name_any(), "an object cannot be read and is left alone");
                    return Ok(Action::requeue(RESYNC));
                };
                let object = Arc::new(object.clone());
                let began = tokio::time::Instant::now();
                let work = tokio::spawn(async move { timeout(DEADLINE, reconcile(object, context)).await });
                let result = match work.await {
                    Ok(Ok(result)) => result,
                    Ok(Err(_)) => Err(Error::Deadline(DEADLINE)),
                    Err(_) => Err(Error::Panicked),
                };
                metrics.reconciled(kind, result.as_ref().err().map_or("ok", Error::result), began.elapsed());
                let next = result?;
                backoff.succeeded(&key.uid);
                Ok(match next {
                    Next::Change => Action::requeue(RESYNC.mul_f64(rand::rng().random_range(0.9..1.1))),
                    Next::After(delay) => Action::requeue(delay.min(RESYNC)),
                })
            })
        };
        let error_policy = move |object: Arc<Guarded<K>>, error: &Error, _: Arc<C>| {
            // One without identity was left alone, not reconciled.
            let failed = || ObjectKey::of(&*object).map_or(BACKOFF_MAX, |key| for_errors.failed(&key.uid));
            let delay = match error.class() {
                Class::Outdated => Duration::from_millis(20),
                Class::Transient => failed(),
                Class::RateLimited(after) => failed().max(after),
            };
            tracing::debug!(kind, object = object.name_any(), %error, ?delay, "a reconcile will be tried again");
            Action::requeue(delay)
        };
        let config = controller::Config::default().concurrency(concurrency);
        applier(reconcile, error_policy, context, store, queue, config)
            .for_each(|result| async move {
                match result {
                    Ok(_) | Err(controller::Error::ObjectNotFound(_)) => {}
                    Err(controller::Error::ReconcilerFailed(error, object)) => match error.class() {
                        Class::Outdated => tracing::debug!(kind, %object, %error, "outdated"),
                        Class::Transient | Class::RateLimited(_) => {
                            tracing::warn!(kind, %object, %error, "a reconcile failed");
                        }
                    },
                    // A watch is begun again by itself.
                    Err(error) => tracing::debug!(kind, %error, "the queue"),
                }
            })
            .await;
    }
}

fn queue<K>(
    changes: Changes<K>,
    wakes: stream::BoxStream<'static, ObjectRef<Guarded<K>>>,
) -> impl Stream<Item = Result<ObjectRef<Guarded<K>>, watcher::Error>>
where
    K: Resource<DynamicType = ()> + Clone + Send + Sync + 'static,
    Guarded<K>: Resource<DynamicType = ()>,
{
    stream::select(references(changes), wakes.map(Ok))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_are_capped_and_start_again_after_success() {
        let backoff = Backoff::default();
        let first = backoff.failed("a");
        assert!(first <= BACKOFF_INITIAL.mul_f64(1.25));
        for _ in 0..20 {
            assert!(backoff.failed("a") <= BACKOFF_MAX.mul_f64(1.25));
        }
        assert!(backoff.failed("a") >= BACKOFF_MAX.mul_f64(0.75));
        assert!(backoff.failed("b") <= BACKOFF_INITIAL.mul_f64(1.25), "another object has a count of its own");
        backoff.succeeded("a");
        assert!(backoff.failed("a") <= BACKOFF_INITIAL.mul_f64(1.25));
    }
}
