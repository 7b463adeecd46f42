//! Flaws without the values in them: a Run holds what nobody else may read. PURE.

use serde_json::Value;

use crate::explain::shape::{Flaw, shown};

/// Parts of a spec that hold what is executed or handed over.
const CONCEALED: [&str; 4] = ["bash", "writeFile", "readFile", "editFile"];
/// Fields of them that may be repeated.
const PLAIN: [&str; 7] = ["cwd", "path", "name", "mode", "offset", "length", "replaceAll"];

/// The same flaw; where its value is nobody's to read, `it` stands for it.
pub(super) fn conceal(flaw: Flaw, spec: &Value) -> Flaw {
    let Some(value) = at(spec, &flaw.path).filter(|_| is_concealed(&flaw.path)) else { return flaw };
    let said = match value {
        Value::String(text) => format!("`{}`", shown(text)),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => return flaw,
    };
    match flaw.text.strip_prefix(&said) {
        Some(rest) => {
            // As in `write it in quotes, "5"`.
            let rest = rest.strip_suffix(&format!(", \"{said}\"")).unwrap_or(rest);
            Flaw::new(flaw.path, format!("it{rest}"))
        }
        None => flaw,
    }
}

fn is_concealed(path: &str) -> bool {
    let mut fields = path.split('.').map(|part| part.split('[').next().unwrap_or_default());
    // The whole spec may be a text.
    let Some(tool) = fields.nth(1) else { return true };
    CONCEALED.contains(&tool) && !fields.next_back().is_some_and(|last| PLAIN.contains(&last))
}

/// The value at a path such as `spec.bash.env[0].value`.
fn at<'v>(spec: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').skip(1).try_fold(spec, |value, part| {
        let mut parts = part.split('[');
        let value = value.get(parts.next()?)?;
        parts.try_fold(value, |value, index| value.get(index.strip_suffix(']')?.parse::<usize>().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[rstest]
    #[case::number(json!({"bash": {"command": 5}}), "spec.bash.command", "5 is a number: write it in quotes, \"5\"", "it is a number: write it in quotes")]
    #[case::truth(json!({"bash": {"stdin": true}}), "spec.bash.stdin", "true is a truth value", "it is a truth value")]
    #[case::value(json!({"bash": {"env": [{"value": "a b"}]}}), "spec.bash.env[0].value", "`a b` has not", "it has not")]
    #[case::entry(json!({"bash": {"env": ["A=b"]}}), "spec.bash.env[0]", "`A=b` is a text", "it is a text")]
    #[case::tool(json!({"bash": "a"}), "spec.bash", "`a` is a text", "it is a text")]
    #[case::spec(json!("a"), "spec", "`a` is a text", "it is a text")]
    #[case::name(json!({"bash": {"env": [{"name": "A-B"}]}}), "spec.bash.env[0].name", "`A-B` has", "`A-B` has")]
    #[case::other(json!({"timeout": "x"}), "spec.timeout", "`x` is no", "`x` is no")]
    #[case::path(json!({"readFile": {"path": 5}}), "spec.readFile.path", "5 is", "5 is")]
    fn what_is_executed_is_not_repeated(
        #[case] spec: Value,
        #[case] path: &str,
        #[case] text: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(conceal(Flaw::new(path, text), &spec).text, expected);
    }
}
