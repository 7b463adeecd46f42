//! The policies in force for a Run. Pure.

use crate::{
    controllers::run::observed::Observed,
    policy::{compile::Compiled, view::PolicyView},
};
use api::reasons::RunReason;
use rules::{
    combine::{self, Effective},
    outcome::Outcome,
};

/// The session's policy, and what holds for the Run under it and its own.
pub struct InForce<'a> {
    /// The policy that is recorded: the session's.
    pub policy: &'a Compiled,
    /// What holds for the Run.
    pub effective: Effective<'a>,
}

/// Denies a Run whose policies are missing, not ready, suspended, or do not go together.
pub fn check(o: &Observed) -> Result<InForce<'_>, Outcome> {
    let policy = in_force(&o.session_policy)?;
    let run = o.run_policy.as_ref().map(in_force).transpose()?;
    let effective = combine::combine(policy.terms(), run.map(Compiled::terms), None).map_err(|errors| {
        let all: Vec<_> = errors.iter().map(ToString::to_string).collect();
        Outcome::denied(RunReason::PolicyNotApplicable, all.join("; "))
    })?;
    Ok(InForce { policy, effective })
}

fn in_force(policy: &PolicyView) -> Result<&Compiled, Outcome> {
    match policy {
        PolicyView::NotFound(name) => {
            Err(Outcome::denied(RunReason::PolicyNotFound, format!("there is no ExecutionPolicy {name}")))
        }
        PolicyView::NotReady(name, _) => {
            let message = format!("ExecutionPolicy {name} is not ready; its conditions say why");
            Err(Outcome::denied(RunReason::PolicyNotReady, message))
        }
        PolicyView::Ready(compiled) if compiled.suspended => {
            let message = format!("ExecutionPolicy {} is suspended", compiled.name);
            Err(Outcome::denied(RunReason::PolicySuspended, message))
        }
        PolicyView::Ready(compiled) => Ok(compiled),
    }
}
