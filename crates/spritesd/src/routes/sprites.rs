//! Create, get, list, update, delete.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use tracing::{error, warn};

use super::{App, Shared, states};
use crate::errors::{ApiError, Limited};
use crate::faults::{Effect, Fault};
use crate::lifecycle::Status;
use crate::names::{is_valid_name, page};
use crate::registry::CreateError;
use crate::settings::Boot;
use crate::sprite::{Sprite, WakeError};
use crate::store::UrlSettings;

pub(super) const ORGANIZATION: &str = "local";
const MOST_LABELS: usize = 64;
const LONGEST_LABEL: usize = 128;
/// How long a create call waits for capacity: less than clients wait for it.
const CAPACITY: Duration = Duration::from_secs(100);

/// The body of a create call. Sizes are accepted and ignored, as the platform does.
#[derive(Debug, Deserialize)]
pub(super) struct Create {
    #[serde(default)]
    name: String,
    #[serde(default)]
    labels: Option<Vec<String>>,
    #[serde(default)]
    url_settings: Option<PartialUrlSettings>,
    /// Wait for a Sprite to stop running instead of being refused.
    #[serde(default)]
    wait_for_capacity: bool,
}

#[derive(Debug, Deserialize)]
pub(super) struct Update {
    #[serde(default)]
    labels: Option<Vec<String>>,
    #[serde(default)]
    clear_labels: bool,
    #[serde(default)]
    url_settings: Option<PartialUrlSettings>,
}

#[derive(Debug, Deserialize)]
struct PartialUrlSettings {
    auth: Option<String>,
    private_access: Option<String>,
}

impl PartialUrlSettings {
    fn check(&self, errors: &mut Vec<String>) {
        if self.auth.as_deref().is_some_and(|auth| !matches!(auth, "sprite" | "public")) {
            errors.push("invalid auth type, must be one of: sprite, public".into());
        }
        if self.private_access.as_deref().is_some_and(|access| !matches!(access, "admins" | "org_users")) {
            errors.push("invalid private access, must be one of: admins, org_users".into());
        }
    }

    fn apply(self, settings: &mut UrlSettings) {
        if let Some(auth) = self.auth {
            settings.auth = auth;
        }
        if self.private_access.is_some() {
            settings.private_access = self.private_access;
        }
    }
}

fn check_labels(labels: &[String], errors: &mut Vec<String>) {
    if labels.len() > MOST_LABELS {
        errors.push(format!("too many labels, at most {MOST_LABELS}"));
    }
    if labels.iter().any(|label| label.is_empty() || label.len() > LONGEST_LABEL || label.chars().any(char::is_control))
    {
        errors.push("invalid label".into());
    }
}

fn parse<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Result<T, ApiError> {
    serde_json::from_slice(body).map_err(|error| ApiError::Invalid(vec![format!("invalid request body: {error}")]))
}

fn failed(error: &std::io::Error, what: &str) -> ApiError {
    error!(%error, "cannot {what}");
    ApiError::Internal
}

pub(super) async fn create(State(app): State<Shared>, body: Bytes) -> Result<(StatusCode, Json<Value>), ApiError> {
    let Create { name, labels, url_settings, wait_for_capacity } = parse(&body)?;
    let labels = labels.unwrap_or_default();
    let mut errors = Vec::new();
    if !is_valid_name(&name) {
        errors.push("invalid sprite name format".to_owned());
    }
    check_labels(&labels, &mut errors);
    let mut settings = UrlSettings::default();
    if let Some(given) = url_settings {
        given.check(&mut errors);
        given.apply(&mut settings);
    }
    if !errors.is_empty() {
        return Err(ApiError::Invalid(errors));
    }
    let capacity = &app.registry.shared.capacity;
    if let Some(limit) = app.registry.shared.settings.running_limit {
        let patience = if wait_for_capacity { CAPACITY } else { Duration::ZERO };
        if !matches!(timeout(patience, capacity.acquire()).await, Ok(Ok(_))) {
            return Err(ApiError::Limited(Limited::running(u64::from(limit))));
        }
    }
    let (creating, wanted) = (Arc::clone(&app), name.clone());
    // Not tied to the client: half a creation would leave a name that is neither free nor anybody's.
    let created = tokio::spawn(async move { creating.registry.create(&wanted, labels, settings).await });
    match created.await.map_err(|error| failed(&std::io::Error::other(error), "create"))? {
        Ok(sprite) => {
            let answer = (StatusCode::CREATED, Json(object(&app, &sprite)));
            if app.registry.shared.settings.boot == Boot::Create {
                boot(sprite);
            }
            Ok(answer)
        }
        Err(CreateError::Limited(limited)) => Err(ApiError::Limited(limited)),
        Err(CreateError::Duplicate) => Err(ApiError::Duplicate(name)),
        Err(CreateError::Io(error)) => Err(failed(&error, "create")),
    }
}

/// Starts a new Sprite in the background. One that cannot be started stays cold: the next call that wakes it says why.
fn boot(sprite: Arc<Sprite>) {
    tokio::spawn(async move {
        match sprite.wake().await {
            // Deleted since, or the server stops.
            Ok(_) | Err(WakeError::Closing) => {}
            Err(error) => warn!(sprite = sprite.meta().name, %error, "a new sprite stays cold"),
        }
    });
}

pub(super) async fn get(State(app): State<Shared>, Path(name): Path<String>) -> Result<Json<Value>, ApiError> {
    Ok(Json(object(&app, &*app.sprite(&name)?)))
}

pub(super) async fn update(
    State(app): State<Shared>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<Value>, ApiError> {
    let Update { labels, clear_labels, url_settings } = parse(&body)?;
    let sprite = app.sprite(&name)?;
    let mut errors = Vec::new();
    check_labels(labels.as_deref().unwrap_or_default(), &mut errors);
    if let Some(given) = &url_settings {
        given.check(&mut errors);
    }
    if !errors.is_empty() {
        return Err(ApiError::Invalid(errors));
    }
    let changed = sprite.change(|meta| {
        if clear_labels {
            meta.labels.clear();
        }
        if let Some(labels) = labels {
            meta.labels = labels;
        }
        if let Some(given) = url_settings {
            given.apply(&mut meta.url_settings);
        }
        meta.updated_at = jiff::Timestamp::now();
    });
    changed.await.map_err(|error| failed(&error, "update"))?;
    Ok(Json(object(&app, &sprite)))
}

pub(super) async fn delete(State(app): State<Shared>, Path(name): Path<String>) -> Result<StatusCode, ApiError> {
    // Not tied to the client: half a deletion helps nobody.
    let deleting = tokio::spawn(async move { app.registry.delete(&name).await });
    match deleting.await {
        Ok(Ok(true)) => Ok(StatusCode::NO_CONTENT),
        Ok(Ok(false)) => Err(ApiError::NoSprite),
        Ok(Err(error)) => Err(failed(&error, "delete")),
        Err(error) => Err(failed(&std::io::Error::other(error), "delete")),
    }
}

pub(super) async fn list(
    State(app): State<Shared>,
    headers: HeaderMap,
    fault: Option<Extension<Fault>>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, ApiError> {
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if accepts.contains("application/x-ndjson") {
        return Ok(states::watch(app, &query));
    }
    let limit = match query.get("max_results").filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| ApiError::Invalid(vec!["invalid max_results".into()]))?),
    };
    let mut all = app.registry.all();
    if let Some(Extension(fault)) = fault.filter(|fault| fault.effect == Effect::ListMissingEntry) {
        all.retain(|name, _| !name.contains(&fault.matching));
    }
    let prefix = query.get("prefix").map(String::as_str).unwrap_or_default();
    let token = query.get("continuation_token").map(String::as_str);
    let page = page(all.keys().map(String::as_str), prefix, limit, token)
        .ok_or_else(|| ApiError::Invalid(vec!["invalid continuation_token".into()]))?;
    let sprites: Vec<Value> =
        page.names.iter().filter_map(|name| all.get(name)).map(|sprite| object(&app, sprite)).collect();
    let (running, warm, cold) = counters(&all);
    let running_limit = app.registry.shared.settings.running_limit;
    let body = json!({
        "sprites": sprites, "has_more": page.next.is_some(), "next_continuation_token": page.next,
        "name": ORGANIZATION, "running": running, "warm": warm, "cold": cold,
        "running_limit": running_limit, "warm_limit": null,
        "org": {
            "name": ORGANIZATION, "running": running, "warm": warm, "cold": cold,
            "running_limit": running_limit, "warm_limit": null,
        },
    });
    Ok(Json(body).into_response())
}

/// How many are running, warm and cold.
pub(super) fn counters(all: &BTreeMap<String, Arc<Sprite>>) -> (usize, usize, usize) {
    let count = |wanted: Status| all.values().filter(|sprite| sprite.status() == wanted).count();
    (count(Status::Running), count(Status::Warm), count(Status::Cold))
}

/// What is asked of a Sprite that exists but has no such call.
pub(super) async fn no_route(State(app): State<Shared>, Path((name, _)): Path<(String, String)>) -> ApiError {
    app.sprite(&name).err().unwrap_or(ApiError::NoRoute)
}

/// The Sprite object.
fn object(app: &App, sprite: &Sprite) -> Value {
    let meta = sprite.meta();
    let time = |time: jiff::Timestamp| format!("{time:.6}");
    let last = meta.last_running_at.map(time);
    json!({
        "id": meta.id, "name": meta.name, "status": sprite.status().word(), "labels": meta.labels,
        "organization": ORGANIZATION, "org_slug": ORGANIZATION,
        "url": app.registry.shared.url(&meta.name),
        "url_settings": meta.url_settings,
        "created_at": time(meta.created_at), "updated_at": time(meta.updated_at),
        "last_running_at": last, "last_started_at": last, "last_active_at": last, "last_warming_at": null,
        "version": last.as_ref().map(|_| "local"), "environment_version": last.as_ref().map(|_| "local"),
    })
}
