//! The stream of states: how every Sprite of a prefix is now, then each change as it comes, and a heartbeat.
//!
//! It has no end but the client's. It wakes nothing.

use std::collections::HashMap;
use std::time::Duration;

use axum::response::Response;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at};
use tokio_stream::wrappers::ReceiverStream;

use super::sprites::{ORGANIZATION, counters};
use super::{Shared, ndjson};
use crate::sprite::Sprite;

/// How often a client hears that the server is there.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// How many events wait for a slow client.
const BACKLOG: usize = 64;

/// Watches the Sprites whose names begin with `prefix`.
pub(super) fn watch(app: Shared, query: &HashMap<String, String>) -> Response {
    let prefix = query.get("prefix").cloned().unwrap_or_default();
    // A client that reads slowly misses states in between, and then gets all as they are.
    let (events, stream) = mpsc::channel(BACKLOG);
    // Before the first look, so that no change falls between.
    let mut changes = app.registry.shared.changes.subscribe();
    tokio::spawn(async move {
        let mut pulse = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
        let mut waiting = all(&app, &prefix);
        loop {
            for event in waiting.drain(..) {
                if events.send(event).await.is_err() {
                    return;
                }
            }
            tokio::select! {
                () = events.closed() => return,
                _ = pulse.tick() => {
                    waiting.push(json!({ "type": "heartbeat", "timestamp": now(), "org": organization(&app) }));
                }
                name = changes.recv() => match name {
                    Ok(name) if name.starts_with(&prefix) => {
                        // One that is gone has no state any more; the counters of the next event tell.
                        waiting.extend(app.registry.get(&name).map(|sprite| state(&app, &sprite)));
                    }
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => waiting = all(&app, &prefix),
                    Err(RecvError::Closed) => return,
                },
            }
        }
    });
    ndjson(ReceiverStream::new(stream))
}

/// The states of all Sprites of a prefix.
fn all(app: &Shared, prefix: &str) -> Vec<Value> {
    let sprites = app.registry.all();
    sprites.iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, sprite)| state(app, sprite)).collect()
}

fn state(app: &Shared, sprite: &Sprite) -> Value {
    let meta = sprite.meta();
    let last = meta.last_running_at.map(|time| format!("{time:.6}"));
    json!({
        "name": meta.name, "status": sprite.status().word(), "running_version": "local",
        "last_running_at": last, "last_warming_at": null, "timestamp": now(), "org": organization(app),
    })
}

fn organization(app: &Shared) -> Value {
    let (running, warm, cold) = counters(&app.registry.all());
    let limit = app.registry.shared.settings.running_limit;
    json!({
        "name": ORGANIZATION, "running": running, "warm": warm, "cold": cold,
        "running_limit": limit, "warm_limit": null,
    })
}

fn now() -> String {
    format!("{:.6}", Timestamp::now())
}
