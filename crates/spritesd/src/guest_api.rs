//! The API a guest sees at `/.sprite/api.sock`: HTTP for its own Sprite alone, without a token, since who can open the
//! socket is inside. Translates; what happens is decided elsewhere.

use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path as Segment, State};
use axum::response::Response;
use axum::routing::{get, post};
use axum::serve::Listener;
use axum::{Json, Router};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tracing::warn;

use super::duration;
use super::errors::ApiError;
use super::lifecycle::Awake;
use super::routes::services::{Parameters, Verb};
use super::routes::{asleep, checkpoints, services};
use super::settings::VERSION;
use super::sprite::Sprite;
use super::tasks::{LONGEST, Task, TaskError};

/// The name of the socket in its directory.
const SOCKET: &str = "api.sock";
/// Bound of a task's name.
const LONGEST_NAME: usize = 256;
const LARGEST_BODY: usize = 64 << 10;
/// Connections of one guest at once; more have to wait.
const MOST_CONNECTIONS: usize = 64;

/// Serves the API of a Sprite at a socket in `directory`, until aborted.
pub(crate) fn serve(sprite: &Arc<Sprite>, directory: &Path) -> io::Result<AbortHandle> {
    // The path of a socket is bounded at about a hundred bytes; through a descriptor it is short.
    let opened = std::fs::File::open(directory)?;
    let path = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()).join(SOCKET);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = Bounded { listener: UnixListener::bind(&path)?, free: Arc::new(Semaphore::new(MOST_CONNECTIONS)) };
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
    let router = router(Arc::clone(sprite));
    let serving = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            warn!(%error, "the API of a guest ended");
        }
    });
    Ok(serving.abort_handle())
}

/// Accepts so many connections at once: descriptors are the whole server's.
struct Bounded {
    listener: UnixListener,
    free: Arc<Semaphore>,
}

impl Listener for Bounded {
    type Io = Counted;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Counted, SocketAddr) {
        loop {
            // Never closed.
            let Ok(permit) = Arc::clone(&self.free).acquire_owned().await else {
                return std::future::pending().await;
            };
            match self.listener.accept().await {
                Ok((stream, address)) => return (Counted { stream, _permit: permit }, address),
                Err(error) => {
                    warn!(%error, "cannot accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection that counts.
struct Counted {
    stream: UnixStream,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Counted {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

fn router(sprite: Arc<Sprite>) -> Router {
    Router::new()
        .route("/v1/info", get(info))
        .route("/v1/tasks", get(list).post(create).put(replace))
        .route("/v1/tasks/{name}", get(one).put(replace_named).delete(remove))
        .route("/v1/checkpoint", post(make_checkpoint))
        .route("/v1/checkpoints", get(checkpoint_list).post(make_checkpoint))
        .route("/v1/checkpoints/{id}", get(checkpoint))
        .route("/v1/checkpoints/{id}/restore", post(restore))
        .route("/v1/services", get(service_list))
        .route("/v1/services/signal", post(signal_service))
        .route("/v1/services/{service}", get(service).put(put_service).delete(delete_service))
        .route("/v1/services/{service}/logs", get(service_logs))
        .route("/v1/services/{service}/start", post(start_service))
        .route("/v1/services/{service}/restart", post(restart_service))
        .route("/v1/services/{service}/stop", post(stop_service))
        .fallback(|| async { ApiError::NoRoute })
        .method_not_allowed_fallback(|| async {
            ApiError::Text(StatusCode::METHOD_NOT_ALLOWED, "method not allowed".into())
        })
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .with_state(sprite)
}

#[derive(Debug, Default, Deserialize)]
struct TaskBody {
    name: Option<String>,
    expire: Option<Value>,
}

/// Not the platform's: what its `sprite-env info` says comes from elsewhere there.
async fn info(State(sprite): State<Arc<Sprite>>) -> Json<Value> {
    let name = sprite.meta().name;
    Json(json!({ "name": name, "sprite_url": sprite.url(), "version": VERSION }))
}

async fn list(State(sprite): State<Arc<Sprite>>) -> Json<Value> {
    Json(json!({ "tasks": sprite.tasks.list() }))
}

async fn one(State(sprite): State<Arc<Sprite>>, Segment(name): Segment<String>) -> Result<Json<Task>, ApiError> {
    sprite.tasks.get(&name).map(Json).ok_or_else(no_task)
}

async fn create(State(sprite): State<Arc<Sprite>>, body: Bytes) -> Result<(StatusCode, Json<Task>), ApiError> {
    put(&sprite, None, &body, false).map(|task| (StatusCode::CREATED, task))
}

async fn replace(State(sprite): State<Arc<Sprite>>, body: Bytes) -> Result<Json<Task>, ApiError> {
    put(&sprite, None, &body, true)
}

async fn replace_named(
    State(sprite): State<Arc<Sprite>>,
    Segment(name): Segment<String>,
    body: Bytes,
) -> Result<Json<Task>, ApiError> {
    put(&sprite, Some(name), &body, true)
}

async fn remove(State(sprite): State<Arc<Sprite>>, Segment(name): Segment<String>) -> Result<StatusCode, ApiError> {
    if sprite.tasks.remove(&name) { Ok(StatusCode::NO_CONTENT) } else { Err(no_task()) }
}

async fn make_checkpoint(State(sprite): State<Arc<Sprite>>, body: Bytes) -> Result<Response, ApiError> {
    checkpoints::make(&sprite, &body)
}

async fn checkpoint_list(State(sprite): State<Arc<Sprite>>) -> Json<Vec<Value>> {
    Json(sprite.checkpoints())
}

async fn checkpoint(State(sprite): State<Arc<Sprite>>, Segment(id): Segment<String>) -> Result<Json<Value>, ApiError> {
    checkpoints::find(&sprite, &id)
}

async fn restore(State(sprite): State<Arc<Sprite>>, Segment(id): Segment<String>) -> Response {
    checkpoints::put_back(&sprite, id)
}

async fn service_list(State(sprite): State<Arc<Sprite>>) -> Json<Vec<Value>> {
    Json(sprite.services())
}

async fn service(State(sprite): State<Arc<Sprite>>, Segment(name): Segment<String>) -> Result<Json<Value>, ApiError> {
    Ok(Json(sprite.service(&name)?))
}

async fn put_service(
    State(sprite): State<Arc<Sprite>>,
    Segment(name): Segment<String>,
    parameters: Parameters,
    body: Bytes,
) -> Result<Response, ApiError> {
    let (definition, duration) = (services::definition(&name, &body)?, services::follow_time(&parameters)?);
    let awake = awake(&sprite).await?;
    services::make(sprite, awake, name, definition, duration).await
}

async fn delete_service(
    State(sprite): State<Arc<Sprite>>,
    Segment(name): Segment<String>,
) -> Result<StatusCode, ApiError> {
    let awake = awake(&sprite).await?;
    services::remove(sprite, awake, name).await
}

async fn signal_service(State(sprite): State<Arc<Sprite>>, body: Bytes) -> Result<StatusCode, ApiError> {
    let (name, signal) = services::signal_of(&body)?;
    let awake = awake(&sprite).await?;
    sprite.signal_service(&awake, &name, signal).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn service_logs(
    State(sprite): State<Arc<Sprite>>,
    Segment(name): Segment<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let (lines, duration) = services::window(&parameters)?;
    let awake = awake(&sprite).await?;
    Ok(services::stream(sprite.service_logs(awake, &name, lines, duration).await?))
}

async fn start_service(
    State(sprite): State<Arc<Sprite>>,
    Segment(name): Segment<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    act(sprite, name, &parameters, Verb::Start).await
}

async fn restart_service(
    State(sprite): State<Arc<Sprite>>,
    Segment(name): Segment<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    act(sprite, name, &parameters, Verb::Restart).await
}

async fn stop_service(
    State(sprite): State<Arc<Sprite>>,
    Segment(name): Segment<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    act(sprite, name, &parameters, Verb::Stop).await
}

async fn act(sprite: Arc<Sprite>, name: String, parameters: &Parameters, verb: Verb) -> Result<Response, ApiError> {
    let patience = services::patience(verb, parameters)?;
    let awake = awake(&sprite).await?;
    services::perform(sprite, awake, name, verb, patience).await
}

/// The Sprite runs, since its guest asks; it stays so for the call.
async fn awake(sprite: &Arc<Sprite>) -> Result<Awake, ApiError> {
    sprite.wake().await.map_err(|error| asleep(&error))
}

fn put(sprite: &Sprite, name: Option<String>, body: &[u8], replace: bool) -> Result<Json<Task>, ApiError> {
    let body: TaskBody = if body.is_empty() {
        TaskBody::default()
    } else {
        serde_json::from_slice(body).map_err(|error| ApiError::bad(format!("invalid request body: {error}")))?
    };
    let name = name.or(body.name).unwrap_or_default();
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Err(ApiError::bad(format!("invalid task name: write 1 to {LONGEST_NAME} bytes")));
    }
    let lasts = expiry(body.expire.as_ref()).ok_or_else(|| {
        ApiError::bad("invalid expire: write seconds or a duration such as \"30m\", more than 0 and at most 1h")
    })?;
    let task = sprite.tasks.put(&sprite.activity, &name, lasts, replace).map_err(|error| match error {
        TaskError::Exists => ApiError::Text(StatusCode::CONFLICT, error.to_string()),
        TaskError::TooMany => ApiError::Text(StatusCode::TOO_MANY_REQUESTS, error.to_string()),
    })?;
    sprite.record("task", json!({ "task": task }));
    Ok(Json(task))
}

/// Seconds as a number, or a duration as text. None is a task of the longest time.
fn expiry(expire: Option<&Value>) -> Option<Duration> {
    let lasts = match expire {
        None | Some(Value::Null) => LONGEST,
        Some(Value::Number(number)) => Duration::try_from_secs_f64(number.as_f64()?).ok()?,
        Some(Value::String(text)) => duration::parse(text)?,
        Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => return None,
    };
    (!lasts.is_zero() && lasts <= LONGEST).then_some(lasts)
}

fn no_task() -> ApiError {
    ApiError::Text(StatusCode::NOT_FOUND, "task not found".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries() {
        assert_eq!(expiry(Some(&json!(90))), Some(Duration::from_secs(90)));
        assert_eq!(expiry(Some(&json!("30m"))), Some(Duration::from_mins(30)));
        assert_eq!(expiry(None), Some(LONGEST));
        for bad in [json!(0), json!(-1), json!(3601), json!("2h"), json!("soon"), json!(true), json!([])] {
            assert_eq!(expiry(Some(&bad)), None, "{bad}");
        }
    }
}
