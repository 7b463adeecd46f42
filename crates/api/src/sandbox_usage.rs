//! `SandboxUsage`: the charges of Runs that no longer exist.

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::conditions::Conditions;

/// What one user of a tenant was charged by Runs that no longer exist. Written only by the operator.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[kube(
    group = "sprite-operator.io",
    version = "v1alpha1",
    kind = "SandboxUsage",
    plural = "sandboxusages",
    shortname = "sbu",
    category = "sprites",
    namespaced,
    status = "SandboxUsageStatus",
    derive = "PartialEq",
    doc = "What one user of a tenant was charged by Runs that no longer exist. Written only by the operator.",
    printcolumn(name = "User", type_ = "string", json_path = ".spec.user"),
    printcolumn(name = "Active", type_ = "integer", json_path = ".status.active"),
    printcolumn(name = "Last 24h", type_ = "integer", json_path = ".status.lastDay"),
    printcolumn(name = "Limit", type_ = "integer", json_path = ".status.limit"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(validation = Rule::new("self.user == oldSelf.user").message("spec.user cannot change: the operator keeps one SandboxUsage a user"))]
#[serde(rename_all = "camelCase")]
pub struct SandboxUsageSpec {
    /// The user, exactly as the API server names them.
    #[schemars(length(min = 1, max = 1024))]
    pub user: String,
}

/// The charges.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct SandboxUsageStatus {
    /// metadata.generation that this status was computed from; -1: not seen yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Charges of deleted Runs, a minute and drive each, for 24 hours.
    #[schemars(schema_with = "buckets_schema")]
    pub buckets: Vec<Bucket>,
    /// Runs whose charge is in `buckets` and that are not gone yet.
    #[schemars(schema_with = "folding_schema")]
    pub folding: Vec<String>,
    /// Runs running; coalesced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<u32>,
    /// Runs charged in the last 24 hours; coalesced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_day: Option<u32>,
    /// The limit of `lastDay`; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Ready, Reconciling, Stalled.
    pub conditions: Conditions,
}

fn buckets_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 10_000, "x-kubernetes-list-type": "atomic",
    "description": "Charges of deleted Runs, a minute and drive each, for 24 hours.",
    "items": {"type": "object", "required": ["minute", "drive", "count"], "properties": {
        "minute": {"type": "string", "format": "date-time", "description": "The minute of the charges."},
        "drive": {"type": "string", "maxLength": 253, "description": "The drive that was worked on."},
        "count": {"type": "integer", "format": "int64", "minimum": 0, "description": "How many."},
    }}})
}
fn folding_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 1000, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 64}, "description": "Runs whose charge is in `buckets` and that are not gone yet."})
}

/// Charges of one minute and drive.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Bucket {
    /// The minute of the charges.
    pub minute: Time,
    /// The drive that was worked on.
    pub drive: String,
    /// How many.
    pub count: u64,
}
