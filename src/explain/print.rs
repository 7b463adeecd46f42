//! JSON lines for programs, tables for people. Must not judge.

use std::io::{self, Write};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::item::{self, Input, Item};
use super::judge::Judgement;
use super::manifest::PolicyReport;

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One JSON object a line.
    Json,
    /// Columns.
    Table,
}

/// The widest cell but the last, in characters.
const WIDEST: usize = 48;

/// Writes until the reader goes away; what was judged is judged on, and its outcome stands.
pub(super) struct UntilClosed<W> {
    inner: W,
    closed: bool,
}

impl<W: Write> UntilClosed<W> {
    pub(super) const fn new(inner: W) -> Self {
        Self { inner, closed: false }
    }

    /// What a write comes to, or else `done` if nobody reads.
    fn unless_closed<T>(&mut self, done: T, write: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.closed {
            return Ok(done);
        }
        match write(&mut self.inner) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(done)
            }
            other => other,
        }
    }
}

impl<W: Write> Write for UntilClosed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_closed(bytes.len(), |inner| inner.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), Write::flush)
    }
}

/// A line of JSON. Numbers stand there as they were written.
#[derive(Serialize)]
struct Row<'i> {
    id: &'i RawValue,
    #[serde(rename = "in")]
    input: Written<'i>,
    message: &'i str,
    reason: Option<&'static str>,
    rule: &'i str,
    value: &'i Value,
    verdict: &'static str,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Written<'i> {
    Text(&'i str),
    Number(&'i RawValue),
    Absent,
    Entries(&'i [String]),
}

/// Writes one row after the other; a table at the end, when its widths are known.
pub(super) struct Printer {
    format: Format,
    rows: Vec<[String; 5]>,
}

impl Printer {
    pub(super) fn new(format: Format) -> Self {
        Self { format, rows: vec![["ID", "VERDICT", "RULE", "VALUE", "MESSAGE"].map(str::to_owned)] }
    }

    pub(super) fn row(&mut self, output: &mut impl Write, judgement: &Judgement, item: &Item) -> io::Result<()> {
        let Judgement { verdict, reason, rule, value, message } = judgement;
        match self.format {
            Format::Json => {
                let row = Row {
                    id: &item.id,
                    input: match &item.input {
                        Input::Text(text) => Written::Text(text),
                        // Not every reader takes what no double holds.
                        Input::Number(number) if serde_json::from_str::<Value>(number.get()).is_err() => {
                            Written::Text(number.get())
                        }
                        Input::Number(number) => Written::Number(number),
                        Input::Absent => Written::Absent,
                        Input::Entries(entries) => Written::Entries(entries),
                    },
                    message,
                    reason: *reason,
                    rule,
                    value,
                    verdict: verdict.as_str(),
                };
                serde_json::to_writer(&mut *output, &row)?;
                writeln!(output)
            }
            Format::Table => {
                self.rows.push([
                    plain(&item::read(&item.id)),
                    verdict.as_str().to_owned(),
                    rule.clone(),
                    plain(value),
                    message.clone(),
                ]);
                Ok(())
            }
        }
    }

    pub(super) fn end(self, output: &mut impl Write) -> io::Result<()> {
        match self.format {
            Format::Json => Ok(()),
            Format::Table => table(output, &self.rows),
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// On one line; what steers a terminal is escaped.
pub(super) fn visible(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// One line a row, whatever stands in it: what steers a terminal is escaped, long cells are cut.
pub(super) fn table<const N: usize>(output: &mut impl Write, rows: &[[String; N]]) -> io::Result<()> {
    let rows: Vec<[String; N]> = rows
        .iter()
        .map(|row| {
            let mut at = 0;
            row.each_ref().map(|cell| {
                at += 1;
                let shown = visible(cell);
                if at < N && shown.chars().count() > WIDEST {
                    shown.chars().take(WIDEST - 1).chain(['…']).collect()
                } else {
                    shown
                }
            })
        })
        .collect();
    let mut widths = [0; N];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for row in &rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width - cell.chars().count() + 2));
        }
        writeln!(output, "{}", line.trim_end())?;
    }
    Ok(())
}

/// What a policy comes to.
pub(super) fn report(output: &mut impl Write, report: &PolicyReport, format: Format) -> io::Result<()> {
    let PolicyReport { name, spec, rules, hash, complaints, notes, .. } = report;
    match format {
        Format::Json => {
            let line = json!({
                "name": name, "ready": report.is_ready(), "suspended": spec.suspend, "rules": rules, "hash": hash,
                "limits": hash.as_ref().map(|_| &spec.limits), "quota": hash.as_ref().map(|_| &spec.quota), "complaints": complaints, "notes": notes,
            });
            writeln!(output, "{line}")
        }
        Format::Table => {
            let stopped = if spec.suspend { ", SUSPENDED: nothing starts under it" } else { "" };
            let name = visible(name);
            writeln!(output, "policy {name}: {}{stopped}", if report.is_ready() { "ready" } else { "NOT READY" })?;
            for complaint in complaints {
                writeln!(output, "  - {}", visible(complaint))?;
            }
            for note in notes {
                writeln!(output, "  note: {}", visible(note))?;
            }
            // What holds when it is in force.
            let Some(hash) = hash else { return Ok(()) };
            writeln!(output, "\negress rules, hash {hash}:")?;
            let rows: Vec<[String; 2]> = rules
                .iter()
                .map(|rule| {
                    let action = rule.action.clone().unwrap_or_else(|| "include".to_owned());
                    [action, rule.domain.clone().or(rule.include.clone()).unwrap_or_default()]
                })
                .collect();
            table(output, &rows)?;
            let limits = serde_json::to_value(&spec.limits).unwrap_or_default();
            writeln!(output, "\nlimits of a Run:")?;
            let rows: Vec<[String; 2]> =
                limits.as_object().into_iter().flatten().map(|(name, value)| [name.clone(), plain(value)]).collect();
            table(output, &rows)
        }
    }
}
