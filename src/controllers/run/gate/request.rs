//! What a Run asks for, against its policies: from the raw spec to a [`ValidatedRun`], once. Pure.
//!
//! Nothing after this reads what the spec asks to be executed.

mod bash;
mod file;

use std::time::Duration;

use crate::controllers::run::{observed::Observed, plan::ValidatedRun};
use api::{RunSpec, reasons::RunReason, values::GoDuration};
use redact::Redactor;
use rules::{combine::Effective, limits::Limits, object_size, outcome::Outcome};

/// A request that holds, without a copy of its texts: most Runs that get here have still to wait.
pub struct Checked<'a> {
    tool: CheckedTool<'a>,
    timeout: Duration,
    limits: Limits,
}

/// The tool of a request that holds.
enum CheckedTool<'a> {
    Bash(bash::CheckedBash<'a>),
    File(file::CheckedFile<'a>),
}

impl Checked<'_> {
    /// The request as it is executed.
    pub fn validated(self) -> ValidatedRun {
        let Self { tool, timeout, limits } = self;
        let tool = match tool {
            CheckedTool::Bash(bash) => bash.tool(),
            CheckedTool::File(file) => file.tool(),
        };
        ValidatedRun { tool, timeout, limits }
    }
}

/// What is wrong with a request.
#[derive(Default)]
struct Complaints(Vec<(RunReason, String)>);

impl Complaints {
    fn add(&mut self, reason: RunReason, message: &(impl ToString + ?Sized)) {
        self.0.push((reason, message.to_string()));
    }

    /// Complains where a field is longer than its limit.
    fn size(&mut self, field: &'static str, size: usize, limit: u64) {
        if let Some(error) = Limits::check_size(field, u64::try_from(size).unwrap_or(u64::MAX), limit) {
            self.add(RunReason::LimitExceeded, &error);
        }
    }

    fn outcome(self) -> Outcome {
        // A blocked command or an escaping path is the reason even if the Run has other errors, so that the audit trail shows it.
        let attempt =
            |(reason, _): &&(RunReason, String)| matches!(reason, RunReason::BlockedCommand | RunReason::PathEscape);
        let worst = self.0.iter().find(attempt).or_else(|| self.0.first());
        let reason = worst.map_or(RunReason::InvalidSpec, |(reason, _)| *reason);
        let all: Vec<_> = self.0.iter().map(|(_, message)| message.as_str()).collect();
        // They repeat what was written, and are read by others than who wrote it.
        Outcome::denied(reason, Redactor::default().redact(&all.join("; ")).text)
    }
}

/// What the spec itself says, against the policy; all complaints at once.
pub fn check<'a>(o: &'a Observed, effective: &Effective<'_>) -> Result<Checked<'a>, Outcome> {
    let spec = &o.run.spec;
    let mut complaints = Complaints::default();
    let tool = tool(spec, effective, &mut complaints);
    let timeout = effective.limits.timeout_for(spec.timeout.as_ref().map(GoDuration::get));
    if let Err(error) = &timeout {
        complaints.add(RunReason::LimitExceeded, error);
    }
    // A Run that cannot be written as JSON was never read as such.
    let size = object_size::stored_size(o.run.as_ref()).unwrap_or(usize::MAX);
    if !object_size::has_room_for_status(size) {
        let message = format!(
            "the Run has {size} bytes, so its output could not be stored: make the command, stdin or content smaller"
        );
        complaints.add(RunReason::TooLarge, &message);
    }
    match (tool, timeout) {
        (Some(tool), Ok(timeout)) if complaints.0.is_empty() => {
            Ok(Checked { tool, timeout, limits: effective.limits.clone() })
        }
        _ => Err(complaints.outcome()),
    }
}

fn tool<'a>(spec: &'a RunSpec, effective: &Effective<'_>, complaints: &mut Complaints) -> Option<CheckedTool<'a>> {
    match (&spec.bash, &spec.write_file, &spec.read_file, &spec.edit_file) {
        (Some(bash), None, None, None) => bash::check(bash, effective, complaints).map(CheckedTool::Bash),
        (None, Some(write), None, None) => file::write(write, &effective.limits, complaints).map(CheckedTool::File),
        (None, None, Some(read), None) => file::read(read, &effective.limits, complaints).map(CheckedTool::File),
        (None, None, None, Some(edit)) => file::edit(edit, &effective.limits, complaints).map(CheckedTool::File),
        // The schema says the same; a Run that was stored under another one is refused all the same.
        _ => {
            complaints.add(RunReason::InvalidSpec, "write exactly one of bash, writeFile, readFile, editFile");
            None
        }
    }
}

/// The bytes of base64 with padding (RFC 4648).
fn decoded(field: &str, base64: &str, complaints: &mut Complaints) -> Option<Vec<u8>> {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    match STANDARD.decode(base64) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            complaints.add(RunReason::InvalidSpec, &format!("{field} is no base64 with padding (RFC 4648): {error}"));
            None
        }
    }
}
