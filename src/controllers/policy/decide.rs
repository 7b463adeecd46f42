//! What is to be said of a policy. Pure: no client, no clock, no log.

use std::time::Duration;

use api::{conditions::READY, reasons::PolicyReason};

use super::{observed::Observed, plan::Plan, status};
use crate::controllers::driver::Next;

/// Sessions come and go without waking their policy: they are counted now and then, which keeps writes few.
const RECOUNT: Next = Next::After(Duration::from_secs(30));

/// Decides.
pub fn decide(o: &Observed) -> Plan {
    if o.policy.metadata.deletion_timestamp.is_some() {
        return Plan::Nothing(Next::Change);
    }
    let old = o.policy.status.clone().unwrap_or_default();
    let new = status::report(&old, o.policy.metadata.generation, &o.compilation, o.sessions, o.now);
    if old == new {
        return Plan::Nothing(RECOUNT);
    }
    let was_ready = old.conditions.is_true(READY);
    let told = match &o.compilation {
        Err(errors) if was_ready || old.observed_generation != new.observed_generation => {
            Some((errors.reason, errors.to_string()))
        }
        Ok(_) if !was_ready => Some((PolicyReason::Valid, "the policy is in force".to_owned())),
        Ok(_) | Err(_) => None,
    };
    Plan::Report { status: Box::new(new), told, next: RECOUNT }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api::ExecutionPolicy;
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
    use rstest::rstest;

    use super::*;
    use crate::policy::compile::compile;

    const GOOD: &str = "{}";
    const BAD: &str = "{egress: {mode: Allowlist, allow: ['*.com']}}";
    const OPEN: &str = "{egress: {mode: Open}}";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn policy(spec: &str, generation: i64) -> ExecutionPolicy {
        let mut policy = ExecutionPolicy::new("p", serde_saphyr::from_str(spec).unwrap());
        policy.metadata.generation = Some(generation);
        policy
    }

    fn observed(policy: ExecutionPolicy) -> Observed {
        let compilation = compile(&policy, false).map(Arc::new);
        Observed { policy: Arc::new(policy), compilation, sessions: 3, now: at(100) }
    }

    /// The policy as it is after what was said of `before` was written.
    fn after(before: &str, spec: &str, generation: i64) -> Observed {
        let Plan::Report { status, .. } = decide(&observed(policy(before, 1))) else { panic!("nothing said") };
        let mut policy = policy(spec, generation);
        policy.status = Some(*status);
        observed(policy)
    }

    fn told(o: &Observed) -> Option<PolicyReason> {
        match decide(o) {
            Plan::Nothing(_) => panic!("nothing is said"),
            Plan::Report { told, .. } => told.map(|(reason, _)| reason),
        }
    }

    #[rstest]
    #[case::new_and_good(observed(policy(GOOD, 1)), Some(PolicyReason::Valid))]
    #[case::new_and_bad(observed(policy(BAD, 1)), Some(PolicyReason::InvalidEntries))]
    #[case::new_and_open(observed(policy(OPEN, 1)), Some(PolicyReason::OpenEgressNotAllowed))]
    #[case::mended(after(BAD, GOOD, 2), Some(PolicyReason::Valid))]
    #[case::broken(after(GOOD, BAD, 2), Some(PolicyReason::InvalidEntries))]
    #[case::still_bad_but_edited(after(BAD, OPEN, 2), Some(PolicyReason::OpenEgressNotAllowed))]
    #[case::still_good_but_edited(after(GOOD, "{limits: {timeout: 1s}}", 2), None)]
    #[case::other_sessions(Observed { sessions: 4, ..after(GOOD, GOOD, 1) }, None)]
    #[case::other_sessions_of_a_bad_one(Observed { sessions: 4, ..after(BAD, BAD, 1) }, None)]
    fn a_transition_is_told_once(#[case] o: Observed, #[case] expected: Option<PolicyReason>) {
        assert_eq!(told(&o), expected);
    }

    #[test]
    fn what_was_said_is_not_said_again_and_a_deleted_policy_is_left_alone() {
        assert_eq!(decide(&after(GOOD, GOOD, 1)), Plan::Nothing(RECOUNT));
        assert_eq!(decide(&Observed { now: at(500), ..after(BAD, BAD, 1) }), Plan::Nothing(RECOUNT));
        let mut deleted = policy(GOOD, 1);
        deleted.metadata.deletion_timestamp = Some(Time(at(1)));
        assert_eq!(decide(&observed(deleted)), Plan::Nothing(Next::Change));
    }

    #[test]
    fn the_rules_that_are_sent_stand_in_the_status_of_a_good_policy_only() {
        let status = |o: &Observed| match decide(o) {
            Plan::Report { status, .. } => *status,
            Plan::Nothing(_) => panic!("nothing is said"),
        };
        let good = status(&observed(policy(GOOD, 7)));
        let egress = good.effective_egress.unwrap();
        assert_eq!((egress.rules.len(), egress.rules[0].action.as_deref()), (1, Some("deny")));
        assert_eq!((good.observed_generation, good.sessions), (Some(7), Some(3)));
        assert!(status(&after(GOOD, BAD, 2)).effective_egress.is_none(), "old rules of a bad one are not in force");
    }
}
