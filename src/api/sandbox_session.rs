//! `SandboxSession`: one conversation's Sprite.

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    conditions::Conditions,
    reasons::{SessionPhase, SpritePhase},
};

/// Owns exactly one Sprite for a drive and a conversation. The namespace is the tenant.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[kube(
    group = "sprite-operator.io",
    version = "v1alpha1",
    kind = "SandboxSession",
    plural = "sandboxsessions",
    shortname = "sbx",
    category = "sprites",
    namespaced,
    status = "SandboxSessionStatus",
    derive = "PartialEq",
    doc = "Owns exactly one Sprite for a drive and a conversation. The namespace is the tenant.",
    selectable = ".spec.drive",
    selectable = ".status.phase",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.sprite.state"),
    printcolumn(name = "Policy", type_ = "string", json_path = ".status.lockdown.policyName"),
    printcolumn(name = "Runs", type_ = "integer", json_path = ".status.totals.runs"),
    printcolumn(name = "Drive", type_ = "string", json_path = ".spec.drive", priority = "1"),
    printcolumn(name = "Sprite", type_ = "string", json_path = ".status.sprite.name", priority = "1"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        priority = "1"
    ),
    printcolumn(name = "Last-Active", type_ = "date", json_path = ".status.lastActiveAt"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("self.drive == oldSelf.drive").message("spec.drive cannot change: create another SandboxSession"),
    validation = Rule::new("self.conversation == oldSelf.conversation").message("spec.conversation cannot change: create another SandboxSession")
)]
#[serde(rename_all = "camelCase")]
pub struct SandboxSessionSpec {
    /// The drive whose data this session works on; what `execute` is granted on. Any text without NUL, at most
    /// 253 bytes. Cannot change.
    #[schemars(schema_with = "component_schema")]
    pub drive: String,
    /// The conversation within the drive. Any text without NUL, at most 253 bytes. Cannot change.
    #[schemars(schema_with = "component_schema")]
    pub conversation: String,
    /// The policy of this session. Absent: the policy named default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_ref: Option<PolicyRef>,
    /// A stop: nothing starts, running commands are killed, no Sprite is made.
    #[serde(default)]
    pub suspend: bool,
    /// Owner: only whoever created it may run in it. Drive: everybody with `execute` on the drive.
    #[serde(default)]
    pub access: Access,
}

/// The schema of the name of a drive or conversation, also in a Run.
pub(super) fn component_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 253, "pattern": r"^[^\x00]+$",
        "x-kubernetes-validations": [{"rule": "size(bytes(self)) <= 253", "message": "at most 253 bytes of UTF-8: write a shorter name"}]})
}

/// Names an `ExecutionPolicy`.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct PolicyRef {
    /// Name of the ExecutionPolicy.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub name: String,
}

/// Who may run in a session.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Access {
    Owner,
    #[default]
    Drive,
}

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
