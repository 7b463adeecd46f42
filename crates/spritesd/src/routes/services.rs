//! Services: the calls of the API, also as a guest's own socket serves them.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse as _, Response};
use http::{StatusCode, header};
use serde::Deserialize;
use serde_json::Value;
use tracing::error;

use super::Shared;
use crate::duration;
use crate::errors::ApiError;
use crate::exec::signals;
use crate::lifecycle::Awake;
use crate::services::{Definition, Follow, ServiceError};
use crate::sprite::Sprite;

/// How long a started service is followed.
const FOLLOW: Duration = Duration::from_secs(5);
/// How long a service may take to stop.
const STOP: Duration = Duration::from_secs(10);

/// The most it may: what is asked of it meanwhile waits.
const LONGEST_STOP: Duration = Duration::from_mins(5);

/// The parameters of a call.
pub(crate) type Parameters = Query<HashMap<String, String>>;
/// A Sprite and a service of it.
type Target = Path<(String, String)>;

#[derive(Debug, Deserialize)]
struct SignalBody {
    #[serde(default)]
    name: String,
    #[serde(default)]
    signal: String,
}

/// What is done to a running service.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verb {
    Start,
    Restart,
    Stop,
}

impl From<ServiceError> for ApiError {
    fn from(error: ServiceError) -> Self {
        match error {
            ServiceError::NotFound(_) => Self::Text(StatusCode::NOT_FOUND, error.to_string()),
            ServiceError::Bad(why) => Self::bad(why),
            ServiceError::Conflict(_) | ServiceError::NotRunning(_) => {
                Self::Text(StatusCode::CONFLICT, error.to_string())
            }
            ServiceError::Io(error) => {
                error!(%error, "cannot save or read a service");
                Self::Internal
            }
        }
    }
}

/// `GET …/services`.
pub(super) async fn list(State(app): State<Shared>, Path(name): Path<String>) -> Result<Json<Vec<Value>>, ApiError> {
    let sprite = app.sprite(&name)?;
    let _awake = app.supervised(&sprite).await?;
    Ok(Json(sprite.services()))
}

/// `GET …/services/{service}`.
pub(super) async fn get(State(app): State<Shared>, Path((name, service)): Target) -> Result<Json<Value>, ApiError> {
    let sprite = app.sprite(&name)?;
    let _awake = app.supervised(&sprite).await?;
    Ok(Json(sprite.service(&service)?))
}

/// `PUT …/services/{service}`.
pub(super) async fn put(
    State(app): State<Shared>,
    Path((name, service)): Target,
    parameters: Parameters,
    body: Bytes,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let (definition, duration) = (definition(&service, &body)?, follow_time(&parameters)?);
    let awake = app.supervised(&sprite).await?;
    make(sprite, awake, service, definition, duration).await
}

/// `DELETE …/services/{service}`.
pub(super) async fn delete(State(app): State<Shared>, Path((name, service)): Target) -> Result<StatusCode, ApiError> {
    let sprite = app.sprite(&name)?;
    let awake = app.supervised(&sprite).await?;
    remove(sprite, awake, service).await
}

/// `POST …/services/{service}/start`.
pub(super) async fn start(app: State<Shared>, path: Target, parameters: Parameters) -> Result<Response, ApiError> {
    act(app, path, parameters, Verb::Start).await
}

/// `POST …/services/{service}/restart`.
pub(super) async fn restart(app: State<Shared>, path: Target, parameters: Parameters) -> Result<Response, ApiError> {
    act(app, path, parameters, Verb::Restart).await
}

/// `POST …/services/{service}/stop`.
pub(super) async fn stop(app: State<Shared>, path: Target, parameters: Parameters) -> Result<Response, ApiError> {
    act(app, path, parameters, Verb::Stop).await
}

async fn act(
    State(app): State<Shared>,
    Path((name, service)): Target,
    parameters: Parameters,
    verb: Verb,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let patience = patience(verb, &parameters)?;
    let awake = app.supervised(&sprite).await?;
    perform(sprite, awake, service, verb, patience).await
}

/// `POST …/services/signal`.
pub(super) async fn signal(
    State(app): State<Shared>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let sprite = app.sprite(&name)?;
    let (service, number) = signal_of(&body)?;
    let awake = app.supervised(&sprite).await?;
    sprite.signal_service(&awake, &service, number).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET …/services/{service}/logs`.
pub(super) async fn logs(
    State(app): State<Shared>,
    Path((name, service)): Target,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let (lines, duration) = window(&parameters)?;
    let awake = app.supervised(&sprite).await?;
    Ok(stream(sprite.service_logs(awake, &service, lines, duration).await?))
}

/// The definition in the body of a put call.
pub(crate) fn definition(service: &str, body: &[u8]) -> Result<Definition, ApiError> {
    Definition::parse(service, body).map_err(|refusal| ServiceError::from(refusal).into())
}

/// How long a put call is followed.
pub(crate) fn follow_time(parameters: &Parameters) -> Result<Duration, ApiError> {
    time(parameters, "duration", FOLLOW)
}

/// How long what is done is followed, or may take.
pub(crate) fn patience(verb: Verb, parameters: &Parameters) -> Result<Duration, ApiError> {
    match verb {
        Verb::Start | Verb::Restart => time(parameters, "duration", FOLLOW),
        Verb::Stop => {
            let patience = time(parameters, "timeout", STOP)?;
            if patience > LONGEST_STOP {
                return Err(ApiError::bad("invalid timeout: at most 5m"));
            }
            Ok(patience)
        }
    }
}

/// How many lines of a log, and how long it is followed after those.
pub(crate) fn window(parameters: &Parameters) -> Result<(Option<usize>, Duration), ApiError> {
    let lines = match parameters.get("lines").filter(|text| !text.is_empty()) {
        None => None,
        Some(text) => Some(text.parse().map_err(|_| ApiError::bad("invalid lines: write a number"))?),
    };
    Ok((lines, time(parameters, "duration", FOLLOW)?))
}

/// The service and the number of the signal in the body of a signal call.
pub(crate) fn signal_of(body: &[u8]) -> Result<(String, i32), ApiError> {
    let SignalBody { name, signal } = serde_json::from_slice(body)
        .map_err(|error| ApiError::bad(format!("invalid request body: {error}; write {{\"name\", \"signal\"}}")))?;
    if name.is_empty() {
        return Err(ApiError::bad("service name required: write {\"name\", \"signal\"}"));
    }
    let number = signals::number(&signal)
        .ok_or_else(|| ApiError::bad(format!("invalid signal {signal:?}: write a name such as \"TERM\" or \"HUP\"")))?;
    Ok((name, number))
}

/// Makes or replaces a service, whoever asks. Not tied to the client: half of it helps nobody.
pub(crate) async fn make(
    sprite: Arc<Sprite>,
    awake: Awake,
    service: String,
    definition: Definition,
    duration: Duration,
) -> Result<Response, ApiError> {
    let making = async move { sprite.put_service(awake, service, definition, duration).await };
    Ok(stream(apart(making).await?))
}

/// Removes a service, whoever asks.
pub(crate) async fn remove(sprite: Arc<Sprite>, awake: Awake, service: String) -> Result<StatusCode, ApiError> {
    apart(async move {
        let deleted = sprite.delete_service(&service).await;
        drop(awake);
        deleted
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Starts, restarts or stops a service, whoever asks.
pub(crate) async fn perform(
    sprite: Arc<Sprite>,
    awake: Awake,
    service: String,
    verb: Verb,
    patience: Duration,
) -> Result<Response, ApiError> {
    let doing = async move {
        match verb {
            Verb::Start => sprite.start_service(awake, service, false, patience).await,
            Verb::Restart => sprite.start_service(awake, service, true, patience).await,
            Verb::Stop => sprite.stop_service(awake, service, patience).await,
        }
    };
    Ok(stream(apart(doing).await?))
}

/// Does work to its end, also when the client leaves.
async fn apart<T: Send + 'static>(
    work: impl Future<Output = Result<T, ServiceError>> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::spawn(work).await {
        Ok(done) => done.map_err(ApiError::from),
        Err(error) => {
            error!(%error, "a call about a service failed");
            Err(ApiError::Internal)
        }
    }
}

/// An answer of one event a line. A client that does not read makes nobody wait and misses some.
pub(crate) fn stream(follow: Follow) -> Response {
    let lines = futures::stream::unfold(follow, |mut follow| async move {
        let event = follow.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(format!("{event}\n"))), follow))
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(lines)).into_response()
}

fn time(parameters: &Parameters, key: &str, default: Duration) -> Result<Duration, ApiError> {
    match parameters.get(key).filter(|text| !text.is_empty()) {
        None => Ok(default),
        Some(text) => duration::parse(text)
            .ok_or_else(|| ApiError::bad(format!("invalid {key}: write seconds or a duration such as \"5s\""))),
    }
}
