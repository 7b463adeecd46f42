//! All Sprites of a server: made, found, listed, deleted. Knows nothing of HTTP.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::policy::NetworkPolicy;
use super::sprite::{Shared, Sprite, blocking};
use super::store::{Meta, UrlSettings, free_user};

/// Why a Sprite was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    /// The name is in use.
    #[error("the name is taken")]
    Duplicate,
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The Sprites of a server.
pub(crate) struct Registry {
    pub(crate) shared: Arc<Shared>,
    sprites: Mutex<BTreeMap<String, Arc<Sprite>>>,
    /// Serializes create and delete, so that names and host users are given once.
    changing: tokio::sync::Mutex<()>,
}

impl Registry {
    /// Loads what the store holds; every Sprite is cold.
    pub(crate) fn load(shared: Arc<Shared>) -> io::Result<Self> {
        let sprites = shared.store.load()?.into_iter();
        let sprites = sprites.map(|meta| (meta.name.clone(), Sprite::new(Arc::clone(&shared), meta))).collect();
        Ok(Self { shared, sprites: Mutex::new(sprites), changing: tokio::sync::Mutex::default() })
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Sprite>> {
        self.lock().get(name).cloned()
    }

    /// Every Sprite, by name.
    pub(crate) fn all(&self) -> BTreeMap<String, Arc<Sprite>> {
        self.lock().clone()
    }

    /// Makes a Sprite, durably.
    pub(crate) async fn create(
        &self,
        name: &str,
        labels: Vec<String>,
        url_settings: UrlSettings,
    ) -> Result<Arc<Sprite>, CreateError> {
        let _changing = self.changing.lock().await;
        let existing = self.all();
        if existing.contains_key(name) {
            return Err(CreateError::Duplicate);
        }
        let known: Vec<Meta> = existing.values().map(|sprite| sprite.meta()).collect();
        let now = Timestamp::now();
        let meta = Meta {
            id: format!("sprite-{}", Uuid::new_v4()),
            name: name.to_owned(),
            labels,
            url_settings,
            created_at: now,
            updated_at: now,
            last_running_at: None,
            network: NetworkPolicy::default(),
            user: free_user(known.iter()),
        };
        let (shared, stored) = (Arc::clone(&self.shared), meta.clone());
        blocking(move || shared.store.create(&stored)).await?;
        let sprite = Sprite::new(Arc::clone(&self.shared), meta);
        self.lock().insert(name.to_owned(), Arc::clone(&sprite));
        sprite.record("create", json!({}));
        Ok(sprite)
    }

    /// Ends and removes a Sprite with everything it has; false when there is none.
    pub(crate) async fn delete(&self, name: &str) -> io::Result<bool> {
        let _changing = self.changing.lock().await;
        let Some(sprite) = self.get(name) else {
            return Ok(false);
        };
        sprite.close().await;
        let (shared, meta) = (Arc::clone(&self.shared), sprite.meta());
        let discarded = blocking(move || shared.store.discard(&meta)).await;
        // Its directory may be gone though cleaning up failed: what counts is whether the name is free.
        if !self.shared.store.directory(name).exists() {
            self.lock().remove(name);
            sprite.record("delete", json!({}));
        }
        discarded.map(|()| true)
    }

    /// Ends all guests; the Sprites stay.
    pub(crate) async fn close(&self) {
        let _changing = self.changing.lock().await;
        let all = self.all();
        join_all(all.values().map(|sprite| sprite.close())).await;
        self.shared.store.release();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Sprite>>> {
        self.sprites.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
