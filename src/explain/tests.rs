use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn run(kind: Kind, input: &str) -> (Vec<Value>, Result<(), ExplainError>) {
    let mut output = Vec::new();
    let result = items(kind, None, input.as_bytes(), &mut output, Format::Json);
    let lines = String::from_utf8(output).unwrap();
    (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), result)
}

fn kind(word: &str) -> Kind {
    Kind::from_str(word, false).unwrap()
}

/// The cases of a file, each with the verdict that is wanted and, where it matters, the value.
fn cases(file: &str) -> Vec<Value> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/rules").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[rstest]
#[case("hostnames.jsonl", 33)]
#[case("quantities.jsonl", 20)]
#[case("environment.jsonl", 12)]
#[case("paths.jsonl", 17)]
fn every_case_of_a_value_is_judged_as_is_wanted(#[case] file: &str, #[case] least: usize) {
    let cases = cases(file);
    assert!(cases.len() >= least - 3, "{} cases", cases.len());
    let mut wrong = Vec::new();
    for case in &cases {
        let (judged, result) = run(kind(case["kind"].as_str().unwrap()), &case.to_string());
        result.unwrap();
        let judgement = &judged[0];
        let value = case.get("value").is_none_or(|value| *value == judgement["value"]);
        // A refusal says why, and by which rule.
        let said =
            judgement["verdict"] != "refuse" || judgement["message"].as_str().is_some_and(|text| text.len() > 10);
        if judgement["verdict"] != case["want"] || !value || !said || judgement["id"] != case["id"] {
            wrong.push(format!("{case}\n  -> {judgement}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_refused_entry_repeats_no_password() {
    let case = cases("hostnames.jsonl").into_iter().find(|case| case["id"] == "1.29").unwrap();
    let (judged, _) = run(Kind::EgressEntry, &case.to_string());
    assert!(!judged[0]["message"].as_str().unwrap().contains("pw"), "{}", judged[0]);
}

#[rstest]
#[case::string(r#""example.com""#, json!(3))]
#[case::object(r#"{"id": "a", "in": "example.com"}"#, json!("a"))]
#[case::number_as_id(r#"{"id": 7, "in": "example.com"}"#, json!(7))]
#[case::parts(r#"{"id": "p", "in": ["example", ".com"]}"#, json!("p"))]
fn an_item_may_be_written_in_several_ways(#[case] line: &str, #[case] id: Value) {
    let (judged, result) = run(Kind::EgressEntry, &format!("\n  \n{line}\n"));
    result.unwrap();
    assert_eq!(judged.len(), 1);
    assert_eq!(
        (&judged[0]["id"], &judged[0]["verdict"], &judged[0]["value"]),
        (&id, &json!("accept"), &json!("example.com"))
    );
}

#[rstest]
#[case::no_json("example.com")]
#[case::no_input(r#"{"id": "1"}"#)]
#[case::truth("true")]
#[case::nested(r#"{"in": {"a": 1}}"#)]
#[case::mixed_list(r#"{"in": ["a", 1]}"#)]
#[case::another_kind(r#"{"kind": "path", "in": "x"}"#)]
#[case::cut(r#"{"in": "x"#)]
fn what_stands_round_an_unreadable_line_is_judged_and_the_line_is_named(#[case] line: &str) {
    let (judged, result) = run(Kind::EgressEntry, &format!("\"example.com\"\n{line}\n\"example.org\"\n"));
    assert_eq!(judged.len(), 2);
    assert!(matches!(result, Err(ExplainError::Item { line: 2, .. })));
}

#[rstest]
#[case::ordinary(Kind::Command, "echo hello", "accept", "")]
#[case::metadata(Kind::Command, "curl http://169.254.169.254/", "refuse", "Metadata")]
#[case::nul(Kind::Command, "echo \0", "refuse", "Nul")]
#[case::no_default(Kind::Path, "", "refuse", "Empty")]
#[case::plain(Kind::Text, "nothing to hide", "keep", "")]
fn each_kind_names_its_rule(#[case] kind: Kind, #[case] input: &str, #[case] verdict: &str, #[case] rule: &str) {
    let (judged, _) = run(kind, &json!(input).to_string());
    assert_eq!((&judged[0]["verdict"], &judged[0]["rule"]), (&json!(verdict), &json!(rule)), "{}", judged[0]);
}

#[test]
fn text_is_masked_and_says_by_what() {
    let secret = ["hunter2", "FAKE", "77"].concat();
    let (judged, _) = run(Kind::Text, &json!(["PASSWORD=", secret]).to_string());
    assert_eq!((&judged[0]["verdict"], &judged[0]["rule"]), (&json!("mask"), &json!("Assignment")));
    assert!(!judged[0]["value"].as_str().unwrap().contains(&secret));
}

#[rstest]
#[case(Kind::Command)]
#[case(Kind::Path)]
#[case(Kind::Env)]
#[case(Kind::Text)]
#[case(Kind::EgressEntry)]
fn nothing_is_not_taken_for_something(#[case] kind: Kind) {
    for line in ["null", "5"] {
        assert_eq!(run(kind, line).0[0]["verdict"], "refuse", "{line}");
    }
}

const MANIFEST: &str = "
apiVersion: sprite-operator.io/v1alpha1
kind: ExecutionPolicy
metadata: {name: team}
spec:
  limits: {timeout: 10s, command: 20}
  egress: {mode: Allowlist, allow: [API.example.com]}
  environment: {allow: [NODE_ENV]}
  commands: {deny: ['\\bnc\\b']}
";

#[test]
fn a_policy_is_told_with_its_rules_hash_and_limits() {
    let report = PolicyReport::read(MANIFEST, false).unwrap();
    assert_eq!(report.complaints, [""; 0]);
    assert_eq!(report.hash.as_ref().unwrap().len(), 64);
    for format in [Format::Json, Format::Table] {
        let mut output = Vec::new();
        assert!(policy(MANIFEST, false, &mut output, &mut io::sink(), format).unwrap());
        let text = String::from_utf8(output).unwrap();
        for part in ["team", "api.example.com", report.hash.as_ref().unwrap(), "10s"] {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[rstest]
#[case::egress(Kind::EgressHost, "api.example.com", "accept")]
#[case::egress_other(Kind::EgressHost, "example.com", "refuse")]
#[case::denied(Kind::Command, "nc -l 1", "refuse")]
#[case::too_long(Kind::Command, "echo 123456789012345678901234", "refuse")]
#[case::fits(Kind::Command, "echo 1", "accept")]
#[case::allowed_variable(Kind::Env, "NODE_ENV=test", "accept")]
#[case::other_variable(Kind::Env, "OTHER=test", "refuse")]
fn items_are_judged_under_a_policy(#[case] kind: Kind, #[case] input: &str, #[case] verdict: &str) {
    let report = PolicyReport::read(MANIFEST, false).unwrap();
    let item = Item::parse(kind, &json!(input).to_string(), 1).unwrap();
    assert_eq!(judge(kind, &item, Some(&report)).verdict.as_str(), verdict);
    let absent = Item { input: Input::Absent, ..item };
    assert_eq!(judge(Kind::Duration, &absent, Some(&report)).value, json!(10));
}

#[test]
fn every_complaint_of_a_policy_is_named_with_its_field() {
    let manifest = MANIFEST
        .replace("allow: [API.example.com]", "allow: [localhost, 'http://x'], allows: [x]")
        .replace("deny: ['\\bnc\\b']", "deny: ['(']")
        .replace("limits: {", "limits: {time: 1s, ");
    let report = PolicyReport::read(&manifest, false).unwrap();
    for part in
        ["spec.egress.allows: there is no such field", "spec.limits.time", "localhost", "http://x", "commands.deny"]
    {
        assert!(report.complaints.iter().any(|complaint| complaint.contains(part)), "{part}: {:?}", report.complaints);
    }
    let mut output = Vec::new();
    assert!(!policy(&manifest, false, &mut output, &mut io::sink(), Format::Table).unwrap());
    // A host cannot be judged under rules that are not in force.
    let item = Item::parse(Kind::EgressHost, "\"api.example.com\"", 1).unwrap();
    assert_eq!(judge(Kind::EgressHost, &item, Some(&report)).verdict, Verdict::Refuse);
}

#[test]
fn a_suspended_policy_and_one_that_is_not_in_force_let_nothing_start() {
    for (change, reason) in [
        ("spec:\n  suspend: true", "PolicySuspended"),
        ("spec:\n  egres: {}\n  commands: {deny: ['(']}\n  x:", "PolicyNotReady"),
    ] {
        let manifest = MANIFEST.replace("  commands: {deny: ['\\bnc\\b']}\n", "").replace("spec:", change);
        let report = PolicyReport::read(&manifest, false).unwrap();
        for (kind, input) in [(Kind::Command, "ls"), (Kind::EgressHost, "api.example.com"), (Kind::Env, "NODE_ENV=x")] {
            let item = Item::parse(kind, &json!(input).to_string(), 1).unwrap();
            let judged = judge(kind, &item, Some(&report));
            assert_eq!((judged.verdict, judged.reason), (Verdict::Refuse, Some(reason)), "{judged:?}");
        }
        let mut output = Vec::new();
        policy(&manifest, false, &mut output, &mut io::sink(), Format::Table).unwrap();
        assert_eq!(String::from_utf8(output).unwrap().contains("SUSPENDED"), reason == "PolicySuspended");
    }
}

#[test]
fn a_field_that_is_null_counts_as_absent_and_one_beside_spec_is_named() {
    let manifest =
        MANIFEST.replace("limits: {timeout: 10s, command: 20}", "limits: {timeout: , command: null}\n  suspend: null");
    let report = PolicyReport::read(&manifest, false).unwrap();
    assert_eq!((report.complaints.len(), report.spec.limits.timeout.to_string().as_str()), (0, "30s"));
    let report = PolicyReport::read(&format!("{MANIFEST}secp: 1\n").replace("team", "Bad_Name"), false).unwrap();
    assert_eq!(report.complaints.len(), 2, "{:?}", report.complaints);
}

#[rstest]
#[case::number("{limits: {timeout: 30}}", "spec.limits.timeout: ")]
#[case::bad_unit("{limits: {timeout: 30 s}}", "spec.limits.timeout: `30 s` is no duration")]
#[case::truth("{egress: {mode: no}}", "spec.egress.mode: ")]
#[case::in_a_list("{egress: {mode: Allowlist, allow: [a.example.com, no]}}", "spec.egress.allow[1]: ")]
fn a_value_of_the_wrong_type_is_named_with_its_field(#[case] spec: &str, #[case] part: &str) {
    let manifest = format!(
        "{{apiVersion: sprite-operator.io/v1alpha1, kind: ExecutionPolicy, metadata: {{name: x}}, spec: {spec}}}"
    );
    let report = PolicyReport::read(&manifest, false).unwrap();
    assert!(report.complaints.iter().any(|complaint| complaint.starts_with(part)), "{:?}", report.complaints);
    assert!(report.hash.is_none());
}

#[rstest]
#[case::another_kind("{apiVersion: v1, kind: Secret}", "write kind: ExecutionPolicy")]
#[case::nothing("", "ExecutionPolicy")]
#[case::broken("a: [", "ExecutionPolicy")]
fn what_is_no_policy_says_so(#[case] text: &str, #[case] part: &str) {
    let error = PolicyReport::read(text, false).unwrap_err().to_string();
    assert!(error.contains(part), "{error}");
}

#[test]
fn a_table_is_one_line_an_item_whatever_it_holds() {
    let mut output = Vec::new();
    let input = format!("{}\n{}\n", json!("a\nb\u{1b}[2J"), json!("x".repeat(200)));
    items(Kind::Path, None, input.as_bytes(), &mut output, Format::Table).unwrap();
    let text = String::from_utf8(output).unwrap();
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(!text.contains('\u{1b}') && text.starts_with("ID  VERDICT  RULE"));
}
