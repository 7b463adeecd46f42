//! What is stored, proved and recorded.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is stored of stdout, stderr and read files.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Default, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct OutputPolicy {
    /// Recognised: secrets that can be recognised are masked before anything is stored. Off: the operator's own alone.
    pub redact: Redact,
    /// Truncate: a command whose output passes limits.output runs on; the first three quarters and the last lines are kept.
    /// Kill: it is stopped there, and the head is kept.
    pub on_limit: OnLimit,
}

/// What happens at `limits.output`.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum OnLimit {
    #[default]
    Truncate,
    Kill,
}

/// Whether output is redacted.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Redact {
    #[default]
    Recognised,
    Off,
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
