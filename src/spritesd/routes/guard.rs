//! What every request passes first: the token, then the scripted failures.

use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, Method, StatusCode, header};
use secrecy::ExposeSecret as _;
use url::form_urlencoded;

use super::Shared;
use crate::spritesd::connection::Connection;
use crate::spritesd::errors::ApiError;
use crate::spritesd::faults::{Call, Effect, Fault};

/// Lets through who has the token.
pub(super) async fn authenticate(State(app): State<Shared>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).map(http::HeaderValue::as_bytes);
    let given = given.and_then(|value| value.strip_prefix(b"Bearer "));
    if given.is_some_and(|given| same(given, app.token.expose_secret().as_bytes())) {
        next.run(request).await
    } else {
        ApiError::Unauthenticated.into_response()
    }
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
    if !fault.delay.is_zero() {
        tokio::time::sleep(fault.delay).await;
    }
    match fault.effect {
        Effect::ErrorBefore => {
            let status = StatusCode::from_u16(fault.status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
            ApiError::Text(status, "injected failure".into()).into_response()
        }
        Effect::RateLimit => ApiError::RateLimited(fault.retry_after).into_response(),
        Effect::LostReply => {
            let connection = request.extensions().get::<ConnectInfo<Connection>>().map(|info| info.0.clone());
            request.extensions_mut().insert(fault);
            let response = next.run(request).await;
            if let Some(connection) = connection {
                connection.cut();
            }
            response
        }
        Effect::Delay => next.run(request).await,
        Effect::PolicyReadbackDiffers | Effect::PolicyNotApplied | Effect::ExitFrameLost | Effect::EarlyClose => {
            request.extensions_mut().insert(fault);
            next.run(request).await
        }
    }
}

fn meet(app: &Shared, request: &Request) -> Option<Fault> {
    let path = request.extensions().get::<MatchedPath>()?.as_str();
    let route = name(path, request.method(), request.headers(), request.uri().query().unwrap_or_default())?;
    let mut segments = request.uri().path().split('/').skip(3);
    let sprite = segments.next().unwrap_or_default();
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
        ("/{name}/exec", "GET") if upgrade && attach => "exec.attach",
        ("/{name}/exec", "GET") if upgrade => "exec",
        ("/{name}/exec", _) => "exec.list",
        ("/{name}/exec/{id}", _) => "exec.attach",
        ("/{name}/exec/{id}/kill", _) => "exec.kill",
        ("/{name}/fs/read", _) => "fs.read",
        ("/{name}/fs/write", _) => "fs.write",
        ("/{name}/fs/list", _) => "fs.list",
        ("/{name}/fs/delete", _) => "fs.delete",
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
