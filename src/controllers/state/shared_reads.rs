//! Reads of live things, each shared for at most a second by all Runs that need it.
//!
//! Must not keep anything longer: a proof rests on these.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared},
};
use tokio::time::Instant;

use crate::access::switch::Switch;
use api::{ExecutionPolicy, SandboxSession};
use k8s_openapi::api::core::v1::Namespace;
use sprites::{Awake, NetworkRule, Sprite};

/// For how long a read is shared, from when it began.
pub const SHARED: Duration = Duration::from_secs(1);

/// The result of a read.
pub type Read<T, E> = Result<T, Arc<E>>;
type InFlight<T, E> = Shared<BoxFuture<'static, Read<T, E>>>;

type Begun<T, E> = (Instant, InFlight<T, E>);

/// One kind of read, by key.
#[derive(Debug)]
pub struct SharedRead<K, T: Clone, E> {
    reads: Mutex<HashMap<K, Begun<T, E>>>,
}

impl<K, T: Clone, E> Default for SharedRead<K, T, E> {
    fn default() -> Self {
        Self { reads: Mutex::new(HashMap::new()) }
    }
}

impl<K: Eq + Hash, T: Clone + Send + Sync + 'static, E: Send + Sync + 'static> SharedRead<K, T, E> {
    /// The result of a read that began at most a second ago; one is begun if there is none.
    pub async fn get<F>(&self, key: K, read: impl FnOnce() -> F) -> Read<T, E>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let in_flight = {
            let mut reads = self.reads.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            reads.retain(|_, (began, _)| now.saturating_duration_since(*began) < SHARED);
            let begin = || (now, read().map(|result| result.map_err(Arc::new)).boxed().shared());
            reads.entry(key).or_insert_with(begin).1.clone()
        };
        in_flight.await
    }
}

/// The version of an object that the cache showed: a read from before it is of no use to whoever has seen it.
pub type Seen = Option<String>;

/// Every kind that is shared.
#[derive(Debug, Default)]
pub struct Reads {
    /// Sessions by namespace and name.
    pub sessions: SharedRead<(String, String, Seen), Option<Arc<SandboxSession>>, kube::Error>,
    /// Policies by name.
    pub policies: SharedRead<(String, Seen), Option<Arc<ExecutionPolicy>>, kube::Error>,
    /// Namespaces by name.
    pub namespaces: SharedRead<(String, Seen), Option<Arc<Namespace>>, kube::Error>,
    /// The switch.
    pub switch: SharedRead<(), Switch, kube::Error>,
    /// Sprites by name.
    pub sprites: SharedRead<String, Arc<Sprite>, sprites::Error>,
    /// Rules by the name of the Sprite.
    pub rules: SharedRead<String, Arc<Vec<NetworkRule>>, sprites::Error>,
    /// Sprites that were seen awake.
    pub awake: LastAwake,
}

/// A Sprite seen awake longer ago than this may be asleep again.
const AWAKE: Duration = Duration::from_secs(20);

/// The instances that were seen awake a short while ago, by name: their rules can be read without asking for their state
/// first, and without waking one that sleeps.
#[derive(Debug, Default)]
pub struct LastAwake {
    seen: Mutex<HashMap<String, Awake>>,
}

impl LastAwake {
    /// This instance, if it was seen awake.
    pub fn of(&self, name: &str, instance: &str) -> Option<Awake> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(name).filter(|on| on.id() == instance && on.age() < AWAKE).cloned()
    }

    /// What is doubted is asked for its state first.
    pub fn forget(&self, name: &str) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// It was seen. Those of long ago are forgotten.
    pub fn record(&self, on: Awake) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= 1024 {
            seen.retain(|_, on| on.age() < AWAKE);
        }
        seen.insert(on.name().to_owned(), on);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test(start_paused = true)]
    async fn a_read_is_shared_for_a_second_from_when_it_began() {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let reads: SharedRead<&str, u32, ()> = SharedRead::default();
        let read = || async {
            tokio::time::sleep(Duration::from_millis(600)).await;
            Ok(COUNT.fetch_add(1, Ordering::SeqCst))
        };
        let (a, b) = tokio::join!(reads.get("x", read), reads.get("x", read));
        assert_eq!((a, b), (Ok(0), Ok(0)));
        assert_eq!(reads.get("x", read).await, Ok(0), "600 ms old");
        tokio::time::advance(Duration::from_millis(500)).await;
        assert_eq!(reads.get("x", read).await, Ok(1), "1,100 ms old");
        assert_eq!(reads.get("y", read).await, Ok(2), "another key");
    }
}
