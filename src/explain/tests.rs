use rstest::rstest;
use serde_json::{Value, json};

use super::*;

mod in_force;
mod messages;
mod reading;
mod runs;

fn run(kind: Kind, input: &str) -> (Vec<Value>, Result<(), ExplainError>) {
    let mut output = Vec::new();
    let result = items(kind, None, input.as_bytes(), &mut output, Format::Json);
    let lines = String::from_utf8(output).unwrap();
    (lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), result.map(drop))
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
#[case::list_with_a_huge_number(r#"{"in": ["a", 1e400]}"#)]
#[case::half_a_character(r#"{"in": "\ud800"}"#)]
#[case::half_a_character_as_id(r#"{"id": "\ud800", "in": "x"}"#)]
#[case::a_list_by_itself(r#"["pypi.org", "example.com"]"#)]
#[case::two_values("\"a\" \"b\"")]
#[case::another_kind(r#"{"kind": "path", "in": "x"}"#)]
#[case::cut(r#"{"in": "x"#)]
fn what_stands_round_an_unreadable_line_is_judged_and_the_line_is_named(#[case] line: &str) {
    let (judged, result) = run(Kind::EgressEntry, &format!("\"example.com\"\n{line}\n\"example.org\"\n"));
    assert_eq!(judged.len(), 2);
    assert!(matches!(result, Err(ExplainError::Items { first, many: 1 }) if first[0].0 == 2));
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
        assert!(policy(MANIFEST, Strictness::default(), &mut output, &mut io::sink(), format).unwrap());
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
    assert!(!policy(&manifest, Strictness::default(), &mut output, &mut io::sink(), Format::Table).unwrap());
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
        policy(&manifest, Strictness::default(), &mut output, &mut io::sink(), Format::Table).unwrap();
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

fn manifest(spec: &str) -> String {
    format!("{{apiVersion: sprite-operator.io/v1alpha1, kind: ExecutionPolicy, metadata: {{name: x}}, spec: {spec}}}")
}

fn complaints(spec: &str) -> Vec<String> {
    PolicyReport::read(&manifest(spec), false).unwrap().complaints
}

#[test]
fn everything_of_a_wrong_type_is_named_at_once_and_what_the_rules_say_of_the_rest() {
    let all = complaints(
        "{limits: {timeout: 30, output: 1.5, parallelRuns: '4'}, suspend: 'no', quota: {concurrentRuns: [1]}, \
         egress: {mode: Allowlist, allow: [localhost]}, audit: {events: 1}, environment: {set: [{value: x}, x]}}",
    );
    for field in [
        "spec.limits.timeout: 30 is a number: write a duration",
        "spec.limits.output: 1.5",
        "spec.limits.parallelRuns: `4` is a text",
        "spec.suspend: `no` is a text",
        "spec.quota.concurrentRuns: a list",
        "spec.audit.events: 1 is a number: write one of All, Anomalies",
        "spec.environment.set[0].name: there is none",
        "spec.environment.set[1]: `x` is a text",
        "spec.egress.allow: `localhost`",
    ] {
        assert!(all.iter().any(|complaint| complaint.starts_with(field)), "{field}: {all:#?}");
    }
    assert_eq!(all.len(), 9, "{all:#?}");
}

#[rstest]
#[case::bound("{limits: {parallelRuns: 65}}", "spec.limits.parallelRuns: 65 is more than 64: write at most 64")]
#[case::low("{resources: {cpus: 0}}", "spec.resources.cpus: 0 is less than 1: write at least 1")]
#[case::rule("{limits: {timeout: 1h}}", "spec.limits.timeout: `1h` is more than 55m: write at most 55m")]
#[case::size("{resources: {memory: 2Ti}}", "spec.resources.memory: `2Ti` is more than 1Ti: write at most 1Ti")]
#[case::negative("{limits: {output: -1}}", "spec.limits.output: -1 is negative: write whole bytes as")]
#[case::words("{egress: {mode: Closed}}", "spec.egress.mode: `Closed` is no choice: write one of DenyAll, Allowlist")]
#[case::pattern("{resources: {region: A b}}", "spec.resources.region: `A b` has not the form that is asked for")]
#[case::narrower(
    "{lifecycle: {maxAwake: 1.5us}}",
    "spec.lifecycle.maxAwake: `1.5us` has not the form that is asked for"
)]
#[case::empty("{resources: {region: ''}}", "spec.resources.region: it is empty: write")]
#[case::twice("{environment: {allow: [A, A]}}", "spec.environment.allow[1]: `A` stands there twice: keep one")]
#[case::unit("{limits: {output: 64KB}}", "spec.limits.output: `64KB` is no size: write bytes as an integer")]
#[case::null_in_a_list("{environment: {allow: [null]}}", "spec.environment.allow[0]: nothing stands there: write")]
#[case::unknown_null("{limits: {time: null}}", "spec.limits.time: there is no such field")]
fn a_value_out_of_bounds_is_named_once_with_what_to_write(#[case] spec: &str, #[case] start: &str) {
    let all = complaints(spec);
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].starts_with(start), "{all:?}");
}

#[test]
fn fields_that_nothing_has_are_named_beside_the_spec_as_well() {
    let text = manifest("{}").replace("{name: x}", "{name: x, lables: {}}").replace("spec:", "secp: null, spec:");
    let all = PolicyReport::read(&text, false).unwrap().complaints;
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].starts_with("secp: ") && all[1].starts_with("metadata.lables: "), "{all:?}");
}

#[test]
fn no_value_of_a_variable_is_repeated() {
    let secret = ["hunter", "2"].concat();
    let spec = json!({"environment": {"set": [{"name": "A", "value": format!("{secret}\0")}]}}).to_string();
    let all = complaints(&spec).join("; ");
    assert!(all.contains("set[0].value: it holds a NUL character") && !all.contains(&secret), "{all}");
}

fn told(text: &str, format: Format) -> (String, String, Result<bool, String>) {
    let (mut output, mut notes) = (Vec::new(), Vec::new());
    let result =
        policy(text, Strictness::default(), &mut output, &mut notes, format).map_err(|error| error.to_string());
    (String::from_utf8(output).unwrap(), String::from_utf8(notes).unwrap(), result)
}

#[test]
fn each_policy_of_a_file_is_told_and_other_kinds_are_named() {
    let (good, bad) = (manifest("{}"), manifest("{limits: {timeout: 1h}}").replace("name: x", "name: other"));
    let other = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
    let file = format!("---\n{other}\n---\n{good}\n---\n# nothing\n---\n{bad}\n---\n");
    let (output, notes, result) = told(&file, Format::Json);
    let lines: Vec<Value> = output.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |line: &Value| (line["name"].clone(), line["ready"].clone());
    assert_eq!(lines.iter().map(of).collect::<Vec<_>>(), [(json!("x"), json!(true)), (json!("other"), json!(false))]);
    assert!(notes.contains("ConfigMap settings") && notes.lines().count() == 1, "{notes}");
    assert_eq!(result, Ok(false));
    let (output, ..) = told(&file, Format::Table);
    assert!(output.contains("policy x: ready\n") && output.contains("\n\npolicy other: NOT READY\n"), "{output}");
    // What is not in force has no limits that hold.
    assert_eq!(output.matches("limits of a Run:").count(), 1, "{output}");
    assert_eq!(told(&format!("{good}\n---\n{}\n---\n", good.replace("name: x", "name: z")), Format::Json).2, Ok(true));
}

#[test]
fn what_a_list_holds_is_told_as_if_it_stood_alone() {
    let list = format!("{{apiVersion: v1, kind: List, items: [{}, {{apiVersion: v1, kind: Secret}}]}}", manifest("{}"));
    let (output, notes, result) = told(&list, Format::Json);
    assert_eq!((output.lines().count(), result), (1, Ok(true)));
    assert!(notes.contains("Secret (none)"), "{notes}");
}

#[rstest]
#[case::no_policy("{apiVersion: v1, kind: Secret}", "there is no ExecutionPolicy in it")]
#[case::empty("---\n---\n", "there is no ExecutionPolicy in it")]
#[case::no_kind("{metadata: {name: x}}", "document 1 has kind (none)")]
#[case::a_text("x", "document 1 has kind (none)")]
#[case::other_version(
    "{apiVersion: sprite-operator.io/v1, kind: ExecutionPolicy}",
    "apiVersion sprite-operator.io/v1:"
)]
#[case::misspelt("{apiVersion: sprite-operator.io/v1alpha1, kind: ExecutionPolcy}", "kind ExecutionPolcy")]
fn what_cannot_be_told_is_an_error_also_beside_a_policy(#[case] document: &str, #[case] part: &str) {
    let error = told(document, Format::Json).2.unwrap_err();
    assert!(error.contains(part), "{error}");
    if part.starts_with("there is no") {
        return;
    }
    let (output, _, result) = told(&format!("{document}\n---\n{}", manifest("{}")), Format::Json);
    assert_eq!(output.lines().count(), 1);
    assert!(result.unwrap_err().contains(part));
}

#[test]
fn a_parsers_error_has_line_and_column_and_nothing_of_the_source() {
    for text in ["a: 1\nhunter: [x\nb: }", "a: 1\na: 2\nhunter: 1"] {
        let error = told(text, Format::Json).2.unwrap_err();
        assert!(error.contains("line ") && error.contains("column ") && !error.contains("hunter"), "{error}");
        assert!(!error.contains("Policy in Options") && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn numbers_and_truth_values_are_read_as_kubectl_reads_them() {
    let report =
        PolicyReport::read(&manifest("{limits: {output: 010, command: 0x10, stdin: 1_000}, suspend: on}"), false);
    let spec = report.unwrap().spec;
    let bytes = [&spec.limits.output, &spec.limits.command, &spec.limits.stdin].map(api::values::ByteSize::bytes);
    assert_eq!((bytes, spec.suspend), ([8, 16, 1000], true));
}

#[test]
fn one_policy_is_judged_under() {
    let two = format!("{}\n---\n{}", manifest("{}"), manifest("{}"));
    assert_eq!(PolicyReport::read(&two, false).unwrap_err(), ManifestError::Several(2));
    let other = "{apiVersion: v1, kind: Secret}";
    assert!(PolicyReport::read(&format!("{other}\n---\n{}", manifest("{}")), false).is_ok());
    assert_eq!(PolicyReport::read(other, false).unwrap_err(), ManifestError::NoPolicy);
}

#[test]
fn a_manifest_is_read_up_to_8_mib() {
    let most = 8 << 20;
    assert_eq!(manifest_text(io::repeat(b'x').take(most)).unwrap().len() as u64, most);
    let long = manifest_text(io::repeat(b'x')).unwrap_err().to_string();
    assert!(long.contains("8 MiB"), "{long}");
    assert!(manifest_text([0xff].as_slice()).unwrap_err().to_string().contains("UTF-8"));
}

#[rstest]
#[case::input(r#"{"input": "x"}"#, ItemError::Misnamed("input".to_owned()))]
#[case::case(r#"{"id": "1", "IN": "x"}"#, ItemError::Misnamed("IN".to_owned()))]
#[case::kind(r#"{"size": "x"}"#, ItemError::Misnamed("size".to_owned()))]
#[case::nothing(r#"{"id": "1", "note": "x"}"#, ItemError::NoInput)]
fn an_object_without_in_is_told_what_to_name_so(#[case] line: &str, #[case] error: ItemError) {
    assert_eq!(Item::parse(Kind::Size, line, 1).unwrap_err(), error);
}

#[rstest]
#[case::within("\"10s\"", "accept", None)]
#[case::less("\"1ms\"", "accept", None)]
#[case::over("\"11s\"", "refuse", Some("LimitExceeded"))]
#[case::none("\"0s\"", "refuse", Some("InvalidSpec"))]
#[case::too_short("\"999us\"", "refuse", Some("InvalidSpec"))]
#[case::form("\"1.5us\"", "refuse", Some("InvalidSpec"))]
#[case::absent("null", "accept", None)]
fn a_span_of_time_under_a_policy_is_the_timeout_of_a_run(
    #[case] line: &str,
    #[case] verdict: &str,
    #[case] reason: Option<&str>,
) {
    let report = PolicyReport::read(MANIFEST, false).unwrap();
    let judged = judge(Kind::Duration, &Item::parse(Kind::Duration, line, 1).unwrap(), Some(&report));
    assert_eq!((judged.verdict.as_str(), judged.reason), (verdict, reason), "{judged:?}");
    assert_eq!(judged.message.contains("limits.timeout"), line.contains("11s") || line == "null", "{judged:?}");
}

#[rstest]
#[case(Kind::Duration, "10s")]
#[case(Kind::Size, "null")]
#[case(Kind::Count, "null")]
fn a_policy_that_is_not_in_force_answers_nothing(#[case] kind: Kind, #[case] input: &str) {
    let report = PolicyReport::read(&manifest("{limits: {timeout: 1h}}"), false).unwrap();
    let line = if input == "null" { input.to_owned() } else { json!(input).to_string() };
    let judged = judge(kind, &Item::parse(kind, &line, 1).unwrap(), Some(&report));
    assert_eq!(judged.reason, Some("PolicyNotReady"), "{judged:?}");
}

#[rstest]
#[case::long_span(Kind::Duration, json!("8761h"), "refuse")]
#[case::longest_span(Kind::Duration, json!("8760h"), "accept")]
#[case::size_of_no_form(Kind::Size, json!("-0"), "refuse")]
#[case::runs_a_day(Kind::Count, json!(10_000_000), "accept")]
#[case::more(Kind::Count, json!(10_000_001), "refuse")]
#[case::name(Kind::Env, json!(format!("{}=1", "N".repeat(256))), "accept")]
#[case::longer_name(Kind::Env, json!(format!("{}=1", "N".repeat(257))), "refuse")]
#[case::value(Kind::Env, json!(format!("N={}", "v".repeat(32_768))), "accept")]
#[case::longer_value(Kind::Env, json!(format!("N={}", "v".repeat(32_769))), "refuse")]
#[case::path(Kind::Path, json!("p".repeat(4084)), "accept")]
#[case::longer_path(Kind::Path, json!("p".repeat(4085)), "refuse")]
#[case::twice(Kind::EgressEntryList, json!(["a.example.com", "a.example.com"]), "refuse")]
#[case::spaces(Kind::EgressEntry, json!(format!("{:>261}", "a.example.com")), "refuse")]
#[case::fewer_spaces(Kind::EgressEntry, json!(format!("{:>260}", "a.example.com")), "accept")]
fn what_no_field_takes_is_refused(#[case] kind: Kind, #[case] input: Value, #[case] verdict: &str) {
    let (judged, _) = run(kind, &json!({"in": input}).to_string());
    assert_eq!(judged[0]["verdict"], verdict, "{}", judged[0]);
}
