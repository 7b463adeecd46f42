//! Long-running services of a Sprite: only what a stop needs, seeing and removing them.

use reqwest::Method;
use serde_json::Value;

use super::awake::Awake;
use super::call::CallKind;
use super::client::Client;
use super::error::Error;
use super::response::Subject;

/// A service that someone defined in a Sprite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its key. Never empty.
    pub name: String,
    /// `stopped`, `starting`, `running`, `stopping`, `failed`, or what the service says.
    pub status: Option<String>,
}

impl Client {
    /// The services of a Sprite.
    pub async fn services(&self, on: &Awake) -> Result<Vec<Service>, Error> {
        let call = self.call_in(on, CallKind::ServiceList, Method::GET, &["services"], Subject::Other)?;
        let answer: Value = call.send_for(SERVICES).await?;
        let violation = || Error::Protocol { what: SERVICES };
        let list = answer.as_array().or_else(|| answer.get("services").and_then(Value::as_array));
        let service = |value: &Value| {
            Some(Service {
                name: value.get("name")?.as_str().filter(|name| !name.is_empty())?.to_owned(),
                status: value.pointer("/state/status").and_then(Value::as_str).map(str::to_owned),
            })
        };
        let list = list.ok_or_else(violation)?;
        list.iter().map(|value| service(value).ok_or_else(violation)).collect()
    }

    /// Removes a service; it is stopped first.
    pub async fn delete_service(&self, on: &Awake, service: &str) -> Result<(), Error> {
        let call = self.call_in(on, CallKind::ServiceDelete, Method::DELETE, &["services", service], Subject::Other)?;
        call.send().await.map(drop)
    }
}

const SERVICES: &str = "a list of services";
