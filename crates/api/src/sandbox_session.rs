//! `SandboxSession`: one conversation's Sprite.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

#[cfg(feature = "kube")]
mod status;

#[cfg(feature = "kube")]
pub use status::{ContainmentStatus, LockdownStatus, SandboxSessionStatus, SpriteStatus, Totals};

/// Owns exactly one Sprite for a drive and a conversation. The namespace is the tenant.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[cfg_attr(not(feature = "kube"), derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "kube",
    derive(kube::CustomResource, kube::KubeSchema),
    kube(
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
    ),
    x_kube(
    validation = Rule::new("self.drive == oldSelf.drive").message("spec.drive cannot change: create another SandboxSession"),
    validation = Rule::new("self.conversation == oldSelf.conversation").message("spec.conversation cannot change: create another SandboxSession")
)
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
