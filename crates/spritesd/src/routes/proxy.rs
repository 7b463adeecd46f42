//! TCP through a WebSocket: the connection is made inside the guest, by its agent, and nothing of it leaves by the
//! daemon's own network.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket, close_code};
use axum::extract::{ConnectInfo, Path, State};
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt as _;
use futures::stream::SplitStream;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

use super::exec::{Client, Upgrade, accept};
use super::{Shared, asleep};
use crate::connection::Connection;
use crate::errors::ApiError;
use crate::exec::frames::LARGEST_FRAME;
use crate::exec::socket::linger;
use crate::exec::texts::{close, normal_close};
use crate::exec::ws_writer::WsWriter;
use crate::guest::protocol::{Answer, Request};
use crate::guest::{Guest, GuestError};

/// How long a client may take to say where to.
const TARGET: Duration = Duration::from_secs(10);

/// Where a client wants to go.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Target {
    #[serde(default = "localhost")]
    host: String,
    port: u16,
}

fn localhost() -> String {
    "localhost".into()
}

impl Target {
    /// What is wrong with it, if anything.
    fn fault(&self) -> Option<&'static str> {
        if self.port == 0 {
            Some("invalid port")
        } else if self.host.is_empty() || self.host.len() > 253 || self.host.contains(char::is_control) {
            Some("invalid host")
        } else {
            None
        }
    }
}

/// `…/proxy`: one TCP connection.
pub(super) async fn open(
    State(app): State<Shared>,
    Path(name): Path<String>,
    ConnectInfo(connection): Client,
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let upgrade = upgrade.map_err(|rejection| ApiError::bad(rejection.body_text()))?;
    // Held until the connection ends: it keeps the Sprite awake.
    let awake = sprite.wake().await.map_err(|error| asleep(&error))?;
    Ok(accept(upgrade, move |socket| async move { serve(socket, connection, &awake).await }))
}

async fn serve(socket: WebSocket, connection: Connection, guest: &Guest) {
    let (sink, mut stream) = socket.split();
    let ws_writer = WsWriter::start(sink, connection);
    let Ok(first) = timeout(TARGET, first_text(&mut stream)).await else {
        drop(ws_writer.send(close(close_code::POLICY, "no target was named")).await);
        return;
    };
    let Some(first) = first else { return };
    let target = serde_json::from_str::<Target>(&first).map_err(|error| format!("invalid target: {error}"));
    match target {
        Ok(target) => relay(&mut stream, &ws_writer, guest, target).await,
        Err(why) => refuse(&ws_writer, &why).await,
    }
    linger(&mut stream).await;
}

async fn first_text(stream: &mut SplitStream<WebSocket>) -> Option<String> {
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Text(text) => return Some(text.to_string()),
            Message::Binary(_) => return Some(String::new()),
            Message::Close(_) => return None,
            Message::Ping(_) | Message::Pong(_) => {}
        }
    }
    None
}

async fn refuse(ws_writer: &WsWriter, why: &str) {
    let answer = json!({ "status": "error", "error": why });
    if ws_writer.send(Message::text(answer.to_string())).await.is_ok() {
        drop(ws_writer.send(close(close_code::ERROR, "not connected")).await);
    }
}

/// Connects, says so, and passes bytes both ways until either side ends; then closes the WebSocket.
pub(super) async fn relay(stream: &mut SplitStream<WebSocket>, ws_writer: &WsWriter, guest: &Guest, target: Target) {
    let (tcp, peer) = match connect(guest, target).await {
        Ok(connected) => connected,
        Err(why) => return refuse(ws_writer, &why).await,
    };
    let answer = json!({ "status": "connected", "target": peer });
    if ws_writer.send(Message::text(answer.to_string())).await.is_err() {
        return;
    }
    let (mut from_guest, mut to_guest) = tcp.into_split();
    let down = async {
        let mut buffer = vec![0; LARGEST_FRAME];
        loop {
            match from_guest.read(&mut buffer).await {
                Ok(0) => return Some(normal_close()),
                Ok(length) => {
                    let data = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
                    ws_writer.send(Message::Binary(data)).await.ok()?;
                }
                Err(error) => return Some(close(close_code::ERROR, &error.kind().to_string())),
            }
        }
    };
    let up = async {
        let mut open = true;
        while let Some(Ok(message)) = stream.next().await {
            match message {
                Message::Binary(data) if open => {
                    // A server that reads no more may still write.
                    open = to_guest.write_all(&data).await.is_ok();
                }
                Message::Binary(_) | Message::Ping(_) | Message::Pong(_) => {}
                Message::Text(_) => debug!("a text in a byte stream"),
                Message::Close(_) => return,
            }
        }
    };
    tokio::select! {
        end = down => if let Some(end) = end {
            drop(ws_writer.send(end).await);
        },
        () = up => {}
    }
}

async fn connect(guest: &Guest, target: Target) -> Result<(TcpStream, String), String> {
    if let Some(fault) = target.fault() {
        return Err(fault.into());
    }
    let Target { host, port } = target;
    let (peer, fd) = match guest.ask(Request::Connect { host, port }, &[]).await {
        Ok((Answer::Connected { peer }, Some(fd))) => (peer, fd),
        Ok((Answer::Failed(error), _)) => return Err(error.error),
        Ok(_) => return Err(GuestError::Confused.to_string()),
        Err(error) => return Err(error.to_string()),
    };
    let stream = std::net::TcpStream::from(fd);
    let stream = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
    Ok((stream.map_err(|error| error.to_string())?, peer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(r#"{"host":"localhost","port":8080}"#, true)]
    #[case(r#"{"port":8080}"#, true)]
    #[case(r#"{"host":"localhost","port":0}"#, false)]
    #[case(r#"{"host":"","port":1}"#, false)]
    #[case(r#"{"host":"a\u0000b","port":1}"#, false)]
    #[case(r#"{"host":"localhost","port":70000}"#, false)]
    #[case(r#"{"host":"localhost"}"#, false)]
    #[case("", false)]
    fn targets(#[case] text: &str, #[case] good: bool) {
        let target = serde_json::from_str::<Target>(text);
        assert_eq!(target.is_ok_and(|target| target.fault().is_none()), good);
    }
}
