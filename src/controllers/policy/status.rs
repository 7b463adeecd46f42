//! The status of an `ExecutionPolicy`. Pure.

use k8s_openapi::jiff::Timestamp;

use crate::{lockdown::egress_rule, policy::cache::Compilation};
use api::{
    conditions::{ConditionStatus, ConditionUpdate, READY, RECONCILING, STALLED},
    execution_policy::{EffectiveEgress, ExecutionPolicyStatus},
    reasons::PolicyReason,
};

/// Names at most so many fields.
const NAMED: usize = 5;

/// What is said of a policy in force; what it asks for in vain is no secret.
fn in_force(without_effect: &[String]) -> String {
    let count = without_effect.len();
    if count == 0 {
        return "the policy is in force".to_owned();
    }
    let named = without_effect.get(..NAMED).unwrap_or(without_effect).join(", ");
    let more = if count > NAMED { format!(" and {} more", count - NAMED) } else { String::new() };
    let fields = if count == 1 { "1 field that it sets has" } else { &format!("{count} fields that it sets have") };
    format!("the policy is in force; {fields} no effect in this version: {named}{more}")
}

pub(super) fn report(
    old: &ExecutionPolicyStatus,
    generation: Option<i64>,
    compilation: &Compilation,
    sessions: u32,
    now: Timestamp,
) -> ExecutionPolicyStatus {
    let settled = |reason| ConditionUpdate::new(RECONCILING, false, reason);
    let (egress, signals) = match compilation {
        Ok(compiled) => {
            let egress = EffectiveEgress {
                rules: compiled.egress.rules().iter().map(egress_rule::shown).collect(),
                hash: compiled.egress.hash().to_owned(),
            };
            let valid = PolicyReason::Valid.as_str();
            let ready = ConditionUpdate::new(READY, true, valid).with_message(in_force(&compiled.without_effect));
            (Some(egress), vec![ready, settled(valid), ConditionUpdate::new(STALLED, false, valid)])
        }
        Err(errors) => {
            let signal = |kind, truth: ConditionStatus| {
                ConditionUpdate::new(kind, truth, errors.reason.as_str()).with_message(errors.to_string())
            };
            let reason = errors.reason.as_str();
            (None, vec![signal(READY, ConditionStatus::False), settled(reason), signal(STALLED, ConditionStatus::True)])
        }
    };
    ExecutionPolicyStatus {
        observed_generation: generation,
        effective_egress: egress,
        sessions: Some(sessions),
        conditions: old.conditions.merged(signals, generation, now),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_without_effect_are_counted_and_the_first_are_named() {
        assert_eq!(in_force(&[]), "the policy is in force");
        let fields: Vec<_> = ["quota.sessions", "a", "b", "c", "d", "e", "f"].map(str::to_owned).into();
        let message = in_force(&fields[..1]);
        assert_eq!(
            message,
            "the policy is in force; 1 field that it sets has no effect in this version: quota.sessions"
        );
        let message = in_force(&fields);
        assert!(
            message.ends_with(
                "7 fields that it sets have no effect in this version: quota.sessions, a, b, c, d and 2 more"
            )
        );
    }
}
