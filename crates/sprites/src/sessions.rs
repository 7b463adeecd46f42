//! Exec sessions that exist, and ending them. Ids are process ids on the real service and get reused: look
//! immediately before killing.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::Method;
use secrecy::ExposeSecret;
use serde_json::Value;

use super::awake::Awake;
use super::call::CallKind;
use super::client::Client;
use super::error::Error;
use super::go_duration::go_duration;
use super::response::Subject;
use super::sanitize::ProviderText;
use super::{frame, types};

/// A command that is running, with or without someone attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecSession {
    /// Its key. Never empty.
    pub id: String,
    /// The resolved path and arguments, joined by spaces.
    pub command: String,
    /// Where it was started.
    pub workdir: Option<String>,
    /// When it was started.
    pub created: Option<Timestamp>,
    /// Whether it has a terminal.
    pub tty: bool,
}

/// What a kill led to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KillReport {
    /// How it ended.
    pub outcome: KillOutcome,
    /// As the service reports it.
    pub exit_code: Option<i64>,
    /// The service's own words, for operators.
    pub messages: Vec<ProviderText>,
}

/// How a kill ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillOutcome {
    /// The service reported the end.
    Completed,
    /// It had ended before (410).
    AlreadyEnded,
    /// The report broke off, or reported an error: whether the command is gone is not known.
    Unconfirmed,
}

impl Client {
    /// The sessions of a Sprite, ended ones excluded. Such a list may come without the machine: it does not renew the proof.
    pub async fn exec_sessions(&self, on: &Awake) -> Result<Vec<ExecSession>, Error> {
        self.still_awake(on)?;
        let url = self.sprite_url(on.name(), &["exec"])?;
        sessions(self.call(CallKind::ExecList, Method::GET, url, Subject::Other).send_for(SESSIONS).await?)
    }

    /// Sends `signal` (for example `SIGTERM`) to a session, and SIGKILL when it has not ended after `timeout`. An unknown
    /// session is [`Error::Absent`]. To end a command, use [`kill_marked`](Self::kill_marked): it finds and confirms.
    pub async fn kill(
        &self,
        on: &Awake,
        session_id: &str,
        signal: &str,
        timeout: Duration,
    ) -> Result<KillReport, Error> {
        let grace = go_duration(timeout);
        let call = self
            .call_in(on, CallKind::Kill, Method::POST, &["exec", session_id, "kill"], Subject::Other)?
            .query([("signal", signal), ("timeout", grace.as_str())]);
        match call.timeout(timeout.saturating_add(self.config().call_timeout)).send().await {
            Ok(success) => Ok(report(&success.body, success.token.expose_secret())),
            Err(Error::Unknown { status: Some(410), message, .. }) => {
                Ok(KillReport { outcome: KillOutcome::AlreadyEnded, exit_code: None, messages: vec![message] })
            }
            Err(error) => Err(error),
        }
    }
}

const SESSIONS: &str = "a list of exec sessions";

/// `{sessions: […]}`; the docs show a bare array.
fn sessions(answer: Value) -> Result<Vec<ExecSession>, Error> {
    let violation = || Error::Protocol { what: SESSIONS };
    let list = match answer {
        Value::Array(list) => list,
        Value::Object(mut object) => match object.remove("sessions") {
            Some(Value::Array(list)) => list,
            // Go's way to write an empty list.
            Some(Value::Null) => vec![],
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) | None => {
                return Err(violation());
            }
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err(violation());
        }
    };
    let session = |value: &Value| {
        let text = |key| value.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(ExecSession {
            id: value.get("id").and_then(frame::id)?,
            command: text("command").unwrap_or_default(),
            workdir: text("workdir"),
            created: value.get("created").and_then(types::timestamp),
            tty: value.get("tty").and_then(Value::as_bool).unwrap_or_default(),
        })
    };
    list.iter().map(|value| session(value).ok_or_else(violation)).collect()
}

/// The events of a kill, one JSON object a line. Only `complete` confirms.
fn report(body: &[u8], secret: &str) -> KillReport {
    let mut report = KillReport { outcome: KillOutcome::Unconfirmed, exit_code: None, messages: vec![] };
    let mut failed = false;
    for line in body.split(|byte| *byte == b'\n') {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        match event.get("type").and_then(Value::as_str) {
            Some("complete") => {
                report.outcome = KillOutcome::Completed;
                report.exit_code = event.get("exit_code").and_then(Value::as_i64);
            }
            Some("error") => failed = true,
            Some(_) | None => {}
        }
        if let Some(message) = event.get("message").and_then(Value::as_str) {
            report.messages.push(ProviderText::new(message, Some(secret)));
        }
    }
    if failed {
        report.outcome = KillOutcome::Unconfirmed;
    }
    report
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::documented(json!({"count": 1, "sessions": [{"id": "12", "command": "/bin/bash -c x", "tty": false}]}), Some(1))]
    #[case::docs_array(json!([{"id": 12, "command": "x"}]), Some(1))]
    #[case::none(json!({"count": 0, "sessions": []}), Some(0))]
    #[case::null(json!({"count": 0, "sessions": null}), Some(0))]
    #[case::no_list(json!({"count": 0}), None)]
    #[case::no_id(json!({"sessions": [{"command": "x"}]}), None)]
    #[case::error_shape(json!({"error": "x"}), None)]
    fn a_list_that_cannot_be_read_is_not_an_empty_one(#[case] answer: Value, #[case] count: Option<usize>) {
        assert_eq!(sessions(answer).ok().map(|list| list.len()), count);
    }

    #[rstest]
    #[case::real(
        "{\"type\":\"signal\",\"message\":\"sent\",\"signal\":\"SIGTERM\",\"pid\":12}\n{\"type\":\"exited\",\"message\":\"x\"}\n{\"type\":\"complete\",\"exit_code\":143}\n",
        KillOutcome::Completed,
        Some(143)
    )]
    #[case::cut("{\"type\":\"signal\",\"message\":\"sent\"}\n{\"type\":\"comp", KillOutcome::Unconfirmed, None)]
    #[case::empty("", KillOutcome::Unconfirmed, None)]
    #[case::html("<html>502</html>", KillOutcome::Unconfirmed, None)]
    #[case::error(
        "{\"type\":\"error\",\"message\":\"no\"}\n{\"type\":\"complete\",\"exit_code\":1}\n",
        KillOutcome::Unconfirmed,
        Some(1)
    )]
    fn only_a_complete_report_confirms(#[case] body: &str, #[case] outcome: KillOutcome, #[case] code: Option<i64>) {
        let report = report(body.as_bytes(), "tok-1");
        assert_eq!((report.outcome, report.exit_code), (outcome, code));
    }
}
