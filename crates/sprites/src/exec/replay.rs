//! An exec over bytes that were written down: what a peer said after the handshake, in pieces of any size. For tests and
//! fuzzing only; nothing of it is in a release.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};
use std::time::Duration;

use secrecy::SecretString;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::types::WireSprite;
use super::super::{Client, Config, Sprite, TokenSource};
use super::{ExecEvent, OnDrop, open, task};

/// A peer that says these pieces, one a read, and then ends the connection. What it is told is dropped.
struct Script {
    pieces: VecDeque<Vec<u8>>,
}

impl AsyncRead for Script {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Some(mut piece) = self.pieces.pop_front() {
            let rest = piece.split_off(piece.len().min(buffer.remaining()));
            buffer.put_slice(&piece);
            if !rest.is_empty() {
                self.pieces.push_front(rest);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn client() -> Option<&'static Client> {
    static CLIENT: OnceLock<Option<Client>> = OnceLock::new();
    CLIENT
        .get_or_init(|| {
            let _ = rustls::crypto::ring::default_provider().install_default();
            let token = TokenSource::Fixed(SecretString::from("replay"));
            Client::new(Config::new("http://localhost:1".parse().ok()?, token)).ok()
        })
        .as_ref()
}

/// The events that these pieces of a connection make; the last one is the terminal one. `None` only if no client can be
/// made.
pub async fn events(pieces: Vec<Vec<u8>>) -> Option<Vec<ExecEvent>> {
    let wire = serde_json::json!({"id": "sprite-1", "name": "so-1", "status": "running"});
    let sprite = Sprite::try_from(serde_json::from_value::<WireSprite>(wire).ok()?).ok()?;
    let asked = task::Asked {
        on: sprite.awake()?,
        on_drop: OnDrop::Leave,
        arguments: Vec::new(),
        token: SecretString::from("replay"),
    };
    // An empty piece would read as the end.
    let pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
    let mut exec = task::spawn(open::websocket(Script { pieces }).await, client()?, asked);
    let mut events = Vec::new();
    loop {
        // Never waits for the peer, which has said all it will say: a second is for ever.
        let event = tokio::time::timeout(Duration::from_secs(20), exec.next()).await.ok()?;
        let terminal = event.is_terminal();
        events.push(event);
        if terminal {
            return Some(events);
        }
    }
}
