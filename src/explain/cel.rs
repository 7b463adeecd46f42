//! The rules of CEL in our schemas, as the API server applies them to an object that is new. PURE.
//!
//! The part of CEL that these rules use; a test reads all of them. Rules about a change (`oldSelf`) say nothing of a new object.

mod expression;
mod reader;

use serde_json::Value;

use self::expression::Expression;
use super::shape::{Flaw, shown};

/// Every rule of a schema that a value breaks; `null` counts as absent, so there is none in the value.
pub(super) fn flaws(schema: &Value, value: &Value, path: &str) -> Vec<Flaw> {
    let mut found = Vec::new();
    walk(schema, value, path, &mut found);
    found
}

fn walk(schema: &Value, value: &Value, path: &str, found: &mut Vec<Flaw>) {
    for (rule, message) in rules(schema) {
        if Expression::parse(rule).and_then(|rule| rule.holds(value)) == Some(false) {
            let text = match value {
                Value::String(text) => format!("`{}` is not taken: {message}", shown(text)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    message.to_owned()
                }
            };
            found.push(Flaw::new(path, text));
        }
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let known = schema.get("properties").and_then(|known| known.get(name));
                if let Some(schema) = known.or_else(|| schema.get("additionalProperties")) {
                    walk(schema, value, &format!("{path}.{name}"), found);
                }
            }
        }
        Value::Array(list) => {
            if let Some(schema) = schema.get("items") {
                for (at, value) in list.iter().enumerate() {
                    walk(schema, value, &format!("{path}[{at}]"), found);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The rules of one node about a new value, each with what to write instead.
fn rules(schema: &Value) -> impl Iterator<Item = (&str, &str)> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    rules
        .into_iter()
        .flatten()
        .filter_map(|rule| Some((rule.get("rule")?.as_str()?, rule.get("message")?.as_str()?)))
        .filter(|(rule, _)| !rule.contains("oldSelf"))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::explain::shape;

    fn every_rule<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
        found.extend(rules(schema).map(|(rule, _)| rule));
        let inner = ["properties"].iter().filter_map(|key| schema.get(key)?.as_object());
        inner.flat_map(|known| known.values()).for_each(|schema| every_rule(schema, found));
        ["items", "additionalProperties"].iter().filter_map(|key| schema.get(key)).for_each(|s| every_rule(s, found));
    }

    #[test]
    fn every_rule_of_a_run_is_read() {
        let mut found = Vec::new();
        every_rule(shape::run().unwrap(), &mut found);
        assert!(found.len() > 8, "{found:#?}");
        let unread: Vec<_> = found.iter().filter(|rule| Expression::parse(rule).is_none()).collect();
        assert!(unread.is_empty(), "{unread:#?}");
    }

    #[rstest]
    #[case::good(json!({"session": {"drive": "d"}, "bash": {"command": "true"}}), &[])]
    #[case::no_tool(json!({"session": {"drive": "d"}}), &["spec: write exactly one of bash"])]
    #[case::two_tools(json!({"session": {"drive": "d"}, "bash": {}, "readFile": {}}), &["spec: write exactly one of bash"])]
    #[case::no_session(json!({"session": {}, "bash": {}}), &["spec.session: write either session.name or session.drive"])]
    #[case::alone(json!({"session": {"name": "s", "conversation": "c"}, "bash": {}}), &["spec.session: session.conversation needs"])]
    #[case::bytes(json!({"session": {"drive": "é".repeat(127)}, "bash": {}}), &["spec.session.drive: `ééé"])]
    #[case::long(json!({"session": {"drive": "d"}, "bash": {}, "timeout": "1h"}), &["spec.timeout: `1h` is not taken: write a duration"])]
    #[case::short(json!({"session": {"drive": "d"}, "bash": {}, "timeout": "0s"}), &["spec.timeout: `0s`"])]
    #[case::no_span(json!({"session": {"drive": "d"}, "bash": {}, "timeout": "x"}), &[])]
    #[case::contents(json!({"session": {"drive": "d"}, "writeFile": {"path": "a"}}), &["spec.writeFile: write exactly one of content"])]
    #[case::same(json!({"session": {"drive": "d"}, "editFile": {"oldText": "a", "newText": "a"}}), &["spec.editFile: oldText"])]
    #[case::no_object(json!({"session": 5, "bash": {}}), &[])]
    fn what_a_rule_refuses_is_named(#[case] spec: Value, #[case] starts: &[&str]) {
        let found: Vec<_> = flaws(shape::run().unwrap(), &spec, "spec").iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for start in starts {
            assert!(found.iter().any(|flaw| flaw.starts_with(start)), "{start}: {found:#?}");
        }
    }
}
