//! The dry run: what the rules would say, without a cluster. The same functions judge here and in the controllers.
//!
//! Reads and prints; decides nothing itself and reaches nothing. `judge` and `manifest` are pure.

mod documents;
mod item;
mod judge;
mod manifest;
mod print;
mod quantity;
mod shape;

use std::fmt;
use std::io::{self, BufRead, Read, Write};

use clap::ValueEnum;

pub use item::{Input, Item, ItemError};
pub use judge::{Judgement, Verdict, judge};
pub use manifest::{ManifestError, Manifests, PolicyReport};
pub use print::Format;

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// One entry of `egress.allow` or `egress.deny`.
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
    /// A number of bytes, as in `limits.output`.
    Size,
    /// A span of time, as in `limits.timeout`.
    Duration,
    /// A whole number, as in `limits.parallelRuns`.
    Count,
    /// Text that is redacted, as output and code are.
    Text,
    /// An ExecutionPolicy manifest; its file is the argument after it.
    Policy,
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
        }
    }
}

/// Why a dry run stopped.
#[derive(Debug)]
pub enum ExplainError {
    /// A line is no item.
    Item {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        error: ItemError,
    },
    /// The manifest cannot be read.
    Manifest(ManifestError),
    /// Reading or writing failed.
    Io(io::Error),
}

impl fmt::Display for ExplainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Item { line, error } => write!(f, "line {line}: {error}"),
            Self::Manifest(error) => error.fmt(f),
            Self::Io(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for ExplainError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Judges and prints each line; the first that is no item is the error, after all others were judged.
pub fn items(
    kind: Kind,
    policy: Option<&PolicyReport>,
    input: impl BufRead,
    output: &mut impl Write,
    format: Format,
) -> Result<(), ExplainError> {
    let mut printer = print::Printer::new(format);
    let mut result = Ok(());
    for (line, read) in item::lines(input).enumerate() {
        let item = match read? {
            Ok(text) if text.trim().is_empty() => continue,
            Ok(text) => Item::parse(kind, &text, line + 1),
            Err(error) => Err(error),
        };
        match item {
            Ok(item) => printer.row(output, &judge(kind, &item, policy), &item)?,
            Err(error) => {
                let long = error == ItemError::TooLong;
                if result.is_ok() {
                    result = Err(ExplainError::Item { line: line + 1, error });
                }
                // Where the next line begins is not known.
                if long {
                    break;
                }
            }
        }
    }
    printer.end(output)?;
    result
}

/// The text of a manifest, no longer than a line of items may be.
pub fn manifest_text(input: impl Read) -> io::Result<String> {
    let refused = |text| io::Error::new(io::ErrorKind::InvalidData, text);
    let mut bytes = Vec::new();
    input.take(item::LONGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > item::LONGEST {
        return Err(refused("it is longer than 8 MiB: write fewer manifests into one file"));
    }
    String::from_utf8(bytes).map_err(|_| refused("it is no UTF-8 text"))
}

/// Reads manifests and prints what each policy comes to; whether all are without complaint. What is no policy is named on
/// `notes`.
pub fn policy(
    text: &str,
    open_allowed: bool,
    output: &mut impl Write,
    notes: &mut impl Write,
    format: Format,
) -> Result<bool, ExplainError> {
    let Manifests { policies, others, unreadable } =
        Manifests::read(text, open_allowed).map_err(ExplainError::Manifest)?;
    for (at, report) in policies.iter().enumerate() {
        if at > 0 && format == Format::Table {
            writeln!(output)?;
        }
        print::report(output, report, format)?;
    }
    for other in others {
        writeln!(notes, "sprite-operator: {other}: no ExecutionPolicy, so not judged")?;
    }
    let error = unreadable.into_iter().next().or_else(|| policies.is_empty().then_some(ManifestError::NoPolicy));
    match error {
        Some(error) => Err(ExplainError::Manifest(error)),
        None => Ok(policies.iter().all(PolicyReport::is_ready)),
    }
}

#[cfg(test)]
mod tests;
