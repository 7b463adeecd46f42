//! What the operator observed of a policy.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::conditions::Conditions;

/// What the operator observed of a policy.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct ExecutionPolicyStatus {
    /// metadata.generation that this status was computed from; -1: not seen yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The rules that Sprites under this policy get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_egress: Option<EffectiveEgress>,
    /// Sessions that name this policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Ready, Reconciling, Stalled.
    pub conditions: Conditions,
}

/// The rules that Sprites get.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveEgress {
    /// In the order in which they are sent; the platform ranks by specificity.
    #[schemars(schema_with = "rules_schema")]
    pub rules: Vec<EgressRule>,
    /// SHA3-256 over the canonical form, hex.
    #[schemars(length(max = 64))]
    pub hash: String,
}

fn rules_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 512, "x-kubernetes-list-type": "atomic",
        "items": {"type": "object", "properties": {
            "domain": {"type": "string", "maxLength": 260, "description": "Host name, *.suffix or *."},
            "action": {"type": "string", "maxLength": 16, "description": "allow or deny."},
            "include": {"type": "string", "maxLength": 64, "description": "A preset of the platform."},
        }},
    })
}

/// One rule as the platform knows it.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
pub struct EgressRule {
    /// Host name, `*.suffix` or `*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// `allow` or `deny`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// A preset of the platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
}
