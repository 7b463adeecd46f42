//! A value against the schema that the API server has: types, required fields, words, patterns, lengths, bounds. PURE.
//!
//! The part of `OpenAPI` that our schemas use. Rules of CEL are not read here: of a policy the rules refuse what they refuse as
//! well, of a Run `cel` reads them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::OnceLock;

use regex::Regex;
use serde_json::{Map, Value};

use crate::policy::bounds::{too_large, too_long, too_many, too_small};
use api::values::{ByteSize, DurationError, GoDuration, SizeError};

/// What is said of a value that is not there.
pub(super) const NOTHING: &str = "nothing stands there";

/// What does not fit, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flaw {
    /// As in `spec.egress.allow[1]`.
    pub(super) path: String,
    /// What is wrong, and what to write instead.
    pub(super) text: String,
}

impl Flaw {
    pub(super) fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

/// The schema of `spec` of a policy. Nothing only if the types cannot be rendered, which the tests of them exclude.
pub(super) fn policy() -> Option<&'static Value> {
    static SCHEMA: OnceLock<Option<Value>> = OnceLock::new();
    SCHEMA.get_or_init(|| of_spec("ExecutionPolicy")).as_ref()
}

/// The same of a Run.
pub(super) fn run() -> Option<&'static Value> {
    static SCHEMA: OnceLock<Option<Value>> = OnceLock::new();
    SCHEMA.get_or_init(|| of_spec("Run")).as_ref()
}

fn of_spec(kind: &str) -> Option<Value> {
    let (_, crd) = api::crds().ok()?.into_iter().find(|(_, crd)| crd.spec.names.kind == kind)?;
    let schema = crd.spec.versions.first()?.schema.as_ref()?.open_api_v3_schema.as_ref()?;
    serde_json::to_value(schema).ok()?.pointer("/properties/spec").cloned()
}

/// What the form of one field of a policy has against a text; the field as in `limits.timeout`.
pub(super) fn form(field: &str, text: &str) -> Option<String> {
    let schema = field.split('.').try_fold(policy()?, |node, name| node.get("properties")?.get(name))?;
    flaws(schema, &Value::String(text.to_owned()), field).into_iter().next().map(|flaw| flaw.text)
}

/// Everything in which a value does not fit.
pub(super) fn flaws(schema: &Value, value: &Value, path: &str) -> Vec<Flaw> {
    let mut found = Vec::new();
    walk(schema, value, path, &mut found);
    found
}

fn walk(schema: &Value, value: &Value, path: &str, found: &mut Vec<Flaw>) {
    let before = found.len();
    let mut flaw = |text: String| found.push(Flaw::new(path, text));
    match (kind(schema), value) {
        (Kind::Object, Value::Object(fields)) => object(schema, fields, path, found),
        (Kind::Array, Value::Array(list)) => array(schema, list, path, found),
        (Kind::String | Kind::IntOrString, Value::String(text)) => {
            if let Some(wrong) = string(schema, text) {
                flaw(wrong);
            }
        }
        (Kind::Integer, Value::Number(number)) if number.is_i64() => {
            if let Some(wrong) = bounds(schema, number) {
                flaw(wrong);
            }
        }
        (Kind::IntOrString, Value::Number(number)) if number.is_i64() => {
            if number.as_u64().is_none() {
                flaw(format!("{number} is negative: {}", instead(schema)));
            }
        }
        (Kind::Boolean, Value::Bool(_)) => {}
        (Kind::Object | Kind::Array | Kind::String | Kind::IntOrString | Kind::Integer | Kind::Boolean, _) => {
            flaw(not_of_the_type(schema, value));
        }
        // Never in our schemas; what cannot be judged is not taken.
        (Kind::Unknown, _) => flaw("the schema says nothing about it".to_owned()),
    }
    if found.len() == before
        && let (Some(words), Value::String(text)) = (schema.get("enum").and_then(Value::as_array), value)
        && !words.iter().any(|word| word == value)
    {
        found.push(Flaw::new(path, format!("`{}` is no choice: {}", shown(text), instead(schema))));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Object,
    Array,
    String,
    IntOrString,
    Integer,
    Boolean,
    Unknown,
}

fn kind(schema: &Value) -> Kind {
    if schema.get("x-kubernetes-int-or-string") == Some(&Value::Bool(true)) {
        return Kind::IntOrString;
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => Kind::Object,
        Some("array") => Kind::Array,
        Some("string") => Kind::String,
        Some("integer") => Kind::Integer,
        Some("boolean") => Kind::Boolean,
        Some(_) | None => Kind::Unknown,
    }
}

fn object(schema: &Value, fields: &Map<String, Value>, path: &str, found: &mut Vec<Flaw>) {
    let no_properties = Map::new();
    let known = schema.get("properties").and_then(Value::as_object).unwrap_or(&no_properties);
    let free = schema.get("additionalProperties");
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        match known.get(name).or(free) {
            // As if it were absent, but only where there is such a field.
            Some(_) if value.is_null() => {}
            Some(schema) => walk(schema, value, &path, found),
            None => {
                let names: Vec<_> = known.keys().map(String::as_str).collect();
                let text = format!("there is no such field: write one of {}", names.join(", "));
                found.push(Flaw::new(path, text));
            }
        }
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    for name in required {
        let default = known.get(name).is_some_and(|schema| schema.get("default").is_some());
        if fields.get(name).is_none_or(Value::is_null) && !default {
            found.push(Flaw::new(format!("{path}.{name}"), "there is none: write one"));
        }
    }
    let many = fields.values().filter(|value| !value.is_null()).count() as u64;
    if let Some(most) = count(schema, "maxProperties").filter(|most| many > *most) {
        found.push(Flaw::new(path, too_many(many, most)));
    }
}

fn array(schema: &Value, list: &[Value], path: &str, found: &mut Vec<Flaw>) {
    if let Some(items) = schema.get("items") {
        for (at, value) in list.iter().enumerate() {
            walk(items, value, &format!("{path}[{at}]"), found);
        }
    }
    let many = list.len() as u64;
    if let Some(most) = count(schema, "maxItems").filter(|most| many > *most) {
        found.push(Flaw::new(path, too_many(many, most)));
    }
    if let Some(least) = count(schema, "minItems").filter(|least| many < *least) {
        found.push(Flaw::new(path, format!("there are {many} entries: write at least {least}")));
    }
    let keys: Vec<&str> = match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("set") => Vec::new(),
        Some("map") => {
            let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            keys.into_iter().flatten().filter_map(Value::as_str).collect()
        }
        Some(_) | None => return,
    };
    let mut seen = BTreeSet::new();
    for (at, value) in list.iter().enumerate() {
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let parts: Vec<_> =
            if keys.is_empty() { vec![Some(value)] } else { keys.iter().map(|key| value.get(key)).collect() };
        // An entry without its key is named as such.
        if let Some(parts) = parts.into_iter().collect::<Option<Vec<_>>>()
            && !seen.insert(parts.iter().map(ToString::to_string).collect::<Vec<_>>())
        {
            let what: Vec<_> = parts.into_iter().map(plain).collect();
            let text = format!("`{}` stands there twice: keep one", shown(&what.join(", ")));
            found.push(Flaw::new(format!("{path}[{at}]"), text));
        }
    }
}

fn string(schema: &Value, text: &str) -> Option<String> {
    let many = text.chars().count() as u64;
    if let Some(most) = count(schema, "maxLength").filter(|most| many > *most) {
        return Some(too_long(many, most));
    }
    if count(schema, "minLength").is_some_and(|least| many < least) {
        return Some(format!("it is empty: {}, or take it out", instead(schema)));
    }
    // The types know better than a pattern what is wrong.
    if is_time(schema)
        && let Err(error) = text.parse::<GoDuration>()
    {
        return Some(match error {
            DurationError::Range(text) => format!("`{}` is too long: {}", shown(&text), instead(schema)),
            DurationError::Precision(text) => DurationError::Precision(shown(&text)).to_string(),
            DurationError::Form(_) | DurationError::Negative(_) => error.to_string(),
        });
    }
    if kind(schema) == Kind::IntOrString
        && let Err(error) = text.parse::<ByteSize>()
    {
        return Some(match error {
            SizeError::Range(_) => format!("{error}: {}", instead(schema)),
            SizeError::Form(_) => error.to_string(),
        });
    }
    let pattern = schema.get("pattern").and_then(Value::as_str)?;
    // A pattern that cannot be read matches nothing.
    if Regex::new(pattern).is_ok_and(|form| form.is_match(text)) {
        return None;
    }
    if text.contains('\0') {
        return Some("it holds a NUL character: remove it".to_owned());
    }
    Some(format!("`{}` has not the form that is asked for: {}", shown(text), instead(schema)))
}

fn bounds(schema: &Value, number: &serde_json::Number) -> Option<String> {
    let value = number.as_f64()?;
    let bound = |key| schema.get(key).and_then(Value::as_f64);
    let over = bound("maximum").filter(|most| value > *most).map(|most| too_large(number, most));
    over.or_else(|| bound("minimum").filter(|least| value < *least).map(|least| too_small(number, least)))
}

fn count(schema: &Value, key: &str) -> Option<u64> {
    schema.get(key).and_then(Value::as_u64)
}

/// The first rule of CEL.
fn rule(schema: &Value) -> Option<&str> {
    schema.pointer("/x-kubernetes-validations/0/rule").and_then(Value::as_str)
}

/// Whether a text is a span of time.
fn is_time(schema: &Value) -> bool {
    rule(schema).is_some_and(|rule| rule.starts_with("duration(self)"))
}

/// What to write.
fn instead(schema: &Value) -> String {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        return format!("write one of {}", words.join(", "));
    }
    let message = schema.pointer("/x-kubernetes-validations/0/message").and_then(Value::as_str);
    // Of a list the messages are about its entries.
    if let Some(message) = message.filter(|text| text.starts_with("write") && kind(schema) != Kind::Array) {
        return message.to_owned();
    }
    // A text without NUL is any text to people.
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str).filter(|pattern| *pattern != r"^[^\x00]*$") {
        return format!("write a text of the form {pattern}");
    }
    let what = match kind(schema) {
        Kind::Object => "fields with their values",
        Kind::Array => "a list",
        Kind::String => "a text",
        Kind::IntOrString => "a whole number or a text",
        Kind::Integer => "a whole number without quotes",
        Kind::Boolean => "true or false, without quotes",
        Kind::Unknown => "something else",
    };
    format!("write {what}")
}

/// For a size that is written with an exponent, which YAML and JSON read as a number with a fraction.
pub(super) const EXPONENT: &str = "in quotes if it has an exponent (\"1e3\")";

fn not_of_the_type(schema: &Value, value: &Value) -> String {
    let kind = kind(schema);
    let any_text = kind == Kind::String && schema.get("enum").is_none() && !is_time(schema);
    match value {
        Value::Number(number) if any_text && number.is_f64() => {
            format!("{number} is a number: write it in quotes, with all its digits (1.10 without quotes is 1.1)")
        }
        Value::Number(number) if any_text => format!("{number} is a number: write it in quotes, \"{number}\""),
        Value::Bool(_) if any_text => format!("{}: write it in quotes, as it is meant", wrong_type(value)),
        Value::Number(_) if kind == Kind::IntOrString => {
            format!("{}: {}; {EXPONENT}", wrong_type(value), instead(schema))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            format!("{}: {}", wrong_type(value), instead(schema))
        }
    }
}

fn wrong_type(value: &Value) -> String {
    match value {
        Value::Null => NOTHING.to_owned(),
        Value::Bool(truth) => format!("{truth} is a truth value (so are y, n, yes, no, on and off without quotes)"),
        Value::Number(number) if number.is_i64() => format!("{number} is a number"),
        Value::Number(number) => format!("{number} is not written as a whole number, or too large"),
        Value::String(text) => format!("`{}` is a text", shown(text)),
        Value::Array(_) => "a list stands there".to_owned(),
        Value::Object(_) => "fields stand there".to_owned(),
    }
}

/// A text as it may be repeated: on one line, cut.
pub(super) fn shown(text: &str) -> String {
    const KEPT: usize = 60;
    let mut line: String = text.chars().take(KEPT).flat_map(char::escape_debug).collect();
    if text.chars().nth(KEPT).is_some() {
        line.push('…');
    }
    line
}
