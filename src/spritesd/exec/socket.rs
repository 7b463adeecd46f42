//! The WebSocket of one watcher: output and control texts out, input and signals in.
//!
//! Both directions run at once, so a client that writes without reading cannot lock itself up, and the end of the
//! command ends the socket whatever the client still sends.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use serde::Deserialize;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tracing::debug;

use super::frames::{self, Stream};
use super::session::{End, Next, Session, Watcher};
use super::signals;
use crate::spritesd::connection::Connection;

/// How often a text says that the server is there: some clients give up after 45 s without a message.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// A client that takes no byte for this long is gone; the command must not wait for it for ever.
const STALLED: Duration = Duration::from_mins(1);
/// How long the client's answer to our close is awaited. Closing TCP over unread input would reset it, and a reset
/// can overtake the last frames.
const LINGER: Duration = Duration::from_secs(5);
/// Larger messages of clients end the connection.
pub(crate) const LARGEST_MESSAGE: usize = 16 << 20;

/// What may be made to go wrong on the way out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mishap {
    /// Close without an exit frame.
    pub(crate) exit_frame_lost: bool,
    /// Drop TCP after the first frame of standard output.
    pub(crate) early_close: bool,
}

/// How a client came to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Start,
    /// A lone end of input as first frame is what clients send before they know what they attached to: ignored.
    Attach,
}

/// Serves a watcher until the command or the client ends.
pub(crate) async fn serve(socket: WebSocket, connection: Connection, watcher: Watcher, entry: Entry, mishap: Mishap) {
    let (mut sink, mut stream) = socket.split();
    let done = tokio::select! {
        done = write(&mut sink, &watcher, mishap) => done,
        () = read(&mut stream, &watcher.session, entry) => return,
    };
    drop(watcher);
    match done {
        Done::Closed => linger(&mut stream).await,
        Done::Dropped => connection.cut(),
    }
}

/// Tells a client that its command could not be started, as a shell would.
pub(crate) async fn refuse(socket: WebSocket, command: &str, text: &str, code: u8) {
    let (mut sink, mut stream) = socket.split();
    let line = format!("{text}\n");
    // There is no process; zero is the id of none.
    let messages = [
        Message::text(session_info(0, command, jiff::Timestamp::now().as_second())),
        Message::Binary(frames::output(Stream::Stderr, line.as_bytes())),
        Message::Binary(frames::exit(code)),
        normal_close(),
    ];
    for message in messages {
        if !matches!(timeout(STALLED, sink.send(message)).await, Ok(Ok(()))) {
            return;
        }
    }
    linger(&mut stream).await;
}

enum Done {
    /// Our close frame is out.
    Closed,
    /// The connection is to be cut.
    Dropped,
}

async fn write(sink: &mut SplitSink<WebSocket, Message>, watcher: &Watcher, mishap: Mishap) -> Done {
    let session = &watcher.session;
    let mut heartbeat = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let info = session_info(session.id, &session.command, session.created.as_second());
    let mut message = Message::text(info);
    loop {
        let is_stdout = matches!(&message, Message::Binary(frame) if frames::is_stdout(frame));
        let last = matches!(message, Message::Close(_));
        if !matches!(timeout(STALLED, sink.send(message)).await, Ok(Ok(()))) {
            debug!(session = session.id, "the client takes nothing");
            return Done::Dropped;
        }
        if last {
            return Done::Closed;
        }
        if is_stdout && mishap.early_close {
            return Done::Dropped;
        }
        message = tokio::select! {
            next = watcher.next() => match next {
                Next::Frame(frame) => Message::Binary(frame),
                Next::End(End::Lost) => return Done::Dropped,
                Next::End(End::Exited(code)) => {
                    if !mishap.exit_frame_lost {
                        let exit = Message::Binary(frames::exit(code));
                        if !matches!(timeout(STALLED, sink.send(exit)).await, Ok(Ok(()))) {
                            return Done::Dropped;
                        }
                    }
                    normal_close()
                }
            },
            _ = heartbeat.tick() => Message::text(r#"{"type":"debug","msg":"keepalive"}"#),
        };
    }
}

/// Takes what the client sends, until it is gone.
async fn read(stream: &mut SplitStream<WebSocket>, session: &Session, entry: Entry) {
    let mut first = entry == Entry::Attach;
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Binary(frame) => match frames::input(frame) {
                Some(frames::Input::End) if first => {}
                Some(input) => session.input(input).await,
                None => debug!(session = session.id, "a frame of unknown type"),
            },
            Message::Text(text) => command(session, text.as_str()).await,
            Message::Close(_) => {
                // Reading on sends the answer to it.
                drop(timeout(Duration::from_secs(1), stream.next()).await);
                return;
            }
            // Pings are answered by the protocol layer.
            Message::Ping(_) | Message::Pong(_) => continue,
        }
        first = false;
    }
}

#[derive(Deserialize)]
struct ClientText {
    r#type: String,
    signal: Option<String>,
}

async fn command(session: &Session, text: &str) {
    let Ok(text) = serde_json::from_str::<ClientText>(text) else {
        return;
    };
    if text.r#type == "signal"
        && let Some(signal) = text.signal.as_deref().and_then(signals::number)
    {
        session.signal(signal, false).await;
    }
}

async fn linger(stream: &mut SplitStream<WebSocket>) {
    drop(timeout(LINGER, async { while let Some(Ok(_)) = stream.next().await {} }).await);
}

fn session_info(id: u32, command: &str, created: i64) -> String {
    json!({
        "type": "session_info", "session_id": id.to_string(), "command": command, "created": created,
        "cols": 0, "rows": 0, "is_owner": true, "tty": false,
    })
    .to_string()
}

fn normal_close() -> Message {
    Message::Close(Some(CloseFrame { code: close_code::NORMAL, reason: "".into() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_id_is_a_string() {
        let info: serde_json::Value = serde_json::from_str(&session_info(7, "true", 1)).unwrap();
        assert_eq!(info["session_id"], "7");
        assert_eq!(info["type"], "session_info");
    }
}
