//! The schemas as documents: everything is described and bounded, every rule is tested both ways.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Accepted, Case, Refused, changes, policies, runs, sessions, values};

/// A schema node with where it stands.
type Node = (String, Value);

fn schemas() -> Vec<(&'static str, Value)> {
    let crds = api::crds().unwrap().into_iter();
    crds.map(|(file, crd)| {
        let crd = serde_json::to_value(crd).unwrap();
        (file, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone())
    })
    .collect()
}

/// Every node of a schema: fields, and what lists and maps hold.
fn nodes(path: &str, node: &Value, found: &mut Vec<Node>) {
    found.push((path.to_owned(), node.clone()));
    for (name, field) in node["properties"].as_object().into_iter().flatten() {
        nodes(&format!("{path}.{name}"), field, found);
    }
    if node["items"].is_object() {
        nodes(&format!("{path}[]"), &node["items"], found);
    }
    if node["additionalProperties"].is_object() {
        nodes(&format!("{path}.*"), &node["additionalProperties"], found);
    }
}

fn all_nodes() -> Vec<Node> {
    let mut found = Vec::new();
    for (file, schema) in schemas() {
        nodes(file.trim_end_matches(".yaml"), &schema, &mut found);
    }
    assert!(found.len() > 200, "the walk finds {} nodes", found.len());
    found
}

fn all(wrong: impl Fn(&str, &Value) -> bool) -> Vec<String> {
    all_nodes().into_iter().filter(|(path, node)| wrong(path, node)).map(|(path, _)| path).collect()
}

#[test]
fn every_field_is_described() {
    let undescribed = all(|path, node| {
        // What a list or map holds is described with it, unless it has fields.
        let held = (path.ends_with("[]") || path.ends_with(".*")) && node["properties"].is_null();
        let listed = path.ends_with("[]");
        !held && !listed && node["description"].as_str().is_none_or(|d| d.trim().len() < 3)
    });
    assert_eq!(undescribed, [""; 0]);
}

#[test]
fn every_description_is_a_sentence() {
    let poor = all(|_, node| node["description"].as_str().is_some_and(|d| !d.ends_with(['.', ')'])));
    assert_eq!(poor, [""; 0]);
}

#[test]
fn everything_that_can_be_long_is_bounded() {
    let unbounded = all(|_, node| match node["type"].as_str() {
        Some("array") => node["maxItems"].is_null(),
        Some("string") => {
            node["maxLength"].is_null() && node["enum"].is_null() && node["format"].as_str() != Some("date-time")
        }
        Some("object") => node["properties"].is_null() && node["maxProperties"].is_null(),
        _ => node["x-kubernetes-int-or-string"] == json!(true) && node["maxLength"].is_null(),
    });
    assert_eq!(unbounded, [""; 0]);
}

#[test]
fn every_node_has_a_type_that_kubernetes_knows() {
    let strange = all(|_, node| {
        let kind = node["type"].as_str();
        let size = node["x-kubernetes-int-or-string"] == json!(true);
        let form = json!([{"type": "integer"}, {"type": "string"}]);
        match kind {
            Some("integer") => !matches!(node["format"].as_str(), Some("int32" | "int64")),
            Some("array" | "string" | "object" | "boolean") => false,
            _ => !size || node["anyOf"] != form,
        }
    });
    assert_eq!(strange, [""; 0]);
}

#[test]
fn no_word_is_null_and_no_field_is_nullable() {
    let nullable = all(|_, node| {
        !node["nullable"].is_null() || node["enum"].as_array().is_some_and(|words| words.iter().any(Value::is_null))
    });
    assert_eq!(nullable, [""; 0]);
}

#[test]
fn every_list_says_how_it_merges() {
    let silent = all(|_, node| node["type"] == "array" && node["x-kubernetes-list-type"].is_null());
    // Not a list of ours: the values of one key of a user's extra attributes.
    assert_eq!(silent, ["runs.spec.actor.extra.*"]);
    let conditions =
        all(|path, node| path.ends_with("conditions") && node["x-kubernetes-list-map-keys"] != json!(["type"]));
    assert_eq!(conditions, [""; 0]);
}

#[test]
fn nothing_is_kept_that_the_schema_does_not_know() {
    let open = all(|_, node| !node["x-kubernetes-preserve-unknown-fields"].is_null());
    assert_eq!(open, [""; 0]);
}

#[test]
fn only_specs_and_the_whole_status_have_defaults() {
    let defaults = all(|path, node| path.contains(".status.") && !node["default"].is_null());
    assert_eq!(defaults, [""; 0]);
}

#[test]
fn names_columns_and_selectors_are_as_documented() {
    let crds: BTreeMap<_, _> =
        api::crds().unwrap().into_iter().map(|(file, crd)| (file, serde_json::to_value(crd).unwrap())).collect();
    for (file, scope, short, columns, selectable) in [
        ("executionpolicies.yaml", "Cluster", "xpol", "Egress Timeout Ready Sessions Suspended* Reason* Age", ""),
        (
            "runs.yaml",
            "Namespaced",
            "srun",
            "Phase Reason Admitted Exit Duration-Ms Session User* Message* Age",
            ".spec.session.name .status.phase",
        ),
        (
            "sandboxsessions.yaml",
            "Namespaced",
            "sbx",
            "Phase Ready State Policy Runs Drive* Sprite* Reason* Last-Active Age",
            ".spec.drive .status.phase",
        ),
        ("sandboxusages.yaml", "Namespaced", "sbu", "User Active Last 24h Limit Age", ""),
    ] {
        let spec = &crds[file]["spec"];
        assert_eq!(spec["scope"], scope, "{file}");
        assert_eq!(spec["names"]["shortNames"], json!([short]), "{file}");
        assert_eq!(spec["names"]["categories"], json!(["sprites"]), "{file}");
        let version = &spec["versions"][0];
        let name = |column: &Value| {
            let wide = if column["priority"].is_null() { "" } else { "*" };
            format!("{}{wide}", column["name"].as_str().unwrap())
        };
        let found: Vec<_> = version["additionalPrinterColumns"].as_array().unwrap().iter().map(name).collect();
        assert_eq!(found.join(" "), columns, "{file}");
        let fields = version["selectableFields"].as_array().into_iter().flatten();
        let fields: Vec<_> = fields.map(|f| f["jsonPath"].as_str().unwrap()).collect();
        assert_eq!(fields.join(" "), selectable, "{file}");
        assert_eq!(version["subresources"], json!({"status": {}}), "{file}");
        let status = &version["schema"]["openAPIV3Schema"]["properties"]["status"];
        assert_eq!(status["default"], json!({"observedGeneration": -1}), "{file}");
    }
}

fn cases() -> Vec<Case> {
    let tables = [
        runs::selectors(),
        runs::actions(),
        runs::bash(),
        runs::files(),
        runs::actors(),
        policies::egress(),
        policies::commands(),
        policies::numbers(),
        sessions::sessions(),
        sessions::usages(),
        values::runs(),
        values::policies(),
        changes::full_run(),
        changes::plain_run(),
        changes::cancelled_run(),
        changes::session(),
        changes::usage(),
    ];
    tables.into_iter().flatten().collect()
}

#[test]
fn every_rule_refuses_something_in_these_tests() {
    let refused: BTreeSet<_> = cases()
        .into_iter()
        .filter_map(|(_, _, want)| match want {
            Refused(message) => Some(message),
            Accepted => None,
        })
        .collect();
    let mut untested = Vec::new();
    for (path, node) in all_nodes() {
        for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let message = rule["message"].as_str().unwrap_or_else(|| panic!("a rule of {path} says nothing"));
            if !refused.contains(message) {
                untested.push(format!("{path}: {message}"));
            }
        }
        let field = path.split_once('.').map_or("", |(_, field)| field).replace("[]", "[0]");
        let pattern = format!("{field} in body should match");
        // Values with a unit have messages of their own, tested above.
        let valued = node["x-kubernetes-validations"].is_array();
        if field.starts_with("spec") && !node["pattern"].is_null() && !valued {
            let tested = refused.iter().any(|message| message.starts_with(&pattern));
            if !tested {
                untested.push(format!("{path}: its pattern"));
            }
        }
    }
    assert_eq!(untested, [""; 0]);
}

#[test]
fn a_message_says_what_to_write_and_ends_without_a_full_stop() {
    for (path, node) in all_nodes() {
        for rule in node["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let message = rule["message"].as_str().unwrap();
            assert!(message.len() > 20 && !message.ends_with('.'), "{path}: {message}");
        }
    }
}
