//! An expression of CEL: from its text to what it says of a value. PURE.
//!
//! Operators, `has`, `size`, `bytes`, `duration`, fields of `self`, and `[…].filter(x, x)`. Anything else is not read.

use std::{cmp::Ordering, time::Duration};

use serde_json::Value;

use super::reader;
use api::values::GoDuration;

/// An expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
    Compare(Box<Self>, Operator, Box<Self>),
    /// `self`, or a field at this path of it.
    Field(Vec<String>),
    Has(Vec<String>),
    Size(Box<Self>),
    Bytes(Box<Self>),
    Span(Box<Self>),
    /// What is true of a list of truth values.
    True(Box<Self>),
    List(Vec<Self>),
    Text(String),
    Number(i64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// What an expression comes to.
#[derive(Debug, Clone, PartialEq)]
enum Term {
    Truth(bool),
    Number(i64),
    Span(Duration),
    /// A number of bytes that stands for them.
    Bytes(i64),
    List(Vec<Term>),
    Json(Value),
}

impl Expression {
    /// Reads a whole expression; nothing where there is something in it that is not known.
    pub(super) fn parse(text: &str) -> Option<Self> {
        reader::read(text)
    }

    /// Whether it holds of a value; nothing where it cannot be told, as for a value of another type.
    pub(super) fn holds(&self, value: &Value) -> Option<bool> {
        match self.of(value)? {
            Term::Truth(truth) => Some(truth),
            Term::Json(json) => json.as_bool(),
            Term::Number(_) | Term::Span(_) | Term::Bytes(_) | Term::List(_) => None,
        }
    }

    fn of(&self, value: &Value) -> Option<Term> {
        let truth = |truth: Option<bool>| truth.map(Term::Truth);
        match self {
            Self::Not(inner) => truth(inner.holds(value).map(|holds| !holds)),
            // One side can decide whatever the other is.
            Self::And(one, other) => truth(match (one.holds(value), other.holds(value)) {
                (Some(false), _) | (_, Some(false)) => Some(false),
                (Some(true), Some(true)) => Some(true),
                (None, _) | (_, None) => None,
            }),
            Self::Or(one, other) => truth(match (one.holds(value), other.holds(value)) {
                (Some(true), _) | (_, Some(true)) => Some(true),
                (Some(false), Some(false)) => Some(false),
                (None, _) | (_, None) => None,
            }),
            Self::Compare(one, operator, other) => truth(compare(&one.of(value)?, *operator, &other.of(value)?)),
            Self::Field(path) => field(value, path).cloned().map(Term::Json),
            Self::Has(path) => {
                let (last, outer) = path.split_last()?;
                let fields = field(value, outer)?.as_object()?;
                Some(Term::Truth(fields.contains_key(last)))
            }
            Self::Size(inner) => Some(Term::Number(match inner.of(value)? {
                Term::Bytes(bytes) => bytes,
                Term::List(list) => count(list.len()),
                Term::Json(Value::String(text)) => count(text.chars().count()),
                Term::Json(Value::Array(list)) => count(list.len()),
                Term::Json(Value::Object(fields)) => count(fields.len()),
                Term::Json(Value::Null | Value::Bool(_) | Value::Number(_))
                | Term::Truth(_)
                | Term::Number(_)
                | Term::Span(_) => return None,
            })),
            Self::Bytes(inner) => text(&inner.of(value)?).map(|text| Term::Bytes(count(text.len()))),
            Self::Span(inner) => text(&inner.of(value)?)
                .and_then(|text| text.parse::<GoDuration>().ok())
                .map(|span| Term::Span(span.get())),
            Self::True(inner) => match inner.of(value)? {
                Term::List(list) => {
                    Some(Term::List(list.into_iter().filter(|term| *term == Term::Truth(true)).collect()))
                }
                Term::Truth(_) | Term::Number(_) | Term::Span(_) | Term::Bytes(_) | Term::Json(_) => None,
            },
            Self::List(list) => list.iter().map(|item| item.of(value)).collect::<Option<_>>().map(Term::List),
            Self::Text(text) => Some(Term::Json(Value::String(text.clone()))),
            Self::Number(number) => Some(Term::Number(*number)),
        }
    }
}

fn count(many: usize) -> i64 {
    i64::try_from(many).unwrap_or(i64::MAX)
}

fn text(term: &Term) -> Option<&str> {
    match term {
        Term::Json(json) => json.as_str(),
        Term::Truth(_) | Term::Number(_) | Term::Span(_) | Term::Bytes(_) | Term::List(_) => None,
    }
}

fn field<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, name| value.as_object()?.get(name))
}

fn compare(one: &Term, operator: Operator, other: &Term) -> Option<bool> {
    let number = |term: &Term| match term {
        Term::Number(number) => Some(*number),
        Term::Json(json) => json.as_i64(),
        Term::Truth(_) | Term::Span(_) | Term::Bytes(_) | Term::List(_) => None,
    };
    let order = match (one, other) {
        (Term::Span(one), Term::Span(other)) => Some(one.cmp(other)),
        (one, other) => number(one).zip(number(other)).map(|(one, other)| one.cmp(&other)),
    };
    match operator {
        Operator::Equal => Some(order.map_or(one == other, Ordering::is_eq)),
        Operator::Unequal => Some(order.map_or(one != other, Ordering::is_ne)),
        Operator::Less => order.map(Ordering::is_lt),
        Operator::AtMost => order.map(Ordering::is_le),
        Operator::More => order.map(Ordering::is_gt),
        Operator::AtLeast => order.map(Ordering::is_ge),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case("has(self.a) != has(self.b)", Some(true))]
    #[case("!has(self.a) || has(self.b)", Some(false))]
    #[case("[has(self.a), has(self.b)].filter(x, x).size() == 1", Some(true))]
    #[case("size(self.a) >= 3 && self.a.size() < 4", Some(true))]
    #[case("size(bytes(self.a)) == 4", Some(true))]
    #[case("self.a == 'xéz'", Some(true))]
    #[case("self.n > 4 && !(self.n <= 4)", Some(true))]
    #[case("duration(self.t) <= duration('1m')", Some(true))]
    #[case("duration(self.a) <= duration('1m')", None)]
    #[case("has(self.a) || self.missing", Some(true))]
    #[case("has(self.o.in)", Some(true))]
    #[case("has(self.a.in)", None)]
    fn an_expression_holds_or_not(#[case] rule: &str, #[case] holds: Option<bool>) {
        let value = json!({"a": "xéz", "n": 5, "t": "30s", "o": {"in": 1}});
        let read = Expression::parse(rule).unwrap();
        assert_eq!(read.holds(&value), holds, "{rule}: {read:?}");
    }

    #[rstest]
    #[case("self.all(x, x > 1)")]
    #[case("self.a.matches('^a$')")]
    #[case("self.filter(x, x > 1)")]
    #[case("has(self)(")]
    #[case("'a\\'b' == self")]
    #[case("self.a ? 1 : 2")]
    #[case("(self.a")]
    #[case("99999999999999999999 == self")]
    #[case("unknown(self)")]
    fn what_is_not_known_is_not_read(#[case] rule: &str) {
        assert_eq!(Expression::parse(rule), None);
    }
}
