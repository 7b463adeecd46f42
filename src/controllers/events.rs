//! Events: mark transitions for people. They are no evidence: tenants can forge them.
//!
//! Publishing never fails a reconcile. Must not carry details; those are in conditions.

use std::time::Duration;

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, api::PostParams};
use tokio::time::timeout;

use super::context::Context;
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
pub async fn publish(context: &Context, regarding: ObjectReference, notice: Notice) {
    let Context { client, metrics, settings, .. } = context;
    let namespace = regarding.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let now = context.now();
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
        reporting_instance: Some(settings.instance.clone()),
        type_: Some(if notice.warning { "Warning" } else { "Normal" }.to_owned()),
        ..Event::default()
    };
    let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
    let published = timeout(DEADLINE, api.create(&PostParams::default(), &event)).await;
    match published {
        Ok(Ok(_)) => {}
        // A namespace that goes takes no Event, and nobody could read it there.
        Ok(Err(error)) if is_of_a_namespace_that_goes(&error) => {
            tracing::debug!(%error, object = name, "an Event was not published: its namespace goes");
        }
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

/// Whether the API server refused a create because the namespace is being deleted, or is gone.
fn is_of_a_namespace_that_goes(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let details = status.details.as_ref();
    let terminating =
        details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"));
    let gone = status.code == 404 && details.is_some_and(|details| details.kind == "namespaces");
    terminating || gone
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_namespace_that_goes_takes_no_events_and_loses_none() {
        let refused = |status: serde_json::Value| kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()));
        let cause = json!([{"reason": "NamespaceTerminating", "message": "namespace x is being terminated", "field": "metadata.namespace"}]);
        let table = [
            (
                json!({"code": 403, "reason": "Forbidden", "details": {"name": "e", "kind": "events", "causes": cause}}),
                true,
            ),
            (json!({"code": 404, "reason": "NotFound", "details": {"name": "x", "kind": "namespaces"}}), true),
            (json!({"code": 403, "reason": "Forbidden", "details": {"name": "e", "kind": "events"}}), false),
            (json!({"code": 404, "reason": "NotFound", "details": {"name": "e", "kind": "events"}}), false),
            (json!({"code": 500, "reason": "InternalError"}), false),
        ];
        for (status, expected) in table {
            assert_eq!(is_of_a_namespace_that_goes(&refused(status.clone())), expected, "{status}");
        }
    }
}
