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

    /// A read that began before now is of no use any more.
    pub fn forget<Q>(&self, key: &Q)
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
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

impl Reads {
    /// What was read of a Sprite from before a wake says that it sleeps.
    pub fn woken(&self, on: Awake) {
        self.sprites.forget(on.name());
        self.rules.forget(on.name());
        self.awake.record(on);
    }
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
        reads.forget("x");
        assert_eq!(reads.get("x", read).await, Ok(3), "what was read before is of no use");
    }
    /// How many reads were begun, each of which takes so long and ends so.
    async fn counted(count: Arc<AtomicU32>, millis: u64, end: Result<(), ()>) -> Result<u32, ()> {
        let number = count.fetch_add(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(millis)).await;
        end.map(|()| number)
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_shared_as_long_as_a_success_and_no_longer() {
        let reads: SharedRead<&str, u32, ()> = SharedRead::default();
        let count = Arc::new(AtomicU32::new(0));
        let read = |end| {
            let count = Arc::clone(&count);
            move || counted(count, 10, end)
        };
        let (a, b) = tokio::join!(reads.get("x", read(Err(()))), reads.get("x", read(Ok(()))));
        assert!(a.is_err() && b.is_err(), "whoever joins has the answer of the one who began");
        tokio::time::advance(Duration::from_millis(989)).await;
        assert!(reads.get("x", read(Ok(()))).await.is_err(), "999 ms old");
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(reads.get("x", read(Ok(()))).await, Ok(1), "a second old: read anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_read_is_not_joined_after_a_second() {
        let reads: SharedRead<&str, u32, ()> = SharedRead::default();
        let count = Arc::new(AtomicU32::new(0));
        let read = || counted(Arc::clone(&count), 5000, Ok(()));
        let late = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            reads.get("x", read).await
        };
        assert_eq!(tokio::join!(reads.get("x", read), late), (Ok(0), Ok(1)), "it may show what was before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_gives_up_does_not_take_the_others_with_it() {
        let reads: SharedRead<&str, u32, ()> = SharedRead::default();
        let count = Arc::new(AtomicU32::new(0));
        let read = || counted(Arc::clone(&count), 500, Ok(()));
        let hasty = tokio::time::timeout(Duration::from_millis(100), reads.get("x", read));
        let (hasty, patient) = tokio::join!(hasty, reads.get("x", read));
        assert!(hasty.is_err());
        assert_eq!((patient, count.load(Ordering::SeqCst)), (Ok(0), 1));
    }

    #[tokio::test]
    async fn who_has_seen_a_newer_version_does_not_join_an_older_read() {
        let reads: SharedRead<(&str, Seen), u32, ()> = SharedRead::default();
        let count = Arc::new(AtomicU32::new(0));
        let read = || counted(Arc::clone(&count), 0, Ok(()));
        let seen = |version: &str| ("x", Some(version.to_owned()));
        assert_eq!(reads.get(seen("1"), read).await, Ok(0));
        assert_eq!(reads.get(seen("2"), read).await, Ok(1));
        assert_eq!(reads.get(("x", None), read).await, Ok(2), "nothing seen is no version");
        assert_eq!(reads.get(seen("1"), read).await, Ok(0));
    }
}
