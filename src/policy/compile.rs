//! From an `ExecutionPolicy` to what the rules need of it. Pure.
//!
//! All errors at once, each naming its field. Must not look at anything but the object.

use std::{collections::BTreeSet, fmt};

use kube::ResourceExt;

use super::{bounds, effect};

use api::{
    ExecutionPolicy, ExecutionPolicySpec,
    execution_policy::{AuditEvents, EgressMode, KillOrKeep, OnLimit, Redact},
    reasons::PolicyReason,
};
use rules::{
    combine::Terms,
    command::DenyList,
    egress::{self, Demand, EgressError, Mode, Ruleset},
    environment::{self, EnvironmentError},
    limits::Limits,
    quota::PolicyQuota,
};

/// A policy in force.
#[derive(Debug, Clone)]
pub struct Compiled {
    /// Its name.
    pub name: String,
    /// Its generation.
    pub generation: i64,
    /// Whether nothing may start under it.
    pub suspended: bool,
    /// Limits of a Run.
    pub limits: Limits,
    /// Rules of a Sprite.
    pub egress: Ruleset,
    /// Commands that are refused.
    pub deny: DenyList,
    /// Variables of every Run.
    pub set: Vec<(String, String)>,
    /// Names that a Run may set.
    pub allow: Vec<String>,
    /// Whether what a Run leaves behind is killed.
    pub kill_leftovers: bool,
    /// Whether Events are published for anomalies only.
    pub only_anomalies: bool,
    /// How much may be run.
    pub quota: PolicyQuota,
    /// Whether recognisable secrets are masked in what is stored.
    pub redact: bool,
    /// Fields that are set and have no effect.
    pub without_effect: Vec<String>,
}

impl Compiled {
    /// What it says of a Run.
    pub fn terms(&self) -> Terms<'_> {
        let Self { name, limits, egress, deny, set, allow, quota, redact, .. } = self;
        Terms { name, limits, egress, deny, set, allow, quota, redact: *redact }
    }
}

/// Why a policy is not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyErrors {
    /// The word for it.
    pub reason: PolicyReason,
    /// Each error, with its field and what to write instead.
    pub errors: Vec<String>,
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.errors.join("; "))
    }
}

/// Compiles a policy, or names everything that is wrong with it.
pub fn compile(policy: &ExecutionPolicy, open_allowed: bool) -> Result<Compiled, PolicyErrors> {
    let spec = &policy.spec;
    let mut errors = bounds::check(spec);
    let mode = match spec.egress.mode {
        EgressMode::DenyAll => Mode::DenyAll,
        EgressMode::Allowlist => Mode::Allowlist,
        EgressMode::Open => Mode::Open,
    };
    let demand =
        Demand { mode, allow: &spec.egress.allow, deny: &spec.egress.deny, defaults: !spec.egress.presets.is_empty() };
    let egress = egress::build(demand, open_allowed);
    let only_consent_is_missing = matches!(&egress, Err(all) if all.as_slice() == [EgressError::OpenNotAllowed]);
    if let Err(all) = &egress {
        errors.extend(all.iter().map(ToString::to_string));
    }
    let deny = DenyList::new(&spec.commands.deny);
    if let Err(all) = &deny {
        errors.extend(all.iter().map(ToString::to_string));
    }
    errors.extend(variables(spec));
    let (Ok(egress), Ok(deny), true) = (egress, deny, errors.is_empty()) else {
        let consent = only_consent_is_missing && errors.len() == 1;
        let reason = if consent { PolicyReason::OpenEgressNotAllowed } else { PolicyReason::InvalidEntries };
        return Err(PolicyErrors { reason, errors });
    };
    let limits = &spec.limits;
    Ok(Compiled {
        name: policy.name_any(),
        generation: policy.metadata.generation.unwrap_or_default(),
        suspended: spec.suspend,
        limits: Limits {
            timeout: limits.timeout.get(),
            start: limits.start.get(),
            output: limits.output.bytes(),
            command: limits.command.bytes(),
            stdin: limits.stdin.bytes(),
            write: limits.write.bytes(),
            read: limits.read.bytes(),
            stop_at_output: spec.output.on_limit == OnLimit::Kill,
            parallel_runs: limits.parallel_runs,
        },
        egress,
        deny,
        set: spec.environment.set.iter().map(|v| (v.name.clone(), v.value.clone())).collect(),
        allow: spec.environment.allow.clone(),
        kill_leftovers: spec.lifecycle.processes_after_run == KillOrKeep::Kill,
        only_anomalies: spec.audit.events == AuditEvents::Anomalies,
        quota: PolicyQuota {
            default: spec.quota.concurrent_runs.default,
            by_tier: spec.quota.concurrent_runs.by_tier.clone(),
            user: spec.quota.runs_per_day.user,
            drive: spec.quota.runs_per_day.drive,
            tenant: spec.quota.runs_per_day.tenant,
        },
        redact: spec.output.redact == Redact::Recognised,
        without_effect: effect::without_effect(spec),
    })
}

/// What is wrong with variables and names.
fn variables(spec: &ExecutionPolicySpec) -> Vec<String> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for variable in &spec.environment.set {
        if let Err(error) = environment::check(&variable.name, &variable.value) {
            errors.push(format!("environment.set: {error}"));
        }
        if !seen.insert(variable.name.as_str()) {
            errors.push(format!("environment.set: {}", EnvironmentError::Twice(variable.name.clone())));
        }
    }
    for name in &spec.environment.allow {
        if let Err(error) = environment::check(name, "") {
            errors.push(format!("environment.allow: {error}"));
        }
    }
    errors
}

#[cfg(test)]
mod tests;
