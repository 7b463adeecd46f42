//! The gate of a Run, cheapest check first. Each stage can only refuse. Pure.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::{
    acquire::{Acquired, not_ready, session},
    observed::Observed,
    plan::{Plan, Start, Wait},
};
use crate::{
    access::switch::Switch,
    controllers::driver::Next,
    lockdown::verify,
    policy::{compile::Compiled, view::PolicyView},
};
use api::{reasons::RunReason, values::GoDuration};
use redact::Redactor;
use rules::{
    combine::{self, Effective},
    command, object_size,
    outcome::{Outcome, Stop},
    path,
};

fn denied(reason: RunReason, message: impl Into<String>) -> Plan {
    Plan::Finish(Outcome::denied(reason, message))
}

/// From nothing to the start.
pub fn gate(o: &Observed) -> Plan {
    if o.run.metadata.deletion_timestamp.is_some() {
        return Plan::Finish(Outcome::stopped_before_start(Stop::Deleted));
    }
    if o.run.spec.cancel {
        return Plan::Finish(Outcome::stopped_before_start(Stop::Cancel));
    }
    if o.switch == Switch::Off {
        let message = "the cluster-wide switch is off: ConfigMap sprite-operator-switch in the operator's namespace";
        return denied(RunReason::KillSwitchOff, message);
    }
    if !o.tenant.enabled {
        let message = "the namespace is not opted in: label it sprite-operator.io/code-execution=enabled";
        return denied(RunReason::TenantNotEnabled, message);
    }
    let (policy, effective) = match policies(o) {
        Ok(policies) => policies,
        Err(outcome) => return Plan::Finish(outcome),
    };
    let limits = effective.limits.clone();
    let checked = match check(o, &effective) {
        Ok(checked) => checked,
        Err(outcome) => return Plan::Finish(outcome),
    };
    let created = o.run.metadata.creation_timestamp.as_ref().map_or(o.now, |t| t.0);
    let until = created.checked_add(limits.start).unwrap_or(Timestamp::MAX);
    let wait = |cause: String, next: Next| {
        if o.now >= until {
            return Plan::Finish(Outcome::start_deadline(&cause));
        }
        let left = Duration::try_from(until.duration_since(o.now)).unwrap_or_default();
        let next = match next {
            Next::After(delay) => Next::After(delay.min(left)),
            Next::Change => Next::After(left),
        };
        Plan::Wait(Wait { cause, until, next })
    };
    let look_soon = Next::After(Duration::from_secs(2));
    if o.switch == Switch::Frozen {
        return wait("SwitchFrozen: the cluster-wide switch cannot be read".to_owned(), look_soon);
    }
    let session = match session(o) {
        Acquired::Session(session) => session,
        Acquired::Create if o.now >= until => {
            return wait("SessionNotReady: none was made in time".to_owned(), look_soon);
        }
        Acquired::Create => return Plan::CreateSession,
        Acquired::Over(outcome) => return Plan::Finish(outcome),
        Acquired::Wait(cause) => return wait(cause, Next::Change),
    };
    if let Some(cause) = not_ready(o, &session) {
        return wait(cause, Next::Change);
    }
    let proof = match verify::recorded(&session, effective.egress) {
        Ok(proof) => proof,
        Err(why) => return wait(format!("SessionNotReady: SandboxSession {}: {why}", o.session_name), Next::Change),
    };
    if o.in_session >= usize::try_from(limits.parallel_runs).unwrap_or(usize::MAX) {
        let cause = format!("Queued: SandboxSession {} has as many Runs as its policy allows", o.session_name);
        return wait(cause, Next::Change);
    }
    if o.now >= until {
        return Plan::Finish(Outcome::start_deadline("it was not seen in time"));
    }
    let lost =
        session.status.as_ref().and_then(|s| s.conditions.get("DataLost").filter(|c| c.status == "True").cloned());
    Plan::Start(Box::new(Start {
        proof,
        egress: effective.egress.clone(),
        redact: effective.redact,
        policy: (policy.name.clone(), policy.generation),
        kill_leftovers: policy.kill_leftovers,
        timeout: checked.timeout,
        directory: checked.directory,
        environment: checked.environment,
        data_lost: lost.map(|c| c.message),
        limits,
        session,
    }))
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

/// What holds for the Run, and the session's policy.
fn policies(o: &Observed) -> Result<(&Compiled, Effective<'_>), Outcome> {
    let session = in_force(&o.session_policy)?;
    let run = o.run_policy.as_ref().map(in_force).transpose()?;
    let effective = combine::combine(session.terms(), run.map(Compiled::terms), None).map_err(|errors| {
        let all: Vec<_> = errors.iter().map(ToString::to_string).collect();
        Outcome::denied(RunReason::PolicyNotApplicable, all.join("; "))
    })?;
    Ok((session, effective))
}

struct Checked {
    timeout: Duration,
    directory: String,
    environment: Vec<(String, String)>,
}

/// What the spec itself says, against the policy; all complaints at once.
fn check(o: &Observed, effective: &Effective<'_>) -> Result<Checked, Outcome> {
    let spec = &o.run.spec;
    let Some(bash) = &spec.bash else {
        let message = "this version runs bash only: write spec.bash in place of a file operation";
        return Err(Outcome::denied(RunReason::InvalidSpec, message));
    };
    let mut complaints: Vec<(RunReason, String)> = Vec::new();
    let mut complain = |reason, message: String| complaints.push((reason, message));
    if bash.command.contains('\0') {
        complain(
            RunReason::InvalidSpec,
            "bash.command holds a NUL character, which bash cannot carry: remove it".to_owned(),
        );
    }
    let size = |text: &str| u64::try_from(text.len()).unwrap_or(u64::MAX);
    let length = size(&bash.command);
    for error in effective.limits.check_sizes(length, bash.stdin.as_deref().map_or(0, size)) {
        complain(RunReason::LimitExceeded, error.to_string());
    }
    let timeout = effective.limits.timeout_for(spec.timeout.as_ref().map(GoDuration::get));
    if let Err(error) = &timeout {
        complain(RunReason::LimitExceeded, error.to_string());
    }
    // A Run that cannot be written as JSON was never read as such.
    let size = object_size::stored_size(o.run.as_ref()).unwrap_or(usize::MAX);
    if !object_size::has_room_for_status(size) {
        let message =
            format!("the Run has {size} bytes, so its output could not be stored: make command or stdin smaller");
        complain(RunReason::TooLarge, message);
    }
    // One that is too long is not read: time is spent on what may run.
    let readable = Some(bash.command.as_str()).filter(|_| length <= effective.limits.command).unwrap_or_default();
    let text = command::CommandText::new(readable);
    for (policy, denial) in effective.denies(&text) {
        complain(RunReason::BlockedCommand, format!("{denial}, which ExecutionPolicy {policy} denies"));
    }
    if let Some(finding) = text.forbidden_target() {
        complain(RunReason::BlockedCommand, finding.to_string());
    }
    if let Some(why) = text.unreadable() {
        complain(RunReason::BlockedCommand, why.to_owned());
    }
    let directory = bash.cwd.as_deref().map_or_else(|| Ok(path::ROOT.to_owned()), path::directory);
    if let Err(error) = &directory {
        complain(error.reason(), format!("bash.cwd: {error}"));
    }
    let own: Vec<_> = bash.env.iter().map(|v| (v.name.as_str(), v.value.as_str())).collect();
    let environment = effective.environment(&own);
    for error in environment.as_ref().err().into_iter().flatten() {
        complain(RunReason::InvalidEnvironment, format!("bash.env: {error}"));
    }
    // A blocked command or an escaping path is the reason even if the Run has other errors, so that the audit trail shows it.
    let attempt =
        |(reason, _): &&(RunReason, String)| matches!(reason, RunReason::BlockedCommand | RunReason::PathEscape);
    let worst = complaints.iter().find(attempt).or_else(|| complaints.first());
    match (timeout, directory, environment, worst) {
        (Ok(timeout), Ok(directory), Ok(environment), None) => Ok(Checked { timeout, directory, environment }),
        (_, _, _, worst) => {
            let reason = worst.map_or(RunReason::InvalidSpec, |(reason, _)| *reason);
            let all: Vec<_> = complaints.iter().map(|(_, message)| message.as_str()).collect();
            // They repeat what was written, and are read by others than who wrote it.
            Err(Outcome::denied(reason, Redactor::default().redact(&all.join("; ")).text))
        }
    }
}
