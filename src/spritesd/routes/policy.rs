//! The network policy of a Sprite: read and replaced as a whole.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use http::StatusCode;
use serde_json::json;
use tracing::error;

use super::Shared;
use crate::spritesd::errors::ApiError;
use crate::spritesd::faults::{Effect, Fault};
use crate::spritesd::policy::{NetworkPolicy, Rule};

/// What the scripted failure adds to a policy read back.
const INTRUDER: &str = "intruder.example.com";

pub(super) async fn get(
    State(app): State<Shared>,
    Path(name): Path<String>,
    fault: Option<Extension<Fault>>,
) -> Result<Json<NetworkPolicy>, ApiError> {
    let mut policy = app.sprite(&name)?.meta().network;
    if fault.is_some_and(|fault| fault.effect == Effect::PolicyReadbackDiffers) {
        policy.rules.push(Rule::allow(INTRUDER));
    }
    Ok(Json(policy))
}

pub(super) async fn set(
    State(app): State<Shared>,
    Path(name): Path<String>,
    fault: Option<Extension<Fault>>,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let sprite = app.sprite(&name)?;
    let policy = NetworkPolicy::parse(&body).map_err(ApiError::bad)?;
    let applied = !fault.is_some_and(|fault| fault.effect == Effect::PolicyNotApplied);
    if applied {
        let stored = policy.clone();
        sprite.change(|meta| meta.network = stored).await.map_err(|error| {
            error!(%error, "cannot save a policy");
            ApiError::Internal
        })?;
    }
    sprite.record("policy-set", json!({ "policy": policy, "applied": applied }));
    Ok(StatusCode::NO_CONTENT)
}
