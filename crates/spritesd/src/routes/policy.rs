//! The policies of a Sprite: each read and replaced as a whole. The network's is enforced; privileges and resources
//! are kept and told, as guests here have no privileges to give and limits of their own.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tracing::error;

use super::Shared;
use crate::errors::ApiError;
use crate::faults::{Effect, Fault};
use crate::policy::{NetworkPolicy, Rule};
use crate::sprite::Sprite;
use crate::store::Meta;

/// What the scripted failure adds to a policy read back.
const INTRUDER: &str = "intruder.example.com";

pub(super) async fn get(
    State(app): State<Shared>,
    Path(name): Path<String>,
    fault: Option<Extension<Fault>>,
) -> Result<Json<NetworkPolicy>, ApiError> {
    let sprite = app.sprite(&name)?;
    let _awake = app.supervised(&sprite).await?;
    let mut policy = sprite.network().await;
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
    let _awake = app.supervised(&sprite).await?;
    let applied = !fault.is_some_and(|fault| fault.effect == Effect::PolicyNotApplied);
    if applied {
        sprite.set_network(policy.clone()).await.map_err(|error| {
            error!(%error, "cannot put a policy in force");
            ApiError::Internal
        })?;
    }
    sprite.record("policy-set", json!({ "policy": policy, "applied": applied }));
    Ok(StatusCode::NO_CONTENT)
}

/// What a policy besides the network's looks like on the wire: the platform's own defaults stand for what is not set.
#[derive(Debug, Clone, Copy)]
enum Other {
    Privileges,
    Resources,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Privileges {
    #[serde(default)]
    profile: String,
    #[serde(default)]
    devices: Vec<String>,
    #[serde(default, rename = "noNewPrivileges")]
    hardened: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resources {
    memory: Memory,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Memory {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit_mb: Option<u64>,
    #[serde(default)]
    autoscale: bool,
}

impl Other {
    fn named(kind: &str) -> Result<Self, ApiError> {
        match kind {
            "privileges" => Ok(Self::Privileges),
            "resources" => Ok(Self::Resources),
            _ => Err(ApiError::NoRoute),
        }
    }

    fn parse(self, body: &[u8]) -> Result<Value, ApiError> {
        let parsed = match self {
            Self::Privileges => serde_json::from_slice::<Privileges>(body).and_then(|found| {
                let known = ["", "minimal", "standard", "privileged"];
                if known.contains(&found.profile.as_str()) {
                    serde_json::to_value(found)
                } else {
                    Err(serde::de::Error::custom("profile must be one of: minimal, standard, privileged"))
                }
            }),
            Self::Resources => serde_json::from_slice::<Resources>(body).and_then(serde_json::to_value),
        };
        parsed.map_err(|error| ApiError::bad(format!("invalid policy: {error}")))
    }

    fn of(self, meta: &mut Meta) -> &mut Option<Value> {
        match self {
            Self::Privileges => &mut meta.privileges,
            Self::Resources => &mut meta.resources,
        }
    }

    fn default(self) -> Value {
        match self {
            Self::Privileges => json!({ "profile": "", "devices": [], "noNewPrivileges": false }),
            Self::Resources => json!({ "memory": { "autoscale": true } }),
        }
    }
}

pub(super) async fn other(
    State(app): State<Shared>,
    Path((name, kind)): Path<(String, String)>,
) -> Result<Json<Value>, ApiError> {
    let (kind, sprite) = (Other::named(&kind)?, app.sprite(&name)?);
    let _awake = app.supervised(&sprite).await?;
    Ok(Json(kind.of(&mut sprite.meta()).take().unwrap_or_else(|| kind.default())))
}

pub(super) async fn set_other(
    State(app): State<Shared>,
    Path((name, kind)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let (kind, sprite) = (Other::named(&kind)?, app.sprite(&name)?);
    let policy = kind.parse(&body)?;
    let _awake = app.supervised(&sprite).await?;
    change(&sprite, kind, Some(policy.clone())).await?;
    Ok(Json(policy))
}

pub(super) async fn remove_other(
    State(app): State<Shared>,
    Path((name, kind)): Path<(String, String)>,
) -> Result<StatusCode, ApiError> {
    let (kind, sprite) = (Other::named(&kind)?, app.sprite(&name)?);
    let _awake = app.supervised(&sprite).await?;
    change(&sprite, kind, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn change(sprite: &Arc<Sprite>, kind: Other, policy: Option<Value>) -> Result<(), ApiError> {
    let changed = sprite.change(|meta| *kind.of(meta) = policy).await;
    changed.map(drop).map_err(|error| {
        error!(%error, "cannot save a policy");
        ApiError::Internal
    })
}
