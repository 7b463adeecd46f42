//! Events: mark transitions for people. They are no evidence: tenants can forge them.
//!
//! Publishing never fails a reconcile. Must not carry details; those are in conditions.

use std::time::Duration;

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
    jiff::Timestamp,
};
use kube::{Api, Client, api::PostParams};
use tokio::time::timeout;

use crate::telemetry::metrics::Metrics;
use api::conditions::cut;

/// Who reports.
const CONTROLLER: &str = "sprite-operator";
/// How long publishing may take.
const DEADLINE: Duration = Duration::from_secs(5);

/// What happened.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Whether somebody should look.
    pub warning: bool,
    /// One word from the table of reasons.
    pub reason: &'static str,
    /// What was done.
    pub action: &'static str,
    /// For people; cut at 1 kB.
    pub note: String,
}

/// Publishes, or counts that it could not. Each notice is an object of its own: nothing is aggregated away.
pub async fn publish(client: &Client, metrics: &Metrics, regarding: ObjectReference, notice: Notice) {
    let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let now = Timestamp::now();
    let name = regarding.name.clone().unwrap_or_default();
    let event = Event {
        metadata: ObjectMeta {
            // Names have at most 253 characters; what makes this one unique stands at its end.
            name: Some(format!("{}.{:x}", cut(&name, 220).trim_end_matches(['.', '-']), now.as_nanosecond())),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        action: Some(notice.action.to_owned()),
        event_time: Some(MicroTime(now)),
        note: Some(cut(&notice.note, 1000).to_owned()),
        reason: Some(notice.reason.to_owned()),
        regarding: Some(regarding),
        reporting_controller: Some(CONTROLLER.to_owned()),
        reporting_instance: Some(CONTROLLER.to_owned()),
        type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let published = timeout(DEADLINE, api.create(&PostParams::default(), &event)).await;
    match published {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => {
            metrics.event_lost();
            tracing::debug!(%error, object = name, "an Event was not published");
        }
        Err(_) => {
            metrics.event_lost();
            tracing::debug!(object = name, "an Event was not published in time");
        }
    }
}
