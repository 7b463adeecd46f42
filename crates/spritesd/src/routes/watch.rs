//! Watches files of a guest for a client.

use axum::extract::ws::{Message, WebSocket};
use axum::extract::{ConnectInfo, Path, State};
use axum::response::Response;
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::unix::pipe;
use tokio::task::JoinSet;

use super::exec::{Client, Upgrade, accept};
use super::files::absolute;
use super::{Shared, asleep};
use crate::connection::Connection;
use crate::errors::ApiError;
use crate::exec::ws_writer::WsWriter;
use crate::files::{self, FilesError};
use crate::guest::Guest;

/// How often one client may subscribe, and to how much at once.
const MOST_SUBSCRIPTIONS: usize = 16;
const MOST_PATHS: usize = 256;

/// What a client sends.
#[derive(Debug, Deserialize)]
struct Subscribe {
    r#type: String,
    #[serde(default)]
    paths: Vec<String>,
    #[serde(default)]
    recursive: bool,
    #[serde(default, rename = "workingDir")]
    working_dir: Option<String>,
}

impl Subscribe {
    /// The absolute paths to watch, or what is wrong.
    fn read(text: &str) -> Result<(Vec<String>, bool), String> {
        let asked: Self = serde_json::from_str(text).map_err(|error| format!("invalid message: {error}"))?;
        if asked.r#type != "subscribe" {
            return Err(format!("unknown message type: {}", asked.r#type));
        }
        if asked.paths.is_empty() || asked.paths.len() > MOST_PATHS {
            return Err(format!("paths must be 1 to {MOST_PATHS}"));
        }
        let paths = asked.paths.iter().map(|path| absolute(path, asked.working_dir.as_deref()));
        Ok((paths.collect::<Result<_, _>>().map_err(|error| error.error)?, asked.recursive))
    }
}

/// `…/fs/watch`: subscriptions in, events out.
pub(super) async fn watch(
    State(app): State<Shared>,
    Path(name): Path<String>,
    ConnectInfo(connection): Client,
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let upgrade = upgrade.map_err(|rejection| ApiError::bad(rejection.body_text()))?;
    // Held until the client leaves: it keeps the Sprite awake.
    let awake = sprite.need(app.registry.shared.settings.fs_on_cold).await.map_err(|error| asleep(&error))?;
    Ok(accept(upgrade, move |socket| async move { serve(socket, connection, &awake).await }))
}

async fn serve(socket: WebSocket, connection: Connection, guest: &Guest) {
    let (sink, mut stream) = socket.split();
    let ws_writer = WsWriter::start(sink, connection.clone());
    // Dropped, and all of them ended, with this function.
    let mut subscriptions = JoinSet::new();
    loop {
        let message = tokio::select! {
            message = stream.next() => message,
            // The sandbox has ended under a subscription: nothing will come any more.
            Some(Ok(true)) = subscriptions.join_next() => return connection.cut(),
        };
        let text = match message {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Ok(Message::Close(_)) | Err(_)) | None => return,
        };
        let answer = match Subscribe::read(&text) {
            Ok(_) if subscriptions.len() >= MOST_SUBSCRIPTIONS => Err("too many subscriptions".to_owned()),
            Ok((paths, recursive)) => match files::watch(guest, paths.clone(), recursive).await {
                Ok(events) => {
                    if ws_writer.send(subscribed(&paths)).await.is_err() {
                        return;
                    }
                    subscriptions.spawn(pass_on(events, ws_writer.clone()));
                    Ok(())
                }
                Err(FilesError::File(error)) => Err(error.error),
                Err(error) => Err(error.to_string()),
            },
            Err(why) => Err(why),
        };
        if let Err(why) = answer
            && ws_writer.send(Message::text(json!({ "type": "error", "message": why }).to_string())).await.is_err()
        {
            return;
        }
    }
}

fn subscribed(paths: &[String]) -> Message {
    Message::text(json!({ "type": "subscribed", "paths": paths }).to_string())
}

/// Passes events on until there are no more (true) or the client is gone.
async fn pass_on(events: pipe::Receiver, ws_writer: WsWriter) -> bool {
    let mut lines = BufReader::new(events).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        if ws_writer.send(Message::text(line)).await.is_err() {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_checked() {
        let read = |text: &str| Subscribe::read(text);
        let got = read(r#"{"type":"subscribe","paths":["a","/b"],"recursive":true,"workingDir":"/workspace"}"#);
        assert_eq!(got, Ok((vec!["/workspace/a".into(), "/b".into()], true)));
        for bad in [
            "",
            "[]",
            r#"{"type":"subscribe"}"#,
            r#"{"type":"x","paths":["a"]}"#,
            r#"{"type":"subscribe","paths":[""]}"#,
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
