//! The dry run: what the rules would say, without a cluster. The same functions judge here and in the controllers.
//!
//! Reads and prints; decides nothing itself and reaches nothing. `judge` and `manifest` are pure.

mod beside;
mod cel;
mod documents;
mod item;
mod judge;
mod manifest;
mod partial;
mod print;
mod quantity;
mod run;
mod shape;
mod text;
mod unquoted;

use std::fmt;
use std::io::{self, BufRead, Read, Write};

use clap::ValueEnum;

pub use item::{Input, Item, ItemError};
pub use judge::{Judgement, Verdict, judge};
pub use manifest::{ManifestError, Manifests, PolicyReport};
pub use print::Format;
pub use run::{POLICIES as RUN_POLICIES, Policies, RunManifests, RunReport, run};
pub use text::text;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// One entry of `egress.allow`.
    EgressEntry,
    /// All entries of `egress.allow`; `in` is the list of them.
    EgressEntryList,
    /// A host that a command wants to reach, under `--policy` or the item's own `allow` list.
    EgressHost,
    /// A command, as in `bash.command`.
    Command,
    /// A file, as in `readFile.path`.
    Path,
    /// A variable, `NAME=value`.
    Env,
    /// A number of bytes of any field; `null` is the default of `limits.output`.
    Size,
    /// A span of time of any field, under `--policy` the `timeout` of a Run; `null` is the default of `limits.timeout`.
    Duration,
    /// A whole number of any field; `null` is the default of `limits.parallelRuns`.
    Count,
    /// Text that is redacted, as output and code are.
    Text,
    /// An ExecutionPolicy manifest; its file is the argument after it.
    Policy,
    /// A Run manifest, as the gate would judge it; its file is the argument after it.
    Run,
}

impl Kind {
    /// As it is written on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EgressEntry => "egress-entry",
            Self::EgressEntryList => "egress-entry-list",
            Self::EgressHost => "egress-host",
            Self::Command => "command",
            Self::Path => "path",
            Self::Env => "env",
            Self::Size => "size",
            Self::Duration => "duration",
            Self::Count => "count",
            Self::Text => "text",
            Self::Policy => "policy",
            Self::Run => "run",
        }
    }
}

/// Most errors of one input that are named.
const NAMED: usize = 20;

/// Why a dry run failed.
#[derive(Debug)]
pub enum ExplainError {
    /// Lines are no items.
    Items {
        /// The first of them: the number, counted from 1, and what is wrong.
        first: Vec<(usize, ItemError)>,
        /// How many there are.
        many: usize,
    },
    /// The manifest, or documents in it, cannot be read.
    Manifest(Vec<ManifestError>),
    /// Reading or writing failed.
    Io(io::Error),
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Items { first, many } => {
                let lines: Vec<_> = first.iter().map(|(line, error)| format!("line {line}: {error}")).collect();
                listed(f, &lines, *many)
            }
            Self::Manifest(errors) => {
                let lines: Vec<_> = errors.iter().take(NAMED).map(ToString::to_string).collect();
                listed(f, &lines, errors.len())
            }
            Self::Io(error) => error.fmt(f),
        }
    }
}

/// One error a line, and how many there are beyond these.
fn listed(f: &mut fmt::Formatter<'_>, lines: &[String], many: usize) -> fmt::Result {
    f.write_str(&lines.join("\n"))?;
    let more = many.saturating_sub(lines.len());
    if more > 0 { write!(f, "\n… and {more} more") } else { Ok(()) }
}

impl From<io::Error> for ExplainError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Judges and prints each line; how many were judged. Those that are no items are the error, after all others were judged; a
/// reader that goes away is none.
pub fn items(
    kind: Kind,
    policy: Option<&PolicyReport>,
    input: impl BufRead,
    output: &mut impl Write,
    format: Format,
) -> Result<usize, ExplainError> {
    let output = &mut print::UntilClosed::new(output);
    let mut printer = print::Printer::new(format);
    let (mut judged, mut first, mut many) = (0, Vec::new(), 0);
    for (line, read) in item::lines(input).enumerate() {
        let item = match read? {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => Item::parse(kind, &text, line + 1),
            Err(error) => Err(error),
        };
        match item {
            Ok(item) => {
                printer.row(output, &judge(kind, &item, policy), &item)?;
                judged += 1;
            }
            Err(error) => {
                many += 1;
                if first.len() < NAMED {
                    first.push((line + 1, error));
                }
            }
        }
    }
    printer.end(output)?;
    if many == 0 { Ok(judged) } else { Err(ExplainError::Items { first, many }) }
}

/// All bytes of an input; no more than a line of items may have.
pub fn bytes_of(input: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(item::LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > item::LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is longer than 8 MiB: split it"));
    }
    Ok(bytes)
}

/// The text of a manifest.
pub fn manifest_text(input: impl Read) -> io::Result<String> {
    let refused = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(bytes_of(input)?).map_err(refused)
}

/// How policies are judged.
#[derive(Debug, Clone, Copy, Default)]
pub struct Strictness {
    /// As if the operator ran with `--allow-open-egress`.
    pub open_allowed: bool,
    /// A field without effect counts as a complaint.
    pub strict: bool,
}

/// Reads manifests and prints what each policy comes to; whether all are without complaint. What is no policy is named on
/// `notes`.
pub fn policy(
    text: &str,
    strictness: Strictness,
    output: &mut impl Write,
    notes: &mut impl Write,
    format: Format,
) -> Result<bool, ExplainError> {
    let (output, notes) = (&mut print::UntilClosed::new(output), &mut print::UntilClosed::new(notes));
    let Manifests { policies, others, mut unreadable } =
        Manifests::read(text, strictness.open_allowed).map_err(|error| ExplainError::Manifest(vec![error]))?;
    for (at, report) in policies.iter().enumerate() {
        if at > 0 && format == Format::Table {
            writeln!(output)?;
        }
        print::report(output, report, format)?;
    }
    for other in others {
        writeln!(notes, "sprite-operator: {other}: no ExecutionPolicy, so not judged")?;
    }
    if unreadable.is_empty() && policies.is_empty() {
        unreadable.push(ManifestError::NoPolicy);
    }
    if unreadable.is_empty() {
        Ok(policies.iter().all(|policy| policy.is_ready() && (policy.notes.is_empty() || !strictness.strict)))
    } else {
        Err(ExplainError::Manifest(unreadable))
    }
}

#[cfg(test)]
mod tests;
