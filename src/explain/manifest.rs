//! An ExecutionPolicy manifest: what it comes to, and everything that is wrong with it. PURE.
//!
//! What the API server checks by the schema alone (lengths, maxima) it checks when the manifest is applied; here are the rules
//! that make a policy Ready or not, and fields that no policy has, which the API server would drop.

use serde_json::Value;
use thiserror::Error;

use crate::api::execution_policy::ExecutionPolicySpec;
use crate::api::reasons::RunReason;
use crate::api::{self, ExecutionPolicy};
use crate::controllers::policy::compile;
use crate::rules::egress::Rule;

/// Why a manifest cannot be judged at all.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ManifestError {
    /// Not YAML, or not of the shape of a policy.
    #[error("this is no ExecutionPolicy: {0}")]
    Form(String),
    /// Another kind of object.
    #[error("this is a {0} of {1}: write kind: ExecutionPolicy and apiVersion: sprite-operator.io/v1alpha1")]
    Kind(String, String),
}

/// What a policy comes to.
#[derive(Debug, Clone)]
pub struct PolicyReport {
    /// Its name.
    pub name: String,
    /// As it was read, with defaults.
    pub spec: ExecutionPolicySpec,
    /// The rules that its Sprites get; none when it is not in force.
    pub rules: Vec<Rule>,
    /// SHA3-256 of them; the second half of a lockdown token.
    pub hash: Option<String>,
    /// Everything that is wrong, each with its field and what to write instead.
    pub complaints: Vec<String>,
}

impl PolicyReport {
    /// Why nothing starts under this policy, if so.
    pub fn in_the_way(&self) -> Option<(RunReason, String)> {
        if self.hash.is_none() {
            let why = format!("the policy is not in force: {}", self.complaints.join("; "));
            return Some((RunReason::PolicyNotReady, why));
        }
        let why = "the policy is suspended: nothing starts under it".to_owned();
        self.spec.suspend.then_some((RunReason::PolicySuspended, why))
    }
}

impl PolicyReport {
    /// From a manifest in YAML or JSON.
    pub fn read(text: &str, open_allowed: bool) -> Result<Self, ManifestError> {
        let form = |error: &dyn std::fmt::Display| ManifestError::Form(first_line(&error.to_string()));
        let value: Value = serde_saphyr::from_str(text).map_err(|error| form(&error))?;
        let field = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or("(nothing)").to_owned();
        if field("kind") != "ExecutionPolicy" || field("apiVersion") != "sprite-operator.io/v1alpha1" {
            return Err(ManifestError::Kind(field("kind"), field("apiVersion")));
        }
        let mut complaints = unknown_fields(&value);
        if let Some(Value::String(name)) = value.pointer("/metadata/name") {
            if !is_object_name(name) {
                complaints
                    .push(format!("metadata.name: `{name}` is no name: write lower-case letters, digits, `-` and `.`"));
            }
        } else {
            complaints.push("metadata.name: there is none: write one".to_owned());
        }
        let name = field_of(&value, "/metadata/name");
        let policy: ExecutionPolicy = match serde_path_to_error::deserialize(without_nulls(value)) {
            Ok(policy) => policy,
            // The first that does not fit; what comes after it was not looked at.
            Err(error) => {
                complaints.push(format!("{}: {}", error.path(), first_line(&error.inner().to_string())));
                let spec = ExecutionPolicySpec::default();
                return Ok(Self { name, spec, rules: Vec::new(), hash: None, complaints });
            }
        };
        let compiled = compile::compile(&policy, open_allowed);
        let (rules, hash) = match compiled {
            Ok(compiled) => (compiled.egress.rules().to_vec(), Some(compiled.egress.hash().to_owned())),
            Err(errors) => {
                complaints.extend(errors.errors);
                (Vec::new(), None)
            }
        };
        Ok(Self { name, spec: policy.spec, rules, hash, complaints })
    }
}

fn field_of(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
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

/// A field set to `null` counts as absent, as on the API server.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.into_iter().filter(|(_, inner)| !inner.is_null());
            Value::Object(kept.map(|(name, inner)| (name, without_nulls(inner))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

/// The parser's excerpt of the source follows its first line.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

/// Fields that the schema does not have.
fn unknown_fields(manifest: &Value) -> Vec<String> {
    let schema = api::crds().ok().and_then(|crds| {
        let (_, crd) = crds.into_iter().find(|(_, crd)| crd.spec.names.kind == "ExecutionPolicy")?;
        serde_json::to_value(crd.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()?).ok()
    });
    let mut unknown = Vec::new();
    let known = ["apiVersion", "kind", "metadata", "spec", "status"];
    for name in manifest.as_object().into_iter().flat_map(|fields| fields.keys()) {
        if !known.contains(&name.as_str()) {
            unknown.push(format!("{name}: there is no such field: write one of apiVersion, kind, metadata, spec"));
        }
    }
    if let (Some(schema), Some(spec)) =
        (schema.as_ref().and_then(|schema| schema.pointer("/properties/spec")), manifest.get("spec"))
    {
        compare(schema, spec, "spec", &mut unknown);
    }
    unknown
}

fn compare(schema: &Value, value: &Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            // A free map, such as byTier, has no properties.
            let Some(known) = schema.get("properties").and_then(Value::as_object) else { return };
            for (name, inner) in fields {
                let path = format!("{path}.{name}");
                if let Some(schema) = known.get(name) {
                    compare(schema, inner, &path, unknown);
                } else {
                    let names: Vec<_> = known.keys().map(String::as_str).collect();
                    unknown.push(format!("{path}: there is no such field: write one of {}", names.join(", ")));
                }
            }
        }
        Value::Array(list) => {
            if let Some(schema) = schema.get("items") {
                for (at, inner) in list.iter().enumerate() {
                    compare(schema, inner, &format!("{path}[{at}]"), unknown);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
