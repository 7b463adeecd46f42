//! The status of an `ExecutionPolicy`. Pure.

use k8s_openapi::jiff::Timestamp;

use crate::policy::cache::Compilation;
use api::{
    conditions::{ConditionStatus, ConditionUpdate},
    execution_policy::{EffectiveEgress, EgressRule, ExecutionPolicyStatus},
    reasons::PolicyReason,
};

pub(super) fn report(
    old: &ExecutionPolicyStatus,
    generation: Option<i64>,
    compilation: &Compilation,
    sessions: u32,
    now: Timestamp,
) -> ExecutionPolicyStatus {
    let settled = ConditionUpdate::new("Reconciling", false, "Settled");
    let (egress, signals) = match compilation {
        Ok(compiled) => {
            let rule = |rule: &rules::egress::Rule| EgressRule {
                domain: rule.domain.clone(),
                action: rule.action.clone(),
                include: rule.include.clone(),
            };
            let egress = EffectiveEgress {
                rules: compiled.egress.rules().iter().map(rule).collect(),
                hash: compiled.egress.hash().to_owned(),
            };
            let valid = PolicyReason::Valid.as_str();
            let ready = ConditionUpdate::new("Ready", true, valid).with_message("the policy is in force");
            (Some(egress), vec![ready, settled, ConditionUpdate::new("Stalled", false, valid)])
        }
        Err(errors) => {
            let signal = |kind, truth: ConditionStatus| {
                ConditionUpdate::new(kind, truth, errors.reason.as_str()).with_message(errors.to_string())
            };
            (None, vec![signal("Ready", ConditionStatus::False), settled, signal("Stalled", ConditionStatus::True)])
        }
    };
    ExecutionPolicyStatus {
        observed_generation: generation,
        effective_egress: egress,
        sessions: Some(sessions),
        conditions: old.conditions.merged(signals, generation, now),
    }
}
