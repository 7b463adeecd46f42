//! Durations and sizes: what the schema accepts the operator must be able to read, and what it refuses is either no such
//! value, or out of bounds, or listed here as narrower.

use std::time::Duration;

use api::values::{ByteSize, GoDuration};
use serde_json::{Value, json};

use super::{Accepted, Case, Refused, judge, object, try_create};
use test_support::cluster;

/// Refused by the schema only: nobody writes these.
const NARROWER: [&str; 5] = ["1.5us", "1.5µs", "0.5us", "0.1234567s", "-0"];

fn timeout(text: &str) -> Value {
    json!({"session": {"drive": "d"}, "bash": {"command": "true"}, "timeout": text})
}

fn lives(text: &str) -> Value {
    json!({"session": {"drive": "d"}, "bash": {"command": "true"}, "ttlAfterFinished": text})
}

pub fn runs() -> Vec<Case> {
    const TIMEOUT: &str = "write a duration such as 30s, 5m or 1h30m: at least 1ms, at most 55m";
    const LIFE: &str = "write a duration such as 30s, 5m or 1h30m: at least 0s, at most 8760h";
    vec![
        ("30s", timeout("30s"), Accepted),
        ("55m", timeout("55m"), Accepted),
        ("1ms", timeout("1ms"), Accepted),
        ("55m0.000001s", timeout("55m0.000001s"), Refused(TIMEOUT)),
        ("1h30m", timeout("1h30m"), Refused(TIMEOUT)),
        ("0s", timeout("0s"), Refused(TIMEOUT)),
        ("0", timeout("0"), Refused(TIMEOUT)),
        ("999us", timeout("999us"), Refused(TIMEOUT)),
        ("30", timeout("30"), Refused(TIMEOUT)),
        ("30, the pattern", timeout("30"), Refused("spec.timeout in body should match")),
        ("1d", timeout("1d"), Refused(TIMEOUT)),
        ("negative", timeout("-1s"), Refused("spec.timeout in body should match")),
        ("ISO 8601", timeout("PT30S"), Refused(TIMEOUT)),
        ("empty", timeout(""), Refused("spec.timeout in body should be at least 1")),
        ("a space", timeout("30 s"), Refused(TIMEOUT)),
        ("centuries", timeout("99999999999h"), Refused(TIMEOUT)),
        ("long", timeout("00000000000000000000000000000030s"), Refused("spec.timeout: Too long")),
        (
            "a number",
            json!({"session": {"drive": "d"}, "bash": {"command": "true"}, "timeout": 30}),
            Refused("spec.timeout in body must be of type string: \"integer\""),
        ),
        ("lives 0s", lives("0s"), Accepted),
        ("lives 0", lives("0"), Accepted),
        ("lives a year", lives("8760h"), Accepted),
        ("lives longer", lives("8760h1s"), Refused(LIFE)),
        ("lives a day", lives("1d"), Refused("spec.ttlAfterFinished in body should match")),
    ]
}

pub fn policies() -> Vec<Case> {
    const MORE: [(&str, &str, &str); 4] = [
        ("limits.timeout", "55m", "write a duration such as 30s, 5m or 1h30m: at least 1ms, at most 55m"),
        ("limits.start", "24h", "write a duration such as 30s, 5m or 1h30m: at least 1ms, at most 24h"),
        ("lifecycle.hibernateAfter", "720h", "write a duration such as 30s, 5m or 1h30m: at least 0s, at most 720h"),
        ("lifecycle.expireAfter", "8760h", "write a duration such as 30s, 5m or 1h30m: at least 0s, at most 8760h"),
    ];
    const BOUNDS: [(&str, u64, &str); 7] = [
        (
            "limits.output",
            128 << 10,
            "write whole bytes as an integer or a quantity such as 64Ki: at least 0, at most 128Ki",
        ),
        (
            "limits.read",
            128 << 10,
            "write whole bytes as an integer or a quantity such as 64Ki: at least 0, at most 128Ki",
        ),
        (
            "limits.command",
            64 << 10,
            "write whole bytes as an integer or a quantity such as 64Ki: at least 0, at most 64Ki",
        ),
        (
            "limits.stdin",
            512 << 10,
            "write whole bytes as an integer or a quantity such as 64Ki: at least 0, at most 512Ki",
        ),
        (
            "limits.write",
            512 << 10,
            "write whole bytes as an integer or a quantity such as 64Ki: at least 0, at most 512Ki",
        ),
        (
            "resources.memory",
            1 << 40,
            "write whole bytes as an integer or a quantity such as 64Ki: at least 0, at most 1Ti",
        ),
        (
            "resources.storage",
            1 << 44,
            "write whole bytes as an integer or a quantity such as 64Ki: at least 0, at most 16Ti",
        ),
    ];
    let at = |path: &str, value: Value| {
        let (part, field) = path.split_once('.').unwrap();
        json!({part: {field: value}})
    };
    let mut cases = vec![
        ("lifecycle.maxAwake", at("lifecycle.maxAwake", json!("720h")), Accepted),
        (
            "lifecycle.maxAwake",
            at("lifecycle.maxAwake", json!("721h")),
            Refused("write a duration such as 30s, 5m or 1h30m: at least 0s, at most 720h"),
        ),
    ];
    for (path, max, message) in MORE {
        cases.push((path, at(path, json!(max)), Accepted));
        cases.push((path, at(path, json!(format!("{max}1ms"))), Refused(message)));
        cases.push((path, at(path, json!("5 minutes")), Refused(message)));
        cases.push((path, at(path, json!("0s")), if path.starts_with("limits") { Refused(message) } else { Accepted }));
    }
    for (path, max, message) in BOUNDS {
        cases.push((path, at(path, json!(max)), Accepted));
        cases.push((path, at(path, json!(max.to_string())), Accepted));
        cases.push((path, at(path, json!(0)), Accepted));
        cases.push((path, at(path, json!(max + 1)), Refused(message)));
        cases.push((path, at(path, json!(format!("{}Ki", (max >> 10) + 1))), Refused(message)));
        cases.push((path, at(path, json!(-1)), Refused(message)));
        cases.push((path, at(path, json!("-1")), Refused(message)));
        cases.push((path, at(path, json!("64KiB")), Refused(message)));
        cases.push((path, at(path, json!("0.5")), Refused(message)));
        cases.push((path, at(path, json!("1500m")), Refused(message)));
        cases.push((path, at(path, json!(1.5)), Refused("must be of type integer,string: \"number\"")));
        cases.push((path, at(path, json!(true)), Refused("must be of type integer,string: \"boolean\"")));
    }
    cases
}

#[tokio::test]
async fn durations_of_runs_are_bounded() {
    judge("Run", runs()).await;
}

#[tokio::test]
async fn durations_and_sizes_of_policies_are_bounded() {
    judge("ExecutionPolicy", policies()).await;
}

/// A text, whether the schema takes it, and whether the operator does, and for which value.
fn consistent(text: &str, accepted: bool, read: Option<u128>, max: u128) -> Option<String> {
    match (accepted, read) {
        (true, Some(value)) if value <= max => None,
        (false, None) => None,
        (false, Some(value)) if value > max || NARROWER.contains(&text) => None,
        _ => Some(format!("`{text}`: accepted by the schema: {accepted}, read by the operator as {read:?}")),
    }
}

/// Spellings, good and bad.
pub const DURATIONS: &[&str] = &[
    "0",
    "0s",
    "00",
    "00s",
    "+0",
    "+5s",
    "-5s",
    "5s",
    "05s",
    "5",
    "5.s",
    ".5s",
    ".s",
    "s",
    "",
    "1.5h",
    "1.5",
    "1h30m",
    "1h 30m",
    "30m1h",
    "1m1m",
    "1d",
    "1w",
    "1H",
    "1S",
    "10ms",
    "10us",
    "10µs",
    "10μs",
    "10ns",
    "0.5ns",
    "1.5us",
    "1.5µs",
    "0.5us",
    "1.5ms",
    "0.000001ms",
    "0.123456s",
    "0.1234567s",
    "0.000001h",
    "1e3s",
    "1_000s",
    "١s",
    "1h0",
    "0h0s",
    "1,5s",
    "5s\n",
    " 5s",
    "8760h",
    "8761h",
    "9999999999h",
    "2562047h",
    "9223372036854775807ns",
    "9223372036854775808ns",
    "inf",
    "NaN",
    "0x5s",
    "1..5s",
    "1.5.5s",
    "++5s",
    "+-5s",
    "P1D",
    "1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h1h",
];

#[tokio::test]
async fn the_schema_and_the_operator_agree_on_durations() {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let max = Duration::from_hours(8760).as_nanos();
    let mut wrong = Vec::new();
    for &text in DURATIONS {
        let answer = try_create(&client, "Run", "", &object("Run", "case", &lives(text))).await;
        let read = text.parse::<GoDuration>().ok().map(|d| d.get().as_nanos());
        wrong.extend(consistent(text, answer.is_accepted(), read, max).map(|w| format!("{w}; {}", answer.message())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Spellings, good and bad.
pub const SIZES: &[&str] = &[
    "0",
    "00",
    "+0",
    "-0",
    "-1",
    "+5",
    "65536",
    "64Ki",
    "64ki",
    "64K",
    "64k",
    "64KiB",
    "64 Ki",
    "1.5Ki",
    "1.3Ki",
    "0.1Ki",
    "1.1k",
    "1.0001k",
    "0.0001k",
    "1e3",
    "1E3",
    "1.5e1",
    "1.25e1",
    "15e-1",
    "10e-1",
    "1e+3",
    "1e",
    "e3",
    "1e18",
    "1e19",
    "0e99",
    "1E",
    "0.000000000000000001E",
    "1000m",
    "1500m",
    "1m",
    "1000000u",
    "1000000000n",
    "1n",
    "5.",
    ".5",
    ".",
    "",
    "5.0",
    "0.5",
    "0.50",
    ".5Ki",
    ".5k",
    "1.00000000001k",
    "1.0000000001k",
    "16Ti",
    "17Ti",
    "16384Gi",
    "16Ei",
    "8Ei",
    "0x10",
    "1_000",
    "1,5Ki",
    "Ki",
    "1.2.3",
    "1Ki\n",
    " 1",
    "17592186044416",
    "17592186044417",
    "9223372036854775807",
    "9223372036854775808",
    "99999999999999999999999999999999",
    "8796093022208.0001",
    "1.7592186044416T",
    "1.75921860444161T",
    "0.000000000001T",
    "0.0000000000001T",
    "123.456k",
    "123.4567k",
    "4398046511104.001",
    "NaN",
    "Inf",
];

#[tokio::test]
async fn the_schema_and_the_operator_agree_on_sizes() {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let mut wrong = Vec::new();
    for &text in SIZES {
        let spec = json!({"resources": {"storage": text}});
        let answer = try_create(&client, "ExecutionPolicy", "", &object("ExecutionPolicy", "case", &spec)).await;
        let read = text.parse::<ByteSize>().ok().map(|size| u128::from(size.bytes()));
        wrong.extend(
            consistent(text, answer.is_accepted(), read, 1 << 44).map(|w| format!("{w}; {}", answer.message())),
        );
        if answer.is_accepted() {
            assert_eq!(answer.body["spec"]["resources"]["storage"], text, "kept as it was written");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
