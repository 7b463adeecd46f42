//! Exec: start, attach, list.

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{ConnectInfo, Path, RawQuery, State, WebSocketUpgrade};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use tracing::error;

use super::Shared;
use crate::spritesd::connection::Connection;
use crate::spritesd::errors::ApiError;
use crate::spritesd::exec::query::{self, Query};
use crate::spritesd::exec::session::{Begun, Command, Session};
use crate::spritesd::exec::socket::{Entry, LARGEST_MESSAGE, Mishap, refuse, serve};
use crate::spritesd::faults::{Effect, Fault};
use crate::spritesd::sprite::{Found, Sprite, WakeError};

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;
type Client = ConnectInfo<Connection>;

/// `…/exec`: start or attach by WebSocket, else list.
pub(super) async fn root(
    State(app): State<Shared>,
    Path(name): Path<String>,
    (method, headers): (Method, HeaderMap),
    client: Client,
    RawQuery(raw): RawQuery,
    fault: Option<Extension<Fault>>,
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(_) if method == Method::HEAD || (method == Method::GET && !headers.contains_key(header::UPGRADE)) => {
            return Ok(Json(list(&sprite)).into_response());
        }
        Err(_) if method != Method::GET => {
            return Err(ApiError::Text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed".into()));
        }
        Err(rejection) => return Err(ApiError::bad(rejection.body_text())),
    };
    let fault = fault.map(|fault| fault.0.effect);
    match query::parse(raw.as_deref().unwrap_or_default()).map_err(ApiError::bad)? {
        Query::Attach(id) => attach_to(&sprite, &id, upgrade, client),
        Query::Start(command) => start(sprite, command, upgrade, client, fault).await,
    }
}

/// `…/exec/{id}`: attach.
pub(super) async fn attach(
    State(app): State<Shared>,
    Path((name, id)): Path<(String, String)>,
    client: Client,
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    match upgrade {
        Ok(upgrade) => attach_to(&sprite, &id, upgrade, client),
        Err(rejection) => match sprite.session(&id) {
            Found::Live(_) => Err(ApiError::bad(rejection.body_text())),
            Found::Ended | Found::Unknown => Err(no_session(&id)),
        },
    }
}

async fn start(
    sprite: std::sync::Arc<Sprite>,
    command: Command,
    upgrade: WebSocketUpgrade,
    ConnectInfo(connection): Client,
    fault: Option<Effect>,
) -> Result<Response, ApiError> {
    // A Sprite that cannot wake says so before the connection opens; the command itself starts only after that,
    // so a handshake that failed has started nothing.
    sprite.wake().await.map_err(|error| unavailable(&error))?;
    if fault == Some(Effect::LostReply) {
        sprite.begin(command).await.map_err(|error| unavailable(&error))?;
        return Err(ApiError::Internal);
    }
    let mishap = Mishap {
        exit_frame_lost: fault == Some(Effect::ExitFrameLost),
        early_close: fault == Some(Effect::EarlyClose),
    };
    Ok(accept(upgrade, move |socket| async move {
        let line = command.spawn.argv.join(" ");
        match sprite.begin(command).await {
            Ok(Begun::Session(session)) => {
                let watcher = session.watch();
                drop(session);
                serve(socket, connection, watcher, Entry::Start, mishap).await;
            }
            Ok(Begun::Refused { text, code }) => refuse(socket, &line, &text, code).await,
            Err(error) => {
                error!(%error, "cannot start a command");
                connection.cut();
            }
        }
    }))
}

fn attach_to(
    sprite: &Sprite,
    id: &str,
    upgrade: WebSocketUpgrade,
    ConnectInfo(connection): Client,
) -> Result<Response, ApiError> {
    let session = match sprite.session(id) {
        Found::Live(session) => session,
        Found::Ended | Found::Unknown => return Err(no_session(id)),
    };
    // From here on the session has a watcher, so it does not end for want of one during the handshake.
    let watcher = session.watch();
    Ok(accept(upgrade, move |socket| serve(socket, connection, watcher, Entry::Attach, Mishap::default())))
}

fn accept<F: Future<Output = ()> + Send + 'static>(
    upgrade: WebSocketUpgrade,
    then: impl FnOnce(axum::extract::ws::WebSocket) -> F + Send + 'static,
) -> Response {
    let upgrade = upgrade.max_message_size(LARGEST_MESSAGE).max_frame_size(LARGEST_MESSAGE);
    let mut response = upgrade.on_upgrade(then);
    let capabilities = HeaderName::from_static("x-sprite-capabilities");
    response.headers_mut().insert(capabilities, HeaderValue::from_static("signal"));
    response
}

fn unavailable(error: &WakeError) -> ApiError {
    error!(%error, "cannot wake a sprite");
    ApiError::unavailable("failed to start sprite")
}

pub(super) fn no_session(id: &str) -> ApiError {
    ApiError::Text(StatusCode::NOT_FOUND, format!("session not found: {id}"))
}

fn list(sprite: &Sprite) -> Value {
    let sessions: Vec<Value> = sprite.sessions().iter().map(|session| describe(session)).collect();
    json!({ "count": sessions.len(), "sessions": sessions })
}

fn describe(session: &Session) -> Value {
    json!({
        "id": session.id.to_string(), "command": session.command, "workdir": session.workdir,
        "created": format!("{:.6}", session.created), "bytes_per_second": session.rate(),
        "is_active": session.is_watched(), "tty": false,
    })
}
