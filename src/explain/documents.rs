//! The documents of a file: which are of the kind that is judged, which are not. PURE.
//!
//! A file that is applied often holds more than one kind. Nothing is passed over without its name being told.

use serde_json::Value;
use serde_saphyr::{Error, budget::BudgetBreach};

use super::manifest::ManifestError;
use super::{shape::shown, unquoted};
use api::{GROUP, VERSION};

/// Most documents of a file.
const DOCUMENTS: usize = 1024;
/// Most values of a file, with what aliases repeat.
const NODES: usize = 250_000;
/// Deepest level of a value.
const DEPTH: usize = 64;

/// What is judged of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Policies.
    Policies,
    /// Runs. They hold what nobody may read: no message repeats a value.
    Runs,
}

impl Wanted {
    /// The kind.
    pub(super) const fn kind(self) -> &'static str {
        match self {
            Self::Policies => "ExecutionPolicy",
            Self::Runs => "Run",
        }
    }
}

/// One document.
#[derive(Debug)]
pub(super) enum Document {
    /// One of the kind that is judged, whatever else is wrong with it.
    Wanted(Value),
    /// Something else, by its kind and name.
    Other(String),
    /// It cannot be told what it is.
    Unreadable(ManifestError),
}

/// The documents of a file in YAML or JSON; what a list holds stands for itself.
pub(super) fn split(text: &str, wanted: Wanted) -> Result<Vec<Document>, ManifestError> {
    // An octal number as kubectl reads it.
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        budget: serde_saphyr::budget! { max_documents: DOCUMENTS, max_nodes: NODES, max_depth: DEPTH },
    };
    let read = |text: &str| {
        serde_saphyr::from_multiple_with_options::<Value>(text, options.clone())
            .map_err(|error| unread(&error, text, wanted))
    };
    let mut documents = Vec::new();
    match read(text) {
        Ok(values) => {
            for (at, value) in values.into_iter().enumerate() {
                sort(at + 1, value, wanted, &mut documents);
            }
        }
        // One that is no YAML hides no other: each is read by itself, and all of them are held to what one file may hold.
        Err(ManifestError::Form(..)) => {
            let parts = parts(text);
            let mut left = NODES;
            for (at, part) in parts.iter().enumerate() {
                match read(part) {
                    Ok(values) => {
                        for value in values {
                            left = left.checked_sub(nodes(&value)).ok_or_else(too_many_nodes)?;
                            sort(at + 1, value, wanted, &mut documents);
                        }
                    }
                    Err(ManifestError::Form(_, why)) if parts.len() > 1 => {
                        documents.push(Document::Unreadable(ManifestError::Part(at + 1, why)));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Err(error) => return Err(error),
    }
    Ok(documents)
}

/// How many values a value holds, itself among them.
fn nodes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 1,
        Value::Array(items) => 1 + items.iter().map(nodes).sum::<usize>(),
        // A key is one, too.
        Value::Object(fields) => 1 + fields.values().map(|value| 1 + nodes(value)).sum::<usize>(),
    }
}

/// The documents as text. What stands before the first `---` is none if it says nothing: comments, directives.
fn parts(text: &str) -> Vec<&str> {
    let begins = |line: &str| {
        line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
    };
    let silent = |line: &str| line.trim_start().is_empty() || line.trim_start().starts_with(['#', '%']);
    let mut starts = vec![0];
    let mut at = 0;
    let mut head = true;
    for line in text.split_inclusive('\n') {
        if begins(line) && !head && starts.len() < DOCUMENTS {
            starts.push(at);
        }
        head &= silent(line) && !begins(line);
        at += line.len();
    }
    starts.push(text.len());
    starts.windows(2).filter_map(|pair| text.get(*pair.first()?..*pair.last()?)).collect()
}

fn too_many_nodes() -> ManifestError {
    ManifestError::TooMuch(format!("{NODES} values, with what aliases repeat"))
}

fn unread(error: &serde_saphyr::Error, text: &str, wanted: Wanted) -> ManifestError {
    if let Error::Budget { breach, .. } = error.without_snippet() {
        if matches!(breach, BudgetBreach::Nodes { .. }) {
            return too_many_nodes();
        }
        return ManifestError::TooMuch(if matches!(breach, BudgetBreach::Documents { .. }) {
            format!("{DOCUMENTS} documents")
        } else if matches!(breach, BudgetBreach::Depth { .. }) {
            format!("{DEPTH} levels")
        } else {
            "is read of anchors, aliases and merged keys".to_owned()
        });
    }
    // The parser's excerpt of the source follows its first line; its advice for programs says nothing to people.
    let whole = error.to_string();
    let line = whole.lines().next().unwrap_or_default();
    let number = |word: &str| {
        let digits = line.split(word).nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        digits.and_then(|digits| digits.parse().ok())
    };
    let is_of_signs =
        ["anchor", "alias", "tag", "directive", "unexpected character"].iter().any(|word| line.contains(word));
    if is_of_signs
        && let (Some(row), Some(column)) = (number("line "), number("column "))
        && let Some(said) = unquoted::at(text, row, column, wanted)
    {
        return ManifestError::Form(wanted.kind(), said);
    }
    let line = [", set DuplicateKeyPolicy", " rejected by the configured policy"]
        .iter()
        .fold(line, |line, advice| line.split(advice).next().unwrap_or(line));
    ManifestError::Form(
        wanted.kind(),
        match wanted {
            Wanted::Policies => line.to_owned(),
            Wanted::Runs => without_source(line),
        },
    )
}

/// A parser's line up to the first word of the source, as in `error: line 1 column 2: duplicate mapping key: a`.
fn without_source(line: &str) -> String {
    let said: Vec<_> = line.splitn(4, ": ").take(3).collect();
    let said = said.join(": ");
    said.split(['`', '"']).next().unwrap_or_default().trim_end().to_owned()
}

fn sort(number: usize, mut value: Value, wanted: Wanted, documents: &mut Vec<Document>) {
    let field = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (kind, version) = (field("kind"), field("apiVersion"));
    if kind.ends_with("List")
        && let Some(Value::Array(items)) = value.get_mut("items").map(Value::take)
    {
        for item in items {
            sort(number, item, wanted, documents);
        }
        return;
    }
    let ours = version.split_once('/').is_some_and(|(group, _)| group == GROUP);
    let unreadable = || Document::Unreadable(ManifestError::Kind(number, wanted.kind(), named(&kind), named(&version)));
    documents.push(match kind.as_str() {
        kind if kind == wanted.kind() && version == format!("{GROUP}/{VERSION}") => Document::Wanted(value),
        // Meant as one of these, most likely.
        kind if kind.is_empty() || kind == wanted.kind() => unreadable(),
        "ExecutionPolicy" | "Run" | "SandboxSession" | "SandboxUsage" if ours => Document::Other(name(number, &value)),
        _ if ours || version.is_empty() => unreadable(),
        _ => Document::Other(name(number, &value)),
    });
}

fn named(text: &str) -> String {
    if text.is_empty() { "(none)".to_owned() } else { shown(text) }
}

fn name(number: usize, value: &Value) -> String {
    let text = |pointer| named(value.pointer(pointer).and_then(Value::as_str).unwrap_or_default());
    format!("document {number}, {} {}", text("/kind"), text("/metadata/name"))
}
