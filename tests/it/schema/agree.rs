//! The dry run and the API server agree: what the server refuses in a field, the dry run refuses for that field as well.
//!
//! The other way round is not asked for: the rules refuse more than a schema can.

mod bounds;

use serde_json::{Value, json};
use sprite_operator::explain::{Item, Kind, PolicyReport, Verdict, judge};

use super::{Case, object, policies, try_create, values};
use test_support::cluster;

/// One object, and what the dry run says of it.
pub struct Trial {
    kind: &'static str,
    what: String,
    spec: Value,
    refused: bool,
}

/// Where server and dry run are known to differ: the start of `what`, and why. Empty, and may it stay so.
const EXPLAINED: [(&str, &str); 0] = [];

impl Trial {
    /// A policy, judged as its whole manifest.
    pub fn policy(what: impl Into<String>, spec: Value) -> Self {
        let manifest = object("ExecutionPolicy", "case", &spec).to_string();
        let refused = PolicyReport::read(&manifest, true).map_or(true, |report| !report.complaints.is_empty());
        Self { kind: "ExecutionPolicy", what: what.into(), spec, refused }
    }

    /// A Run with a change, judged as an item.
    pub fn run(what: impl Into<String>, change: &Value, kind: Kind, item: &Value) -> Self {
        let policy = widest();
        let under = matches!(kind, Kind::Command | Kind::Duration).then_some(&policy);
        Self {
            kind: "Run",
            what: what.into(),
            spec: super::with(json!({"session": {"drive": "d"}, "bash": {"command": "true"}}), change),
            refused: refuses(kind, item, under),
        }
    }

    /// A policy with one value, judged as an item.
    pub fn item(what: impl Into<String>, spec: Value, kind: Kind, item: &Value) -> Self {
        Self { kind: "ExecutionPolicy", what: what.into(), spec, refused: refuses(kind, item, None) }
    }
}

/// The policy that refuses least of what a Run asks for.
fn widest() -> PolicyReport {
    let spec = json!({"limits": {"timeout": "55m", "command": "64Ki"}});
    PolicyReport::read(&object("ExecutionPolicy", "widest", &spec).to_string(), false).unwrap()
}

fn refuses(kind: Kind, item: &Value, policy: Option<&PolicyReport>) -> bool {
    // What is no item at all is refused as well.
    let item = Item::parse(kind, &json!({"in": item}).to_string(), 1);
    item.map_or(true, |item| judge(kind, &item, policy).verdict == Verdict::Refuse)
}

/// Puts every trial to the API server; all differences at once. At least so many must be refused, and taken, by both.
async fn agree(trials: Vec<Trial>, least_refused: usize, least_taken: usize) {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let (mut refused, mut taken, mut wrong) = (0, 0, Vec::new());
    for trial in trials {
        let object = object(trial.kind, "case", &trial.spec);
        let answer = try_create(&client, trial.kind, "&fieldValidation=Strict", &object).await;
        match (answer.is_accepted(), trial.refused) {
            (true, false) => taken += 1,
            // The rules refuse more than a schema can.
            (true, true) => {}
            (false, is_refused) => {
                // 422: the schema, 400: not of its types. Anything else is a mistake of the test.
                assert!([400, 422].contains(&answer.code), "{}: {} {}", trial.what, answer.code, answer.message());
                refused += 1;
                let explained = EXPLAINED.iter().any(|(start, _)| trial.what.starts_with(start));
                if !is_refused && !explained {
                    wrong.push(format!("{}: taken by the dry run; {}", trial.what, answer.message()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    assert!(refused >= least_refused, "the API server refuses {refused} by itself");
    assert!(taken >= least_taken, "both take {taken}");
}

/// The cases of a file.
fn cases(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(cluster::root().join("tests/data/rules").join(file)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn name(case: &Value, field: &str) -> String {
    format!("{} in {field}", case["id"].as_str().unwrap())
}

fn allowlist(list: &str, entries: &Value) -> Value {
    json!({"egress": {"mode": "Allowlist", list: entries}})
}

#[tokio::test]
async fn on_host_names() {
    let mut trials = Vec::new();
    for case in cases("hostnames.jsonl") {
        let entries = match case["kind"].as_str().unwrap() {
            "egress-entry" => json!([case["in"]]),
            "egress-entry-list" => case["in"].clone(),
            "egress-host" => case["allow"].clone(),
            other => panic!("{other}"),
        };
        for list in ["allow", "deny"] {
            trials.push(Trial::policy(name(&case, list), allowlist(list, &entries)));
        }
        let what = name(&case, "allow, as an item");
        trials.push(Trial::item(what.clone(), allowlist("allow", &entries), Kind::EgressEntryList, &entries));
        if case["kind"] == "egress-entry" {
            trials.push(Trial::item(what, allowlist("allow", &entries), Kind::EgressEntry, &case["in"]));
        }
    }
    let long = format!("{}a.example.com{}", " ".repeat(124), " ".repeat(124));
    for entries in [json!(["a.example", "a.example"]), json!([long]), bounds::hosts(201), json!([""]), json!(["a.\0b"])]
    {
        let what = format!("{:.60} in allow, as an item", entries.to_string());
        trials.push(Trial::item(what, allowlist("allow", &entries), Kind::EgressEntryList, &entries));
    }
    agree(trials, 35, 40).await;
}

#[tokio::test]
async fn on_sizes_spans_of_time_and_counts() {
    let mut written: Vec<(String, Value)> = cases("quantities.jsonl")
        .iter()
        .map(|case| (case["kind"].as_str().unwrap().to_owned(), case["in"].clone()))
        .collect();
    written.extend(values::DURATIONS.iter().map(|text| ("duration".to_owned(), json!(text))));
    written.extend(values::SIZES.iter().map(|text| ("size".to_owned(), json!(text))));
    let numbers =
        [json!(-1), json!(0), json!(1.0), json!(1.5), json!(1e30), json!(u64::MAX), json!(i64::MAX), json!("1")];
    for kind in ["duration", "size", "count"] {
        written.extend(numbers.iter().map(|number| (kind.to_owned(), number.clone())));
        written.extend([json!(true), json!([]), json!({}), json!([1])].map(|other| (kind.to_owned(), other)));
    }
    let mut trials = Vec::new();
    for (kind, value) in &written {
        let (kind, fields): (_, &[&str]) = match kind.as_str() {
            "duration" => (Kind::Duration, &bounds::TIMES),
            "size" => (Kind::Size, &bounds::SIZES),
            "count" => (Kind::Count, &bounds::COUNTS),
            other => panic!("{other}"),
        };
        for field in fields {
            trials.push(Trial::policy(format!("{value} in {field}"), bounds::place(field, value.clone())));
        }
        let what = format!("{value} as an item");
        // The field that takes most.
        match kind {
            Kind::Duration => {
                for field in ["timeout", "ttlAfterFinished"] {
                    let what = format!("{value} in {field} of a Run, as an item");
                    let mut trial = Trial::run(what, &json!({field: value}), Kind::Duration, value);
                    if field == "ttlAfterFinished" {
                        trial.refused = refuses(Kind::Duration, value, None);
                    }
                    trials.push(trial);
                }
            }
            Kind::Size => {
                trials.push(Trial::item(what, bounds::place("resources.storage", value.clone()), kind, value));
            }
            _ => trials.push(Trial::item(what, bounds::place("quota.runsPerDay.user", value.clone()), kind, value)),
        }
    }
    agree(trials, 900, 350).await;
}

#[tokio::test]
async fn on_variables() {
    let mut pairs: Vec<String> =
        cases("environment.jsonl").iter().map(|c| c["in"].as_str().unwrap().to_owned()).collect();
    let long = |name: usize, value: usize| format!("{}={}", "N".repeat(name), "v".repeat(value));
    pairs.extend([long(256, 1), long(257, 1), long(1, 32_768), long(1, 32_769), format!("N={}", "é".repeat(16_385))]);
    pairs.extend(["A\n=1".to_owned(), "A =1".to_owned(), "A-B=1".to_owned()]);
    let mut trials = Vec::new();
    for pair in pairs {
        let (name, value) = pair.split_once('=').unwrap();
        let variable = json!([{"name": name, "value": value}]);
        let shown = format!("{:.40}", pair.escape_debug().to_string());
        trials.push(Trial::run(
            format!("{shown} in env"),
            &json!({"bash": {"env": variable}}),
            Kind::Env,
            &json!(pair),
        ));
        trials.push(Trial::policy(format!("{shown} in set"), json!({"environment": {"set": variable}})));
        trials.push(Trial::policy(format!("{shown} in allow"), json!({"environment": {"allow": [name]}})));
    }
    agree(trials, 30, 20).await;
}

#[tokio::test]
async fn on_paths_and_commands() {
    let mut trials = Vec::new();
    let text = |case: &Value| case["in"].as_str().unwrap().to_owned();
    let mut paths: Vec<_> = cases("paths.jsonl").iter().map(text).collect();
    paths.extend([
        String::new(),
        "a\0b".to_owned(),
        "p".repeat(4084),
        "p".repeat(4085),
        "p".repeat(4097),
        "é".repeat(2042),
        "é".repeat(4096),
    ]);
    for path in paths {
        let what = |field| format!("{:.40} in {field}", path.escape_debug().to_string());
        let cwd = json!({"bash": {"cwd": path}});
        trials.push(Trial::run(what("bash.cwd"), &cwd, Kind::Path, &json!(path)));
        let read = json!({"bash": null, "readFile": {"path": path}});
        trials.push(Trial::run(what("readFile.path"), &read, Kind::Path, &json!(path)));
    }
    let mut commands: Vec<_> = cases("commands.jsonl").iter().map(text).collect();
    commands.extend([String::new(), "a\0b".to_owned(), "x".repeat(65_536), "x".repeat(65_537), "é".repeat(65_536)]);
    for command in commands {
        let what = format!("{:.60} as a command", command.escape_debug().to_string());
        trials.push(Trial::run(what, &json!({"bash": {"command": command}}), Kind::Command, &json!(command)));
    }
    agree(trials, 11, 15).await;
}

#[tokio::test]
async fn on_every_case_of_a_policy() {
    let lists: [fn() -> Vec<Case>; 4] = [policies::egress, policies::commands, policies::numbers, values::policies];
    let cases = lists.iter().flat_map(|list| list());
    agree(cases.map(|(what, spec, _)| Trial::policy(format!("{what}: {spec:.60}"), spec)).collect(), 110, 45).await;
}

#[tokio::test]
async fn on_every_bound_of_a_policy() {
    agree(bounds::trials(), 1300, 300).await;
}
