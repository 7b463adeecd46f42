//! Items: one JSON value a line. A string, a number or `null` by itself, or an object with `in`, and with `id` if it has a name.
//! Must not judge.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read as _};

use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use super::Kind;

/// The longest line that is read.
pub(super) const LONGEST: u64 = 8 << 20;

/// What is judged.
#[derive(Clone, Debug)]
pub enum Input {
    /// A text.
    Text(String),
    /// A number, as it is written: JSON has larger ones than any type here.
    Number(Box<RawValue>),
    /// `null`: nothing was written.
    Absent,
    /// The entries of a list.
    Entries(Vec<String>),
}

/// One item.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name, as it is written; the number of its line if it has none.
    pub id: Box<RawValue>,
    /// What is judged.
    pub input: Input,
    /// For `egress-host`: entries of an allowlist, in place of a policy.
    pub allow: Option<Vec<String>>,
}

/// Why a line is no item.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ItemError {
    /// Not JSON.
    #[error("this is no JSON: write a JSON string, or an object such as {{\"id\": \"1\", \"in\": \"example.com\"}}")]
    Json,
    /// Not UTF-8.
    #[error("this is no UTF-8 text")]
    Utf8,
    /// Longer than [`LONGEST`].
    #[error("the line is longer than 8 MiB: write shorter items")]
    TooLong,
    /// An object without `in`.
    #[error("the object has no `in`: write what is to be judged there")]
    NoInput,
    /// An object with what is most likely meant by `in` under another name.
    #[error("the object has no `in`, but `{0}`: name what is to be judged `in`")]
    Misnamed(String),
    /// A value that no item is.
    #[error("`in` is {0}: write a string, a number, null, or a list of strings that are joined")]
    Input(&'static str),
    /// A list by itself where one host is asked for.
    #[error(
        "this is a list, and `{0}` takes one: ask for `egress-entry-list`, or write {{\"in\": […]}} for parts that are joined"
    )]
    List(&'static str),
    /// Another kind than was asked for.
    #[error("the item is of kind `{0}`, and `{1}` was asked for: judge each kind on its own")]
    Kind(String, &'static str),
    /// `allow` is no list of strings.
    #[error("`allow` is no list of strings")]
    Allow,
}

impl Item {
    /// From a line. Fields other than `id`, `in`, `allow` and `kind` are for the reader and are left alone.
    pub fn parse(kind: Kind, line: &str, number: usize) -> Result<Self, ItemError> {
        let value: &RawValue = serde_json::from_str(line).map_err(|_| ItemError::Json)?;
        if value.get().starts_with('[') && matches!(kind, Kind::EgressEntry | Kind::EgressHost) {
            return Err(ItemError::List(kind.as_str()));
        }
        if !value.get().starts_with('{') {
            return Ok(Self { id: line_number(number)?, input: input(kind, value)?, allow: None });
        }
        let mut fields: BTreeMap<String, &RawValue> = serde_json::from_str(line).map_err(|_| ItemError::Json)?;
        if let Some(Value::String(of)) = fields.get("kind").map(|of| read(of))
            && of != kind.as_str()
        {
            return Err(ItemError::Kind(of, kind.as_str()));
        }
        let allow = fields.remove("allow").map(|allow| strings(allow, ItemError::Allow)).transpose()?;
        let id = fields.remove("id").filter(|id| id.get() != "null");
        let id = id.map_or_else(|| line_number(number), readable)?;
        let input = match fields.remove("in") {
            Some(value) => input(kind, value)?,
            None => {
                return Err(fields
                    .keys()
                    .find(|name| is_like_in(kind, name))
                    .cloned()
                    .map_or(ItemError::NoInput, ItemError::Misnamed));
            }
        };
        Ok(Self { id, input, allow })
    }
}

fn line_number(number: usize) -> Result<Box<RawValue>, ItemError> {
    RawValue::from_string(number.to_string()).map_err(|_| ItemError::Json)
}

/// A value that any reader of JSON can read: one with a number that no double holds as text.
fn readable(value: &RawValue) -> Result<Box<RawValue>, ItemError> {
    match serde_json::from_str::<Value>(value.get()) {
        Ok(_) => Ok(value.to_owned()),
        Err(_) if value.get().starts_with('"') => Err(ItemError::Json),
        Err(_) => RawValue::from_string(Value::from(value.get()).to_string()).map_err(|_| ItemError::Json),
    }
}

/// A value. One with a number in it that no double holds is the text of it.
pub(super) fn read(value: &RawValue) -> Value {
    serde_json::from_str(value.get()).unwrap_or_else(|_| value.get().into())
}

/// Other words for `in`.
fn is_like_in(kind: Kind, name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == kind.as_str()
        || ["in", "input", "value", "item", "text", "entry", "entries", "host", "command", "path", "env"]
            .contains(&name.as_str())
}

fn input(kind: Kind, value: &RawValue) -> Result<Input, ItemError> {
    if value.get().starts_with(|first: char| first == '-' || first.is_ascii_digit()) {
        return Ok(Input::Number(value.to_owned()));
    }
    if value.get().starts_with('[') {
        let parts = strings(value, ItemError::Input("a list of other things than strings"))?;
        return Ok(if kind == Kind::EgressEntryList { Input::Entries(parts) } else { Input::Text(parts.concat()) });
    }
    match string(value) {
        Some(text) if kind == Kind::EgressEntryList => Ok(Input::Entries(vec![text?])),
        Some(text) => Ok(Input::Text(text?)),
        None if value.get() == "null" => Ok(Input::Absent),
        None if value.get().starts_with('{') => Err(ItemError::Input("an object")),
        None => Err(ItemError::Input("true or false")),
    }
}

/// The string that a value is.
fn string(value: &RawValue) -> Option<Result<String, ItemError>> {
    value.get().starts_with('"').then(|| serde_json::from_str(value.get()).map_err(|_| ItemError::Json))
}

/// The strings of a list; what is none is an error `otherwise`.
fn strings(value: &RawValue, otherwise: ItemError) -> Result<Vec<String>, ItemError> {
    let Ok(parts) = serde_json::from_str::<Vec<&RawValue>>(value.get()) else { return Err(otherwise) };
    parts.into_iter().map(|part| string(part).unwrap_or_else(|| Err(otherwise.clone()))).collect()
}

/// Lines, each bounded. The outer error is of reading.
pub(super) fn lines(mut input: impl BufRead) -> impl Iterator<Item = io::Result<Result<String, ItemError>>> {
    std::iter::from_fn(move || {
        let mut bytes = Vec::new();
        match input.by_ref().take(LONGEST + 1).read_until(b'\n', &mut bytes) {
            Err(error) => return Some(Err(error)),
            Ok(0) => return None,
            Ok(_) => {}
        }
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
        } else if bytes.len() as u64 > LONGEST {
            // The rest of it is read and not kept.
            return Some(input.skip_until(b'\n').map(|_| Err(ItemError::TooLong)));
        }
        Some(Ok(String::from_utf8(bytes).map_err(|_| ItemError::Utf8)))
    })
}
