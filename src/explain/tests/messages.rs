//! All complaints at once, each with its true cause and what to write.

use super::*;

#[rstest]
#[case::time("{limits: {timeout: 30, stdin: 1Gi}}", &["spec.limits.timeout: 30 is a number", "spec.limits.stdin: `1Gi` is more than 512Ki"])]
#[case::negative("{lifecycle: {expireAfter: 8761h, maxAwake: -1s}}", &["spec.lifecycle.maxAwake: `-1s` is negative", "spec.lifecycle.expireAfter: `8761h` is more"])]
#[case::word("{egress: {mode: allowlist, allow: [10.0.0.1]}}", &["spec.egress.mode: `allowlist`", "spec.egress.allow: `10.0.0.1` is an IP address"])]
#[case::entries("{egress: {mode: Allowlist, allow: [1, localhost, true, 10.0.0.1]}}", &["spec.egress.allow[0]: 1", "spec.egress.allow[2]: true", "spec.egress.allow: `localhost`", "spec.egress.allow: `10.0.0.1`"])]
#[case::variables("{environment: {set: [{value: x}, {name: PATH}, x], allow: [LD_X]}}", &["spec.environment.set[0].name: there is none", "spec.environment.set[2]: `x` is a text", "spec.environment.set: `PATH`", "spec.environment.allow: `LD_X`"])]
#[case::tiers("{quota: {concurrentRuns: {byTier: {a: x}, default: 100001}, runsPerDay: {user: 10000001}}}", &["spec.quota.concurrentRuns.byTier.a: `x`", "spec.quota.concurrentRuns.default: 100001", "spec.quota.runsPerDay.user: 10000001"])]
#[case::once("{environment: {set: [{name: A}, {name: A}, {name: A-B}]}}", &["spec.environment.set[1]: `A` stands there twice", "spec.environment.set[2].name: `A-B` has not the form"])]
#[case::reserved_twice("{environment: {allow: [PATH, PATH]}}", &["spec.environment.allow[1]: `PATH` stands", "spec.environment.allow: `PATH` cannot be set", "spec.environment.allow: `PATH` cannot be set"])]
fn one_wrong_value_hides_no_other(#[case] spec: &str, #[case] starts: &[&str]) {
    let all = complaints(spec);
    for start in starts {
        assert!(all.iter().any(|complaint| complaint.starts_with(start)), "{start}: {all:#?}");
    }
    assert_eq!(all.len(), starts.len(), "{all:#?}");
}

#[test]
fn a_list_that_is_too_long_is_named_with_all_of_its_entries() {
    let mut hosts: Vec<Value> = (0..202).map(|n| json!(format!("h{n}.example.com"))).collect();
    hosts[3] = json!(3);
    let all = complaints(&json!({"egress": {"mode": "Allowlist", "allow": hosts}}).to_string());
    assert_eq!(all.len(), 2, "{all:#?}");
    assert!(all.contains(&"spec.egress.allow: there are 202 entries: write at most 200".to_owned()), "{all:#?}");
}

#[rstest]
#[case::whole(
    "{environment: {set: [{name: A, value: 1}]}}",
    "spec.environment.set[0].value: 1 is a number: write it in quotes, \"1\""
)]
#[case::digits(
    "{environment: {set: [{name: A, value: 1.10}]}}",
    "spec.environment.set[0].value: 1.1 is a number: write it in quotes, with all its digits (1.10 without quotes is 1.1)"
)]
#[case::truth(
    "{environment: {set: [{name: A, value: no}]}}",
    "spec.environment.set[0].value: false is a truth value (so are y, n, yes, no, on and off without quotes): write it in quotes, as it is meant"
)]
#[case::expression("{commands: {deny: [1]}}", "spec.commands.deny[0]: 1 is a number: write it in quotes, \"1\"")]
#[case::list(
    "{environment: {set: [{name: A, value: [1]}]}}",
    "spec.environment.set[0].value: a list stands there: write a text"
)]
#[case::small(
    "{limits: {stdin: '64m'}}",
    "spec.limits.stdin: `64m` is not a whole number of bytes between 0 and 2^63-1: write whole bytes as an integer or a quantity such as 64Ki: at least 0, at most 512Ki"
)]
#[case::exponent(
    "{limits: {stdin: 1e3}}",
    "spec.limits.stdin: 1000.0 is not written as a whole number, or too large: write whole bytes as an integer or a quantity such as 64Ki: at least 0, at most 512Ki; in quotes if it has an exponent (\"1e3\")"
)]
#[case::span(
    "{limits: {start: 99999999999h}}",
    "spec.limits.start: `99999999999h` is too long: write a duration such as"
)]
#[case::platform(
    "{environment: {allow: [SPRITE_X]}}",
    "spec.environment.allow: `SPRITE_X` cannot be set: names that begin with SPRITE_ belong to the platform: take it out"
)]
fn a_message_says_what_to_write(#[case] spec: &str, #[case] start: &str) {
    let all = complaints(spec);
    assert!(all.len() == 1 && all[0].starts_with(start), "{all:#?}");
}

#[test]
fn each_wrong_value_of_metadata_is_named_and_the_rest_is_judged() {
    let metadata = "{name: 123, labels: {a: 1, b: yes, c: x}, annotations: [x], uid: 5, finalizers: x}";
    let text = manifest("{limits: {timeout: 1h}}").replace("{name: x}", metadata);
    let report = PolicyReport::read(&text, false).unwrap();
    let all = &report.complaints;
    for start in [
        "metadata.name: 123 is a number: write it in quotes, \"123\"",
        "metadata.labels.a: 1 is a number: write it in quotes, \"1\"",
        "metadata.labels.b: true is a truth value",
        "metadata.annotations: a list stands there: write fields with their values",
        "metadata.uid: it cannot be read (",
        "metadata.finalizers: it cannot be read (",
        "spec.limits.timeout: `1h` is more than 55m",
    ] {
        assert!(all.iter().any(|complaint| complaint.starts_with(start)), "{start}: {all:#?}");
    }
    assert_eq!((all.len(), report.name.as_str()), (7, "123"), "{all:#?}");
    let none = manifest("{}").replace("metadata: {name: x}", "metadata: 5");
    let all = PolicyReport::read(&none, false).unwrap().complaints;
    assert_eq!(all, ["metadata: 5 is a number: write fields with their values"]);
}

#[rstest]
#[case::duration(Kind::Duration, "limits.timeout", json!(10))]
#[case::size(Kind::Size, "limits.output", json!(65_536))]
#[case::count(Kind::Count, "limits.parallelRuns", json!(4))]
fn what_stands_for_null_says_where_it_is_from(#[case] kind: Kind, #[case] field: &str, #[case] value: Value) {
    let item = Item::parse(kind, "null", 1).unwrap();
    let report = PolicyReport::read(MANIFEST, false).unwrap();
    let under = judge(kind, &item, Some(&report));
    assert_eq!((under.rule.as_str(), &under.value), ("Policy", &value));
    assert_eq!(under.message, format!("{field} of the policy"));
    let without = judge(kind, &item, None);
    assert_eq!((without.rule.as_str(), without.message), ("Default", format!("the default of {field}")));
}

#[test]
fn a_host_without_a_policy_is_refused_for_want_of_one() {
    let (judged, _) =
        run(Kind::EgressHost, "\"a.example.com\"\n{\"in\": \"a.example.com\", \"allow\": [\"b.example.com\"]}");
    let said = |line: &Value| line["message"].as_str().unwrap().contains("no policy was given");
    assert!(said(&judged[0]) && judged[0]["verdict"] == "refuse" && !said(&judged[1]), "{judged:#?}");
    let report = PolicyReport::read(MANIFEST, false).unwrap();
    let item = Item::parse(Kind::EgressHost, "\"a.example.com\"", 1).unwrap();
    assert!(!judge(Kind::EgressHost, &item, Some(&report)).message.contains("no policy"));
}

#[rstest]
#[case::no_path(Kind::Path, "null", "write a value")]
#[case::number_as_path(Kind::Path, "12", "in quotes")]
#[case::part_of_a_byte(Kind::Size, "\"64m\"", "write an integer or a quantity such as 64Ki, at most 16Ti")]
#[case::too_large(Kind::Size, "\"8Ei\"", "write an integer or a quantity such as 64Ki, at most 16Ti")]
#[case::exponent(Kind::Size, "1e3", "in quotes if it has an exponent (\"1e3\")")]
#[case::part_of_one(Kind::Count, "4.5", "write digits alone, such as 4")]
#[case::long(Kind::Duration, "\"99999999999h\"", "write at most 8760h")]
#[case::fine(Kind::Duration, "\"0.5ns\"", "write whole nanoseconds")]
#[case::huge(Kind::Count, "1e400", "1e400 is no whole number")]
#[case::a_huge_size(Kind::Size, "{\"id\": 1e400, \"in\": -1e999}", "-1e999 is negative: write")]
#[case::a_negative_size(Kind::Size, "-5", "-5 is negative: write")]
#[case::a_huge_span(Kind::Duration, "1e400", "1e400 has no unit: write a string such as \"30s\"")]
#[case::digits(Kind::Count, "99999999999999999999999999", "is more than any count takes")]
#[case::digits_of_a_size(Kind::Size, "99999999999999999999999999", "more than any field takes (16Ti)")]
#[case::seconds(Kind::Duration, "30.5", "such as \"30.5s\"")]
#[case::seconds_with_an_exponent(Kind::Duration, "1E5", "such as \"30s\"")]
#[case::a_fraction(Kind::Count, "4.0", "4.0 is no whole number")]
fn an_item_of_no_meaning_is_invalid_and_told_what_to_write(#[case] kind: Kind, #[case] line: &str, #[case] part: &str) {
    let (judged, _) = run(kind, line);
    assert_eq!(judged[0]["reason"], "InvalidSpec", "{}", judged[0]);
    assert!(judged[0]["message"].as_str().unwrap().contains(part), "{}", judged[0]);
}

#[rstest]
#[case::documents("a: 1\n---\n".repeat(1025), "more than 1024 documents")]
#[case::nodes(format!("[{}]", "1,".repeat(250_001)), "250000 values")]
#[case::depth(format!("{}{}", "[".repeat(65), "]".repeat(65)), "64 levels")]
fn a_file_that_is_too_much_is_called_so(#[case] text: String, #[case] part: &str) {
    let error = told(&text, Format::Json).2.unwrap_err();
    assert!(error.contains(part) && error.contains("write ") && !error.contains("YAML"), "{error}");
}

#[rstest]
#[case::twice("{a: 1, a: 2}", "duplicate mapping key: a")]
#[case::infinite("{a: .inf}", "non-finite float `.inf`")]
fn what_the_parser_refuses_is_not_called_no_yaml(#[case] text: &str, #[case] end: &str) {
    let error = told(text, Format::Json).2.unwrap_err();
    assert!(error.ends_with(end) && error.contains("line 1 column") && !error.contains("no YAML"), "{error}");
}

#[test]
fn what_is_written_comes_back_as_it_was_and_messages_stay_short() {
    let told = |kind, line: &str| {
        let mut output = Vec::new();
        items(kind, None, line.as_bytes(), &mut output, Format::Json).unwrap();
        String::from_utf8(output).unwrap()
    };
    for number in ["1e-400", "-0", "1E5", "18446744073709551616", "1.10"] {
        let line = told(Kind::Size, &format!("{{\"id\": {number}, \"in\": {number}}}\n"));
        assert!(line.starts_with(&format!("{{\"id\":{number},\"in\":{number},")), "{line}");
    }
    let line = told(Kind::Size, "{\"id\": 1e400, \"in\": -1e400}\n");
    assert!(line.starts_with("{\"id\":\"1e400\",\"in\":\"-1e400\","), "{line}");
    let long = "9".repeat(100_000);
    for kind in [Kind::Size, Kind::Duration, Kind::Count, Kind::Path] {
        assert!(told(kind, &long).len() < long.len() + 1_000, "{kind:?}");
        assert!(told(kind, &format!("\"-{long}\"")).len() < long.len() + 1_000, "{kind:?}");
    }
}

#[rstest]
#[case::alias(
    "egress:\n    mode: Allowlist\n    allow:\n    - *.example.com",
    "line 8: `*.example.com` begins with `*`",
    "quote it: \"*.example.com\""
)]
#[case::list(
    "egress: {mode: Allowlist, allow: [*.example.com]}",
    "line 5: `*.example.com`",
    "quote it: \"*.example.com\""
)]
#[case::braces(
    "egress: {allow: [a.example.com, *.example.org], mode: Allowlist}",
    "line 5: `*.example.org`",
    "quote it: \"*.example.org\""
)]
#[case::percent(
    "resources: {}\n  commands:\n    deny:\n    - %rm",
    "line 8: `%rm` begins with `%`",
    "quote it: \"%rm\""
)]
#[case::at("commands:\n    deny:\n    - @rm", "line 7: `@rm` begins with `@`", "quote it: \"@rm\"")]
#[case::backtick("commands:\n    deny:\n    - `rm`", "line 7: ``rm`` begins with ```", "quote it: \"`rm`\"")]
fn a_value_that_yaml_takes_for_something_else_is_named_with_its_quotes(
    #[case] spec: &str,
    #[case] start: &str,
    #[case] end: &str,
) {
    let text = format!(
        "apiVersion: sprite-operator.io/v1alpha1\nkind: ExecutionPolicy\nmetadata: {{name: x}}\nspec:\n  {spec}\n"
    );
    let error = PolicyReport::read(&text, false).unwrap_err().to_string();
    assert!(error.contains(start) && error.contains(end), "{error}");
}

#[rstest]
#[case::anchor("- &&\\s*curl", "line 7: `&&\\s*curl` begins with `&`")]
#[case::tag("- !important", "line 7: `!important` begins with `!`")]
fn a_value_that_yaml_takes_away_is_named_with_its_quotes(#[case] item: &str, #[case] start: &str) {
    let text = format!(
        "apiVersion: sprite-operator.io/v1alpha1\nkind: ExecutionPolicy\nmetadata: {{name: x}}\nspec:\n  commands:\n    deny:\n    {item}\n"
    );
    let complaints = match PolicyReport::read(&text, false) {
        Ok(report) => report.complaints,
        Err(error) => vec![error.to_string()],
    };
    assert!(complaints.iter().any(|complaint| complaint.contains(start)), "{complaints:?}");
}

#[test]
fn fields_without_effect_are_noted_and_count_only_under_strict() {
    let text = manifest(
        "{quota: {runsPerDay: {user: 5}}, audit: {failure: Closed}, resources: {cpus: 2}, lifecycle: {persistent: true}}",
    );
    let judged = |strict| {
        let mut output = Vec::new();
        let strictness = Strictness { strict, ..Strictness::default() };
        let good = policy(&text, strictness, &mut output, &mut io::sink(), Format::Json).unwrap();
        (good, serde_json::from_slice::<Value>(&output).unwrap())
    };
    let (good, report) = judged(false);
    assert!(good && report["ready"] == json!(true), "{report}");
    let expected = ["resources.cpus", "lifecycle.persistent", "quota.runsPerDay.user", "audit.failure"];
    assert_eq!(report["notes"], json!(expected.map(|field| format!("spec.{field}: it has no effect in this version"))));
    assert!(!judged(true).0);
    let mut table = Vec::new();
    assert!(policy(&text, Strictness::default(), &mut table, &mut io::sink(), Format::Table).unwrap());
    assert!(String::from_utf8(table).unwrap().contains("  note: spec.quota.runsPerDay.user: it has no effect"));
}
