//! Kill: a signal, some patience, then SIGKILL, told as it happens.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use rustix::process::Signal;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::UnboundedReceiverStream;
use url::form_urlencoded;

use super::exec::no_session;
use super::{Shared, asleep, ndjson};
use crate::duration;
use crate::errors::ApiError;
use crate::exec::session::{End, Session};
use crate::exec::signals;
use crate::sprite::Found;

/// How long a process has before SIGKILL if a kill call does not say.
const KILL_AFTER: Duration = Duration::from_secs(10);
/// How long a kill call without escalation waits to see an end.
const GLANCE: Duration = Duration::from_millis(250);

#[derive(Debug, Default, Deserialize)]
struct KillBody {
    signal: Option<String>,
    timeout: Option<Value>,
}

/// `…/exec/{id}/kill`: signal, wait, SIGKILL; what happens is streamed as it does.
pub(super) async fn kill(
    State(app): State<Shared>,
    Path((name, id)): Path<(String, String)>,
    RawQuery(raw): RawQuery,
    body: Bytes,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let (signal, patience) = kill_arguments(raw.as_deref().unwrap_or_default(), &body)?;
    let number = signals::number(&signal).ok_or_else(|| ApiError::bad(format!("invalid signal: {signal}")))?;
    let session = match sprite.session(&id) {
        Found::Live(session) => session,
        Found::Ended => {
            return Err(ApiError::Text(StatusCode::GONE, format!("session already exited: {id}")));
        }
        Found::Unknown => return Err(no_session(&id)),
    };
    // What is frozen hears no signal.
    let awake = sprite.wake().await.map_err(|error| asleep(&error))?;
    sprite.record(
        "kill",
        json!({ "session": session.id, "command": session.command, "signal": signals::full_name(&signal) }),
    );
    let (events, queue) = mpsc::unbounded_channel::<Value>();
    // Goes on when the client leaves: a kill once asked for is carried out.
    tokio::spawn(async move {
        end(&session, number, &signals::full_name(&signal), patience, &events).await;
        drop(awake);
    });
    Ok(ndjson(UnboundedReceiverStream::new(queue)))
}

/// Query first, then a JSON body, then the defaults.
fn kill_arguments(raw: &str, body: &[u8]) -> Result<(String, Duration), ApiError> {
    let body: KillBody = if body.is_empty() {
        KillBody::default()
    } else {
        serde_json::from_slice(body).map_err(|error| ApiError::bad(format!("invalid request body: {error}")))?
    };
    let mut signal = body.signal;
    let mut patience = body.timeout.map(|value| match value {
        Value::String(text) => text,
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            other.to_string()
        }
    });
    for (key, value) in form_urlencoded::parse(raw.as_bytes()) {
        match key.as_ref() {
            "signal" => signal = Some(value.into_owned()),
            "timeout" => patience = Some(value.into_owned()),
            _ => {}
        }
    }
    let patience = match patience.filter(|text| !text.is_empty()) {
        None => KILL_AFTER,
        Some(text) => duration::parse(&text).ok_or_else(|| ApiError::bad(format!("invalid timeout: {text}")))?,
    };
    Ok((signal.filter(|name| !name.is_empty()).unwrap_or_else(|| "SIGTERM".into()), patience))
}

async fn end(session: &Session, number: i32, name: &str, patience: Duration, events: &mpsc::UnboundedSender<Value>) {
    let tell = |event: Value| drop(events.send(event));
    let pid = session.id;
    session.signal(number).await;
    tell(json!({ "type": "signal", "message": format!("Sent {name} to process {pid}"), "signal": name, "pid": pid }));
    // No time to wait means: this signal and nothing more.
    let escalate = !patience.is_zero();
    let mut ended = timeout(if escalate { patience } else { GLANCE }, session.wait()).await.ok();
    if ended.is_some() {
        tell(json!({ "type": "exited", "message": "Process exited" }));
    } else if escalate {
        tell(json!({ "type": "timeout", "message": "Timed out waiting for the process to exit" }));
        session.signal(Signal::KILL.as_raw()).await;
        tell(
            json!({ "type": "signal", "message": format!("Sent SIGKILL to process {pid}"), "signal": "SIGKILL", "pid": pid }),
        );
        ended = timeout(KILL_AFTER, session.wait()).await.ok();
        match ended {
            Some(_) => tell(json!({ "type": "killed", "message": "Process killed" })),
            None => tell(json!({ "type": "error", "message": "Process did not end" })),
        }
    }
    if ended.is_some() && session.terminal().is_some() {
        // The end of its leader hangs a terminal up.
        let message = format!("Closed the terminal of process {pid}");
        tell(json!({ "type": "signal", "message": message, "signal": "SIGHUP", "pid": pid }));
    }
    match ended {
        Some(End::Exited(code)) => tell(json!({ "type": "complete", "exit_code": code })),
        Some(End::Lost) => tell(json!({ "type": "error", "message": "The sprite stopped" })),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kill_arguments_come_from_query_or_body() {
        let got = |raw: &str, body: &str| kill_arguments(raw, body.as_bytes()).unwrap();
        assert_eq!(got("", ""), ("SIGTERM".into(), KILL_AFTER));
        assert_eq!(got("signal=INT&timeout=5s", ""), ("INT".into(), Duration::from_secs(5)));
        assert_eq!(got("", r#"{"signal":"KILL","timeout":3}"#), ("KILL".into(), Duration::from_secs(3)));
        assert_eq!(got("timeout=0s", ""), ("SIGTERM".into(), Duration::ZERO));
        assert!(kill_arguments("timeout=x", b"").is_err());
        assert!(kill_arguments("", b"[").is_err());
    }
}
