//! Finalizers by JSON patch that fails when the list changed meanwhile.
//!
//! Must not decide when; a failed test means: look again.

use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::apply::within;

/// Whether the object carries the finalizer.
pub fn has<K: Resource>(object: &K, finalizer: &str) -> bool {
    object.meta().finalizers.iter().flatten().any(|f| f == finalizer)
}

/// Adds the finalizer to this very object.
pub async fn add<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<K, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let append = if object.meta().finalizers.is_some() {
        json!({"op": "add", "path": "/metadata/finalizers/-", "value": finalizer})
    } else {
        json!({"op": "add", "path": "/metadata/finalizers", "value": [finalizer]})
    };
    patch(api, object, vec![append]).await
}

/// Removes the finalizer from this very object.
pub async fn remove<K>(api: &Api<K>, object: &K, finalizer: &str) -> Result<(), kube::Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let Some(index) = object.meta().finalizers.iter().flatten().position(|f| f == finalizer) else {
        return Ok(());
    };
    let path = format!("/metadata/finalizers/{index}");
    let steps = vec![json!({"op": "test", "path": path, "value": finalizer}), json!({"op": "remove", "path": path})];
    patch(api, object, steps).await.map(drop)
}

async fn patch<K>(api: &Api<K>, object: &K, steps: Vec<Value>) -> Result<K, kube::Error>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug,
{
    let name = object.meta().name.clone().unwrap_or_default();
    // The UID is tested first: another object of the same name is not ours to touch.
    let mut operations = vec![json!({"op": "test", "path": "/metadata/uid", "value": object.meta().uid})];
    operations.extend(steps);
    let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations)).map_err(kube::Error::SerdeError)?;
    within(api.patch(&name, &PatchParams::default(), &Patch::Json::<()>(patch))).await
}

/// Whether a JSON patch failed its test, or met no object: look again.
pub fn is_outdated(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 404 | 409 | 422))
}
