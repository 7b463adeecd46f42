//! Checkpoints: the calls of the API, also as a guest's own socket serves them.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use http::StatusCode;
use serde::Deserialize;
use serde_json::Value;

use super::{Shared, ndjson};
use crate::checkpoints::{CheckpointError, LONGEST_COMMENT, Progress};
use crate::errors::ApiError;
use crate::sprite::Sprite;

#[derive(Debug, Default, Deserialize)]
struct Create {
    #[serde(default)]
    comment: Option<String>,
}

/// `POST …/checkpoint`: make a copy.
pub(super) async fn create(
    State(app): State<Shared>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, ApiError> {
    make(&app.sprite(&name)?, &body)
}

/// Makes a copy of a Sprite's files, whoever asks.
pub(crate) fn make(sprite: &Arc<Sprite>, body: &[u8]) -> Result<Response, ApiError> {
    let body: Create = if body.is_empty() {
        Create::default()
    } else {
        serde_json::from_slice(body).map_err(|error| ApiError::bad(format!("invalid request body: {error}")))?
    };
    let comment = body.comment.unwrap_or_default();
    if comment.len() > LONGEST_COMMENT {
        return Err(ApiError::bad(format!("invalid comment: at most {LONGEST_COMMENT} bytes")));
    }
    let (progress, events) = Progress::new();
    // Goes on when the client leaves.
    tokio::spawn(Arc::clone(sprite).make_checkpoint(comment, progress));
    Ok(ndjson(events))
}

/// `GET …/checkpoints`: all, newest first. `history` and `includeAuto` change nothing: none is automatic here.
pub(super) async fn list(State(app): State<Shared>, Path(name): Path<String>) -> Result<Json<Vec<Value>>, ApiError> {
    let sprite = app.sprite(&name)?;
    let _awake = app.supervised(&sprite).await?;
    Ok(Json(sprite.checkpoints()))
}

/// `GET …/checkpoints/{id}`.
pub(super) async fn get(
    State(app): State<Shared>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let sprite = app.sprite(&name)?;
    let _awake = app.supervised(&sprite).await?;
    find(&sprite, &id)
}

/// One copy of a Sprite, whoever asks.
pub(crate) fn find(sprite: &Sprite, id: &str) -> Result<Json<Value>, ApiError> {
    match sprite.checkpoint(id) {
        Some(checkpoint) => Ok(Json(checkpoint.describe())),
        None => {
            Err(ApiError::Text(StatusCode::NOT_FOUND, format!("Failed to get checkpoint: checkpoint {id} not found")))
        }
    }
}

/// `POST …/checkpoints/{id}/restore`: put a copy back. What goes wrong is an event, as the answer has begun by then.
pub(super) async fn restore(
    State(app): State<Shared>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    Ok(put_back(&app.sprite(&name)?, id))
}

/// Puts a copy back, whoever asks.
pub(crate) fn put_back(sprite: &Arc<Sprite>, id: String) -> Response {
    let (progress, events) = Progress::new();
    tokio::spawn(Arc::clone(sprite).restore_checkpoint(id, progress));
    ndjson(events)
}

/// `DELETE …/checkpoints/{id}`: the path the vendor's command line is presumed to use.
pub(super) async fn delete(
    State(app): State<Shared>,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let sprite = app.sprite(&name)?;
    let _awake = app.supervised(&sprite).await?;
    let deleted = tokio::spawn(async move { sprite.delete_checkpoint(&id).await }).await;
    deleted.map_err(|_| ApiError::Internal)?.map(|()| StatusCode::NO_CONTENT).map_err(|error| {
        let status = match error {
            CheckpointError::NotFound(_) => StatusCode::NOT_FOUND,
            CheckpointError::InUse(_) => StatusCode::CONFLICT,
            CheckpointError::TooMany | CheckpointError::Wake(_) | CheckpointError::Io(_) => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        };
        ApiError::Text(status, error.to_string())
    })
}
