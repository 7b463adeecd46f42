//! The control socket: one operation after the other on a connection that stays.
//!
//! Messages about operations carry a prefix, those of an operation do not, and its data is binary, as on a socket
//! of exec. An operation outlives a client that releases it or goes away, as a command on a socket of its own does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use axum::extract::{ConnectInfo, Path, RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, header};
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};
use url::form_urlencoded;

use super::exec::{Client, Pace, Upgrade, accept, find};
use super::proxy::{self, Target};
use super::{Shared, asleep};
use crate::connection::Connection;
use crate::errors::ApiError;
use crate::exec::query::{self, Query};
use crate::exec::session::{Begun, End, Next, Session, Watcher};
use crate::exec::signals;
use crate::exec::socket::{Dialect, Entry, Heartbeat, Reader, linger, obey};
use crate::exec::texts::{self, Told};
use crate::exec::ws_writer::{Gone, WsWriter};
use crate::sprite::Sprite;

/// What messages about operations begin with.
const PREFIX: &str = "control:";
/// The client that writes input without a type byte; no content tells, so its name has to.
const RAW_CLIENT: &str = "sprites-go-sdk/";

/// How long `op.start` waits for the previous operation to end. After that it is refused or, if the previous operation was
/// killed, starts without it. Output and exit of an operation that its client has signalled are held back for the same time:
/// frames carry no operation id, so a client that has started the next operation would take them for that one's.
const DYING: Duration = Duration::from_millis(100);

/// `…/control`; with `op=exec` or `op=proxy` in the query that operation begins at once.
pub(super) async fn open(
    State(app): State<Shared>,
    Path(name): Path<String>,
    headers: HeaderMap,
    ConnectInfo(connection): Client,
    RawQuery(raw): RawQuery,
    pace: Pace,
    upgrade: Upgrade,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let upgrade = upgrade.map_err(|rejection| ApiError::bad(rejection.body_text()))?;
    let first = first(raw.as_deref().unwrap_or_default()).map_err(ApiError::bad)?;
    // It runs before the client is told that it may begin.
    drop(sprite.wake().await.map_err(|error| asleep(&error))?);
    let agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let dialect = if agent.starts_with(RAW_CLIENT) { Dialect::Raw } else { Dialect::Framed };
    let heartbeat = pace.unwrap_or_default().0;
    Ok(accept(upgrade, move |socket| serve(socket, connection, sprite, dialect, heartbeat, first)))
}

/// What the query wants begun at once.
enum First {
    Nothing,
    Exec(Box<Query>),
    Proxy(Target),
}

fn first(raw: &str) -> Result<First, String> {
    let value = |wanted: &str| {
        let mut pairs = form_urlencoded::parse(raw.as_bytes());
        pairs.find(|(key, _)| key == wanted).map(|(_, value)| value.into_owned())
    };
    match value("op").unwrap_or_default().as_str() {
        "" => Ok(First::Nothing),
        "exec" => Ok(First::Exec(Box::new(query::parse(raw)?))),
        "proxy" => {
            let port = value("port").and_then(|port| port.parse::<u16>().ok()).ok_or("invalid port")?;
            let target = json!({ "host": value("host").unwrap_or_else(|| "localhost".into()), "port": port });
            Ok(First::Proxy(serde_json::from_value(target).map_err(|error| error.to_string())?))
        }
        other => Err(format!("unknown op: {other}")),
    }
}

/// A message about operations, prefixed or (from an older client) not.
#[derive(Debug, Deserialize)]
struct Start {
    r#type: String,
    #[serde(default, alias = "operation")]
    op: String,
    #[serde(default)]
    args: Value,
    #[serde(default)]
    params: Value,
}

/// The operation that runs.
struct Operation {
    session: Arc<Session>,
    reader: Reader,
    progress: Arc<Progress>,
    /// Sends its frames to the client.
    ws_writer: WsWriter,
    telling: JoinHandle<()>,
}

/// How far an operation is, as its client sees it.
#[derive(Default)]
struct Progress(Mutex<Stage>);

#[derive(Default)]
struct Stage {
    /// Its client has asked it to end, by any signal that does.
    is_asked: bool,
    /// By the one that no program resists.
    is_killed: bool,
    /// Frames are held back until then.
    until: Option<Instant>,
    /// The client is about to be told of its end.
    is_over: bool,
}

struct Control {
    sprite: Arc<Sprite>,
    connection: Connection,
    ws_writer: WsWriter,
    dialect: Dialect,
    heartbeat: Heartbeat,
    current: Option<Operation>,
}

/// The client has turned the socket into a byte stream.
struct Become(Target);

async fn serve(
    socket: WebSocket,
    connection: Connection,
    sprite: Arc<Sprite>,
    dialect: Dialect,
    heartbeat: Heartbeat,
    first: First,
) {
    let (sink, mut stream) = socket.split();
    let ws_writer = WsWriter::start(sink, connection.clone());
    let mut control = Control { sprite, connection, ws_writer, dialect, heartbeat, current: None };
    let started = match first {
        First::Nothing => Ok(None),
        First::Exec(query) => control.exec(*query).await.map(|()| None),
        First::Proxy(target) => Ok(Some(Become(target))),
    };
    let mut next = started;
    loop {
        match next {
            Ok(None) => {}
            Ok(Some(Become(target))) => {
                if let Ok(awake) = control.sprite.wake().await {
                    proxy::relay(&mut stream, &control.ws_writer, &awake, target).await;
                    linger(&mut stream).await;
                }
                break;
            }
            Err(Gone) => break,
        }
        next = match stream.next().await {
            Some(Ok(Message::Text(text))) => control.text(text.as_str()).await,
            Some(Ok(Message::Binary(frame))) => {
                control.binary(frame).await;
                Ok(None)
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => Ok(None),
            // Some clients never say goodbye.
            Some(Ok(Message::Close(_)) | Err(_)) | None => break,
        };
    }
    control.release().await;
}

impl Control {
    async fn text(&mut self, text: &str) -> Result<Option<Become>, Gone> {
        let prefixed = text.strip_prefix(PREFIX);
        let Ok(message) = serde_json::from_str::<Start>(prefixed.unwrap_or(text)) else {
            return match prefixed {
                Some(_) => self.fail(true, "invalid message").await.map(|()| None),
                None => Ok(None),
            };
        };
        match (message.r#type.as_str(), message.op.as_str()) {
            ("release", _) => self.release().await,
            ("op.start", op) => self.start(prefixed.is_some(), op, message.args).await?,
            ("start", "proxy") if prefixed.is_none() && !self.is_busy() => match serde_json::from_value(message.params)
            {
                Ok(target) => return Ok(Some(Become(target))),
                Err(error) => self.fail(false, &format!("invalid target: {error}")).await?,
            },
            (kind, _) if prefixed.is_some() => self.fail(true, &format!("unknown message type: {kind}")).await?,
            _ => {
                if let Some(operation) = self.current.as_ref().filter(|operation| !operation.is_over()) {
                    operation.obey(text.as_bytes()).await;
                }
            }
        }
        Ok(None)
    }

    async fn binary(&mut self, frame: Bytes) {
        let Some(operation) = self.current.as_mut().filter(|operation| !operation.is_over()) else {
            // An end of input often comes after the end of the command.
            return;
        };
        // One client sends its messages to a session as binary.
        let is_told = self.dialect == Dialect::Framed && frame.first() == Some(&b'{');
        if is_told && operation.obey(&frame).await {
            return;
        }
        if let Some(input) = operation.reader.input(frame) {
            operation.session.input(input).await;
        }
    }

    async fn start(&mut self, prefixed: bool, op: &str, args: Value) -> Result<(), Gone> {
        if op != "exec" || !prefixed {
            return self.fail(prefixed, &format!("unknown operation: {op}")).await;
        }
        let arguments = match args {
            Value::Object(arguments) => arguments,
            Value::Null => Map::new(),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                return self.fail(true, "args must be an object").await;
            }
        };
        if !self.is_soon_free().await {
            return self.fail(true, "another operation is running").await;
        }
        match query::from_arguments(&arguments) {
            Ok(query) => self.exec(query).await,
            Err(why) => self.fail(true, &why).await,
        }
    }

    async fn exec(&mut self, query: Query) -> Result<(), Gone> {
        if let Some(before) = self.current.take() {
            // Its last word comes before our first.
            drop(before.telling.await);
        }
        let (watcher, entry) = match query {
            Query::Attach(id) => match find(&self.sprite, &id).await {
                Ok(Some(session)) => (session.watch(), Entry::Attach),
                Ok(None) => return self.fail(true, &format!("session not found: {id}")).await,
                Err(error) => return self.fail(true, &error.to_string()).await,
            },
            Query::Start(command) => {
                let (line, terminal) = (command.spawn.argv.join(" "), command.terminal);
                match self.sprite.begin(command).await {
                    Ok(Begun::Session(watcher)) => (watcher, Entry::Start),
                    Ok(Begun::Refused { text, code }) => {
                        for message in texts::refusal(&line, &text, code, terminal) {
                            self.ws_writer.send(message).await?;
                        }
                        return self.ws_writer.send(complete(code)).await;
                    }
                    Err(error) => return self.fail(true, &error.to_string()).await,
                }
            }
        };
        let (progress, ws_writer) = (Arc::<Progress>::default(), self.ws_writer.apart());
        let session = Arc::clone(&watcher.session);
        let telling = tell(watcher, ws_writer.clone(), self.connection.clone(), self.heartbeat, Arc::clone(&progress));
        let reader = Reader::new(&session, self.dialect, entry);
        self.current = Some(Operation { session, reader, progress, ws_writer, telling: tokio::spawn(telling) });
        Ok(())
    }

    /// Whether nothing runs, or what runs ends before long: who has just killed it does not wait for its last word, and
    /// is not told it any more.
    async fn is_soon_free(&mut self) -> bool {
        let Some(operation) = self.current.as_mut().filter(|operation| !operation.is_over()) else {
            return true;
        };
        if operation.progress.leave() {
            let has_ended = timeout(DYING, operation.session.wait()).await.is_ok();
            if has_ended || operation.progress.stage().is_killed {
                self.release().await;
                return true;
            }
            return operation.is_over();
        }
        if timeout(DYING, &mut operation.telling).await.is_err() {
            return operation.is_over();
        }
        // Not to be waited for a second time.
        self.current = None;
        true
    }

    fn is_busy(&self) -> bool {
        self.current.as_ref().is_some_and(|operation| !operation.is_over())
    }

    /// Lets the operation go on by itself.
    async fn release(&mut self) {
        if let Some(operation) = self.current.take() {
            operation.telling.abort();
            drop(operation.telling.await);
            operation.ws_writer.withdraw();
        }
    }

    async fn fail(&self, prefixed: bool, why: &str) -> Result<(), Gone> {
        let message = json!({ "type": "op.error", "args": { "error": why } });
        let prefix = if prefixed { PREFIX } else { "" };
        self.ws_writer.send(Message::text(format!("{prefix}{message}"))).await
    }
}

impl Operation {
    fn is_over(&self) -> bool {
        self.progress.stage().is_over
    }

    /// Does what a client's message tells the session; false when it tells nothing.
    async fn obey(&self, text: &[u8]) -> bool {
        let Some(told) = texts::told(text) else {
            return false;
        };
        if let Told::Signal(signal) = told {
            self.progress.signalled(signal);
        }
        obey(&self.session, told).await;
        true
    }
}

impl Progress {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its client sends it a signal.
    fn signalled(&self, signal: i32) {
        if signals::ends(signal) {
            let mut stage = self.stage();
            stage.is_asked = true;
            stage.is_killed |= signal == Signal::KILL.as_raw();
            stage.until = Some(Instant::now() + DYING);
        }
    }

    /// Called when the client starts the next operation. Returns whether the client has signalled this one; its frames are
    /// then held back.
    fn leave(&self) -> bool {
        let mut stage = self.stage();
        let is_left = stage.is_asked && !stage.is_over;
        if is_left {
            stage.until = Some(Instant::now() + DYING * 2);
        }
        is_left
    }

    /// Until when nothing is to be told, if that is to come. The last thing to be told is the end.
    fn kept_back(&self, is_end: bool) -> Option<Instant> {
        let mut stage = self.stage();
        let until = stage.until.filter(|until| Instant::now() < *until);
        stage.is_over |= is_end && until.is_none();
        until
    }

    /// Waits for as long as it is kept back.
    async fn turn(&self, is_end: bool) {
        while let Some(until) = self.kept_back(is_end) {
            sleep_until(until).await;
        }
    }
}

/// Tells a client of a session up to its end.
async fn tell(
    watcher: Watcher,
    ws_writer: WsWriter,
    connection: Connection,
    heartbeat: Heartbeat,
    progress: Arc<Progress>,
) {
    let mut heartbeat = heartbeat.start();
    let is_terminal = watcher.session.terminal().is_some();
    let mut message = Message::text(texts::session_info(&watcher.session));
    loop {
        if ws_writer.send(message).await.is_err() {
            return;
        }
        message = tokio::select! {
            next = watcher.next() => match next {
                Next::Frame(frame) => {
                    progress.turn(false).await;
                    Message::Binary(frame)
                }
                Next::End(End::Lost) => return connection.cut(),
                Next::End(End::Exited(code)) => {
                    // A client that reads the exit may start the next operation.
                    progress.turn(true).await;
                    if ws_writer.send(texts::exit(code, is_terminal)).await.is_ok() {
                        drop(ws_writer.send(complete(code)).await);
                    }
                    return;
                }
            },
            _ = heartbeat.tick() => Message::text(texts::KEEPALIVE),
        };
    }
}

fn complete(code: u8) -> Message {
    let message = json!({ "type": "op.complete", "args": { "exitCode": code } });
    Message::text(format!("{PREFIX}{message}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_query_begins() {
        assert!(matches!(first("").unwrap(), First::Nothing));
        assert!(matches!(first("op=exec&cmd=true").unwrap(), First::Exec(_)));
        assert!(matches!(first("op=proxy&port=80").unwrap(), First::Proxy(_)));
        for bad in ["op=proxy", "op=fs.read", "op=exec&tty=maybe"] {
            assert!(first(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_end_of_an_operation() {
        let Message::Text(text) = complete(7) else { unreachable!() };
        assert_eq!(text.as_str(), r#"control:{"args":{"exitCode":7},"type":"op.complete"}"#);
    }
}
