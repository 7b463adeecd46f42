//! A Run's report as a line of JSON or a block for people. Must not judge.

use std::io::{self, Write};

use serde_json::{Value, json};

use super::report::RunReport;
use crate::controllers::run::{HeldTool, Holds};
use crate::explain::print::{Format, table, visible};
use api::{execution_policy::OnLimit, values::GoDuration};

/// What only a cluster knows.
const OPEN: [&str; 8] = [
    "the cluster-wide switch",
    "the opt-in of the namespace",
    "identity: who creates it",
    "authorization: what actor and agent may do",
    "quota and slots",
    "the session: whether it exists, is ready, held, suspended or of another drive",
    "the proof of its Sprite",
    "what the API server adds to the object (kubectl apply: a copy of it), which counts for TooLarge",
];

pub(super) fn report(output: &mut impl Write, report: &RunReport, format: Format) -> io::Result<()> {
    match format {
        Format::Json => writeln!(output, "{}", line(report)),
        Format::Table => block(output, report),
    }
}

/// What is told once for all Runs.
pub(super) fn open(output: &mut impl Write) -> io::Result<()> {
    writeln!(output, "\nnot judged without a cluster: {}", OPEN.join("; "))
}

fn line(report: &RunReport) -> Value {
    let RunReport { name, namespace, complaints, of_policies, outcome, holds, policies, notes } = report;
    let outcome = outcome.as_ref();
    json!({
        "name": name, "namespace": namespace, "admitted": report.is_admitted(), "policies": policies,
        "phase": outcome.map(|outcome| outcome.phase), "reason": outcome.map(|outcome| outcome.reason),
        "message": outcome.map(|outcome| &outcome.message), "complaints": complaints, "policyComplaints": of_policies,
        "holds": holds.as_ref().map(terms), "notes": notes, "notJudged": OPEN,
    })
}

fn terms(holds: &Holds) -> Value {
    let Holds { session, tool, timeout, limits, output, redact } = holds;
    let tool = match tool {
        HeldTool::Bash { directory, environment } => {
            let on_limit = if limits.stop_at_output { OnLimit::Kill } else { OnLimit::Truncate };
            json!({"bash": {"cwd": directory, "environment": environment, "onLimit": on_limit}})
        }
        HeldTool::WriteFile { path } => json!({"writeFile": {"path": path}}),
        HeldTool::ReadFile { path, offset, length } => {
            json!({"readFile": {"path": path, "offset": offset, "length": length}})
        }
        HeldTool::EditFile { path } => json!({"editFile": {"path": path}}),
    };
    json!({
        "session": session, "tool": tool, "timeout": GoDuration::from(*timeout), "start": GoDuration::from(limits.start),
        "outputLimit": output, "redact": redact,
    })
}

fn block(output: &mut impl Write, report: &RunReport) -> io::Result<()> {
    let RunReport { name, namespace, complaints, of_policies, outcome, holds, policies, notes } = report;
    let name = name.as_deref().unwrap_or("(to be named by the API server)");
    let name = match namespace {
        Some(namespace) => visible(&format!("{namespace}/{name}")),
        None => visible(name),
    };
    let verdict = match outcome {
        _ if !complaints.is_empty() => "REFUSED, the manifest is not valid".to_owned(),
        Some(outcome) => format!("{} {}", outcome.phase, outcome.reason),
        None if report.is_admitted() => "admitted".to_owned(),
        None => "NOT JUDGED".to_owned(),
    };
    writeln!(output, "run {name}: {verdict}")?;
    for complaint in complaints {
        writeln!(output, "  - {}", visible(complaint))?;
    }
    if let Some(outcome) = outcome {
        let gate = if complaints.is_empty() { String::new() } else { format!("the gate, too: {}: ", outcome.reason) };
        writeln!(output, "  - {gate}{}", visible(&outcome.message))?;
    }
    for complaint in of_policies {
        writeln!(output, "  - {}", visible(complaint))?;
    }
    for note in notes {
        writeln!(output, "  note: {}", visible(note))?;
    }
    if let Some(holds) = holds {
        table(output, &rows(holds, policies))?;
    }
    Ok(())
}

fn rows(holds: &Holds, policies: &[String]) -> Vec<[String; 2]> {
    let Holds { session, tool, timeout, limits, output, redact } = holds;
    let span = |span| GoDuration::from(span).to_string();
    let policies = match policies {
        [] => "the defaults of the schema".to_owned(),
        [session] => session.clone(),
        [session, own @ ..] => format!("{session} of the session, tightened by {}", own.join(", ")),
    };
    let of_tool: Vec<(&str, String)> = match tool {
        HeldTool::Bash { directory, environment } => {
            let past = if limits.stop_at_output {
                "past them the command is stopped (OutputLimitExceeded), and the head is kept"
            } else {
                "past them the command runs on, and head and tail are kept"
            };
            let names = match environment.as_slice() {
                [] => "nothing of policy or Run".to_owned(),
                names => names.join(", "),
            };
            vec![
                ("output", format!("at most {output} bytes; {past}")),
                ("directory", directory.clone()),
                ("environment", names),
            ]
        }
        HeldTool::WriteFile { path } => vec![("writes", path.clone())],
        HeldTool::ReadFile { path, offset, length } => {
            vec![("reads", format!("{path}, at most {length} bytes from byte {offset} on"))]
        }
        HeldTool::EditFile { path } => vec![("edits", path.clone())],
    };
    let redaction = if *redact { "recognisable secrets are masked in what is stored" } else { "off" };
    let start = format!("within {} of its creation, or it is over: StartDeadlineExceeded", span(limits.start));
    [("policy", policies), ("session", session.clone()), ("timeout", span(*timeout)), ("start", start)]
        .into_iter()
        .chain(of_tool)
        .chain([("redaction", redaction.to_owned())])
        .map(|(name, value)| [format!("  {name}"), value])
        .collect()
}
