//! Restart, check, upgrade: what is asked of the machine under a Sprite.

use std::time::Instant;

use axum::Json;
use axum::extract::{Path, State};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Shared, asleep};
use crate::errors::ApiError;
use crate::lifecycle::Status;
use crate::settings::VERSION;

/// `POST …/restart`: every process ends and the Sprite starts anew, with its files.
pub(super) async fn restart(State(app): State<Shared>, Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    let sprite = app.sprite(&name)?;
    let restarting = std::sync::Arc::clone(&sprite);
    // Not tied to the client: half a restart would leave it cold.
    let restarted = tokio::spawn(async move { restarting.restart().await }).await;
    restarted.map_err(|_| ApiError::Internal)?.map_err(|error| asleep(&error))?;
    Ok(Json(json!({ "sprite_name": name, "machine_id": sprite.meta().id, "message": "Sprite restarted" })))
}

/// `GET …/check`: whether it answers. Does not wake it.
pub(super) async fn check(State(app): State<Shared>, Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    let sprite = app.sprite(&name)?;
    let begun = Instant::now();
    let (status, reason) = match sprite.status() {
        Status::Cold | Status::Warm => ("hibernated", "the sprite is not running"),
        Status::Running if sprite.answers().await => ("healthy", ""),
        Status::Running => ("unhealthy", "the sprite does not answer"),
    };
    Ok(Json(json!({
        "sprite_name": name, "sprite_id": sprite.meta().id, "status": status, "reason": reason,
        "checked_at": format!("{:.6}", Timestamp::now()), "elapsed": format!("{}ms", begun.elapsed().as_millis()),
    })))
}

/// `POST …/upgrade`: there is one version of everything here, so a Sprite always has the newest.
pub(super) async fn upgrade(State(app): State<Shared>, Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    app.sprite(&name)?;
    Ok(Json(json!({ "sprite_name": name, "version": VERSION, "message": "Sprite is up to date" })))
}
