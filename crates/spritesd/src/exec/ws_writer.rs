//! The way out of a WebSocket that several parts of the server write to, in order and without waiting for reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::extract::ws::{Message, WebSocket};
use futures::SinkExt as _;
use futures::stream::SplitSink;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::socket::STALLED;
use crate::connection::Connection;

/// How many messages may wait; the writer of one more has to wait too.
const WAITING: usize = 16;

/// Where messages to a client go. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct WsWriter {
    queue: mpsc::Sender<(Message, Arc<AtomicBool>)>,
    /// What was written here and still waits is no longer to be sent.
    is_withdrawn: Arc<AtomicBool>,
}

/// The client is gone, or takes nothing any more.
#[derive(Debug)]
pub(crate) struct Gone;

impl WsWriter {
    /// Writes to `sink` until the last writer is dropped; cuts the connection of a client that takes nothing.
    pub(crate) fn start(mut sink: SplitSink<WebSocket, Message>, connection: Connection) -> Self {
        let (sender, mut queue) = mpsc::channel::<(Message, Arc<AtomicBool>)>(WAITING);
        tokio::spawn(async move {
            while let Some((message, is_withdrawn)) = queue.recv().await {
                if is_withdrawn.load(Ordering::Acquire) {
                    continue;
                }
                let last = matches!(message, Message::Close(_));
                match timeout(STALLED, sink.send(message)).await {
                    Ok(Ok(())) if !last => {}
                    // Sent as the last, or too late: the client has closed.
                    Ok(_) => break,
                    Err(_) => return connection.cut(),
                }
            }
            // A client that closes wants an answer to that: some take the mere end of the connection for an error.
            drop(timeout(STALLED, sink.close()).await);
        });
        Self { queue: sender, is_withdrawn: Arc::default() }
    }

    /// A writer to the same client whose messages can be withdrawn without those of others.
    pub(crate) fn apart(&self) -> Self {
        Self { queue: self.queue.clone(), is_withdrawn: Arc::default() }
    }

    /// Sends nothing more of what this writer and its clones have written or write.
    pub(crate) fn withdraw(&self) {
        self.is_withdrawn.store(true, Ordering::Release);
    }

    /// Sends a message after those before it.
    pub(crate) async fn send(&self, message: Message) -> Result<(), Gone> {
        self.queue.send((message, Arc::clone(&self.is_withdrawn))).await.map_err(|_| Gone)
    }
}
