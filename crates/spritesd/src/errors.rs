//! How a refusal looks on the wire.
//!
//! One place turns a reason into status, headers and body, because the platform speaks four dialects:
//! `{"error"}`, `{"errors"}`, `{"error","code","path"}` and plain text. It decides nothing.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde_json::json;

/// A refusal, in the dialect its route speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ApiError {
    /// 401, token missing or wrong.
    Unauthenticated,
    /// 404 of the Sprite itself.
    NoSprite,
    /// 409 on create.
    Duplicate(String),
    /// 400 with every reason at once.
    Invalid(Vec<String>),
    /// A route nobody serves (yet).
    NoRoute,
    /// Plain text, as the supervisor inside a Sprite answers.
    Text(StatusCode, String),
    /// A failed file operation.
    File(FileError),
    /// 429 with everything clients read.
    Limited(Limited),
    /// Our own failure; the detail goes to the log, not to the client.
    Internal,
}

/// A limit of the account that was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limited {
    /// The rule's name on the wire.
    pub(crate) rule: &'static str,
    /// How much is allowed, and how much there is.
    pub(crate) limit: u64,
    pub(crate) current: u64,
    /// In how many seconds; 0 where the rule has no window.
    pub(crate) window: u64,
    /// When to try again, in seconds.
    pub(crate) retry_after: u64,
}

impl Limited {
    /// As many Sprites as may be are running.
    pub(crate) fn running(limit: u64) -> Self {
        Self { rule: "concurrent_sprite_limit_exceeded", limit, current: limit, window: 0, retry_after: 5 }
    }

    /// As many Sprites as may be were created in the last `window` seconds.
    pub(crate) fn created(limit: u64, current: u64, window: u64, retry_after: u64) -> Self {
        Self { rule: "sprite_creation_rate_limited", limit, current, window, retry_after }
    }
}

impl IntoResponse for Limited {
    fn into_response(self) -> Response {
        let Self { rule, limit, current, window, retry_after } = self;
        let body = json!({
            "error": rule,
            "message": format!("Limit of {limit} reached. Try again in {retry_after} seconds."),
            "limit": limit, "window_seconds": window, "current_count": current,
            "retry_after_seconds": retry_after,
            "upgrade_available": false, "upgrade_url": "",
        });
        let mut response = (StatusCode::TOO_MANY_REQUESTS, Json(body)).into_response();
        let reset = Timestamp::now().as_second().unsigned_abs() + retry_after;
        let headers = response.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after));
        for (name, value) in [("limit", limit), ("remaining", limit.saturating_sub(current)), ("reset", reset)] {
            if let Ok(name) = HeaderName::try_from(format!("x-ratelimit-{name}")) {
                headers.insert(name, HeaderValue::from(value));
            }
        }
        response
    }
}

/// A failed file operation as clients tell it apart: by `code`, or by words in `error`.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct FileError {
    /// Symbolic name of the errno.
    pub(crate) code: String,
    /// Text; contains the words vendor clients look for.
    pub(crate) error: String,
    /// The path it is about.
    pub(crate) path: String,
}

impl FileError {
    pub(crate) fn new(code: &str, error: &str, path: &str) -> Self {
        Self { code: code.into(), error: format!("{path}: {error}"), path: path.into() }
    }

    fn status(&self) -> StatusCode {
        match self.code.as_str() {
            "ENOENT" => StatusCode::NOT_FOUND,
            "EACCES" | "EPERM" => StatusCode::FORBIDDEN,
            "EEXIST" | "ENOTDIR" | "EISDIR" | "ENOTEMPTY" | "EINVAL" | "ELOOP" | "ENAMETOOLONG" => {
                StatusCode::BAD_REQUEST
            }
            "E2BIG" => StatusCode::PAYLOAD_TOO_LARGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl ApiError {
    /// A 400 in plain text.
    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::Text(StatusCode::BAD_REQUEST, text.into())
    }

    /// The Sprite cannot be reached inside: the proxy's 503.
    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self::Text(StatusCode::SERVICE_UNAVAILABLE, text.into())
    }
}

impl From<FileError> for ApiError {
    fn from(error: FileError) -> Self {
        Self::File(error)
    }
}

fn coded(status: StatusCode, text: &str) -> Response {
    (status, Json(json!({ "error": text }))).into_response()
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        match self {
            Self::Unauthenticated => coded(StatusCode::UNAUTHORIZED, "authentication failed"),
            Self::NoSprite => coded(StatusCode::NOT_FOUND, "sprite not found"),
            Self::NoRoute => coded(StatusCode::NOT_FOUND, "not found"),
            Self::Internal => coded(StatusCode::INTERNAL_SERVER_ERROR, "internal error"),
            Self::Duplicate(name) => coded(
                StatusCode::CONFLICT,
                &format!("A sprite named '{name}' already exists. Please choose a different name."),
            ),
            Self::Invalid(errors) => (StatusCode::BAD_REQUEST, Json(json!({ "errors": errors }))).into_response(),
            Self::Text(status, text) => (status, text).into_response(),
            Self::File(error) => (error.status(), Json(error)).into_response(),
            Self::Limited(limited) => limited.into_response(),
        }
    }
}
