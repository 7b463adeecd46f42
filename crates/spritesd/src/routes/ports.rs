//! Watches which TCP ports a guest listens on. The guest is asked only while somebody watches.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use axum::extract::{ConnectInfo, Path, State};
use axum::response::Response;
use futures::StreamExt as _;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use super::exec::{Client, Upgrade, accept};
use super::{Shared, asleep};
use crate::connection::Connection;
use crate::errors::ApiError;
use crate::exec::ws_writer::{Gone, WsWriter};
use crate::files::{self, FilesError};
use crate::guest::Guest;

/// How long a port may be open before it is told.
const LOOK: Duration = Duration::from_millis(250);

/// A listening socket; without the process when that hides its descriptors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Listener {
    port: u16,
    address: String,
    pid: u32,
}

/// The listening sockets, each once.
type Ports = BTreeMap<(u16, String), Listener>;

/// `…/ports/watch`: the ports now, then each that opens or closes.
pub(super) async fn watch(
    State(app): State<Shared>,
    Path(name): Path<String>,
    ConnectInfo(connection): Client,
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let upgrade = upgrade.map_err(|rejection| ApiError::bad(rejection.body_text()))?;
    // Held until the client leaves: it keeps the Sprite awake.
    let awake = sprite.wake().await.map_err(|error| asleep(&error))?;
    Ok(accept(upgrade, move |socket| async move { serve(socket, connection, &awake).await }))
}

async fn serve(socket: WebSocket, connection: Connection, guest: &Guest) {
    let (sink, mut stream) = socket.split();
    let ws_writer = WsWriter::start(sink, connection.clone());
    let gone = async {
        // Nothing is expected from the client but its leaving.
        while let Some(Ok(message)) = stream.next().await {
            if matches!(message, Message::Close(_)) {
                return;
            }
        }
    };
    tokio::select! {
        () = gone => {}
        told = tell(&ws_writer, guest) => if let Err(error) = told {
            debug!(%error, "cannot look at the ports");
            connection.cut();
        },
    }
}

async fn tell(ws_writer: &WsWriter, guest: &Guest) -> Result<(), FilesError> {
    let mut known = look(guest).await?;
    let list: Vec<&Listener> = known.values().collect();
    if ws_writer.send(Message::text(json!({ "type": "port_list", "ports": list }).to_string())).await.is_err() {
        return Ok(());
    }
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        looks.tick().await;
        let now = look(guest).await?;
        for (kind, port) in differences(&known, &now) {
            let Listener { port, address, pid } = port;
            let message = json!({ "type": kind, "port": port, "address": address, "pid": pid });
            if let Err(Gone) = ws_writer.send(Message::text(message.to_string())).await {
                return Ok(());
            }
        }
        known = now;
    }
}

async fn look(guest: &Guest) -> Result<Ports, FilesError> {
    let ports: Vec<Listener> = files::ports(guest).await?;
    Ok(ports.into_iter().map(|port| ((port.port, port.address.clone()), port)).collect())
}

/// What closed, then what opened.
fn differences<'a>(before: &'a Ports, now: &'a Ports) -> impl Iterator<Item = (&'static str, &'a Listener)> {
    let closed = before.iter().filter(|(key, _)| !now.contains_key(*key)).map(|(_, port)| ("port_closed", port));
    let opened = now.iter().filter(|(key, _)| !before.contains_key(*key)).map(|(_, port)| ("port_opened", port));
    closed.chain(opened)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_differences_are_told() {
        let ports = |numbers: &[u16]| -> Ports {
            let port = |port: u16| Listener { port, address: "::".into(), pid: 7 };
            numbers.iter().map(|number| ((*number, "::".to_owned()), port(*number))).collect()
        };
        let (before, now) = (ports(&[1, 2]), ports(&[2, 3]));
        let told: Vec<(&str, u16)> = differences(&before, &now).map(|(kind, port)| (kind, port.port)).collect();
        assert_eq!(told, [("port_closed", 1), ("port_opened", 3)]);
        assert_eq!(differences(&now, &now).count(), 0);
    }
}
