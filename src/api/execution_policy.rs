//! `ExecutionPolicy`: what Runs may do, kept in Git by platform teams.

use std::collections::BTreeMap;

use kube::{CustomResource, KubeSchema};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{
    conditions::Conditions,
    schema,
    values::{ByteSize, GoDuration},
};

const KI: u64 = 1024;

/// What Runs under this policy may do. Cluster-scoped; owned by platform teams, usually through GitOps.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Debug, Clone, PartialEq)]
#[kube(
    group = "sprite-operator.io",
    version = "v1alpha1",
    kind = "ExecutionPolicy",
    plural = "executionpolicies",
    shortname = "xpol",
    category = "sprites",
    status = "ExecutionPolicyStatus",
    derive = "PartialEq",
    doc = "What Runs may do: limits, egress, environment, lifecycle, quota. Cluster-scoped; owned by platform teams.",
    printcolumn(name = "Egress", type_ = "string", json_path = ".spec.egress.mode"),
    printcolumn(name = "Timeout", type_ = "string", json_path = ".spec.limits.timeout"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Sessions", type_ = "integer", json_path = ".status.sessions"),
    printcolumn(name = "Suspended", type_ = "boolean", json_path = ".spec.suspend", priority = "1"),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type=='Ready')].reason",
        priority = "1"
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionPolicySpec {
    /// A stop: nothing starts under this policy, and running commands are killed.
    #[serde(default)]
    pub suspend: bool,
    /// Upper bounds of one Run.
    #[serde(default)]
    pub limits: Limits,
    /// What is stored of output.
    #[serde(default)]
    pub output: OutputPolicy,
    /// What is asked of the platform for the Sprite; drift is shown, not promised.
    #[serde(default)]
    pub resources: Resources,
    /// Which hosts the Sprite may reach.
    #[serde(default)]
    #[x_kube(
        validation = Rule::new("self.mode != 'DenyAll' || (size(self.allow) == 0 && size(self.presets) == 0)")
            .message("mode DenyAll allows nothing: remove allow and presets, or set mode to Allowlist"),
        validation = Rule::new("self.allow.all(a, !(a in self.deny))")
            .message("an entry stands in both allow and deny: keep it in one of them")
    )]
    pub egress: Egress,
    /// Environment variables of Runs.
    #[serde(default)]
    pub environment: Environment,
    /// Which commands are refused.
    #[serde(default)]
    pub commands: Commands,
    /// What becomes of the Sprite while idle and after a Run.
    #[serde(default)]
    pub lifecycle: Lifecycle,
    /// How much may be run.
    #[serde(default)]
    pub quota: Quota,
    /// How egress is proved beyond reading the rules back.
    #[serde(default)]
    pub containment: Containment,
    /// What is recorded.
    #[serde(default)]
    pub audit: AuditPolicy,
}

/// Upper bounds of one Run. Absent fields take the value shown in the schema; zero sizes allow nothing.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Limits {
    #[schemars(schema_with = "timeout_schema")]
    #[allow(missing_docs)]
    pub timeout: GoDuration,
    #[schemars(schema_with = "start_schema")]
    #[allow(missing_docs)]
    pub start: GoDuration,
    #[schemars(schema_with = "output_schema")]
    #[allow(missing_docs)]
    pub output: ByteSize,
    #[schemars(schema_with = "command_schema")]
    #[allow(missing_docs)]
    pub command: ByteSize,
    #[schemars(schema_with = "stdin_schema")]
    #[allow(missing_docs)]
    pub stdin: ByteSize,
    #[schemars(schema_with = "write_schema")]
    #[allow(missing_docs)]
    pub write: ByteSize,
    #[schemars(schema_with = "read_schema")]
    #[allow(missing_docs)]
    pub read: ByteSize,
    /// Runs at the same time in one session.
    #[schemars(range(min = 1, max = 64))]
    pub parallel_runs: u32,
}

fn timeout_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration(
        "55m",
        false,
        "Longest run time of a command, counted from its start; also the default of a Run. At most 55m.",
    )
}
fn start_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration(
        "24h",
        false,
        "Longest wait from creation to the start of the command; past it the Run is Failed, StartDeadlineExceeded. At most 24h.",
    )
}
fn output_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(
        128 * KI,
        "Bytes of stdout and stderr together; past it the command is killed and the head is kept. Integer or quantity, at most 128Ki.",
    )
}
fn command_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(64 * KI, "Bytes of a command. Integer or quantity, at most 64Ki.")
}
fn stdin_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(512 * KI, "Bytes of a command's stdin. Integer or quantity, at most 512Ki.")
}
fn write_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(512 * KI, "Bytes of a file written by a Run. Integer or quantity, at most 512Ki.")
}
fn read_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(128 * KI, "Bytes of a file read by a Run. Integer or quantity, at most 128Ki.")
}

/// `text` must be valid; the tests of this module read every default.
fn known<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    #[expect(clippy::expect_used, reason = "constants of this file, each read by a test")]
    text.parse().expect("a constant of this file")
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            timeout: known("30s"),
            start: known("5m"),
            output: known("64Ki"),
            command: known("16Ki"),
            stdin: known("256Ki"),
            write: known("256Ki"),
            read: known("64Ki"),
            parallel_runs: 4,
        }
    }
}

/// What is stored of stdout, stderr and read files.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct OutputPolicy {
    /// Recognised: secrets that can be recognised are masked before anything is stored. Off: stored as it came.
    pub redact: Redact,
}

/// Whether output is redacted.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Redact {
    #[default]
    Recognised,
    Off,
}

/// What is asked of the platform.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Resources {
    /// Virtual CPUs.
    #[schemars(range(min = 1, max = 64))]
    pub cpus: u32,
    #[schemars(schema_with = "memory_schema")]
    #[allow(missing_docs)]
    pub memory: ByteSize,
    #[schemars(schema_with = "storage_schema")]
    #[allow(missing_docs)]
    pub storage: ByteSize,
    /// Region code of the platform, such as iad. Absent: the platform chooses.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "region_schema")]
    pub region: Option<String>,
}

fn memory_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(1 << 40, "Memory. Integer or quantity.")
}
fn storage_schema(_: &mut SchemaGenerator) -> Schema {
    schema::size(1 << 44, "Disk. Integer or quantity.")
}
fn region_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "string", "minLength": 1, "maxLength": 16, "pattern": "^[a-z0-9-]+$",
        "description": "Region code of the platform, such as iad. Absent: the platform chooses."})
}

impl Default for Resources {
    fn default() -> Self {
        Self { cpus: 1, memory: known("1Gi"), storage: known("2Gi"), region: None }
    }
}

/// Which hosts the Sprite may reach.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Egress {
    /// DenyAll: nothing. Allowlist: only `allow` and `presets`. Open: everything but `deny` and the platform's own
    /// internal names; needs the operator's flag --allow-open-egress.
    pub mode: EgressMode,
    /// Host names (api.example.com) or wildcards for subdomains (*.example.com). No IP addresses, ports, schemes or
    /// paths: the platform's rules are about names.
    #[schemars(schema_with = "entries_schema")]
    pub allow: Vec<String>,
    /// Host names or wildcards that are denied even where a wider entry allows them.
    #[schemars(schema_with = "denied_schema")]
    pub deny: Vec<String>,
    /// Defaults: also allow the platform's own preset of development hosts. It only adds allows.
    #[schemars(schema_with = "presets_schema")]
    pub presets: Vec<EgressPreset>,
}

fn entries(description: &str) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 200, "description": description,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": 260},
        "x-kubernetes-validations": [
            {"rule": r"self.all(e, e.matches('^\\s*[^\\s/:@?#%,]+\\s*$'))",
             "message": "write a host name such as api.example.com or *.example.com: no scheme, port, path, user, space or CIDR"},
            {"rule": r"self.all(e, !e.matches('^\\s*[0-9.]+\\s*$'))",
             "message": "write a host name such as api.example.com: IP addresses cannot be allowed or denied by the platform"},
            {"rule": r"self.all(e, !e.matches('^\\s*[*](\\s|$)'))",
             "message": "a lone * cannot be listed: set egress.mode to Open or DenyAll instead"},
        ],
    })
}
fn entries_schema(_: &mut SchemaGenerator) -> Schema {
    entries(
        "Host names (api.example.com) or wildcards for subdomains (*.example.com). No IP addresses, ports, schemes or paths: the platform's rules are about names. At most 200.",
    )
}
fn denied_schema(_: &mut SchemaGenerator) -> Schema {
    entries("Host names or wildcards that are denied even where a wider entry allows them. At most 200.")
}
fn presets_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "maxItems": 1, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "enum": ["Defaults"]},
        "description": "Defaults: also allow the platform's own preset of development hosts. It only adds allows."})
}

/// How egress is decided.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EgressMode {
    #[default]
    DenyAll,
    Allowlist,
    Open,
}

/// A named set of allows of the platform.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum EgressPreset {
    Defaults,
}

/// Environment variables of Runs.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Environment {
    /// Set for every Run.
    #[schemars(schema_with = "env_schema")]
    pub set: Vec<EnvVar>,
    /// Names that a Run may set itself.
    #[schemars(schema_with = "env_names_schema")]
    pub allow: Vec<String>,
}

impl Default for Environment {
    fn default() -> Self {
        Self { set: vec![EnvVar { name: "LANG".to_owned(), value: "C.UTF-8".to_owned() }], allow: Vec::new() }
    }
}

/// One environment variable.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct EnvVar {
    /// A letter or underscore, then letters, digits and underscores.
    pub name: String,
    /// Any text without NUL.
    #[serde(default)]
    pub value: String,
}

/// The schema of a list of environment variables, for policies and Runs.
pub(super) fn env_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 128, "description": "Environment variables; each name once. At most 128 of 32Ki each.",
        "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {
            "type": "object", "required": ["name"],
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
                    "description": "A letter or underscore, then letters, digits and underscores."},
                "value": {"type": "string", "default": "", "maxLength": 32768, "pattern": r"^[^\x00]*$", "description": "Any text without NUL."},
            },
        },
    })
}
fn env_names_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 128, "x-kubernetes-list-type": "set", "description": "Names that a Run may set itself. At most 128.",
        "items": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    })
}

/// Which commands are refused.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Commands {
    /// Linear-time regular expressions (RE2 syntax, no back-references); a command that matches one is Denied.
    #[schemars(schema_with = "deny_schema")]
    pub deny: Vec<String>,
}

fn deny_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array", "maxItems": 64, "x-kubernetes-list-type": "set",
        "items": {"type": "string", "minLength": 1, "maxLength": 512},
        "description": "Linear-time regular expressions (RE2 syntax, no back-references); a command that matches one is Denied. At most 64 of 512 bytes.",
    })
}

/// What becomes of the Sprite while idle and after a Run.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Lifecycle {
    /// Never destroy an idle Sprite.
    pub persistent: bool,
    #[schemars(schema_with = "hibernate_schema")]
    #[allow(missing_docs)]
    pub hibernate_after: GoDuration,
    #[schemars(schema_with = "expire_schema")]
    #[allow(missing_docs)]
    pub expire_after: GoDuration,
    #[schemars(schema_with = "awake_schema")]
    #[allow(missing_docs)]
    pub max_awake: GoDuration,
    /// Background processes, services and foreign tasks left by a Run: Kill or Keep.
    pub processes_after_run: KillOrKeep,
    /// Running commands when the policy gets tighter: let them Finish, or Kill them.
    pub on_tighten: FinishOrKill,
    /// A used instance when egress gets wider: Replace it, or Relock it.
    pub on_widen: ReplaceOrRelock,
    /// A Sprite whose kill cannot be confirmed: Destroy it, or only Report.
    pub on_kill_unconfirmed: DestroyOrReport,
}

fn hibernate_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration("720h", true, "Idle for so long: the platform may pause the Sprite.")
}
fn expire_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration("8760h", true, "Idle for so long, awake or paused: the Sprite is destroyed, unless persistent.")
}
fn awake_schema(_: &mut SchemaGenerator) -> Schema {
    schema::duration("720h", true, "Awake without a Run for so long: the Sprite is stopped, reason HeldAwakeByGuest.")
}

impl Default for Lifecycle {
    fn default() -> Self {
        Self {
            persistent: false,
            hibernate_after: known("5m"),
            expire_after: known("24h"),
            max_awake: known("1h"),
            processes_after_run: KillOrKeep::Kill,
            on_tighten: FinishOrKill::Finish,
            on_widen: ReplaceOrRelock::Replace,
            on_kill_unconfirmed: DestroyOrReport::Destroy,
        }
    }
}

/// Kill or Keep.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum KillOrKeep {
    Kill,
    Keep,
}

/// Finish or Kill.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FinishOrKill {
    Finish,
    Kill,
}

/// Replace or Relock.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ReplaceOrRelock {
    Replace,
    Relock,
}

/// Destroy or Report.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DestroyOrReport {
    Destroy,
    Report,
}

/// How much may be run.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Quota {
    /// Runs of one user at the same time.
    pub concurrent_runs: ConcurrentRuns,
    /// Runs in a sliding window of 24 hours; each scope on its own.
    pub runs_per_day: RunsPerDay,
    /// Whether file operations count as Runs.
    pub count_files: bool,
    /// Living Sprites of one tenant.
    #[schemars(range(min = 0, max = 100_000))]
    pub sessions: u32,
    /// What becomes of a Run over quota: Deny it, or Queue it.
    pub on_exceeded: DenyOrQueue,
}

impl Default for Quota {
    fn default() -> Self {
        Self {
            concurrent_runs: ConcurrentRuns::default(),
            runs_per_day: RunsPerDay::default(),
            count_files: true,
            sessions: 10,
            on_exceeded: DenyOrQueue::Deny,
        }
    }
}

/// Runs of one user at the same time.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct ConcurrentRuns {
    /// For namespaces without a tier, or with one that is not listed.
    #[schemars(range(min = 0, max = 100_000))]
    pub default: u32,
    /// By the value of the namespace label sprite-operator.io/tier.
    #[schemars(schema_with = "tiers_schema")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_tier: BTreeMap<String, u32>,
}

fn tiers_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": 32,
        "additionalProperties": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 100_000},
        "description": "By the value of the namespace label sprite-operator.io/tier. At most 32."})
}

impl Default for ConcurrentRuns {
    fn default() -> Self {
        Self { default: 2, by_tier: BTreeMap::new() }
    }
}

/// Runs in a sliding window of 24 hours. Absent: no limit. 0: none.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct RunsPerDay {
    /// For one user of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000_000))]
    pub user: Option<u32>,
    /// For one drive of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000_000))]
    pub drive: Option<u32>,
    /// For the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10_000_000))]
    pub tenant: Option<u32>,
}

/// Deny or Queue.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DenyOrQueue {
    Deny,
    Queue,
}

/// How egress is proved beyond reading the rules back.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Containment {
    /// FreshInstance: before any untrusted command a new Sprite tries to reach what it must not. Disabled: not tried.
    pub probe: Probe,
}

/// Whether containment is probed.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Probe {
    #[default]
    FreshInstance,
    Disabled,
}

/// What is recorded.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct AuditPolicy {
    /// Events about Runs: All, or Anomalies only.
    pub events: AuditEvents,
    /// When no record can be written: Open goes on and counts it, Closed starts nothing.
    pub failure: AuditFailure,
}

/// Which Events are published.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AuditEvents {
    #[default]
    All,
    Anomalies,
}

/// What an audit failure means.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AuditFailure {
    #[default]
    Open,
    Closed,
}

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
        "description": "In the order in which they are sent; the platform ranks by specificity.",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_spec_has_the_documented_defaults() {
        let spec: ExecutionPolicySpec = serde_json::from_str("{}").unwrap();
        assert_eq!(spec.limits.timeout.to_string(), "30s");
        assert_eq!(spec.limits.output.bytes(), 65_536);
        assert_eq!(spec.egress.mode, EgressMode::DenyAll);
        assert_eq!(spec.lifecycle.expire_after.to_string(), "24h");
        assert_eq!(spec.quota.concurrent_runs.default, 2);
        assert_eq!(spec.resources.memory.bytes(), 1 << 30);
        assert_eq!(spec.quota.runs_per_day, RunsPerDay::default());
    }
}
