//! What can be read of a manifest with mistakes, so that one hides no other. PURE.
//!
//! Must not take a mistake for a value: what is left out here has its complaint.

use kube::core::ObjectMeta;
use serde_json::{Value, json};
use serde_path_to_error::{Path, Segment};

use super::shape::{self, Flaw};
use api::execution_policy::ExecutionPolicySpec;

/// What can be read of a spec: a value that cannot be read counts as absent. Then what was wrong and is not known yet.
pub(super) fn spec(mut spec: Value, flaws: &[Flaw]) -> (ExecutionPolicySpec, Vec<String>) {
    let mut unread = Vec::new();
    loop {
        let error = match serde_path_to_error::deserialize(&spec) {
            Ok(spec) => return (spec, unread),
            Err(error) => error,
        };
        let path = format!("spec.{}", error.path());
        // What was taken out of a list before has moved its entries.
        let list = path.split('[').next().unwrap_or_default();
        if !flaws.iter().any(|flaw| is_within(&flaw.path, list) || is_within(&path, &flaw.path)) {
            unread.push(format!("{path}: {}", error.inner()));
        }
        if !take_out(&mut spec, error.path()) {
            return (ExecutionPolicySpec::default(), unread);
        }
    }
}

/// What can be read of metadata; each value that cannot be is named.
pub(super) fn metadata(metadata: Option<&Value>) -> (ObjectMeta, Vec<String>) {
    let mut value = metadata.cloned().unwrap_or_else(|| json!({}));
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = json!({
        "type": "object", "properties": {"name": {"type": "string"}, "labels": texts, "annotations": texts},
    });
    // Names of fields are looked at elsewhere.
    let ours =
        |path: &str| ["metadata.name", "metadata.labels", "metadata.annotations"].iter().any(|of| is_within(path, of));
    let flaws: Vec<Flaw> = shape::flaws(&schema, &value, "metadata")
        .into_iter()
        .filter(|f| f.path == "metadata" || ours(&f.path))
        .collect();
    let mut complaints: Vec<String> = flaws.iter().map(ToString::to_string).collect();
    loop {
        let error = match serde_path_to_error::deserialize(&value) {
            Ok(metadata) => return (metadata, complaints),
            Err(error) => error,
        };
        let field = error.path().iter().next().map(ToString::to_string).unwrap_or_default();
        let path = format!("metadata.{field}");
        if !field.is_empty() && !flaws.iter().any(|flaw| is_within(&flaw.path, &path)) {
            complaints.push(format!("{path}: it cannot be read ({}): leave it out", error.inner()));
        }
        if value.as_object_mut().and_then(|fields| fields.remove(&field)).is_none() {
            return (ObjectMeta::default(), complaints);
        }
    }
}

/// Takes out what stands at a path, or the nearest thing round it; whether there was anything.
fn take_out(value: &mut Value, path: &Path) -> bool {
    let Some((key, rest)) = path.iter().collect::<Vec<_>>().split_first().map(|(key, rest)| (*key, rest.to_vec()))
    else {
        return false;
    };
    take_out_at(value, key, &rest)
}

fn take_out_at(value: &mut Value, segment: &Segment, rest: &[&Segment]) -> bool {
    let inner = match segment {
        Segment::Map { key } => value.get_mut(key),
        Segment::Seq { index } => value.get_mut(index),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    if let (Some(inner), Some((next, rest))) = (inner, rest.split_first())
        && take_out_at(inner, next, rest)
    {
        return true;
    }
    match (segment, value) {
        (Segment::Map { key }, Value::Object(fields))
            if key == "mode" && fields.get(key).is_some_and(|v| v != "Allowlist") =>
        {
            // The entries beside it are judged as the mode judges them that takes them.
            fields.insert(key.clone(), "Allowlist".into());
            true
        }
        (Segment::Map { key }, Value::Object(fields)) => fields.remove(key).is_some(),
        (Segment::Seq { index }, Value::Array(list)) if *index < list.len() => {
            list.remove(*index);
            true
        }
        (Segment::Map { .. } | Segment::Seq { .. } | Segment::Enum { .. } | Segment::Unknown, _) => false,
    }
}

/// Whether the walk over the schema has said of the same value what an error of the rules says.
pub(super) fn is_said(error: &str, flaws: &[Flaw]) -> bool {
    let Some((field, text)) = error.split_once(": ") else { return false };
    let field = format!("spec.{field}");
    let many = "there are ";
    // `A` is set twice, `A-B` is no variable name.
    let name = text.strip_prefix('`').and_then(|text| text.split_once('`')).filter(|(_, rest)| {
        field.starts_with("spec.environment")
            && (rest.starts_with(" is set twice") || rest.starts_with(" is no variable name"))
    });
    flaws.iter().any(|flaw| {
        is_within(&flaw.path, &field)
            && (flaw.text == text
                || text.starts_with(many) && flaw.text.starts_with(many) && flaw.path == field
                || name.is_some_and(|(name, _)| flaw.text.starts_with(&format!("`{name}` "))))
    })
}

/// Whether a path is another, or below it.
fn is_within(path: &str, of: &str) -> bool {
    path.strip_prefix(of).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_cannot_be_read_is_named_and_the_others_are_kept() {
        let written = json!({"limits": {"timeout": 1, "output": 5}, "egress": {"allow": [2, "a"]}, "suspend": true});
        let (read, unread) = spec(written.clone(), &[]);
        assert!(read.suspend && read.limits.output.bytes() == 5 && read.egress.allow == ["a"]);
        assert_eq!(unread.len(), 2, "{unread:?}");
        assert!(unread.iter().any(|text| text.starts_with("spec.egress.allow[0]: ")), "{unread:?}");
        // What the walk has named already is not named again; a longer name of another field is not the same.
        let known = [Flaw::new("spec.limits.timeout", ""), Flaw::new("spec.egress.al", "")];
        assert_eq!(spec(written, &known).1.len(), 1);
        assert_eq!(spec(json!(5), &[]).0, ExecutionPolicySpec::default());
        assert_eq!(spec(json!([5, 5, 5]), &[]).0, ExecutionPolicySpec::default());
    }
}
