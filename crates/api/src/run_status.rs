//! The status of a `Run`.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{
    conditions::Conditions,
    execution_policy::{OnLimit, Redact},
    reasons::{Evidence, RunPhase, RunReason},
    values::GoDuration,
};

/// What became of a Run.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct RunStatus {
    /// metadata.generation that this status was computed from; -1: not seen yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Pending, Running, or how it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<RunPhase>,
    /// Why it is in its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<RunReason>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// When asking again may help, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// The session it ran in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionIdentity>,
    /// The instance it ran on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sprite: Option<SpriteIdentity>,
    /// The lockdown token that was proved on the live Sprite just before the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub lockdown_token: Option<String>,
    /// The policy it ran under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyIdentity>,
    /// The charge; written in the same update that says Running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// The execution.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// Exit code of the command; 128+n when signal n ended it. Absent: not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 255))]
    pub exit_code: Option<i32>,
    /// What the command wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<Output>,
    /// The file that was written or read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileResult>,
    /// Estimated cost in millionths of a US dollar.
    #[serde(rename = "costMicroUSD", skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// Where the audit record of the outcome stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditPosition>,
    /// Admitted, Succeeded, Finished, Reconciling, Stalled.
    pub conditions: Conditions,
}

/// A session by name and UID.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SessionIdentity {
    /// Name in the Run's namespace.
    #[schemars(length(max = 253))]
    pub name: String,
    /// UID.
    #[schemars(length(max = 64))]
    pub uid: String,
}

/// An instance.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct SpriteIdentity {
    /// Instance id.
    #[schemars(length(max = 128))]
    pub id: String,
}

/// A policy by name and generation.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct PolicyIdentity {
    /// Name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// metadata.generation.
    pub generation: i64,
}

/// The charge.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Admission {
    /// When it was charged.
    pub at: Time,
    /// Tier of the namespace at that time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63))]
    pub tier: Option<String>,
    /// Which scopes were charged.
    #[serde(default)]
    #[schemars(schema_with = "scopes_schema")]
    pub scopes: Vec<String>,
}

fn scopes_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 8, "x-kubernetes-list-type": "atomic",
        "items": {"type": "string", "maxLength": 64}, "description": "Which scopes were charged."})
}

/// The execution.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Execution {
    /// The platform's exec session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub id: Option<String>,
    /// When the start was recorded, before the command was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Its timeout. It counts from the command's start in the guest.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", length(max = 64))]
    pub timeout: Option<GoDuration>,
    /// When it has ended at the latest: the start is given 15 s, its end another 15 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_end: Option<Time>,
    /// Most output that is kept, in bytes, of both streams together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_limit: Option<u64>,
    /// Whether recognisable secrets are masked in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Redact")]
    pub redact: Option<Redact>,
    /// What happens where it passes the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OnLimit")]
    pub on_limit: Option<OnLimit>,
    /// When the end was known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// How long the command ran, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// How the end is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// What the command wrote, or what was read of the file.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Output {
    /// Standard output.
    pub stdout: Stream,
    /// Standard error.
    pub stderr: Stream,
    /// Something was left out: past the policy's limits.output, or for want of room in the object.
    pub truncated: bool,
    /// Something was masked.
    pub redacted: bool,
    /// How many secrets were masked.
    pub redactions: u64,
    /// Something may be missing: the connection was lost.
    pub incomplete: bool,
    /// False: the output did not fit into the object.
    pub stored: bool,
}

impl Default for Output {
    fn default() -> Self {
        Self {
            stdout: Stream::default(),
            stderr: Stream::default(),
            truncated: false,
            redacted: false,
            redactions: 0,
            incomplete: false,
            stored: true,
        }
    }
}

/// One output stream: as text; as base64 where it is not UTF-8, with lossy text beside it; or as base64 where the object has no
/// room for the text.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Stream {
    /// The bytes as UTF-8 text. Where they are none (lossy), U+FFFD stands for what is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 131_072))]
    pub text: Option<String>,
    /// The bytes as base64 (RFC 4648, with padding).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 174_764))]
    pub base64: Option<String>,
    /// The text is not exact; base64 is, unless the object has no room for both.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lossy: bool,
    /// How many bytes the command wrote; of a file, how many were read.
    pub bytes: u64,
}

/// The file that was written or read.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct FileResult {
    /// Its absolute path.
    #[schemars(length(max = 4096))]
    pub path: String,
    /// Its size afterwards, in bytes: also of one that was read in part.
    pub bytes: u64,
}

/// Where an audit record stands.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct AuditPosition {
    /// Sequence number.
    pub sequence: u64,
    /// Hash of the record, hex.
    #[schemars(length(max = 64))]
    pub hash: String,
}
