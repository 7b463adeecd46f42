//! The second address: for tests only, never for clients of the API. Scripted failures and the event log.

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{StatusCode, header};

use super::errors::ApiError;
use super::faults::FaultRule;
use super::routes::App;

/// The admin's routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/faults", get(faults).put(set_faults))
        .route("/log", get(log))
        .layer(DefaultBodyLimit::max(1 << 20))
        .with_state(app)
}

async fn faults(State(app): State<Arc<App>>) -> Json<Vec<FaultRule>> {
    Json(app.faults.rules())
}

async fn set_faults(State(app): State<Arc<App>>, body: Bytes) -> Result<StatusCode, ApiError> {
    let rules = serde_json::from_slice(&body).map_err(|error| ApiError::bad(error.to_string()))?;
    app.faults.replace(rules).map_err(ApiError::bad)?;
    Ok(StatusCode::NO_CONTENT)
}

async fn log(State(app): State<Arc<App>>) -> Response {
    ([(header::CONTENT_TYPE, "application/x-ndjson")], app.registry.shared.log.ndjson()).into_response()
}
