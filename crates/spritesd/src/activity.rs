//! Whether something keeps a Sprite awake: what is held, and when something last happened. Knows nothing of Sprites.
//!
//! Held means "for as long as it lasts": a connected client, a live task, a request under way. Touched means "just
//! now": output, input. A process that merely runs is neither, as on the platform.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// What is known of one Sprite's activity.
#[derive(Debug)]
pub(crate) struct Activity {
    state: Mutex<State>,
    /// The last hold was let go.
    released: Notify,
}

#[derive(Debug)]
struct State {
    holds: usize,
    last: Instant,
}

/// Keeps a Sprite awake until dropped.
#[derive(Debug)]
pub(crate) struct Hold(Arc<Activity>);

impl Activity {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { holds: 0, last: Instant::now() }), released: Notify::new() })
    }

    /// Something happened just now.
    pub(crate) fn touch(&self) {
        self.lock().last = Instant::now();
    }

    /// Something goes on until the hold is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> Hold {
        self.lock().holds += 1;
        Hold(Arc::clone(self))
    }

    /// Since when nothing has happened and nothing is held; none while something is held.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let state = self.lock();
        (state.holds == 0).then_some(state.last)
    }

    /// Returns when nothing has been held or touched for `window`.
    pub(crate) async fn idle_for(&self, window: Duration) {
        loop {
            let released = self.released.notified();
            tokio::pin!(released);
            released.as_mut().enable();
            match self.idle_since() {
                None => released.await,
                Some(since) if since.elapsed() >= window => return,
                Some(since) => tokio::time::sleep_until(since + window).await,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        {
            let mut state = self.0.lock();
            state.holds -= 1;
            state.last = Instant::now();
        }
        self.0.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_begins_after_the_last_hold_and_the_last_touch() {
        let activity = Activity::new();
        let window = Duration::from_secs(30);
        let (first, second) = (activity.hold(), activity.hold());
        let start = Instant::now();
        let waiting = tokio::spawn({
            let activity = Arc::clone(&activity);
            async move {
                activity.idle_for(window).await;
                start.elapsed()
            }
        });
        tokio::time::sleep(Duration::from_secs(100)).await;
        drop(first);
        assert_eq!(activity.idle_since(), None);
        tokio::time::sleep(Duration::from_secs(100)).await;
        drop(second);
        tokio::time::sleep(Duration::from_secs(20)).await;
        activity.touch();
        assert_eq!(waiting.await.unwrap().as_secs(), 250);
    }
}
