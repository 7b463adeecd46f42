//! Checkpoints of one Sprite: copies of the files its guest writes, made and put back while somebody watches. Knows
//! nothing of HTTP.
//!
//! A copy holds files only: no memory, no process. Putting one back ends every process, and what was written since is
//! gone. Whether the network policy of the copy's time comes back too is a setting, as the platform's way is unknown.

use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tracing::warn;

use super::policy::NetworkPolicy;
use super::settings::RestorePolicy;
use super::sprite::{Sprite, WakeError};

/// The pseudo entry of a list: the files as they are.
pub(crate) const CURRENT: &str = "Current";
/// The copy of a new Sprite's files.
const FIRST: &str = "v0";
/// Bound of a comment, in bytes.
pub(crate) const LONGEST_COMMENT: usize = 1024;
/// How many copies a Sprite may have: each may be as large as the Sprite.
const MOST: usize = 16;

/// What is known of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Checkpoint {
    pub(crate) id: String,
    pub(crate) create_time: Timestamp,
    #[serde(default)]
    pub(crate) comment: String,
    /// The copy the files were at when this one was made.
    pub(crate) source_id: Option<String>,
    /// The policy in force then.
    pub(crate) network: NetworkPolicy,
}

impl Checkpoint {
    /// The copy every Sprite begins with.
    pub(crate) fn first(now: Timestamp) -> Self {
        Self {
            id: FIRST.into(),
            create_time: now,
            comment: String::new(),
            source_id: None,
            network: NetworkPolicy::default(),
        }
    }

    /// As clients see it.
    pub(crate) fn describe(&self) -> Value {
        describe(&self.id, self.create_time, &self.comment, self.source_id.as_deref())
    }
}

fn describe(id: &str, time: Timestamp, comment: &str, source: Option<&str>) -> Value {
    json!({
        // Whole seconds: not every client's parser takes fractions.
        "id": id, "create_time": format!("{time:.0}"), "comment": comment, "is_auto": false,
        "source_id": source, "health": "", "history": [],
    })
}

/// Why something about a checkpoint did not happen.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckpointError {
    #[error("checkpoint {0} not found")]
    NotFound(String),
    #[error("checkpoint {0} is the one the files are at")]
    InUse(String),
    #[error("too many checkpoints, at most {MOST}: delete one first")]
    TooMany,
    #[error("failed to wake the sprite: {0}")]
    Wake(#[from] WakeError),
    #[error("failed to copy the files")]
    Io(#[from] io::Error),
}

/// Takes events, in order, as a stream of the wire shows them.
#[derive(Clone)]
pub(crate) struct Progress(mpsc::UnboundedSender<Value>);

impl Progress {
    /// A teller and what it told.
    pub(crate) fn new() -> (Self, UnboundedReceiverStream<Value>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Self(sender), UnboundedReceiverStream::new(receiver))
    }

    fn tell(&self, kind: &str, field: &str, text: &str) {
        // Who has stopped listening does not stop the work.
        drop(self.0.send(json!({ "type": kind, field: text, "time": format!("{:.9}", Timestamp::now()) })));
    }

    fn info(&self, text: impl AsRef<str>) {
        self.tell("info", "data", text.as_ref());
    }

    /// The last event.
    fn end(&self, outcome: Result<String, CheckpointError>, what: &str) {
        match outcome {
            Ok(text) => self.tell("complete", "data", &text),
            Err(error) => {
                warn!(%error, "cannot {what} a checkpoint");
                self.tell("error", "error", &format!("Failed to {what} checkpoint: {error}"));
            }
        }
    }
}

impl Sprite {
    /// All copies, the newest first, after the files as they are.
    pub(crate) fn checkpoints(&self) -> Vec<Value> {
        let meta = self.meta();
        let current = describe(CURRENT, Timestamp::now(), "", Some(&meta.checkpoint));
        std::iter::once(current).chain(meta.checkpoints.iter().rev().map(Checkpoint::describe)).collect()
    }

    /// One copy.
    pub(crate) fn checkpoint(&self, id: &str) -> Option<Checkpoint> {
        self.meta().checkpoints.into_iter().find(|checkpoint| checkpoint.id == id)
    }

    /// Makes a copy and tells how it goes.
    pub(crate) async fn make_checkpoint(self: Arc<Self>, comment: String, progress: Progress) {
        progress.info("Creating checkpoint...");
        let made = self.copy_files(comment).await.map(|checkpoint| {
            progress.info("Checkpoint created successfully");
            progress.info(format!("  ID: {}", checkpoint.id));
            progress.info(format!("  Created: {:.0}", checkpoint.create_time));
            format!("Checkpoint {} created successfully", checkpoint.id)
        });
        progress.end(made, "create");
    }

    /// Puts a copy back and tells how it goes.
    pub(crate) async fn restore_checkpoint(self: Arc<Self>, id: String, progress: Progress) {
        progress.info(format!("Restoring from checkpoint {id}..."));
        let restored = self.put_back(&id).await.map(|()| {
            progress.info("Files restored");
            format!("Restore from {id} complete")
        });
        progress.end(restored, "restore");
    }

    /// Removes a copy.
    pub(crate) async fn delete_checkpoint(self: &Arc<Self>, id: &str) -> Result<(), CheckpointError> {
        let _one = self.copying.lock().await;
        let meta = self.meta();
        if !meta.checkpoints.iter().any(|checkpoint| checkpoint.id == id) {
            return Err(CheckpointError::NotFound(id.to_owned()));
        }
        if meta.checkpoint == id {
            return Err(CheckpointError::InUse(id.to_owned()));
        }
        // Out of the list first: a copy that is listed can be put back.
        self.change(|meta| meta.checkpoints.retain(|checkpoint| checkpoint.id != id)).await?;
        self.shared.storage.forget(&meta.id, id).await?;
        self.record("checkpoint-delete", json!({ "checkpoint": id }));
        Ok(())
    }

    async fn copy_files(self: &Arc<Self>, comment: String) -> Result<Checkpoint, CheckpointError> {
        let _awake = self.need(self.shared.settings.supervisor_on_cold).await?;
        let _one = self.copying.lock().await;
        let meta = self.meta();
        if meta.checkpoints.len() >= MOST {
            return Err(CheckpointError::TooMany);
        }
        let checkpoint = Checkpoint {
            id: format!("v{}", meta.next_checkpoint),
            create_time: Timestamp::now(),
            comment,
            source_id: Some(meta.checkpoint.clone()),
            network: meta.network.clone(),
        };
        // The number is used up before the copy exists, so that none is given twice.
        self.change(|meta| meta.next_checkpoint += 1).await?;
        self.shared.storage.snapshot(&meta.id, &checkpoint.id).await?;
        let known = checkpoint.clone();
        self.change(|meta| {
            meta.checkpoint.clone_from(&known.id);
            meta.checkpoints.push(known);
        })
        .await?;
        self.record("checkpoint", json!({ "checkpoint": checkpoint.id }));
        Ok(checkpoint)
    }

    async fn put_back(self: &Arc<Self>, id: &str) -> Result<(), CheckpointError> {
        let found = self.checkpoint(id).ok_or_else(|| CheckpointError::NotFound(id.to_owned()))?;
        let _hold = self.activity.hold();
        {
            let _one = self.copying.lock().await;
            let closed = self.lifecycle.lock().await;
            if *closed {
                return Err(WakeError::Closing.into());
            }
            self.power_off().await;
            let sprite = self.meta().id;
            self.shared.storage.restore(&sprite, id).await?;
            let revert = self.shared.settings.restore_policy == RestorePolicy::Revert;
            self.change(|meta| {
                meta.checkpoint = found.id;
                if revert {
                    meta.network = found.network;
                }
            })
            .await?;
            self.record("restore", json!({ "checkpoint": id, "policy": self.meta().network }));
        }
        // Services are to run again.
        self.wake().await?;
        Ok(())
    }
}
