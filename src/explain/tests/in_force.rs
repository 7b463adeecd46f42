//! Whether a policy is in force: one answer for its report and for the items under it.

use super::*;

#[rstest]
#[case::misspelt_field(MANIFEST.replace("deny: [", "dney: ["))]
#[case::misspelt_limit(MANIFEST.replace("timeout:", "timeOut:"))]
#[case::misspelt_spec(MANIFEST.replace("spec:", "specs:"))]
#[case::no_name(MANIFEST.replace("{name: team}", "{}"))]
#[case::bad_name(MANIFEST.replace("team", "Bad_Name"))]
#[case::misspelt_metadata(MANIFEST.replace("{name: team}", "{name: team, lables: {}}"))]
#[case::bound(MANIFEST.replace("10s", "1h"))]
fn what_the_report_calls_not_ready_lets_nothing_start(#[case] manifest: String) {
    let report = PolicyReport::read(&manifest, false).unwrap();
    let (output, _, result) = told(&manifest, Format::Json);
    let line: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((result, &line["ready"]), (Ok(false), &json!(false)));
    assert_eq!(
        [&line["hash"], &line["limits"], &line["quota"], &line["rules"]],
        [&Value::Null, &Value::Null, &Value::Null, &json!([])]
    );
    assert!(!told(&manifest, Format::Table).0.contains("egress rules"));
    for (kind, input) in [
        (Kind::Command, json!("ls")),
        (Kind::EgressHost, json!("api.example.com")),
        (Kind::Env, json!("NODE_ENV=x")),
        (Kind::Duration, json!("1s")),
        (Kind::Size, Value::Null),
        (Kind::Count, Value::Null),
    ] {
        let item = Item::parse(kind, &json!({ "in": input }).to_string(), 1).unwrap();
        let judged = judge(kind, &item, Some(&report));
        assert_eq!((judged.verdict, judged.reason), (Verdict::Refuse, Some("PolicyNotReady")), "{judged:?}");
    }
}

#[test]
fn entries_of_an_item_open_nothing_under_a_suspended_policy() {
    let report = PolicyReport::read(&MANIFEST.replace("spec:", "spec:\n  suspend: true"), false).unwrap();
    let line = r#"{"in": "a.example.com", "allow": ["a.example.com"]}"#;
    let judged = judge(Kind::EgressHost, &Item::parse(Kind::EgressHost, line, 1).unwrap(), Some(&report));
    assert_eq!((judged.verdict, judged.reason), (Verdict::Refuse, Some("PolicySuspended")), "{judged:?}");
    assert_eq!(
        judge(Kind::EgressHost, &Item::parse(Kind::EgressHost, line, 1).unwrap(), None).verdict,
        Verdict::Accept
    );
}
