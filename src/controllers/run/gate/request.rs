//! What a Run asks for, against its policies: from the raw spec to a [`ValidatedRun`], once. Pure.
//!
//! Nothing after this reads what the spec asks to be executed.

use std::time::Duration;

use crate::controllers::run::{
    observed::Observed,
    plan::{Tool, ValidatedRun},
};
use api::{reasons::RunReason, run::Bash, values::GoDuration};
use redact::Redactor;
use rules::{combine::Effective, command, limits::Limits, object_size, outcome::Outcome, path};

/// A request that holds, without a copy of its texts: most Runs that get here have still to wait.
pub struct Checked<'a> {
    bash: &'a Bash,
    timeout: Duration,
    directory: String,
    environment: Vec<(String, String)>,
    limits: Limits,
}

impl Checked<'_> {
    /// The request as it is executed.
    pub fn validated(self) -> ValidatedRun {
        let Self { bash, timeout, directory, environment, limits } = self;
        let stdin = bash.stdin.clone().unwrap_or_default();
        ValidatedRun {
            tool: Tool::Bash { command: bash.command.clone(), stdin, directory, environment },
            timeout,
            limits,
        }
    }
}

/// What the spec itself says, against the policy; all complaints at once.
pub fn check<'a>(o: &'a Observed, effective: &Effective<'_>) -> Result<Checked<'a>, Outcome> {
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
        (Ok(timeout), Ok(directory), Ok(environment), None) => {
            Ok(Checked { bash, timeout, directory, environment, limits: effective.limits.clone() })
        }
        (_, _, _, worst) => {
            let reason = worst.map_or(RunReason::InvalidSpec, |(reason, _)| *reason);
            let all: Vec<_> = complaints.iter().map(|(_, message)| message.as_str()).collect();
            // They repeat what was written, and are read by others than who wrote it.
            Err(Outcome::denied(reason, Redactor::default().redact(&all.join("; ")).text))
        }
    }
}
