//! Which namespaces are watched, and the caches of what is in them.
//!
//! One reflector a scope, so that a list of namespaces needs no rights over the others. Must not reconcile.

use std::{collections::BTreeMap, fmt::Debug, hash::Hash, sync::Arc};

use futures::{Stream, StreamExt, stream::BoxStream};
use kube::{
    Api, Client, Resource,
    core::DeserializeGuard,
    runtime::{
        WatchStreamExt, reflector,
        reflector::{ObjectRef, Store},
        watcher,
    },
};
use serde::de::DeserializeOwned;

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// In every namespace.
    All,
    /// In these.
    Namespaces(Vec<String>),
}

/// An object, or what could not be read of it: a broken object must not hide the others.
pub type Guarded<K> = DeserializeGuard<K>;

/// Cached objects of one kind, by scope.
#[derive(Debug, Clone)]
pub struct Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
{
    stores: Arc<BTreeMap<Option<String>, Store<Guarded<K>>>>,
    filled: Vec<tokio::sync::watch::Receiver<bool>>,
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    /// The object of that name, if it is known.
    pub fn get(&self, namespace: Option<&str>, name: &str) -> Option<Arc<Guarded<K>>> {
        let reference = match namespace {
            Some(namespace) => ObjectRef::<Guarded<K>>::new(name).within(namespace),
            None => ObjectRef::<Guarded<K>>::new(name),
        };
        self.store(namespace)?.get(&reference)
    }

    /// A cluster-scoped object that is watched by name, one scope a name.
    pub fn get_named(&self, name: &str) -> Option<Arc<Guarded<K>>> {
        let reference = ObjectRef::<Guarded<K>>::new(name);
        self.stores.get(&Some(name.to_owned())).or_else(|| self.stores.get(&None))?.get(&reference)
    }

    /// The store that serves a namespace.
    pub fn store(&self, namespace: Option<&str>) -> Option<&Store<Guarded<K>>> {
        let exact = namespace.and_then(|n| self.stores.get(&Some(n.to_owned())));
        exact.or_else(|| self.stores.get(&None))
    }

    /// Every store.
    pub fn stores(&self) -> impl Iterator<Item = &Store<Guarded<K>>> {
        self.stores.values()
    }

    /// Every object that can be read.
    pub fn all(&self) -> Vec<Arc<Guarded<K>>> {
        self.stores.values().flat_map(Store::state).filter(|o| o.0.is_ok()).collect()
    }

    /// Waits until every store was filled once. (A store's own `wait_until_ready` wakes only the last of several waiters.)
    pub async fn ready(&self) {
        for filled in &self.filled {
            // An error means that the writer is gone, which ends the process elsewhere.
            let _ = filled.clone().wait_for(|filled| *filled).await;
        }
    }
}

/// Changes of one kind in one scope.
pub type Changes<K> = BoxStream<'static, Result<Guarded<K>, watcher::Error>>;

/// Changes of one kind, by scope.
pub type Scoped<K> = Vec<(Option<String>, Changes<K>)>;

/// Watches a namespaced kind in every scope.
pub fn namespaced<K>(client: &Client, scope: &Scope) -> (Cache<K>, Scoped<K>)
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    let apis: Vec<(Option<String>, Api<Guarded<K>>)> = match scope {
        Scope::All => vec![(None, Api::all(client.clone()))],
        Scope::Namespaces(names) => {
            names.iter().map(|n| (Some(n.clone()), Api::namespaced(client.clone(), n))).collect()
        }
    };
    cache(apis.into_iter().map(|(key, api)| (key, api, watcher::Config::default())))
}

/// Watches cluster-scoped objects: all that match, or one scope a name.
pub fn cluster<K>(client: &Client, selections: Vec<(Option<String>, watcher::Config)>) -> (Cache<K>, Scoped<K>)
where
    K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    cache(selections.into_iter().map(|(key, config)| (key, Api::all(client.clone()), config)))
}

fn cache<K>(apis: impl Iterator<Item = (Option<String>, Api<Guarded<K>>, watcher::Config)>) -> (Cache<K>, Scoped<K>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    Guarded<K>: Resource<DynamicType = ()>,
{
    let mut stores = BTreeMap::new();
    let mut streams = Vec::new();
    let mut all_filled = Vec::new();
    for (key, api, config) in apis {
        let (reader, writer) = reflector::store();
        let stream = watcher(api, config).default_backoff().modify(strip);
        let (fill, filled) = tokio::sync::watch::channel(false);
        let reflected = reflector(writer, stream).inspect(move |event| {
            if matches!(event, Ok(watcher::Event::InitDone)) {
                fill.send_replace(true);
            }
        });
        let changes = reflected.touched_objects();
        all_filled.push(filled);
        stores.insert(key.clone(), reader);
        streams.push((key, changes.boxed()));
    }
    (Cache { stores: Arc::new(stores), filled: all_filled }, streams)
}

/// What nobody here reads and every object carries.
fn strip<K: Resource<DynamicType = ()>>(object: &mut Guarded<K>) {
    let meta = object.meta_mut();
    meta.managed_fields = None;
    if let Some(annotations) = &mut meta.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// References to what changed, for a controller's queue.
pub fn references<K>(changes: Changes<K>) -> impl Stream<Item = Result<ObjectRef<Guarded<K>>, watcher::Error>>
where
    K: Resource<DynamicType = ()> + Clone + 'static,
    Guarded<K>: Resource<DynamicType = ()>,
    (): Eq + Hash,
{
    changes.map(|change| change.map(|object| ObjectRef::from_obj(&object)))
}
