//! The HTTP surface: one file a family of calls. Handlers translate; what happens is decided elsewhere.

mod exec;
mod files;
mod guard;
mod kill;
mod policy;
mod sprites;

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{any, delete, get, post, put};
use http::{HeaderName, HeaderValue};
use secrecy::SecretString;

use super::errors::ApiError;
use super::faults::Faults;
use super::registry::Registry;
use super::sprite::Sprite;

/// The supervisor version clients decide features by.
const VERSION: HeaderValue = HeaderValue::from_static("v0.0.1-rc46");
/// Bound of every body but a file's.
const LARGEST_BODY: usize = 1 << 20;
/// Bound of a file's body.
const LARGEST_FILE: usize = 512 << 20;

/// What the handlers share.
pub(crate) struct App {
    pub(crate) registry: Registry,
    pub(crate) faults: Faults,
    pub(crate) token: SecretString,
    /// Port of the API, for the URLs of Sprites.
    pub(crate) port: u16,
}

type Shared = Arc<App>;

impl App {
    fn sprite(&self, name: &str) -> Result<Arc<Sprite>, ApiError> {
        self.registry.get(name).ok_or(ApiError::NoSprite)
    }
}

/// The whole API.
pub(crate) fn router(app: Shared) -> Router {
    let inside = Router::new()
        .route("/v1/sprites/{name}/policy/network", get(policy::get).post(policy::set))
        .route("/v1/sprites/{name}/exec", any(exec::root))
        .route("/v1/sprites/{name}/exec/{id}", get(exec::attach))
        .route("/v1/sprites/{name}/exec/{id}/kill", post(kill::kill))
        .route("/v1/sprites/{name}/fs/read", get(files::read))
        .route("/v1/sprites/{name}/fs/write", put(files::write).layer(DefaultBodyLimit::max(LARGEST_FILE)))
        .route("/v1/sprites/{name}/fs/list", get(files::list))
        .route("/v1/sprites/{name}/fs/delete", delete(files::delete))
        .route("/v1/sprites/{name}/{*rest}", any(sprites::no_route))
        .layer(middleware::from_fn(inside_headers));
    Router::new()
        .route("/v1/sprites", get(sprites::list).post(sprites::create))
        .route("/v1/sprites/{name}", get(sprites::get).put(sprites::update).delete(sprites::delete))
        .merge(inside)
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::faults))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::authenticate))
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(app)
}

async fn no_route() -> ApiError {
    ApiError::NoRoute
}

async fn no_method() -> ApiError {
    ApiError::Text(http::StatusCode::METHOD_NOT_ALLOWED, "method not allowed".into())
}

/// What answers made inside a Sprite carry.
async fn inside_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(HeaderName::from_static("sprite-version"), VERSION);
    headers.insert(http::header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
