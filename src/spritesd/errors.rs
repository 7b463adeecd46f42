//! How a refusal looks on the wire.
//!
//! One place turns a reason into status, headers and body, because the platform speaks four dialects:
//! `{"error"}`, `{"errors"}`, `{"error","code","path"}` and plain text. It decides nothing.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
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
    /// 429 with the seconds to wait.
    RateLimited(u64),
    /// Our own failure; the detail goes to the log, not to the client.
    Internal,
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
            Self::RateLimited(seconds) => {
                let body = json!({
                    "error": "sprite_creation_rate_limited",
                    "message": "Rate limit exceeded. Please try again later.",
                    "limit": 1, "window_seconds": seconds, "current_count": 1,
                    "retry_after_seconds": seconds, "upgrade_available": false,
                });
                let mut response = (StatusCode::TOO_MANY_REQUESTS, Json(body)).into_response();
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
                response
            }
        }
    }
}
