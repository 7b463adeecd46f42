//! `Run`: one command (or file operation) in a session's Sprite.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

#[cfg(feature = "kube")]
use super::run_status::RunStatus;
use super::{
    bounds,
    execution_policy::{EnvVar, env_schema},
    sandbox_session::{PolicyRef, component_schema},
    schema,
    values::GoDuration,
};

/// Runs one command, or does one file operation, in the Sprite of a session. The spec cannot change, but for `cancel`.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[cfg_attr(not(feature = "kube"), derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "kube",
    derive(kube::CustomResource, kube::KubeSchema),
    kube(
    group = "sprite-operator.io",
    version = "v1alpha1",
    kind = "Run",
    plural = "runs",
    shortname = "srun",
    category = "sprites",
    namespaced,
    status = "RunStatus",
    derive = "PartialEq",
    doc = "Runs one command, or does one file operation, in the Sprite of a session. The spec cannot change, but for cancel.",
    selectable = ".spec.session.name",
    selectable = ".status.phase",
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Reason", type_ = "string", json_path = ".status.reason"),
    printcolumn(name = "Admitted", type_ = "string", json_path = ".status.conditions[?(@.type==\"Admitted\")].reason"),
    printcolumn(name = "Exit", type_ = "integer", json_path = ".status.exitCode"),
    printcolumn(name = "Duration-Ms", type_ = "integer", json_path = ".status.execution.durationMs"),
    printcolumn(name = "Session", type_ = "string", json_path = ".status.session.name"),
    printcolumn(name = "User", type_ = "string", json_path = ".spec.actor.user", priority = "1"),
    printcolumn(name = "Message", type_ = "string", json_path = ".status.message", priority = "1"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
    ),
    x_kube(
    validation = Rule::new("[has(self.bash), has(self.writeFile), has(self.readFile), has(self.editFile)].filter(x, x).size() == 1")
        .message("write exactly one of bash, writeFile, readFile, editFile"),
    validation = Rule::new("!oldSelf.cancel || self.cancel").message("cancel cannot be taken back: create another Run"),
    validation = Rule::new("self.session == oldSelf.session && has(self.policyRef) == has(oldSelf.policyRef) && (!has(self.policyRef) || self.policyRef == oldSelf.policyRef) && has(self.timeout) == has(oldSelf.timeout) && (!has(self.timeout) || self.timeout == oldSelf.timeout) && has(self.ttlAfterFinished) == has(oldSelf.ttlAfterFinished) && (!has(self.ttlAfterFinished) || self.ttlAfterFinished == oldSelf.ttlAfterFinished)")
        .message("the spec of a Run cannot change, but for cancel: create another Run"),
    validation = Rule::new("has(self.bash) == has(oldSelf.bash) && (!has(self.bash) || self.bash == oldSelf.bash) && has(self.writeFile) == has(oldSelf.writeFile) && (!has(self.writeFile) || self.writeFile == oldSelf.writeFile) && has(self.readFile) == has(oldSelf.readFile) && (!has(self.readFile) || self.readFile == oldSelf.readFile) && has(self.editFile) == has(oldSelf.editFile) && (!has(self.editFile) || self.editFile == oldSelf.editFile)")
        .message("the command of a Run cannot change: create another Run"),
    validation = Rule::new("has(self.actor) == has(oldSelf.actor) && (!has(self.actor) || self.actor == oldSelf.actor) && has(self.agent) == has(oldSelf.agent) && (!has(self.agent) || self.agent == oldSelf.agent)")
        .message("on whose behalf a Run acts cannot change: create another Run")
)
)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    /// In which session: an existing one by name, the one of a drive and conversation, or one of its own for a drive.
    #[cfg_attr(feature = "kube", x_kube(
        validation = Rule::new("has(self.name) != has(self.drive)").message("write either session.name or session.drive"),
        validation = Rule::new("!has(self.conversation) || has(self.drive)").message("session.conversation needs session.drive")
    ))]
    pub session: SessionSelector,
    /// A policy that tightens the session's limits for this Run. Absent: the session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_ref: Option<PolicyRef>,
    /// Run a bash script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kube", x_kube(validation = Rule::new("!(has(self.stdin) && has(self.stdinBase64))").message("write at most one of stdin, stdinBase64")))]
    pub bash: Option<Bash>,
    /// Write a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kube", x_kube(validation = Rule::new("has(self.content) != has(self.contentBase64)").message("write exactly one of content, contentBase64")))]
    pub write_file: Option<WriteFile>,
    /// Read a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_file: Option<ReadFile>,
    /// Replace text in a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "kube", x_kube(validation = Rule::new("self.oldText != self.newText").message("oldText and newText are the same: nothing would change")))]
    pub edit_file: Option<EditFile>,
    /// On whose behalf. Absent: whoever creates the Run; it is filled in at creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<Actor>,
    /// The agent that asked for it; both it and the actor must be allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Agent>,
    /// Longest run time of the command. Absent: the policy's limits.timeout. At least 1ms, at most 55m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "timeout_schema")]
    pub timeout: Option<GoDuration>,
    /// Set to true to stop the Run; cannot be taken back.
    #[serde(default)]
    pub cancel: bool,
    /// The Run is deleted so long after it finished. Absent: 24h. 0s: as soon as it is recorded. At most
    /// 8760h.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "ttl_schema")]
    pub ttl_after_finished: Option<GoDuration>,
}

impl RunSpec {
    /// A Run of a bash script, with the limits of the session's policy.
    pub fn bash(session: SessionSelector, command: impl Into<String>) -> Self {
        Self {
            session,
            policy_ref: None,
            bash: Some(Bash { command: command.into(), ..Bash::default() }),
            write_file: None,
            read_file: None,
            edit_file: None,
            actor: None,
            agent: None,
            timeout: None,
            cancel: false,
            ttl_after_finished: None,
        }
    }
}

fn timeout_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration(bounds::TIMEOUT, false)
}
fn ttl_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration(bounds::TIME_TO_LIVE, true)
}

/// In which session a Run runs: `{name}`, `{drive}` or `{drive, conversation}`.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SessionSelector {
    /// Name of a SandboxSession in this namespace; waited for until limits.start when it does not exist yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "session_name_schema")]
    pub name: Option<String>,
    /// A drive: alone, the Run gets a session of its own that is deleted when it finishes. At most 253 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "component_schema")]
    pub drive: Option<String>,
    /// A conversation of the drive: the session that the operator makes for both is used, by all Runs that name them. A session
    /// that you made yourself is another one, and is used by its name. At most 253 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "component_schema")]
    pub conversation: Option<String>,
}

impl SessionSelector {
    /// The SandboxSession of that name.
    pub fn name(name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..Self::default() }
    }

    /// A session of the Run's own, deleted when it finishes.
    pub fn drive(drive: impl Into<String>) -> Self {
        Self { drive: Some(drive.into()), ..Self::default() }
    }

    /// The session of a conversation, created when it does not exist.
    pub fn conversation(drive: impl Into<String>, conversation: impl Into<String>) -> Self {
        Self { drive: Some(drive.into()), conversation: Some(conversation.into()), name: None }
    }
}

fn session_name_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 253, "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"})
}

/// A bash script.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Bash {
    /// The script, run by the guest's bash. No NUL; its length is limited by the policy, at most 64Ki.
    #[schemars(schema_with = "command_schema")]
    pub command: String,
    /// Working directory: relative to /workspace, or absolute under it; it is made if it is not there. Absent: /workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "cwd_schema")]
    pub cwd: Option<String>,
    /// Environment variables, each name once; only names that the policy allows. At most 128 of 32Ki each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "env_schema")]
    pub env: Vec<EnvVar>,
    /// What the script reads from stdin; limited by the policy, at most 512Ki.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "stdin_schema")]
    pub stdin: Option<String>,
    /// What the script reads from stdin, as base64 (RFC 4648, with padding): for bytes that are no text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "stdin_base64_schema")]
    pub stdin_base64: Option<String>,
}

fn command_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": bounds::COMMAND, "pattern": r"^[^\x00]+$"})
}
fn cwd_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 4096, "pattern": r"^[^\x00]+$"})
}
fn stdin_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": bounds::STDIN})
}

fn stdin_base64_schema(_: &mut SchemaGenerator) -> Schema {
    base64(bounds::STDIN)
}

fn base64(bytes: u64) -> Schema {
    json_schema!({"type": "string", "maxLength": bytes.div_ceil(3) * 4, "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"})
}

fn path_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 4096, "pattern": r"^[^\x00]+$"})
}

/// Writes a file, whole and atomically; parents are made.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct WriteFile {
    /// A file: relative to /workspace, or absolute under it.
    #[schemars(schema_with = "path_schema")]
    pub path: String,
    /// Its content as text; limited by the policy, at most 512Ki.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "content_schema")]
    pub content: Option<String>,
    /// Its content as base64 (RFC 4648, with padding).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "base64_schema")]
    pub content_base64: Option<String>,
    /// Permissions of a file that is made, as an octal string such as "0644". Absent: "0644". One that is there keeps its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "mode_schema")]
    pub mode: Option<String>,
}

fn content_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "maxLength": bounds::WRITE})
}
fn base64_schema(_: &mut SchemaGenerator) -> Schema {
    base64(bounds::WRITE)
}
fn mode_schema(_: &mut SchemaGenerator) -> Schema {
    // Longer than any mode, so that a wrong one is refused for its form.
    json_schema!({"type": "string", "maxLength": 16, "pattern": "^0?[0-7]{3}$"})
}

/// Reads a file.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct ReadFile {
    /// A file: relative to /workspace, or absolute under it.
    #[schemars(schema_with = "path_schema")]
    pub path: String,
    /// Bytes to skip. Beyond the end of the file nothing is read.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_099_511_627_776i64))]
    pub offset: i64,
    /// Bytes to read. Absent: as many as the policy allows, at most 128Ki.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "length_schema")]
    pub length: Option<i64>,
}

fn length_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "integer", "format": "int64", "minimum": 0, "maximum": bounds::READ})
}

/// Replaces text in a file.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct EditFile {
    /// A file: relative to /workspace, or absolute under it.
    #[schemars(schema_with = "path_schema")]
    pub path: String,
    /// What stands there; must occur exactly once unless replaceAll. At most 64Ki. The file has at most 16Mi.
    #[schemars(length(min = 1, max = 65_536))]
    pub old_text: String,
    /// What shall stand there. At most 64Ki.
    #[schemars(length(max = 65_536))]
    pub new_text: String,
    /// Replace every occurrence.
    #[serde(default)]
    pub replace_all: bool,
}

/// On whose behalf a Run acts, as the API server names them.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Actor {
    /// User name, exactly as the API server knows it.
    #[schemars(length(min = 1, max = 1024))]
    pub user: String,
    /// UID of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub uid: Option<String>,
    /// Groups of the user. At most 1024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "groups_schema")]
    pub groups: Vec<String>,
    /// Extra attributes of the user. At most 64 keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "extra_schema")]
    pub extra: BTreeMap<String, Vec<String>>,
}

fn groups_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 1024, "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": 1024}})
}
fn extra_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": 64,
        "additionalProperties": {"type": "array", "maxItems": 64, "items": {"type": "string", "maxLength": 4096}}})
}

/// The agent that asked for a Run.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    /// Name of its ServiceAccount in this namespace.
    #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$"))]
    pub service_account: String,
}
