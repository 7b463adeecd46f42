//! The second address: for tests only, never for clients of the API. Scripted failures and ground truth.
//!
//! `GET /log`: NDJSON, one event a line. `GET|PUT /faults`: the rules. `GET /usage`: awake seconds and cost a Sprite.
//! `GET|PUT /instant`: what commands of instant Sprites are answered.
//! `GET|POST /world`: the hosts outside of Sprites. `GET|PUT /marks`: texts whose bearers are logged when they start as processes of a guest.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{StatusCode, header};
use serde_json::{Value, json};
use tracing::error;

use super::errors::ApiError;
use super::faults::FaultRule;
use super::instant::{AnswerRule, Answers};
use super::network::{AddError, Host};
use super::routes::App;
use super::world_cli::WorldView;

/// The admin's routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/faults", get(faults).put(set_faults))
        .route("/log", get(log))
        .route("/usage", get(usage))
        .route("/instant", get(answers).put(set_answers))
        .route("/world", get(world).post(add_host))
        .route("/marks", get(marks).put(set_marks))
        .layer(DefaultBodyLimit::max(1 << 20))
        .with_state(app)
}

async fn faults(State(app): State<Arc<App>>) -> Json<Vec<FaultRule>> {
    Json(app.faults.rules())
}

async fn set_faults(State(app): State<Arc<App>>, body: Bytes) -> Result<StatusCode, ApiError> {
    let rules = serde_json::from_slice(&body).map_err(|error| ApiError::bad(error.to_string()))?;
    app.faults.replace(rules).map_err(ApiError::bad)?;
    app.registry.relieve().await;
    Ok(StatusCode::NO_CONTENT)
}

async fn answers(State(app): State<Arc<App>>) -> Result<Json<Vec<AnswerRule>>, ApiError> {
    Ok(Json(instant(&app)?.rules()))
}

async fn set_answers(State(app): State<Arc<App>>, body: Bytes) -> Result<StatusCode, ApiError> {
    instant(&app)?.replace(&body).map_err(ApiError::bad)?;
    Ok(StatusCode::NO_CONTENT)
}

fn instant(app: &App) -> Result<&Answers, ApiError> {
    let missing = || {
        ApiError::Text(StatusCode::NOT_FOUND, "nothing is answered for guests here: start with --guest instant".into())
    };
    app.registry.shared.answers.as_deref().ok_or_else(missing)
}

async fn log(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, "application/x-ndjson")], app.registry.shared.log.ndjson()).into_response()
}

async fn world(State(app): State<Arc<App>>) -> Result<Json<WorldView>, ApiError> {
    let world = app.registry.shared.world.as_ref().ok_or_else(no_world)?;
    Ok(Json(WorldView { pid: app.holder, hosts: world.hosts() }))
}

async fn add_host(State(app): State<Arc<App>>, body: Bytes) -> Result<StatusCode, ApiError> {
    let host: Host = serde_json::from_slice(&body).map_err(|error| ApiError::bad(error.to_string()))?;
    let world = app.registry.shared.world.as_ref().ok_or_else(no_world)?;
    match world.add(host).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(AddError::Host(error)) => Err(ApiError::bad(error.to_string())),
        Err(AddError::Tool(error)) => {
            error!(%error, "cannot add a host");
            Err(ApiError::Internal)
        }
    }
}

fn no_world() -> ApiError {
    ApiError::Text(
        StatusCode::NOT_FOUND,
        "there is no world: the server runs with --network none or --guest instant".into(),
    )
}

async fn usage(State(app): State<Arc<App>>) -> Json<Vec<Value>> {
    let all = app.registry.all();
    Json(
        all.values()
            .map(|sprite| {
                let meta = sprite.meta();
                json!({ "sprite": meta.name, "id": meta.id, "status": sprite.status().word(), "usage": sprite.usage() })
            })
            .collect(),
    )
}

async fn marks(State(app): State<Arc<App>>) -> Json<Vec<String>> {
    Json(app.registry.shared.process_trace.as_ref().map(|process_trace| process_trace.marks()).unwrap_or_default())
}

async fn set_marks(State(app): State<Arc<App>>, body: Bytes) -> Result<StatusCode, ApiError> {
    let marks: Vec<String> = serde_json::from_slice(&body).map_err(|error| ApiError::bad(error.to_string()))?;
    if marks.iter().any(String::is_empty) {
        return Err(ApiError::bad("a mark may not be empty"));
    }
    let shared = &app.registry.shared;
    let Some(process_trace) = &shared.process_trace else {
        return Err(ApiError::Text(StatusCode::NOT_IMPLEMENTED, "this kernel lets us process_trace nothing".into()));
    };
    let etcs: Vec<_> = app.registry.all().keys().map(|name| shared.store.directory(name).join("etc")).collect();
    process_trace.set_marks(marks, etcs.iter().map(std::path::PathBuf::as_path)).map_err(|error| {
        error!(%error, "cannot watch the starts of processes");
        ApiError::Internal
    })?;
    Ok(StatusCode::NO_CONTENT)
}
