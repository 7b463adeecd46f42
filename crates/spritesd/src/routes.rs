//! The HTTP surface: one file a family of calls. Handlers translate; what happens is decided elsewhere.

pub(crate) mod checkpoints;
mod control;
mod exec;
mod files;
mod guard;
mod http_exec;
mod kill;
mod policy;
mod ports;
mod power;
mod proxy;
pub(crate) mod services;
mod sprites;
mod states;
mod url;
mod watch;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, delete, get, post, put};
use futures::{Stream, StreamExt as _};
use http::{HeaderName, HeaderValue, header};
use secrecy::SecretString;
use serde_json::Value;
use tracing::error;

use super::errors::{ApiError, Limited};
use super::faults::Faults;
use super::lifecycle::Awake;
use super::registry::Registry;
use super::settings;
use super::sprite::{Sprite, WakeError};

/// The supervisor version clients decide features by.
const VERSION: HeaderValue = HeaderValue::from_static(settings::VERSION);
/// Bound of every body but a file's.
const LARGEST_BODY: usize = 1 << 20;
/// Bound of a file's body.
const LARGEST_FILE: usize = 512 << 20;

/// What the handlers share.
pub(crate) struct App {
    pub(crate) registry: Registry,
    pub(crate) faults: Faults,
    pub(crate) token: SecretString,
    /// The process that holds the world's namespace.
    pub(crate) holder: u32,
}

type Shared = Arc<App>;

impl App {
    fn sprite(&self, name: &str) -> Result<Arc<Sprite>, ApiError> {
        self.registry.get(name).ok_or(ApiError::NoSprite)
    }

    /// The Sprite running, for calls that its supervisor answers: a cold one is woken or waited for, as chosen.
    async fn supervised(&self, sprite: &Arc<Sprite>) -> Result<Awake, ApiError> {
        sprite.need(self.registry.shared.settings.supervisor_on_cold).await.map_err(|error| asleep(&error))
    }
}

/// An answer of one JSON object a line, as they come.
pub(crate) fn ndjson(events: impl Stream<Item = Value> + Send + 'static) -> Response {
    let lines = events.map(|event| Ok::<_, std::convert::Infallible>(Bytes::from(format!("{event}\n"))));
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(lines)).into_response()
}

/// Why a call that needs a running VM is refused: the detail goes to the log.
pub(crate) fn asleep(error: &WakeError) -> ApiError {
    match error {
        WakeError::Capacity(limit) => ApiError::Limited(Limited::running(u64::from(*limit))),
        WakeError::Closing => ApiError::NoSprite,
        WakeError::Guest(_) => {
            error!(%error, "cannot wake a sprite");
            ApiError::unavailable("failed to start sprite")
        }
    }
}

/// The whole API.
pub(crate) fn router(app: Shared) -> Router {
    let inside = Router::new()
        .route("/v1/sprites/{name}/policy/network", get(policy::get).post(policy::set))
        .route(
            "/v1/sprites/{name}/policy/{kind}",
            get(policy::other).post(policy::set_other).delete(policy::remove_other),
        )
        .route("/v1/sprites/{name}/restart", post(power::restart))
        .route("/v1/sprites/{name}/check", get(power::check))
        .route("/v1/sprites/{name}/upgrade", post(power::upgrade))
        .route("/v1/sprites/{name}/checkpoint", post(checkpoints::create))
        .route("/v1/sprites/{name}/checkpoints", get(checkpoints::list))
        .route("/v1/sprites/{name}/checkpoints/{id}", get(checkpoints::get).delete(checkpoints::delete))
        .route("/v1/sprites/{name}/checkpoints/{id}/restore", post(checkpoints::restore))
        .route("/v1/sprites/{name}/services", get(services::list))
        .route("/v1/sprites/{name}/services/signal", post(services::signal))
        .route("/v1/sprites/{name}/services/{service}", get(services::get).put(services::put).delete(services::delete))
        .route("/v1/sprites/{name}/services/{service}/logs", get(services::logs))
        .route("/v1/sprites/{name}/services/{service}/start", post(services::start))
        .route("/v1/sprites/{name}/services/{service}/restart", post(services::restart))
        .route("/v1/sprites/{name}/services/{service}/stop", post(services::stop))
        .route("/v1/sprites/{name}/exec", get(exec::root).post(http_exec::run))
        .route("/v1/sprites/{name}/exec/{id}", get(exec::attach))
        .route("/v1/sprites/{name}/exec/{id}/kill", post(kill::kill))
        .route("/v1/sprites/{name}/control", get(control::open))
        .route("/v1/sprites/{name}/proxy", get(proxy::open))
        .route("/v1/sprites/{name}/ports/watch", get(ports::watch))
        .route("/v1/sprites/{name}/fs/read", get(files::read))
        .route("/v1/sprites/{name}/fs/write", put(files::write).layer(DefaultBodyLimit::max(LARGEST_FILE)))
        .route("/v1/sprites/{name}/fs/list", get(files::list))
        .route("/v1/sprites/{name}/fs/delete", delete(files::delete))
        .route("/v1/sprites/{name}/fs/rename", post(files::rename))
        .route("/v1/sprites/{name}/fs/copy", post(files::copy))
        .route("/v1/sprites/{name}/fs/chmod", post(files::chmod))
        .route("/v1/sprites/{name}/fs/chown", post(files::chown))
        .route("/v1/sprites/{name}/fs/watch", get(watch::watch))
        .route("/v1/sprites/{name}/{*rest}", any(sprites::no_route))
        .layer(middleware::from_fn(inside_headers));
    Router::new()
        .route("/v1/sprites", get(sprites::list).post(sprites::create))
        .route("/v1/sprites/{name}", get(sprites::get).put(sprites::update).delete(sprites::delete))
        .layer(middleware::from_fn(control_plane_headers))
        .merge(inside)
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::faults))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::authenticate))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        // Outermost: what is meant for a Sprite is none of the API's business.
        .layer(middleware::from_fn_with_state(Arc::clone(&app), url::pass))
        .with_state(app)
}

async fn no_route() -> ApiError {
    ApiError::NoRoute
}

async fn no_method() -> ApiError {
    ApiError::Text(http::StatusCode::METHOD_NOT_ALLOWED, "method not allowed".into())
}

/// What answers of the control plane carry, one without a body among them.
async fn control_plane_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    if headers.get(header::CONTENT_TYPE).is_none_or(|kind| kind == "application/json") {
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
    }
    response
}

/// What answers made inside a Sprite carry.
async fn inside_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("sprite-version"), VERSION);
    headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
