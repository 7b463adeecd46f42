//! How much may be run.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::bounds;

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
    #[schemars(range(min = 0, max = bounds::AT_ONCE))]
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
    #[schemars(range(min = 0, max = bounds::AT_ONCE))]
    pub default: u32,
    /// By the value of the namespace label sprite-operator.io/tier. At most 32.
    #[schemars(schema_with = "tiers_schema")]
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub by_tier: BTreeMap<String, u32>,
}

fn tiers_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "maxProperties": bounds::TIERS,
        "additionalProperties": {"type": "integer", "format": "int32", "minimum": 0, "maximum": bounds::AT_ONCE}})
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
    #[schemars(range(min = 0, max = bounds::A_DAY))]
    pub user: Option<u32>,
    /// For one drive of a tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = bounds::A_DAY))]
    pub drive: Option<u32>,
    /// For the tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = bounds::A_DAY))]
    pub tenant: Option<u32>,
}

/// Deny or Queue.
#[derive(JsonSchema, Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DenyOrQueue {
    Deny,
    Queue,
}
