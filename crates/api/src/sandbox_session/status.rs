//! The status of a `SandboxSession`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::{
    conditions::Conditions,
    reasons::{SessionPhase, SpritePhase},
};

/// What the operator observed of a session.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct SandboxSessionStatus {
    /// metadata.generation that this status was computed from; -1: not seen yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where the session stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<SessionPhase>,
    /// The Sprite.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sprite: Option<SpriteStatus>,
    /// The proof of lockdown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lockdown: Option<LockdownStatus>,
    /// What the containment probe found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containment: Option<ContainmentStatus>,
    /// Who created the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub owner: Option<String>,
    /// When a Run last ended or started here; coalesced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_active_at: Option<Time>,
    /// Runs running; coalesced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_runs: Option<u32>,
    /// Sums over the life of the session; coalesced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub totals: Option<Totals>,
    /// Ready, LockedDown, Contained, DataLost, Reconciling, Stalled.
    pub conditions: Conditions,
}

/// The Sprite of a session.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct SpriteStatus {
    /// Its name on the platform; recorded before it is asked for.
    #[schemars(length(max = 63))]
    pub name: String,
    /// Its instance id. A name is not an identity: this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub id: Option<String>,
    /// Its URL; private.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    pub url: Option<String>,
    /// Where the platform placed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub region: Option<String>,
    /// cold, warm or running, as last seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<SpritePhase>,
    /// How often the session's Sprite had to be made anew; raised when files were lost.
    pub incarnation: u32,
    /// When the platform was first asked for this incarnation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_requested_at: Option<Time>,
}

/// The proof of lockdown.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct LockdownStatus {
    /// `<instance id>:<egress hash>` as confirmed by reading back. Absent: not proved.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub token: Option<String>,
    /// Hash of the rules read back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub egress_hash: Option<String>,
    /// The policy that demanded them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub policy_name: Option<String>,
    /// Its generation; recorded, never compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_generation: Option<i64>,
    /// Written into the instance at lockdown; commands start only where it is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub nonce: Option<String>,
    /// Hash of the runner that was put into the instance; Runs start only with the operator's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub runner: Option<String>,
    /// When the rules were set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<Time>,
    /// When they were last read back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Time>,
    /// Failed attempts on this fresh instance; it is destroyed after three.
    pub attempts: u32,
}

/// What the containment probe found.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainmentStatus {
    /// Contained, Breach or NoEvidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub verdict: Option<String>,
    /// When it was tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checked_at: Option<Time>,
    /// What answered and must not.
    #[schemars(schema_with = "reachable_schema")]
    pub reachable: Vec<String>,
}

fn reachable_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 32, "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": 260}, "description": "What answered and must not."})
}

/// Sums over the life of a session.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Totals {
    /// Runs that were started.
    pub runs: u64,
    /// Seconds awake × CPUs, estimated.
    pub cpu_seconds: u64,
    /// Estimated cost in millionths of a US dollar.
    #[serde(rename = "costMicroUSD")]
    pub cost_micro_usd: u64,
}
