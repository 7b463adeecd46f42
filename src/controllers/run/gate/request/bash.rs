//! A script: its sizes, its text against the policy, its directory and variables.

use std::borrow::Cow;

use super::{Complaints, decoded};
use crate::controllers::run::plan::Tool;
use api::{reasons::RunReason, run::Bash};
use rules::{combine::Effective, command, path};

/// A script that holds.
pub struct CheckedBash<'a> {
    bash: &'a Bash,
    stdin: Cow<'a, [u8]>,
    directory: String,
    environment: Vec<(String, String)>,
}

impl CheckedBash<'_> {
    /// As it is executed.
    pub fn tool(self) -> Tool {
        let Self { bash, stdin, directory, environment } = self;
        Tool::Bash { command: bash.command.clone(), stdin: stdin.into_owned(), directory, environment }
    }
}

/// Checks a script; nothing where something is wrong with it.
pub fn check<'a>(bash: &'a Bash, effective: &Effective<'_>, complaints: &mut Complaints) -> Option<CheckedBash<'a>> {
    if bash.command.contains('\0') {
        complaints
            .add(RunReason::InvalidSpec, "bash.command holds a NUL character, which bash cannot carry: remove it");
    }
    let limits = &effective.limits;
    complaints.size("bash.command", bash.command.len(), limits.command);
    let stdin = match (&bash.stdin, &bash.stdin_base64) {
        (Some(_), Some(_)) => {
            complaints.add(RunReason::InvalidSpec, "write at most one of bash.stdin, bash.stdinBase64");
            None
        }
        (text, None) => Some(Cow::Borrowed(text.as_deref().unwrap_or_default().as_bytes())),
        (None, Some(base64)) => decoded("bash.stdinBase64", base64, complaints).map(Cow::Owned),
    };
    complaints.size("bash.stdin", stdin.as_deref().map_or(0, <[u8]>::len), limits.stdin);
    // One that is too long is not read: time is spent on what may run.
    let fits = u64::try_from(bash.command.len()).is_ok_and(|length| length <= limits.command);
    let text = command::CommandText::new(Some(bash.command.as_str()).filter(|_| fits).unwrap_or_default());
    for (policy, denial) in effective.denies(&text) {
        complaints.add(RunReason::BlockedCommand, &format!("{denial}, which ExecutionPolicy {policy} denies"));
    }
    if let Some(finding) = text.forbidden_target() {
        complaints.add(RunReason::BlockedCommand, &finding);
    }
    if let Some(why) = text.unreadable() {
        complaints.add(RunReason::BlockedCommand, &why);
    }
    let directory = bash.cwd.as_deref().map_or_else(|| Ok(path::ROOT.to_owned()), path::directory);
    if let Err(error) = &directory {
        complaints.add(error.reason(), &format!("bash.cwd: {error}"));
    }
    let own: Vec<_> = bash.env.iter().map(|v| (v.name.as_str(), v.value.as_str())).collect();
    let environment = effective.environment(&own);
    for error in environment.as_ref().err().into_iter().flatten() {
        complaints.add(RunReason::InvalidEnvironment, &format!("bash.env: {error}"));
    }
    Some(CheckedBash { bash, stdin: stdin?, directory: directory.ok()?, environment: environment.ok()? })
}
