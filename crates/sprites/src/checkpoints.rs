//! Checkpoints of a Sprite's writable files: list, create, restore. A restore ends every session and discards what is
//! newer; what it does to the network policy is not documented, so whoever restores proves the rules anew.

use reqwest::Method;
use secrecy::ExposeSecret;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::awake::Awake;
use super::call::CallKind;
use super::client::Client;
use super::error::Error;
use super::http::Success;
use super::response::Subject;
use super::sanitize::ProviderText;

/// Creating takes 0.4 to 30 s, restoring 13 to 19 s and more were measured; the vendor's clients wait 300 s.
const TIMEOUT: std::time::Duration = std::time::Duration::from_mins(5);

/// A saved state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Checkpoint {
    /// `v0`, `v1`, …; `Current` stands for the state that runs.
    pub id: String,
    /// What its maker wrote.
    #[serde(default)]
    pub comment: Option<String>,
    /// RFC 3339.
    #[serde(default)]
    pub create_time: Option<String>,
}

#[derive(Serialize)]
struct Create<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    comment: &'a str,
}

impl Client {
    /// The checkpoints, newest first, the pseudo entry `Current` among them.
    pub async fn checkpoints(&self, on: &Awake) -> Result<Vec<Checkpoint>, Error> {
        let call = self.call_in(on, CallKind::CheckpointList, Method::GET, &["checkpoints"], Subject::Other)?;
        call.send_for("a list of checkpoints").await
    }

    /// Saves the state. The wire tells no id: list afterwards.
    pub async fn create_checkpoint(&self, on: &Awake, comment: &str) -> Result<(), Error> {
        let call = self.call_in(on, CallKind::CheckpointCreate, Method::POST, &["checkpoint"], Subject::Other)?;
        completed(&call.json(&Create { comment }).timeout(TIMEOUT).send().await?)
    }

    /// Goes back to a saved state: ends every session, starts services again.
    pub async fn restore_checkpoint(&self, on: &Awake, id: &str) -> Result<(), Error> {
        let path = ["checkpoints", id, "restore"];
        let call = self.call_in(on, CallKind::CheckpointRestore, Method::POST, &path, Subject::Other)?;
        completed(&call.timeout(TIMEOUT).send().await?)
    }
}

/// The events, one JSON object a line: only `complete` without an `error` says that it was done.
fn completed(success: &Success) -> Result<(), Error> {
    told(&success.body, success.token.expose_secret())
}

fn told(body: &[u8], secret: &str) -> Result<(), Error> {
    let mut complete = false;
    for line in body.split(|byte| *byte == b'\n') {
        let Ok(event) = serde_json::from_slice::<Value>(line) else { continue };
        let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        match text("type") {
            "error" => {
                let message = if text("error").is_empty() { text("data") } else { text("error") };
                let message = ProviderText::new(message, Some(secret));
                return Err(Error::Unknown { status: None, sent: true, retry_after: None, message, source: None });
            }
            "complete" => complete = true,
            _ => {}
        }
    }
    if complete { Ok(()) } else { Err(Error::Protocol { what: "a report that ends with its completion" }) }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::done("{\"type\":\"info\",\"data\":\"x\"}\n{\"type\":\"complete\",\"data\":\"v1\"}\n", true)]
    #[case::failed("{\"type\":\"error\",\"error\":\"no such checkpoint\"}\n", false)]
    #[case::failed_and_complete("{\"type\":\"error\",\"error\":\"x\"}\n{\"type\":\"complete\"}\n", false)]
    #[case::cut("{\"type\":\"info\",\"data\":\"Creating\"}\n{\"type\":\"comp", false)]
    #[case::empty("", false)]
    fn only_a_completed_report_is_done(#[case] body: &str, #[case] done: bool) {
        assert_eq!(told(body.as_bytes(), "tok-1").is_ok(), done);
    }
}
