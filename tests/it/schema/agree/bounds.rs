//! Values just inside and just outside of everything that the schema of a policy says, made from the schema.

use api::values::GoDuration;
use serde_json::{Value, json};

use super::Trial;

/// The fields of a policy that take a span of time, a size, a count.
pub const TIMES: [&str; 5] =
    ["limits.timeout", "limits.start", "lifecycle.hibernateAfter", "lifecycle.expireAfter", "lifecycle.maxAwake"];
pub const SIZES: [&str; 7] = [
    "limits.output",
    "limits.command",
    "limits.stdin",
    "limits.write",
    "limits.read",
    "resources.memory",
    "resources.storage",
];
pub const COUNTS: [&str; 4] = ["limits.parallelRuns", "resources.cpus", "quota.sessions", "quota.runsPerDay.user"];

/// So many hosts.
pub fn hosts(many: usize) -> Value {
    (0..many).map(|n| format!("h{n}.example.com")).collect()
}

/// A spec with one value; `[]` and `*` in a path are an entry of a list and of a map.
pub fn place(path: &str, value: Value) -> Value {
    let spec = path.rsplit('.').fold(value, |inner, step| match step.strip_suffix("[]") {
        Some(name) => json!({name: [inner]}),
        None if step == "*" => json!({"pro": inner}),
        None => json!({step: inner}),
    });
    // Entries need a mode that has some, and variables a name.
    let spec = if path.starts_with("egress.") && path != "egress.mode" {
        super::super::with(json!({"egress": {"mode": "Allowlist"}}), &spec)
    } else {
        spec
    };
    if path == "environment.set[].value" {
        let mut spec = spec;
        spec["environment"]["set"][0]["name"] = json!("A");
        return spec;
    }
    spec
}

fn walk(path: &str, node: &Value, found: &mut Vec<(String, Value)>) {
    found.push((path.to_owned(), node.clone()));
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    for (name, field) in node["properties"].as_object().into_iter().flatten() {
        walk(&below(name), field, found);
    }
    if node["items"].is_object() {
        walk(&format!("{path}[]"), &node["items"], found);
    }
    if node["additionalProperties"].is_object() {
        walk(&below("*"), &node["additionalProperties"], found);
    }
}

/// Distinct good entries of a list or map.
fn entries(path: &str, many: u64) -> Value {
    let all = 0..many;
    match path {
        "egress.allow" | "egress.deny" => hosts(usize::try_from(many).unwrap()),
        "egress.presets" => all.map(|_| json!("Defaults")).collect(),
        "environment.set" => all.map(|n| json!({"name": format!("X{n}")})).collect(),
        "environment.allow" | "commands.deny" => all.map(|n| json!(format!("X{n}"))).collect(),
        "quota.concurrentRuns.byTier" => Value::Object(all.map(|n| (format!("t{n}"), json!(1))).collect()),
        other => panic!("say what entries of {other} look like"),
    }
}

/// The text after these words in the rule of CEL, up to `end`.
fn in_rule<'a>(node: &'a Value, words: &str, end: char) -> Option<&'a str> {
    let rule = node["x-kubernetes-validations"][0]["rule"].as_str()?;
    rule.split_once(words)?.1.split(end).next().map(str::trim)
}

/// At and round every bound.
fn edges(path: &str, node: &Value) -> Vec<Value> {
    let mut values = Vec::new();
    let whole = |key: &str| node[key].as_f64().map(|bound| format!("{bound:.0}").parse::<i64>().unwrap());
    for bound in [whole("minimum"), whole("maximum")].into_iter().flatten() {
        values.extend([bound - 1, bound, bound + 1].map(|n| json!(n)));
    }
    for bound in ["minLength", "maxLength"].into_iter().filter_map(|key| node[key].as_u64()) {
        for many in bound.saturating_sub(1)..=bound + 1 {
            let many = usize::try_from(many).unwrap();
            values.extend(["x", "X", "é", "0", "\0", " "].map(|unit| json!(unit.repeat(many))));
            values.push(json!(format!("{:0>many$}", "1s")));
        }
    }
    for bound in ["maxItems", "maxProperties"].into_iter().filter_map(|key| node[key].as_u64()) {
        values.extend([0, bound, bound + 1].map(|many| entries(path, many)));
    }
    for word in node["enum"].as_array().into_iter().flatten() {
        let word = word.as_str().unwrap();
        values.extend([word.to_owned(), word.to_lowercase(), format!("{word} ")].map(|text| json!(text)));
    }
    if let (Some(most), Some(least)) = (in_rule(node, "<= duration('", '\''), in_rule(node, ">= duration('", '\'')) {
        let nanos = |text: &str| text.parse::<GoDuration>().unwrap().get().as_nanos();
        for bound in [nanos(most), nanos(least)] {
            let round = [bound.saturating_sub(1), bound, bound + 1];
            values.extend(round.map(|nanos| json!(format!("{nanos}ns"))));
        }
    }
    if let Some(most) = in_rule(node, "self <= ", ':').filter(|_| node["x-kubernetes-int-or-string"] == json!(true)) {
        let most: u64 = most.parse().unwrap();
        for bound in [most - 1, most, most + 1] {
            values.extend([json!(bound), json!(bound.to_string()), json!(format!("{bound}000m"))]);
        }
    }
    values
}

/// Every node with values of every type, its edges, and its lists with an entry twice; a field that nothing has.
pub fn trials() -> Vec<Trial> {
    let (_, crd) = api::crds().unwrap().into_iter().find(|(file, _)| file.starts_with("executionpolicies")).unwrap();
    let crd = serde_json::to_value(crd).unwrap();
    let mut nodes = Vec::new();
    walk("", &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"], &mut nodes);
    assert!(nodes.len() > 60, "{} nodes", nodes.len());
    let any = [
        json!(null),
        json!(true),
        json!(3),
        json!(-3),
        json!(1.5),
        json!(1.0),
        json!(1e30),
        json!(""),
        json!("x"),
        json!("1"),
        json!([]),
        json!([null]),
        json!(["x"]),
        json!({}),
        json!({"x": 1}),
        json!({"x": null}),
    ];
    let mut trials = Vec::new();
    for (path, node) in nodes.iter().filter(|(path, _)| !path.is_empty()) {
        let mut values = edges(path, node);
        values.extend(any.iter().cloned());
        if node["maxItems"].is_u64() {
            let one = entries(path, 1)[0].clone();
            values.push(json!([one, one]));
        }
        for value in values {
            trials.push(Trial::policy(format!("{path}: {:.60}", value.to_string()), place(path, value)));
        }
    }
    for spec in [json!(null), json!("x"), json!([]), json!({"nothing": 1})] {
        trials.push(Trial::policy(format!("spec: {spec}"), spec));
    }
    trials
}
