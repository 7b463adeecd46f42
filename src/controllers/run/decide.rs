//! What a Run needs next. Pure: no client, no clock, no log.
//!
//! The gate, cheapest first; each stage can only refuse. Decides from the beginning each time, never from why it was
//! woken.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{
    super::{context::PolicyView, driver::Next, policy::compile::Compiled, session_view::SessionView},
    executions::{Finished, View},
    gather::Observed,
    prove::{self, Proof},
};
use crate::access::switch::Switch;
use api::{
    RunStatus, SandboxSession,
    names::{HOLD_ANNOTATION, RUN_FINALIZER},
    reasons::{RunPhase, RunReason, SessionReason},
    values::GoDuration,
};
use redact::Redactor;
use rules::{
    combine::{self, Effective},
    command,
    egress::Ruleset,
    limits::Limits,
    object_size,
    outcome::{Outcome, Stop},
    path,
};

/// The decision.
#[derive(Debug, Clone)]
pub enum Plan {
    /// Nothing to do until something changes, or this time passed.
    Nothing(Next),
    /// Wait, and say for what.
    Wait(Wait),
    /// It is over without a command.
    Finish(Outcome),
    /// Make the session that it wants.
    CreateSession,
    /// Start, once the live Sprite is proved.
    Start(Box<Start>),
    /// It was started by somebody who is gone: find out.
    Adopt(Option<Stop>),
    /// Have its execution stop.
    Stop(Stop),
    /// Write how it ended.
    Conclude(Box<Finished>),
    /// Delete the session that it had of its own.
    DeleteSession,
    /// Its time to live is over.
    Expire,
    /// Let go of a deleted Run.
    Release,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// For people; the same as long as the cause is the same.
    pub cause: String,
    /// When it ends at the latest.
    pub until: Timestamp,
    /// When to look again.
    pub next: Next,
}

/// All that a start needs.
#[derive(Debug, Clone)]
pub struct Start {
    /// The session.
    pub session: Arc<SandboxSession>,
    /// What it has on record.
    pub proof: Proof,
    /// Whether recognisable secrets are masked in what is stored.
    pub redact: bool,
    /// The rules that the live Sprite must have.
    pub egress: Ruleset,
    /// The policy that is recorded: the session's.
    pub policy: (String, i64),
    /// Limits of this Run.
    pub limits: Limits,
    /// Its run time.
    pub timeout: Duration,
    /// Its working directory, absolute.
    pub directory: String,
    /// Its variables.
    pub environment: Vec<(String, String)>,
    /// Whether what it leaves behind is killed.
    pub kill_leftovers: bool,
    /// The session's files were lost before it.
    pub data_lost: Option<String>,
}

impl Plan {
    /// Whether it does what cannot be taken back on the word of a cache.
    pub const fn rests_on_cache(&self) -> bool {
        match self {
            Self::Finish(_) | Self::Start(_) | Self::CreateSession => true,
            Self::Nothing(_)
            | Self::Wait(_)
            | Self::Stop(_)
            | Self::Adopt(_)
            | Self::Conclude(_)
            | Self::DeleteSession
            | Self::Expire
            | Self::Release => false,
        }
    }

    /// A word for the log.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Nothing(_) => "Nothing",
            Self::Wait(_) => "Wait",
            Self::Finish(_) => "Finish",
            Self::CreateSession => "CreateSession",
            Self::Start(_) => "Start",
            Self::Adopt(_) => "Adopt",
            Self::Stop(_) => "Stop",
            Self::Conclude(_) => "Conclude",
            Self::DeleteSession => "DeleteSession",
            Self::Expire => "Expire",
            Self::Release => "Release",
        }
    }
}

/// Decides.
pub fn decide(o: &Observed) -> Plan {
    let status = o.run.status.clone().unwrap_or_default();
    match status.phase {
        Some(phase) if phase.is_terminal() => after_the_end(o, &status),
        Some(RunPhase::Running) => running(o),
        // A status that was set back, by hand perhaps, does not undo what runs.
        Some(_) | None if o.execution.is_some() => running(o),
        Some(_) | None => gate(o),
    }
}

/// Over: nothing may change any more but the object itself.
fn after_the_end(o: &Observed, status: &RunStatus) -> Plan {
    if matches!(o.execution, Some(View::Running(None))) {
        // An end that somebody else wrote, by hand perhaps: what runs must not go on unseen.
        return Plan::Stop(Stop::Deleted);
    }
    if let SessionView::Present(session) = &o.session
        && session.metadata.deletion_timestamp.is_none()
        && owns(o, session)
    {
        return Plan::DeleteSession;
    }
    if o.run.metadata.deletion_timestamp.is_some() {
        let held = o.run.finalizers().iter().any(|f| f == RUN_FINALIZER);
        return if held { Plan::Release } else { Plan::Nothing(Next::Change) };
    }
    let lives = o.run.spec.ttl_after_finished.as_ref().map_or(Duration::from_hours(24), GoDuration::get);
    let finished = status.conditions.get("Finished").map_or(o.now, |c| c.last_transition_time.0);
    let age = Duration::from_secs(o.now.as_second().saturating_sub(finished.as_second()).max(0).unsigned_abs());
    match lives.checked_sub(age) {
        Some(left) if !left.is_zero() => Plan::Nothing(Next::After(left)),
        Some(_) | None => Plan::Expire,
    }
}

/// Whether a session is this Run's own.
fn owns(o: &Observed, session: &SandboxSession) -> bool {
    session.owner_references().iter().any(|owner| owner.kind == "Run" && owner.uid == o.uid)
}

/// Its command was started, or may have been.
fn running(o: &Observed) -> Plan {
    let stop = stop(o);
    match (&o.execution, stop) {
        (None, stop) => Plan::Adopt(stop),
        (Some(View::Done(finished)), _) => Plan::Conclude(finished.clone()),
        (Some(View::Running(None)), Some(stop)) => Plan::Stop(stop),
        (Some(View::Running(_)), _) => Plan::Nothing(Next::Change),
    }
}

/// Why a running command must stop.
fn stop(o: &Observed) -> Option<Stop> {
    if o.run.metadata.deletion_timestamp.is_some() {
        return Some(Stop::Deleted);
    }
    if o.run.spec.cancel {
        return Some(Stop::Cancel);
    }
    if o.switch == Switch::Off {
        return Some(Stop::KillSwitch);
    }
    // A namespace that is being deleted deletes its Runs itself.
    if !o.tenant.enabled && !o.tenant.terminating {
        return Some(Stop::TenantDisabled);
    }
    if let SessionView::Present(session) = &o.session {
        if session.metadata.deletion_timestamp.is_some() {
            return Some(Stop::SessionDeleted);
        }
        if session.spec.suspend || session.annotations().contains_key(HOLD_ANNOTATION) {
            return Some(Stop::Suspended);
        }
    }
    let suspended = |policy: &PolicyView| matches!(policy, PolicyView::Ready(compiled) if compiled.suspended);
    if suspended(&o.session_policy) || o.run_policy.as_ref().is_some_and(suspended) {
        return Some(Stop::PolicySuspended);
    }
    None
}

fn denied(reason: RunReason, message: impl Into<String>) -> Plan {
    Plan::Finish(Outcome::denied(reason, message))
}

/// From nothing to the start.
fn gate(o: &Observed) -> Plan {
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
    let proof = match prove::recorded(&session, effective.egress) {
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
    for (policy, expression) in effective.denies(readable) {
        complain(
            RunReason::BlockedCommand,
            format!("the command matches `{expression}`, which ExecutionPolicy {policy} denies"),
        );
    }
    if let Some(finding) = command::forbidden_target(readable) {
        complain(RunReason::BlockedCommand, finding.to_string());
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
    // An attempt is told as one, whatever else is wrong: a mistake beside it must not hide it from the audit.
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

enum Acquired {
    Session(Arc<SandboxSession>),
    Create,
    Over(Outcome),
    Wait(String),
}

/// The session that the Run wants, if it may have it.
fn session(o: &Observed) -> Acquired {
    let selector = &o.run.spec.session;
    let by_name = selector.name.is_some();
    let name = &o.session_name;
    let session = match &o.session {
        SessionView::Absent if by_name => {
            return Acquired::Wait(format!("SessionNotReady: there is no SandboxSession {name} yet"));
        }
        SessionView::Absent => return Acquired::Create,
        SessionView::Unreadable(_) => {
            return Acquired::Wait(format!("SessionNotReady: SandboxSession {name} cannot be read"));
        }
        SessionView::Present(session) => session,
    };
    let mismatch = |message: String| Acquired::Over(Outcome::denied(RunReason::SessionMismatch, message));
    let of_a_run = session.owner_references().iter().any(|owner| owner.kind == "Run");
    if of_a_run && !owns(o, session) {
        return mismatch(format!("SandboxSession {name} belongs to another Run: name one of your own"));
    }
    if let Some(drive) = &selector.drive {
        let conversation = selector.conversation.as_ref().unwrap_or(&o.uid);
        if session.spec.drive != *drive || session.spec.conversation != *conversation {
            return mismatch(format!(
                "SandboxSession {name} is for another drive or conversation: delete it, or use it by name"
            ));
        }
    }
    if session.metadata.deletion_timestamp.is_some() {
        return if selector.conversation.is_some() {
            Acquired::Wait(format!("SessionNotReady: SandboxSession {name} is being deleted; another will be made"))
        } else {
            Acquired::Over(Outcome::session_deleted())
        };
    }
    if session.annotations().contains_key(HOLD_ANNOTATION) {
        return Acquired::Over(Outcome::denied(
            RunReason::SessionHeld,
            format!("an administrator holds SandboxSession {name}: annotation sprite-operator.io/hold"),
        ));
    }
    if session.spec.suspend {
        return Acquired::Over(Outcome::denied(
            RunReason::SessionSuspended,
            format!("SandboxSession {name} is suspended"),
        ));
    }
    Acquired::Session(Arc::clone(session))
}

/// Why a session cannot be used now.
fn not_ready(o: &Observed, session: &SandboxSession) -> Option<String> {
    let conditions = session.status.as_ref().map(|s| &s.conditions);
    let ready = conditions.and_then(|c| c.get("Ready"));
    let name = &o.session_name;
    match ready {
        Some(condition) if condition.status == "True" => None,
        Some(condition) if condition.reason == SessionReason::PlatformCapacity.as_str() => {
            Some("PlatformCapacity: the platform account is full".to_owned())
        }
        Some(condition) => {
            // Steps on the way are one cause: a write is made once a cause.
            let on_the_way = [SessionReason::Provisioning, SessionReason::Provisioned].map(SessionReason::as_str);
            let detail = if on_the_way.contains(&condition.reason.as_str()) {
                String::new()
            } else {
                format!(" ({})", condition.reason)
            };
            Some(format!("SessionNotReady: SandboxSession {name} is not ready{detail}"))
        }
        None => Some(format!("SessionNotReady: SandboxSession {name} is not ready")),
    }
}

#[cfg(test)]
mod tests;
