//! Somebody who gets the output of a session: each watcher sees every frame once, in order, then the end.

use std::sync::Arc;

use bytes::Bytes;

use super::session::{End, Session};
use crate::activity::Hold;

/// What a watcher gets next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Frame(Bytes),
    End(End),
}

/// Somebody who gets the output; leaves when dropped. While there is one, the Sprite stays awake.
pub(crate) struct Watcher {
    pub(crate) session: Arc<Session>,
    number: u64,
    _awake: Hold,
}

impl Watcher {
    pub(super) fn new(session: &Arc<Session>) -> Self {
        let number = session.state().replay.watch();
        session.watchers.send_modify(|count| *count += 1);
        Self { session: Arc::clone(session), number, _awake: session.activity.hold() }
    }

    /// The next frame, or the end.
    pub(crate) async fn next(&self) -> Next {
        loop {
            let output = self.session.output.notified();
            tokio::pin!(output);
            output.as_mut().enable();
            {
                let mut state = self.session.state();
                if let Some(frame) = state.replay.next(self.number) {
                    drop(state);
                    self.session.space.notify_waiters();
                    return Next::Frame(frame);
                }
                if let Some(end) = state.end {
                    return Next::End(end);
                }
            }
            output.await;
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.session.state().replay.leave(self.number);
        self.session.space.notify_waiters();
        self.session.watchers.send_modify(|count| *count -= 1);
    }
}
