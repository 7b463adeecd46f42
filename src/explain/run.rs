//! Run manifests as the gate would judge them: read, asked, told. Reads no cluster and no clock.
//!
//! Must not judge: the schema, the policies' compiler and the gate do. No message repeats what a Run executes or hands over; only
//! the gate's own, which are redacted, may.

mod conceal;
mod policies;
mod print;
mod report;

use std::io::Write;

use super::ExplainError;
use super::documents::{self, Document, Wanted};
use super::manifest::{ManifestError, PolicyReport};
use super::print::{Format, UntilClosed};
use super::shape::shown;
use super::unquoted;

pub use policies::Policies;
pub use report::RunReport;

/// Fields of a Run whose values people write without quotes.
const TEXTS: [&str; 10] =
    ["command", "stdin", "stdinBase64", "cwd", "value", "path", "content", "oldText", "newText", "drive"];
/// Most values without quotes that are named.
const NAMED: usize = 20;
/// Most policies that hold for a Run: the session's, and its own.
pub const POLICIES: usize = 2;

/// What a file holds.
#[derive(Debug, Default)]
pub struct RunManifests {
    /// Its Runs, in their order.
    pub runs: Vec<RunReport>,
    /// What is no Run, by kind and name.
    pub others: Vec<String>,
    /// What cannot be told.
    pub unreadable: Vec<ManifestError>,
}

impl RunManifests {
    /// From a file in YAML or JSON with any number of documents.
    pub fn read(text: &str, policies: &Policies) -> Result<Self, ManifestError> {
        let mut read = Self::default();
        for document in documents::split(text, Wanted::Runs)? {
            match document {
                Document::Wanted(value) => {
                    let mut report = RunReport::of(value, policies);
                    if let Some(name) = &report.name
                        && read
                            .runs
                            .iter()
                            .any(|other| other.name.as_ref() == Some(name) && other.namespace == report.namespace)
                    {
                        let name = shown(name);
                        let complaint = format!(
                            "metadata.name: `{name}` stands twice in the file, and the spec of a Run cannot change: give it another name"
                        );
                        report = report.refused(complaint);
                    }
                    read.runs.push(report);
                }
                Document::Other(name) => read.others.push(name),
                Document::Unreadable(error) => read.unreadable.push(error),
            }
        }
        // Lines of a file are nobody's alone: the first Run tells of them.
        if let Some(first) = read.runs.first_mut() {
            first.notes.extend(unquoted::behind(text, &TEXTS).into_iter().take(NAMED));
        }
        Ok(read)
    }
}

/// Reads manifests and prints what becomes of each Run under these policies; whether all would be admitted. What is no Run is
/// named on `notes`.
pub fn run(
    text: &str,
    policies: Vec<PolicyReport>,
    output: &mut impl Write,
    notes: &mut impl Write,
    format: Format,
) -> Result<bool, ExplainError> {
    let (output, notes) = (&mut UntilClosed::new(output), &mut UntilClosed::new(notes));
    let policies = Policies::new(policies);
    let RunManifests { runs, others, mut unreadable } =
        RunManifests::read(text, &policies).map_err(|error| ExplainError::Manifest(vec![error]))?;
    for (at, report) in runs.iter().enumerate() {
        if at > 0 && format == Format::Table {
            writeln!(output)?;
        }
        print::report(output, report, format)?;
    }
    if !runs.is_empty() && format == Format::Table {
        print::open(output)?;
    }
    for other in others {
        writeln!(notes, "sprite-operator: {other}: no Run, so not judged; name the file of a policy with --policy")?;
    }
    if unreadable.is_empty() && runs.is_empty() {
        unreadable.push(ManifestError::NoRun);
    }
    if unreadable.is_empty() {
        Ok(runs.iter().all(RunReport::is_admitted))
    } else {
        Err(ExplainError::Manifest(unreadable))
    }
}
