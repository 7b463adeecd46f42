//! Which object: namespace, name and UID, taken once from what the API server sent. Must not read anything.

use kube::Resource;

use super::apply::NoIdentity;

/// One object. Another one of the same name has another UID.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey {
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

impl ObjectKey {
    /// The key of an object. An object without name or UID is an error: a server never sends one.
    pub fn of<K: Resource>(object: &K) -> Result<Self, NoIdentity> {
        let meta = object.meta();
        match (&meta.name, &meta.uid) {
            (Some(name), Some(uid)) => {
                Ok(Self { namespace: meta.namespace.clone().unwrap_or_default(), name: name.clone(), uid: uid.clone() })
            }
            _ => Err(NoIdentity),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::ConfigMap;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case(json!({"namespace": "n", "name": "a", "uid": "u"}), Some(("n", "a", "u")))]
    #[case(json!({"name": "a", "uid": "u"}), Some(("", "a", "u")))]
    #[case(json!({"namespace": "n", "name": "a"}), None)]
    #[case(json!({"namespace": "n", "uid": "u"}), None)]
    fn an_object_without_name_or_uid_has_no_key(
        #[case] metadata: serde_json::Value,
        #[case] expected: Option<(&str, &str, &str)>,
    ) {
        let object: ConfigMap = serde_json::from_value(json!({"metadata": metadata})).unwrap();
        let key = ObjectKey::of(&object).ok();
        assert_eq!(key.as_ref().map(|key| (&*key.namespace, &*key.name, &*key.uid)), expected);
    }
}
