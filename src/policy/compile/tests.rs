use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use api::values::GoDuration;

fn policy(spec: &str) -> ExecutionPolicy {
    ExecutionPolicy::new("p", serde_saphyr::from_str(spec).unwrap())
}

#[test]
fn an_empty_spec_denies_all_egress() {
    let compiled = compile(&policy("{}"), false).unwrap();
    assert_eq!(compiled.egress, Ruleset::deny_all());
    assert!(compiled.kill_leftovers && !compiled.suspended);
}

#[test]
fn everything_that_is_wrong_is_named_at_once() {
    let spec = "{egress: {mode: Allowlist, allow: [localhost]}, commands: {deny: ['(']}, environment: {set: [{name: PATH, value: x}], allow: [LD_PRELOAD]}}";
    let errors = compile(&policy(spec), false).unwrap_err();
    assert_eq!(errors.reason, PolicyReason::InvalidEntries);
    assert_eq!(errors.errors.len(), 4, "{errors}");
}

#[test]
fn open_egress_without_the_operators_consent_has_a_reason_of_its_own() {
    let errors = compile(&policy("{egress: {mode: Open}}"), false).unwrap_err();
    assert_eq!(errors.reason, PolicyReason::OpenEgressNotAllowed);
    assert!(compile(&policy("{egress: {mode: Open}}"), true).is_ok());
}

/// A spec with one field, by its dotted path.
fn with(field: &str, value: Value) -> ExecutionPolicy {
    let spec = field.rsplit('.').fold(value, |inner, name| json!({ name: inner }));
    ExecutionPolicy::new("p", serde_json::from_value(spec).unwrap())
}

#[rstest]
#[case("limits.timeout", json!("1ms"), json!("999us"), "999us")]
#[case("limits.timeout", json!("55m"), json!("55m1ns"), "55m1ns")]
#[case("limits.start", json!("1ms"), json!("0"), "0")]
#[case("limits.start", json!("24h"), json!("24h1s"), "24h1s")]
#[case("limits.output", json!("128Ki"), json!(131_073), "131073")]
#[case("limits.command", json!(65_536), json!(65_537), "65537")]
#[case("limits.stdin", json!("512Ki"), json!("513Ki"), "513Ki")]
#[case("limits.write", json!("512Ki"), json!("1Mi"), "1Mi")]
#[case("limits.read", json!("128Ki"), json!("129Ki"), "129Ki")]
#[case("limits.parallelRuns", json!(1), json!(0), "0")]
#[case("limits.parallelRuns", json!(64), json!(65), "65")]
#[case("resources.cpus", json!(1), json!(0), "0")]
#[case("resources.cpus", json!(64), json!(65), "65")]
#[case("resources.memory", json!("1Ti"), json!("1025Gi"), "1025Gi")]
#[case("resources.storage", json!("16Ti"), json!("17Ti"), "17Ti")]
#[case("lifecycle.hibernateAfter", json!("720h"), json!("720h1ms"), "720h1ms")]
#[case("lifecycle.expireAfter", json!("8760h"), json!("8761h"), "8761h")]
#[case("lifecycle.maxAwake", json!("720h"), json!("721h"), "721h")]
#[case("quota.sessions", json!(100_000), json!(100_001), "100001")]
#[case("quota.concurrentRuns.default", json!(100_000), json!(100_001), "100001")]
#[case("quota.concurrentRuns.byTier.pro", json!(100_000), json!(100_001), "100001")]
#[case("quota.concurrentRuns.byTier", numbered(32), numbered(33), "33")]
#[case("quota.runsPerDay.user", json!(10_000_000), json!(10_000_001), "10000001")]
#[case("quota.runsPerDay.drive", json!(10_000_000), json!(10_000_001), "10000001")]
#[case("quota.runsPerDay.tenant", json!(10_000_000), json!(10_000_001), "10000001")]
#[case("egress.deny", hosts(200), hosts(201), "201")]
#[case("commands.deny", texts(64), texts(65), "65")]
#[case("commands.deny", json!(["x".repeat(512)]), json!(["x".repeat(513)]), "513")]
#[case("environment.allow", texts(128), texts(129), "129")]
#[case("environment.allow", json!(["x".repeat(256)]), json!(["x".repeat(257)]), "257")]
#[case("environment.set", variables(128), variables(129), "129")]
#[case("environment.set", json!([{"name": "A", "value": "x".repeat(32_768)}]), json!([{"name": "A", "value": "x".repeat(32_769)}]), "32769")]
#[case("environment.set", json!([{"name": "A"}, {"name": "B"}]), json!([{"name": "A"}, {"name": "A"}]), "A")]
fn a_bound_is_named_with_its_field_what_stands_there_and_what_to_write(
    #[case] field: &str,
    #[case] inside: Value,
    #[case] outside: Value,
    #[case] shown: &str,
) {
    compile(&with(field, inside), false).unwrap();
    let errors = compile(&with(field, outside), false).unwrap_err();
    assert_eq!((errors.reason, errors.errors.len()), (PolicyReason::InvalidEntries, 1), "{errors}");
    let error = &errors.errors[0];
    assert!(error.starts_with(field) && error.contains(shown), "{error}");
    assert!(error.contains("write") || error.contains("keep"), "{error}");
}

#[test]
fn an_allowlist_has_at_most_200_entries() {
    let of = |many| json!({"egress": {"mode": "Allowlist", "allow": hosts(many)}});
    let policy = |many| ExecutionPolicy::new("p", serde_json::from_value(of(many)).unwrap());
    assert!(compile(&policy(200), false).is_ok());
    let errors = compile(&policy(201), false).unwrap_err();
    assert_eq!(errors.errors, ["egress.allow: there are 201 entries: write at most 200"]);
}

fn hosts(many: usize) -> Value {
    (0..many).map(|n| format!("h{n}.example.com")).collect()
}
fn texts(many: usize) -> Value {
    (0..many).map(|n| format!("x{n}")).collect()
}
fn variables(many: usize) -> Value {
    (0..many).map(|n| json!({"name": format!("X{n}")})).collect()
}
fn numbered(many: usize) -> Value {
    Value::Object((0..many).map(|n| (format!("t{n}"), json!(1))).collect())
}

/// What the schema says of a field of a policy.
fn schema(field: &str) -> Value {
    let (_, crd) = api::crds().unwrap().into_iter().find(|(file, _)| file.starts_with("exec")).unwrap();
    let crd = serde_json::to_value(crd).unwrap();
    let root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].clone();
    field.split('.').fold(root, |node, name| node["properties"][name].clone())
}

/// The number after these words in the rule of a field.
fn in_rule(field: &str, words: &str, end: char) -> String {
    let rule = schema(field)["x-kubernetes-validations"][0]["rule"].as_str().unwrap().to_owned();
    let (_, after) = rule.split_once(words).unwrap_or_else(|| panic!("{field}: {rule}"));
    after.split(end).next().unwrap().trim().to_owned()
}

#[test]
fn the_schema_has_the_same_bounds() {
    let most = Limits::MAXIMA;
    let duration = |field| in_rule(field, "<= duration('", '\'').parse::<GoDuration>().unwrap().get();
    let least = |field| in_rule(field, ">= duration('", '\'').parse::<GoDuration>().unwrap().get();
    let size = |field| in_rule(field, "self <= ", ':').parse::<u64>().unwrap();
    assert_eq!((duration("limits.timeout"), duration("limits.start")), (most.timeout, most.start));
    assert_eq!((least("limits.timeout"), least("limits.start")), (api::bounds::SHORTEST, api::bounds::SHORTEST));
    assert_eq!(duration("lifecycle.expireAfter"), api::bounds::LIFE);
    assert_eq!(size("limits.output"), most.output);
    assert_eq!(size("limits.command"), most.command);
    assert_eq!(size("limits.stdin"), most.stdin);
    assert_eq!(schema("limits.parallelRuns")["maximum"], json!(f64::from(most.parallel_runs)));
    assert_eq!(schema("egress.allow")["maxItems"], json!(api::bounds::EGRESS_ENTRIES));
    assert_eq!(schema("egress.deny")["maxItems"], json!(api::bounds::EGRESS_ENTRIES));
    assert_eq!(schema("egress.allow")["items"]["maxLength"], json!(api::bounds::EGRESS_ENTRY_CHARACTERS));
    assert_eq!(schema("commands.deny")["maxItems"], json!(api::bounds::EXPRESSIONS));
    assert_eq!(schema("commands.deny")["items"]["maxLength"], json!(api::bounds::EXPRESSION_BYTES));
    assert_eq!(schema("environment.set")["maxItems"], json!(api::bounds::VARIABLES));
    assert_eq!(schema("environment.allow")["maxItems"], json!(api::bounds::VARIABLES));
    let variable = schema("environment.set")["items"]["properties"].clone();
    assert_eq!(variable["name"]["maxLength"], json!(environment::NAME_MAX));
    assert_eq!(variable["value"]["maxLength"], json!(environment::VALUE_MAX));
}
