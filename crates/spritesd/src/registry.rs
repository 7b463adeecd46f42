//! All Sprites of a server: made, found, listed, deleted. Knows nothing of HTTP.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;
use uuid::Uuid;

use super::checkpoints::Checkpoint;
use super::errors::Limited;
use super::policy::NetworkPolicy;
use super::settings::{GuestKind, Rate};
use super::sprite::{Shared, Sprite, blocking};
use super::store::{Meta, UrlSettings, free_user};

/// Why a Sprite was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CreateError {
    /// The name is in use.
    #[error("the name is taken")]
    Duplicate,
    /// Too many were made lately.
    #[error("the creation limit is reached")]
    Limited(Limited),
    /// The disk failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The Sprites of a server.
pub(crate) struct Registry {
    pub(crate) shared: Arc<Shared>,
    sprites: Mutex<BTreeMap<String, Arc<Sprite>>>,
    /// When Sprites were made lately.
    creations: Mutex<VecDeque<Instant>>,
    /// Ids of Sprites that have no space for a scripted failure.
    full: Mutex<BTreeSet<String>>,
    /// Serializes create and delete, so that names and host users are given once.
    changing: tokio::sync::Mutex<()>,
}

impl Registry {
    /// Loads what the store holds; every Sprite is cold.
    pub(crate) async fn load(shared: Arc<Shared>) -> io::Result<Self> {
        let reading = Arc::clone(&shared);
        let (sprites, complete) = blocking(move || reading.store.load()).await?;
        if complete {
            // Else the files of one that cannot be read would be taken for nobody's.
            let ids: Vec<String> = sprites.iter().map(|meta| meta.id.clone()).collect();
            shared.storage.recover(&ids).await?;
        }
        for meta in &sprites {
            shared.watch(meta);
        }
        let sprites = sprites.into_iter();
        let sprites = sprites.map(|meta| (meta.name.clone(), Sprite::new(Arc::clone(&shared), meta))).collect();
        let (creations, full) = (Mutex::default(), Mutex::default());
        Ok(Self { shared, sprites: Mutex::new(sprites), creations, full, changing: tokio::sync::Mutex::default() })
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
        if self.get(name).is_some() {
            return Err(CreateError::Duplicate);
        }
        self.count_creation().map_err(CreateError::Limited)?;
        let now = Timestamp::now();
        let first = Checkpoint::first(now);
        let meta = Meta {
            id: format!("sprite-{}", Uuid::new_v4()),
            name: name.to_owned(),
            labels,
            url_settings,
            created_at: now,
            updated_at: now,
            last_running_at: None,
            network: NetworkPolicy::default(),
            privileges: None,
            resources: None,
            checkpoint: first.id.clone(),
            checkpoints: vec![first.clone()],
            next_checkpoint: 1,
            services: BTreeMap::new(),
            user: self.free_user(),
        };
        // Files first: what belongs to no Sprite is removed at the next start, a Sprite without files would stay.
        let made = async {
            self.shared.storage.create(&meta.id, meta.user).await?;
            self.shared.storage.snapshot(&meta.id, &first.id).await?;
            let (shared, stored) = (Arc::clone(&self.shared), meta.clone());
            blocking(move || shared.store.create(&stored)).await
        };
        if let Err(error) = made.await {
            drop(self.shared.storage.remove(&meta.id).await);
            return Err(error.into());
        }
        self.shared.watch(&meta);
        let sprite = Sprite::new(Arc::clone(&self.shared), meta);
        self.lock().insert(name.to_owned(), Arc::clone(&sprite));
        sprite.record("create", json!({}));
        drop(self.shared.changes.send(name.to_owned()));
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
            sprite.record("delete", json!({ "usage": sprite.usage() }));
            self.shared.storage.remove(&sprite.meta().id).await?;
        }
        discarded.map(|()| true)
    }

    /// Deletes a Sprite and makes one of the same name, labels and URL settings: what a lost machine looks like.
    pub(crate) async fn replace(&self, name: &str) -> io::Result<()> {
        let Some(sprite) = self.get(name) else {
            return Ok(());
        };
        let meta = sprite.meta();
        self.delete(name).await?;
        match self.create(name, meta.labels, meta.url_settings).await {
            Ok(_) | Err(CreateError::Duplicate) => Ok(()),
            Err(CreateError::Limited(_)) => Err(io::Error::other("the creation limit is reached")),
            Err(CreateError::Io(error)) => Err(error),
        }
    }

    /// Leaves a Sprite no space; false when there are no limits to do it with.
    pub(crate) async fn fill(&self, name: &str) -> io::Result<bool> {
        match self.get(name) {
            Some(sprite) => {
                let id = sprite.meta().id;
                self.full.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
                self.shared.storage.fill(&id).await
            }
            None => Ok(true),
        }
    }

    /// Gives the space back to all Sprites.
    pub(crate) async fn relieve(&self) {
        let full = std::mem::take(&mut *self.full.lock().unwrap_or_else(PoisonError::into_inner));
        for id in full {
            // It may be deleted.
            drop(self.shared.storage.relieve(&id).await);
        }
    }

    /// Ends all guests; the Sprites stay.
    pub(crate) async fn close(&self) {
        let _changing = self.changing.lock().await;
        let all = self.all();
        join_all(all.values().map(|sprite| sprite.close())).await;
        self.shared.store.release();
    }

    /// The host user of a new guest, if it is to have one.
    fn free_user(&self) -> Option<u32> {
        match self.shared.settings.guest {
            GuestKind::Bubblewrap => free_user(|| self.lock().values().filter_map(|sprite| sprite.user()).collect()),
            GuestKind::Instant => None,
        }
    }

    /// Counts one more creation, unless there are as many in the window as may be.
    fn count_creation(&self) -> Result<(), Limited> {
        let Some(Rate { count, window }) = self.shared.settings.create_limit else {
            return Ok(());
        };
        let mut creations = self.creations.lock().unwrap_or_else(PoisonError::into_inner);
        while creations.front().is_some_and(|oldest| oldest.elapsed() >= window) {
            creations.pop_front();
        }
        match creations.front() {
            Some(oldest) if creations.len() >= count as usize => {
                let wait = window.saturating_sub(oldest.elapsed()).as_secs() + 1;
                Err(Limited::created(u64::from(count), creations.len() as u64, window.as_secs(), wait))
            }
            Some(_) | None => {
                creations.push_back(Instant::now());
                Ok(())
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Sprite>>> {
        self.sprites.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
