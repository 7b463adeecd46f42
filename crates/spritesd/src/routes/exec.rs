//! Exec by WebSocket: start, attach; and the list of what runs.

use std::sync::Arc;

use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{ConnectInfo, Path, RawQuery, State, WebSocketUpgrade};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Json};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use serde_json::{Value, json};
use tracing::error;

use super::{Shared, asleep};
use crate::connection::Connection;
use crate::errors::ApiError;
use crate::exec::query::{self, Query};
use crate::exec::session::{Begun, Command, Session};
use crate::exec::socket::{Entry, Heartbeat, LARGEST_MESSAGE, Mishap, refuse, serve};
use crate::faults::{Effect, Fault};
use crate::sprite::{Found, Sprite, WakeError};

/// What each connection has for reading, whether or not its client sends anything. The usual is eight times as much.
const READ_BUFFER: usize = 16 << 10;

pub(super) type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;
pub(super) type Client = ConnectInfo<Connection>;
/// How often sockets give a sign of life, where it is not the usual.
pub(super) type Pace = Option<Extension<Heartbeat>>;

/// `…/exec`: start or attach by WebSocket, else list.
pub(super) async fn root(
    State(app): State<Shared>,
    Path(name): Path<String>,
    (method, headers): (Method, HeaderMap),
    client: Client,
    RawQuery(raw): RawQuery,
    (fault, pace): (Option<Extension<Fault>>, Pace),
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let pace = pace.unwrap_or_default().0;
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(_) if method == Method::HEAD || !headers.contains_key(header::UPGRADE) => {
            return Ok(Json(list(&sprite)).into_response());
        }
        Err(rejection) => return Err(ApiError::bad(rejection.body_text())),
    };
    let fault = fault.map(|fault| fault.0);
    match query::parse(raw.as_deref().unwrap_or_default()).map_err(ApiError::bad)? {
        Query::Attach(id) => attach_to(&sprite, &id, upgrade, client, pace).await,
        Query::Start(command) => start(sprite, command, upgrade, client, pace, fault).await,
    }
}

/// `…/exec/{id}`: attach.
pub(super) async fn attach(
    State(app): State<Shared>,
    Path((name, id)): Path<(String, String)>,
    client: Client,
    pace: Pace,
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    match upgrade {
        Ok(upgrade) => attach_to(&sprite, &id, upgrade, client, pace.unwrap_or_default().0).await,
        Err(rejection) => match sprite.session(&id) {
            Found::Live(_) => Err(ApiError::bad(rejection.body_text())),
            Found::Ended | Found::Unknown => Err(no_session(&id)),
        },
    }
}

async fn start(
    sprite: Arc<Sprite>,
    command: Command,
    upgrade: WebSocketUpgrade,
    ConnectInfo(connection): Client,
    pace: Heartbeat,
    fault: Option<Fault>,
) -> Result<Response, ApiError> {
    // A Sprite that cannot wake says so before the connection opens; the command itself starts only after that,
    // so a handshake that failed has started nothing.
    sprite.wake().await.map_err(|error| asleep(&error))?;
    if fault.as_ref().is_some_and(|fault| fault.effect == Effect::LostReply) {
        sprite.begin(command).await.map_err(|error| asleep(&error))?;
        return Err(ApiError::Internal);
    }
    let mishap = mishap(fault.as_ref());
    Ok(accept(upgrade, move |socket| async move {
        let (line, terminal) = (command.spawn.argv.join(" "), command.terminal);
        match sprite.begin(command).await {
            Ok(Begun::Session(watcher)) => {
                serve(socket, connection, watcher, Entry::Start, pace, mishap).await;
            }
            Ok(Begun::Refused { text, code }) => refuse(socket, &line, &text, code, terminal).await,
            Err(error) => {
                error!(%error, "cannot start a command");
                connection.cut();
            }
        }
    }))
}

/// What a scripted failure does to the output of a command.
pub(super) fn mishap(fault: Option<&Fault>) -> Mishap {
    let is = |effect: Effect| fault.is_some_and(|fault| fault.effect == effect);
    Mishap {
        exit_frame_lost: is(Effect::ExitFrameLost),
        early_close: is(Effect::EarlyClose),
        output_lost: is(Effect::OutputLost),
        half_open: is(Effect::HalfOpen),
        slow: fault.filter(|fault| fault.effect == Effect::Slow).map(Fault::pause),
    }
}

async fn attach_to(
    sprite: &Arc<Sprite>,
    id: &str,
    upgrade: WebSocketUpgrade,
    ConnectInfo(connection): Client,
    pace: Heartbeat,
) -> Result<Response, ApiError> {
    let session = find(sprite, id).await.map_err(|error| asleep(&error))?.ok_or_else(|| no_session(id))?;
    // From here on the session has a watcher, so it does not end for want of one during the handshake.
    let watcher = session.watch();
    Ok(accept(upgrade, move |socket| serve(socket, connection, watcher, Entry::Attach, pace, Mishap::default())))
}

/// Finds a live session, and lets it run if it is frozen; what is not there does not start a Sprite.
pub(super) async fn find(sprite: &Arc<Sprite>, id: &str) -> Result<Option<Arc<Session>>, WakeError> {
    if !matches!(sprite.session(id), Found::Live(_)) {
        return Ok(None);
    }
    let _awake = sprite.wake().await?;
    Ok(match sprite.session(id) {
        Found::Live(session) => Some(session),
        Found::Ended | Found::Unknown => None,
    })
}

/// Completes the handshake of a WebSocket; no extension is ever accepted.
pub(super) fn accept<F: Future<Output = ()> + Send + 'static>(
    upgrade: WebSocketUpgrade,
    then: impl FnOnce(axum::extract::ws::WebSocket) -> F + Send + 'static,
) -> Response {
    let upgrade = upgrade.max_message_size(LARGEST_MESSAGE).max_frame_size(LARGEST_MESSAGE);
    let upgrade = upgrade.read_buffer_size(READ_BUFFER);
    let mut response = upgrade.on_upgrade(then);
    let capabilities = HeaderName::from_static("x-sprite-capabilities");
    response.headers_mut().insert(capabilities, HeaderValue::from_static("signal"));
    response
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
        "is_active": session.is_watched(), "tty": session.terminal().is_some(),
    })
}
