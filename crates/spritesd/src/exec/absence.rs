//! Ends a command that nobody has watched for too long, as the kill call does.

use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::timeout;

use super::session::Session;

/// How long a program that is told to end because nobody watches any more may take to.
const LEAVE: Duration = Duration::from_secs(10);

/// Lets a session live so long without a watcher; for ever, if no time is given.
pub(super) fn limit(session: &Arc<Session>, limit: Option<Duration>) {
    if let Some(limit) = limit {
        tokio::spawn(end_when_left(Arc::clone(session), limit));
    }
}

async fn end_when_left(session: Arc<Session>, limit: Duration) {
    let mut watchers = session.watchers.subscribe();
    loop {
        let alone = async {
            drop(watchers.wait_for(|count| *count == 0).await);
            timeout(limit, watchers.wait_for(|count| *count > 0)).await.is_err()
        };
        tokio::select! {
            _ = session.wait() => return,
            left = alone => if left { break },
        }
    }
    session.signal(Signal::TERM.as_raw()).await;
    if timeout(LEAVE, session.wait()).await.is_err() {
        session.signal(Signal::KILL.as_raw()).await;
    }
}
