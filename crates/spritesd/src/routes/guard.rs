//! What every request passes first: the token, then the scripted failures.

use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use http::{HeaderMap, Method, StatusCode, header};
use secrecy::ExposeSecret as _;
use url::form_urlencoded;

use super::{App, Shared};
use crate::connection::Connection;
use crate::errors::{ApiError, FileError, Limited};
use crate::faults::{Call, Effect, Fault};

/// How large the pieces of a slow answer are.
const PIECE: usize = 64;
/// The largest answer that is cut in half.
const LARGEST_TRUNCATED: usize = 16 << 20;

/// Lets through who has the token.
pub(super) async fn authenticate(State(app): State<Shared>, request: Request, next: Next) -> Response {
    if has_token(&app, request.headers()) { next.run(request).await } else { ApiError::Unauthenticated.into_response() }
}

/// Whether a request carries the token.
pub(super) fn has_token(app: &App, headers: &HeaderMap) -> bool {
    let given = headers.get(header::AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
    given.is_some_and(|given| same(given, app.token.expose_secret().as_bytes()))
}

/// Compares in a time that depends on the lengths only.
fn same(a: &[u8], b: &[u8]) -> bool {
    let difference = a.iter().zip(b).fold(0u8, |difference, (a, b)| std::hint::black_box(difference | (a ^ b)));
    a.len() == b.len() && difference == 0
}

/// Applies the scripted failure a call meets, if any. What only a handler can do reaches it as an extension.
pub(super) async fn faults(State(app): State<Shared>, mut request: Request, next: Next) -> Response {
    let Some(fault) = meet(&app, &request) else {
        return next.run(request).await;
    };
    if !fault.delay.is_zero() && fault.effect != Effect::Slow {
        tokio::time::sleep(fault.delay).await;
    }
    let connection = request.extensions().get::<ConnectInfo<Connection>>().map(|info| info.0.clone());
    match fault.effect {
        Effect::ErrorBefore => {
            let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            ApiError::Text(status, "injected failure".into()).into_response()
        }
        Effect::RateLimit => {
            ApiError::Limited(Limited::created(1, 1, fault.retry_after, fault.retry_after)).into_response()
        }
        Effect::LostReply => {
            request.extensions_mut().insert(fault);
            let response = next.run(request).await;
            if let Some(connection) = connection {
                connection.cut();
            }
            response
        }
        Effect::Delay => next.run(request).await,
        Effect::TruncatedBody => truncate(next.run(request).await).await,
        Effect::HalfOpen => {
            request.extensions_mut().insert(fault);
            let response = next.run(request).await;
            // An upgraded connection falls silent by itself, later.
            if let Some(connection) = connection.filter(|_| response.status() != StatusCode::SWITCHING_PROTOCOLS) {
                connection.silence();
            }
            response
        }
        Effect::Slow => {
            let pause = fault.pause();
            request.extensions_mut().insert(fault);
            slow(next.run(request).await, pause)
        }
        Effect::InstanceReplaced => match app.registry.replace(sprite_of(&request)).await {
            Ok(()) => next.run(request).await,
            Err(error) => ApiError::Text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        },
        Effect::DiskFull => match app.registry.fill(sprite_of(&request)).await {
            Ok(true) => next.run(request).await,
            Ok(false) => ApiError::File(FileError::new("ENOSPC", "no space left on device", "/")).into_response(),
            Err(error) => ApiError::Text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        },
        Effect::PolicyReadbackDiffers
        | Effect::PolicyNotApplied
        | Effect::ExitFrameLost
        | Effect::EarlyClose
        | Effect::OutputLost
        | Effect::ListMissingEntry => {
            request.extensions_mut().insert(fault);
            next.run(request).await
        }
    }
}

/// The name of the Sprite a request is about.
fn sprite_of(request: &Request) -> &str {
    request.uri().path().split('/').nth(3).unwrap_or_default()
}

/// Half of a body, as if that were all.
async fn truncate(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    match to_bytes(body, LARGEST_TRUNCATED).await {
        Ok(whole) => {
            parts.headers.remove(header::CONTENT_LENGTH);
            Response::from_parts(parts, Body::from(whole.slice(..whole.len() / 2)))
        }
        Err(_) => ApiError::Internal.into_response(),
    }
}

/// A body in small pieces with pauses.
fn slow(response: Response, pause: Duration) -> Response {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(header::CONTENT_LENGTH);
    let pieces = body.into_data_stream().flat_map(move |chunk| {
        let pieces: Vec<Result<Bytes, axum::Error>> = match chunk {
            Ok(chunk) => chunk.chunks(PIECE).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect(),
            Err(error) => vec![Err(error)],
        };
        stream::iter(pieces).then(move |piece| async move {
            tokio::time::sleep(pause).await;
            piece
        })
    });
    Response::from_parts(parts, Body::from_stream(pieces))
}

fn meet(app: &Shared, request: &Request) -> Option<Fault> {
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    let route = name(path, request.method(), request.headers(), request.uri().query().unwrap_or_default())?;
    let sprite = sprite_of(request);
    let argv: Vec<String> = form_urlencoded::parse(request.uri().query().unwrap_or_default().as_bytes())
        .filter(|(key, _)| key == "cmd")
        .map(|(_, value)| value.into_owned())
        .collect();
    app.faults.meet(&Call { route, method: request.method().as_str(), sprite, argv: &argv.join(" ") })
}

/// The name of a call.
fn name(path: &str, method: &Method, headers: &HeaderMap, query: &str) -> Option<&'static str> {
    let upgrade = headers.contains_key(header::UPGRADE);
    let attach = form_urlencoded::parse(query.as_bytes()).any(|(key, value)| key == "id" && !value.is_empty());
    let inside = path.strip_prefix("/v1/sprites").unwrap_or(path);
    Some(match (inside, method.as_str()) {
        ("", "POST") => "create",
        ("", _) => "list",
        ("/{name}", "PUT") => "update",
        ("/{name}", "DELETE") => "delete",
        ("/{name}", _) => "get",
        ("/{name}/policy/network", "POST") => "policy.set",
        ("/{name}/policy/network", _) => "policy.get",
        ("/{name}/policy/{kind}", "GET" | "HEAD") => "policy.get-other",
        ("/{name}/policy/{kind}", _) => "policy.set-other",
        ("/{name}/restart", _) => "restart",
        ("/{name}/check", _) => "check",
        ("/{name}/upgrade", _) => "upgrade",
        ("/{name}/checkpoint", _) => "checkpoint.create",
        ("/{name}/checkpoints", _) => "checkpoint.list",
        ("/{name}/checkpoints/{id}", "DELETE") => "checkpoint.delete",
        ("/{name}/checkpoints/{id}", _) => "checkpoint.get",
        ("/{name}/checkpoints/{id}/restore", _) => "checkpoint.restore",
        ("/{name}/services", _) => "service.list",
        ("/{name}/services/signal", _) => "service.signal",
        ("/{name}/services/{service}", "PUT") => "service.put",
        ("/{name}/services/{service}", "DELETE") => "service.delete",
        ("/{name}/services/{service}", _) => "service.get",
        ("/{name}/services/{service}/logs", _) => "service.logs",
        ("/{name}/services/{service}/start", _) => "service.start",
        ("/{name}/services/{service}/restart", _) => "service.restart",
        ("/{name}/services/{service}/stop", _) => "service.stop",
        ("/{name}/exec", "GET") if upgrade && attach => "exec.attach",
        ("/{name}/exec", "GET") if upgrade => "exec",
        ("/{name}/exec", "POST") => "exec.http",
        ("/{name}/exec", _) => "exec.list",
        ("/{name}/exec/{id}", _) => "exec.attach",
        ("/{name}/exec/{id}/kill", _) => "exec.kill",
        ("/{name}/fs/read", _) => "fs.read",
        ("/{name}/fs/write", _) => "fs.write",
        ("/{name}/fs/list", _) => "fs.list",
        ("/{name}/fs/delete", _) => "fs.delete",
        ("/{name}/fs/rename", _) => "fs.rename",
        ("/{name}/fs/copy", _) => "fs.copy",
        ("/{name}/fs/chmod", _) => "fs.chmod",
        ("/{name}/fs/chown", _) => "fs.chown",
        ("/{name}/fs/watch", _) => "fs.watch",
        ("/{name}/control", _) => "control",
        ("/{name}/proxy", _) => "proxy",
        ("/{name}/ports/watch", _) => "ports.watch",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_bytes_are_the_same() {
        assert!(same(b"abc", b"abc"));
        assert!(!same(b"abc", b"abd"));
        assert!(!same(b"ab", b"abc"));
        assert!(!same(b"", b"abc"));
    }
}
