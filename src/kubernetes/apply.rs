//! Status writes by server-side apply.
//!
//! The body holds all and only the fields that we own, and the UID, so that an object of the same name that came later is
//! never written, and the resource version, so that it is a compare-and-swap (a forced apply without it lets both of two
//! writers win). Must not retry.

use std::{fmt::Write as _, time::Duration};

use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json, value::RawValue};
use tokio::time::timeout;

/// The field manager of every status we write.
pub const MANAGER: &str = "sprite-operator";

/// Which object, exactly.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its namespace; none for cluster-scoped objects.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The version that the decision was made on.
    pub resource_version: String,
}

/// An object that has no identity, which a server never sends.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an object came without name, uid or resourceVersion")]
pub struct NoIdentity;

impl Target {
    /// Takes the identity from an object's metadata.
    pub fn of<K: Resource>(object: &K) -> Result<Self, NoIdentity> {
        let meta = object.meta();
        match (&meta.name, &meta.uid, &meta.resource_version) {
            (Some(name), Some(uid), Some(version)) => Ok(Self {
                namespace: meta.namespace.clone(),
                name: name.clone(),
                uid: uid.clone(),
                resource_version: version.clone(),
            }),
            _ => Err(NoIdentity),
        }
    }
}

/// Writes a status, unless the object changed since it was read: a stale writer must never take back what a newer one
/// recorded.
pub async fn status<K, S>(client: &Client, target: &Target, status: &S) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
    K: Resource<Scope: ScopedApi<K>>,
    S: Serialize + Sync,
{
    patch(client, target, status, PatchParams::apply(MANAGER).force()).await
}

/// Asks whether the server would take a status (a dry run): it goes through admission and is not stored.
pub async fn try_status<K, S>(client: &Client, target: &Target, status: &S) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
    K: Resource<Scope: ScopedApi<K>>,
    S: Serialize + Sync,
{
    patch(client, target, status, PatchParams::apply(MANAGER).force().dry_run()).await
}

async fn patch<K, S>(client: &Client, target: &Target, status: &S, how: PatchParams) -> Result<K, kube::Error>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + std::fmt::Debug,
    K: Resource<Scope: ScopedApi<K>>,
    S: Serialize + Sync,
{
    let body = json!({
        "apiVersion": K::api_version(&()),
        "kind": K::kind(&()),
        "metadata": {"name": target.name, "uid": target.uid, "resourceVersion": target.resource_version},
        "status": status,
    });
    let body = yaml_safe(&body)?;
    let api = <K::Scope as ScopedApi<K>>::api(client.clone(), target.namespace.as_deref());
    within(api.patch_status(&target.name, &how, &Patch::Apply(body))).await
}

/// How long one call to the API server may take.
const CALL: Duration = Duration::from_secs(10);

/// A call with a deadline: a reply that never comes is an error, too. The client has none of its own.
pub async fn within<T>(call: impl Future<Output = Result<T, kube::Error>>) -> Result<T, kube::Error> {
    match timeout(CALL, call).await {
        Ok(result) => result,
        Err(_) => Err(kube::Error::Service(format!("no answer within {CALL:?}").into())),
    }
}

/// JSON that a YAML parser reads as the same: the API server parses applied bodies as YAML, which refuses some characters
/// that JSON may hold raw, and folds others as line breaks.
fn yaml_safe(value: &Value) -> Result<Box<RawValue>, kube::Error> {
    let json = serde_json::to_string(value).map_err(kube::Error::SerdeError)?;
    let special =
        |c: char| matches!(c, '\u{7f}'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    // Such characters stand only inside of strings.
    let escaped = json.chars().fold(String::with_capacity(json.len()), |mut text, c| {
        if special(c) {
            let _ = write!(text, "\\u{:04x}", u32::from(c));
        } else {
            text.push(c);
        }
        text
    });
    RawValue::from_string(escaped).map_err(kube::Error::SerdeError)
}

/// The right kind of API for an object's scope.
pub trait ScopedApi<K> {
    /// The API of the namespace, or of the cluster.
    fn api(client: Client, namespace: Option<&str>) -> Api<K>;
}

impl<K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>> ScopedApi<K>
    for kube::core::NamespaceResourceScope
{
    fn api(client: Client, namespace: Option<&str>) -> Api<K> {
        Api::namespaced(client, namespace.unwrap_or("default"))
    }
}

impl<K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>> ScopedApi<K>
    for kube::core::ClusterResourceScope
{
    fn api(client: Client, _: Option<&str>) -> Api<K> {
        Api::all(client)
    }
}

/// What a person needs of an error: the server's own words, without the structure around them.
pub fn brief(error: &kube::Error) -> String {
    let kube::Error::Api(status) = error else { return error.to_string() };
    format!("{} ({})", status.message, status.code)
}

/// Whether the write lost against another one: decide again.
pub fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Whether the object is gone.
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the server refuses this body: for what is in it, or because an admission policy does.
pub fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400 | 413 | 422)) || is_too_large(error)
}

/// Whether the server refuses the object for its size.
pub fn is_too_large(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let texts = ["request is too large", "Too long", "trying to send message larger than max"];
    status.code == 413 || texts.iter().any(|text| status.message.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_yaml_parser_would_refuse_or_fold_is_escaped_and_reads_back_the_same() {
        let text = "a\u{7f}b\u{85}c\u{9b}d\u{2028}e\u{2029}f\u{feff}g\u{fffe}h\u{ffff}i\u{1f600}j\u{1}\"\\";
        let raw = yaml_safe(&json!({ "text": text })).unwrap();
        let plain = |c: char| c == '\u{1f600}' || (' '..='~').contains(&c);
        assert!(raw.get().chars().all(plain), "{}", raw.get());
        assert_eq!(serde_json::from_str::<Value>(raw.get()).unwrap()["text"], text);
    }
}
