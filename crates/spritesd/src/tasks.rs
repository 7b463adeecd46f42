//! Tasks: what a guest asks to be kept awake for, each with an end. Knows nothing of HTTP.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::activity::Activity;

/// No task lives longer than this without being asked for again.
pub(crate) const LONGEST: Duration = Duration::from_hours(1);
/// How many a Sprite may have.
const MOST: usize = 256;

/// What is told of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Task {
    pub(crate) name: String,
    pub(crate) started_at: Timestamp,
    pub(crate) expires_at: Timestamp,
}

/// Why a task was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TaskError {
    /// There is one of that name.
    #[error("task already exists")]
    Exists,
    /// There are as many as may be.
    #[error("too many tasks, at most {MOST}")]
    TooMany,
}

/// The live tasks of one Sprite.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    live: Mutex<BTreeMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    task: Task,
    /// Ends the timer, which has the hold.
    _timer: DropGuard,
}

impl Tasks {
    pub(crate) fn list(&self) -> Vec<Task> {
        self.lock().values().map(|entry| entry.task.clone()).collect()
    }

    pub(crate) fn get(&self, name: &str) -> Option<Task> {
        self.lock().get(name).map(|entry| entry.task.clone())
    }

    /// Begins a task, or goes on with the one of that name if `replace`.
    pub(crate) fn put(
        self: &Arc<Self>,
        activity: &Arc<Activity>,
        name: &str,
        lasts: Duration,
        replace: bool,
    ) -> Result<Task, TaskError> {
        let mut live = self.lock();
        let known = live.get(name).map(|entry| entry.task.started_at);
        if known.is_some() && !replace {
            return Err(TaskError::Exists);
        }
        if known.is_none() && live.len() >= MOST {
            return Err(TaskError::TooMany);
        }
        let now = Timestamp::now();
        let task = Task { name: name.to_owned(), started_at: known.unwrap_or(now), expires_at: now + lasts };
        let ended = CancellationToken::new();
        let (tasks, hold, cancelled, name) = (Arc::clone(self), activity.hold(), ended.clone(), name.to_owned());
        tokio::spawn(async move {
            let expired = tokio::time::timeout(lasts, cancelled.cancelled()).await.is_err();
            // Cancelled means replaced or removed: the entry of that name is not ours any more.
            if expired && !cancelled.is_cancelled() {
                tasks.lock().remove(&name);
            }
            drop(hold);
        });
        let entry = Entry { task: task.clone(), _timer: ended.drop_guard() };
        live.insert(task.name.clone(), entry);
        Ok(task)
    }

    /// Ends a task; false when there is none of that name.
    pub(crate) fn remove(&self, name: &str) -> bool {
        self.lock().remove(name).is_some()
    }

    /// Ends all: the Sprite is cold.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_keeps_awake_until_its_end_and_no_longer() {
        let (tasks, activity) = (Arc::<Tasks>::default(), Activity::new());
        let minute = Duration::from_mins(1);
        tasks.put(&activity, "build", minute, false).unwrap();
        assert_eq!(tasks.put(&activity, "build", minute, false), Err(TaskError::Exists));
        tokio::time::sleep(minute / 2).await;
        // Asked for again: from now on.
        tasks.put(&activity, "build", minute, true).unwrap();
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert!(activity.idle_since().is_none() && tasks.get("build").is_some());
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(activity.idle_since().is_some() && tasks.list().is_empty());

        tasks.put(&activity, "other", minute, false).unwrap();
        assert!(tasks.remove("other") && !tasks.remove("other"));
        activity.idle_for(Duration::ZERO).await;
    }
}
