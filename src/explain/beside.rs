//! What stands beside the spec of a manifest: its fields, its name. PURE.

use serde_json::{Map, Value};

use super::documents::Wanted;
use super::shape::shown;

/// The fields of metadata.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// What is wrong with a manifest outside its spec.
pub(super) fn complaints(manifest: &Value, wanted: Wanted) -> Vec<String> {
    let mut complaints = Vec::new();
    let fields = manifest.as_object().into_iter().flat_map(Map::keys);
    for name in fields.filter(|name| !["apiVersion", "kind", "metadata", "spec", "status"].contains(&name.as_str())) {
        let name = shown(name);
        complaints.push(format!("{name}: there is no such field: write one of apiVersion, kind, metadata, spec"));
    }
    let names = match wanted {
        Wanted::Policies => "name, labels, annotations",
        Wanted::Runs => "name, generateName, namespace, labels, annotations",
    };
    let metadata = manifest.get("metadata").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    for name in metadata.filter(|name| !METADATA.contains(&name.as_str())) {
        let name = shown(name);
        complaints.push(format!("metadata.{name}: there is no such field: write one of {names}"));
    }
    let text = |pointer| manifest.pointer(pointer).and_then(Value::as_str).filter(|_| wanted == Wanted::Runs);
    let generated = text("/metadata/generateName").filter(|prefix| !prefix.is_empty());
    if let Some(prefix) = generated.filter(|prefix| !is_object_name(&format!("{prefix}x"))) {
        let prefix = shown(prefix);
        complaints.push(format!(
            "metadata.generateName: `{prefix}` begins no name: write lower-case letters, digits, `-` and `.`"
        ));
    }
    let is_namespace = |name: &str| name.len() <= 63 && !name.contains('.') && is_object_name(name);
    if let Some(namespace) = text("/metadata/namespace").filter(|name| !is_namespace(name)) {
        let namespace = shown(namespace);
        complaints.push(format!(
            "metadata.namespace: `{namespace}` is no namespace: write at most 63 lower-case letters, digits and inner `-`"
        ));
    }
    match manifest.pointer("/metadata/name") {
        Some(Value::String(name)) if is_object_name(name) => {}
        Some(Value::String(name)) => {
            let name = shown(name);
            complaints.push(format!(
                "metadata.name: `{name}` is no name: write at most 253 lower-case letters, digits, `-` and `.`"
            ));
        }
        // The API server completes it.
        Some(Value::Null) | None if generated.is_some() => {}
        Some(Value::Null) | None if manifest.get("metadata").is_none_or(|m| m.is_object() || m.is_null()) => {
            complaints.push("metadata.name: there is none: write one".to_owned());
        }
        // What is no text is named with the rest of the metadata.
        Some(_) | None => {}
    }
    complaints
}

/// As the API server has it (RFC 1123 subdomain).
fn is_object_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let label = |label: &str| {
        label.bytes().all(|b| plain(b) || b == b'-')
            && label.bytes().next().is_some_and(plain)
            && label.bytes().last().is_some_and(plain)
    };
    name.len() <= 253 && name.split('.').all(label)
}
