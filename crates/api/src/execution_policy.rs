//! `ExecutionPolicy`: what Runs may do, kept in Git by platform teams.

use serde::{Deserialize, Serialize};

mod egress;
mod environment;
mod lifecycle;
mod limits;
mod quota;
mod record;
#[cfg(feature = "kube")]
mod status;

pub use egress::{Egress, EgressMode, EgressPreset};
pub(super) use environment::env_schema;
pub use environment::{Commands, EnvVar, Environment};
pub use lifecycle::{DestroyOrReport, FinishOrKill, KillOrKeep, Lifecycle, ReplaceOrRelock};
pub use limits::{Limits, Resources};
pub use quota::{ConcurrentRuns, DenyOrQueue, Quota, RunsPerDay};
pub use record::{AuditEvents, AuditFailure, AuditPolicy, Containment, OnLimit, OutputPolicy, Probe, Redact};
#[cfg(feature = "kube")]
pub use status::{EffectiveEgress, EgressRule, ExecutionPolicyStatus};

/// What Runs under this policy may do. Cluster-scoped; owned by platform teams, usually through GitOps.
#[derive(Serialize, Deserialize, Debug, Clone, Default, PartialEq)]
#[cfg_attr(not(feature = "kube"), derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "kube",
    derive(kube::CustomResource, kube::KubeSchema),
    kube(
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
    )
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
    #[cfg_attr(feature = "kube", x_kube(
        validation = Rule::new("self.mode != 'DenyAll' || (size(self.allow) == 0 && size(self.presets) == 0)")
            .message("mode DenyAll, the default, allows nothing: set mode to Allowlist, or remove allow and presets"),
        validation = Rule::new("self.allow.all(a, !(a in self.deny))")
            .message("an entry stands in both allow and deny: keep it in one of them")
    ))]
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

/// `text` must be valid; the tests of this module read every default.
fn known<T: std::str::FromStr>(text: &str) -> T
where
    T::Err: std::fmt::Debug,
{
    #[expect(clippy::expect_used, reason = "constants of this file, each read by a test")]
    text.parse().expect("a constant of this file")
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
