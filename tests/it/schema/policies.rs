//! The spec of an `ExecutionPolicy`.

use serde_json::{Value, json};

use super::{Accepted, Case, Refused, judge, object, try_create, with};
use test_support::cluster;

const FORM: &str =
    "write a host name such as api.example.com or *.example.com: no scheme, port, path, user, space or CIDR";
const ADDRESS: &str =
    "write a host name such as api.example.com: IP addresses cannot be allowed or denied by the platform";
const STAR: &str = "a lone * cannot be listed: set egress.mode to Open or DenyAll instead";
const NOTHING: &str = "mode DenyAll, the default, allows nothing: set mode to Allowlist, or remove allow and presets";
const MARGIN: &str = "an expression begins or ends with white space, as a block of YAML leaves it there: write it on one line, in single quotes, and \\s where white space is meant";
const BOTH: &str = "an entry stands in both allow and deny: keep it in one of them";

fn hosts(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("host-{i}.example.com")).collect()
}

pub fn egress() -> Vec<Case> {
    let list = |change: &Value| json!({"egress": with(json!({"mode": "Allowlist"}), change)});
    let allow = |entry: &str| list(&json!({"allow": [entry]}));
    let deny = |entry: &str| list(&json!({"deny": [entry]}));
    vec![
        ("nothing said", json!({}), Accepted),
        ("DenyAll", json!({"egress": {"mode": "DenyAll"}}), Accepted),
        ("DenyAll with deny", json!({"egress": {"deny": ["example.com"]}}), Accepted),
        ("Open", json!({"egress": {"mode": "Open", "deny": ["*.example.com"]}}), Accepted),
        (
            "no such mode",
            json!({"egress": {"mode": "AllowAll"}}),
            Refused("spec.egress.mode: Unsupported value: \"AllowAll\""),
        ),
        ("DenyAll with allow", json!({"egress": {"allow": ["example.com"]}}), Refused(NOTHING)),
        ("DenyAll with presets", json!({"egress": {"presets": ["Defaults"]}}), Refused(NOTHING)),
        ("presets", list(&json!({"presets": ["Defaults"]})), Accepted),
        ("no such preset", list(&json!({"presets": ["GitHub"]})), Refused("spec.egress.presets[0]: Unsupported value")),
        ("a host", allow("api.example.com"), Accepted),
        ("subdomains", allow("*.example.com"), Accepted),
        ("an international name", allow("bücher.example"), Accepted),
        ("an underscore", allow("catapult_tv.example.com"), Accepted),
        ("a lone *", allow("*"), Refused(STAR)),
        ("a lone * denied", deny("*"), Refused(STAR)),
        ("an IPv4 address", allow("10.0.0.1"), Refused(ADDRESS)),
        ("an IPv4 address denied", deny("169.254.169.254"), Refused(ADDRESS)),
        ("an IPv6 address", allow("fe80::1"), Refused(FORM)),
        ("a network", allow("10.0.0.0/8"), Refused(FORM)),
        ("a scheme", allow("https://example.com"), Refused(FORM)),
        ("a port", allow("example.com:443"), Refused(FORM)),
        ("a port denied", deny("example.com:443"), Refused(FORM)),
        ("a path", allow("example.com/api"), Refused(FORM)),
        ("a user", allow("me@example.com"), Refused(FORM)),
        ("a space", allow("example.com example.org"), Refused(FORM)),
        ("two at once", allow("example.com,example.org"), Refused(FORM)),
        ("an empty entry", allow(""), Refused("spec.egress.allow[0] in body should be at least 1 chars long")),
        ("a long entry", allow(&"x".repeat(261)), Refused("spec.egress.allow[0]: Too long")),
        ("200 entries", list(&json!({"allow": hosts(200), "deny": ["example.org"]})), Accepted),
        (
            "201 entries",
            list(&json!({"allow": hosts(201)})),
            Refused("spec.egress.allow: Too many: 201: must have at most 200 items"),
        ),
        (
            "201 denied",
            list(&json!({"deny": hosts(201)})),
            Refused("spec.egress.deny: Too many: 201: must have at most 200 items"),
        ),
        (
            "an entry twice",
            list(&json!({"allow": ["a.example", "a.example"]})),
            Refused("spec.egress.allow[1]: Duplicate value"),
        ),
        ("in both lists", list(&json!({"allow": ["a.example", "b.example"], "deny": ["b.example"]})), Refused(BOTH)),
        ("a wider entry denied", list(&json!({"allow": ["a.example.com"], "deny": ["*.example.com"]})), Accepted),
    ]
}

pub fn commands() -> Vec<Case> {
    let deny = |list: Vec<String>| json!({"commands": {"deny": list}});
    let some = |n: usize| (0..n).map(|i| format!("x{i}")).collect::<Vec<_>>();
    let allow = |name: &str| json!({"environment": {"allow": [name]}});
    let set = |variable: &Value| json!({"environment": {"set": [variable]}});
    vec![
        ("an expression", deny(vec!["rm\\s+-rf".to_owned()]), Accepted),
        ("an expression of 512 bytes", deny(vec!["x".repeat(512)]), Accepted),
        ("an expression of 513", deny(vec!["x".repeat(513)]), Refused("spec.commands.deny[0]: Too long")),
        (
            "an expression of 514 bytes",
            deny(vec!["é".repeat(257)]),
            Refused("an expression has at most 512 bytes: split it into several"),
        ),
        (
            "an empty expression",
            deny(vec![String::new()]),
            Refused("spec.commands.deny[0] in body should be at least 1"),
        ),
        ("a block of YAML", deny(vec!["\\bssh\\b\n".to_owned()]), Refused(MARGIN)),
        ("a blank before", deny(vec![" ssh".to_owned()]), Refused(MARGIN)),
        ("a tab behind the second", deny(vec!["scp".to_owned(), "ssh\t".to_owned()]), Refused(MARGIN)),
        ("blanks inside", deny(vec!["rm -rf /".to_owned()]), Accepted),
        ("64 expressions", deny(some(64)), Accepted),
        ("65 expressions", deny(some(65)), Refused("spec.commands.deny: Too many: 65: must have at most 64 items")),
        ("a variable to allow", allow("NODE_ENV"), Accepted),
        ("no variable to allow", allow("NODE-ENV"), Refused("spec.environment.allow[0] in body should match")),
        ("a variable", set(&json!({"name": "TZ", "value": "UTC"})), Accepted),
        (
            "no variable",
            set(&json!({"name": "T Z", "value": "UTC"})),
            Refused("spec.environment.set[0].name in body should match"),
        ),
        (
            "NUL in a variable",
            set(&json!({"name": "TZ", "value": "\0"})),
            Refused("spec.environment.set[0].value in body should match"),
        ),
        (
            "a variable with too many bytes",
            set(&json!({"name": "A", "value": "é".repeat(16_385)})),
            Refused("a value has at most 32Ki bytes of UTF-8: write a shorter one"),
        ),
    ]
}

pub fn numbers() -> Vec<Case> {
    let limits = |change: &Value| json!({"limits": change});
    let quota = |change: &Value| json!({"quota": change});
    let tiers = |n: usize| (0..n).map(|i| (format!("t{i}"), json!(1))).collect::<serde_json::Map<_, _>>();
    let region = |name: &str| json!({"resources": {"region": name}});
    vec![
        ("one Run at a time", limits(&json!({"parallelRuns": 1})), Accepted),
        ("64 Runs at a time", limits(&json!({"parallelRuns": 64})), Accepted),
        (
            "no Run at a time",
            limits(&json!({"parallelRuns": 0})),
            Refused("spec.limits.parallelRuns in body should be greater than or equal to 1"),
        ),
        (
            "65 Runs at a time",
            limits(&json!({"parallelRuns": 65})),
            Refused("spec.limits.parallelRuns in body should be less than or equal to 64"),
        ),
        (
            "half a CPU",
            json!({"resources": {"cpus": 0.5}}),
            Refused("spec.resources.cpus in body must be of type int64: \"float64\""),
        ),
        (
            "no CPU",
            json!({"resources": {"cpus": 0}}),
            Refused("spec.resources.cpus in body should be greater than or equal to 1"),
        ),
        (
            "65 CPUs",
            json!({"resources": {"cpus": 65}}),
            Refused("spec.resources.cpus in body should be less than or equal to 64"),
        ),
        ("a region", region("iad"), Accepted),
        ("no region", region("IAD 1"), Refused("spec.resources.region in body should match")),
        (
            "a quota",
            quota(&json!({"concurrentRuns": {"default": 0, "byTier": {"pro": 4}}, "runsPerDay": {"user": 0}})),
            Accepted,
        ),
        (
            "a negative quota",
            quota(&json!({"concurrentRuns": {"default": -1}})),
            Refused("spec.quota.concurrentRuns.default in body should be greater than or equal to 0"),
        ),
        (
            "a negative tier",
            quota(&json!({"concurrentRuns": {"byTier": {"pro": -1}}})),
            Refused("spec.quota.concurrentRuns.byTier.pro in body should be greater than or equal to 0"),
        ),
        ("32 tiers", quota(&json!({"concurrentRuns": {"byTier": tiers(32)}})), Accepted),
        (
            "33 tiers",
            quota(&json!({"concurrentRuns": {"byTier": tiers(33)}})),
            Refused("spec.quota.concurrentRuns.byTier: Too many: 33: must have at most 32 items"),
        ),
        (
            "a negative day",
            quota(&json!({"runsPerDay": {"tenant": -1}})),
            Refused("spec.quota.runsPerDay.tenant in body should be greater than or equal to 0"),
        ),
        (
            "negative sessions",
            quota(&json!({"sessions": -1})),
            Refused("spec.quota.sessions in body should be greater than or equal to 0"),
        ),
        ("Queue", quota(&json!({"onExceeded": "Queue"})), Accepted),
        (
            "no such word",
            quota(&json!({"onExceeded": "Wait"})),
            Refused("spec.quota.onExceeded: Unsupported value: \"Wait\": supported values: \"Deny\", \"Queue\""),
        ),
    ]
}

#[tokio::test]
async fn egress_lists_are_host_names() {
    judge("ExecutionPolicy", egress()).await;
}

#[tokio::test]
async fn commands_and_variables_are_bounded() {
    judge("ExecutionPolicy", commands()).await;
}

#[tokio::test]
async fn numbers_are_bounded() {
    judge("ExecutionPolicy", numbers()).await;
}

#[tokio::test]
async fn every_choice_is_one_of_its_words() {
    for (path, words) in [
        ("output.redact", ["Recognised", "Off"]),
        ("lifecycle.processesAfterRun", ["Kill", "Keep"]),
        ("lifecycle.onTighten", ["Finish", "Kill"]),
        ("lifecycle.onWiden", ["Replace", "Relock"]),
        ("lifecycle.onKillUnconfirmed", ["Destroy", "Report"]),
        ("quota.onExceeded", ["Deny", "Queue"]),
        ("containment.probe", ["FreshInstance", "Disabled"]),
        ("audit.events", ["All", "Anomalies"]),
        ("audit.failure", ["Open", "Closed"]),
    ] {
        let (part, field) = path.split_once('.').unwrap();
        let spec = |word: &str| json!({part: {field: word}});
        let wrong = Refused("Unsupported value: \"\"");
        let cases = words.map(|word| ("a word", spec(word), Accepted)).into_iter().chain([("none", spec(""), wrong)]);
        judge("ExecutionPolicy", cases.collect()).await;
    }
}

/// What design.md shows, field by field.
fn defaults() -> Value {
    json!({
        "suspend": false,
        "limits": {
            "timeout": "30s", "start": "5m", "output": "64Ki", "command": "16Ki", "stdin": "256Ki", "write": "256Ki",
            "read": "64Ki", "parallelRuns": 4,
        },
        "output": {"redact": "Recognised", "onLimit": "Truncate"},
        "resources": {"cpus": 1, "memory": "1Gi", "storage": "2Gi"},
        "egress": {"mode": "DenyAll", "allow": [], "deny": [], "presets": []},
        "environment": {"set": [], "allow": []},
        "commands": {"deny": []},
        "lifecycle": {
            "persistent": false, "hibernateAfter": "5m", "expireAfter": "24h", "maxAwake": "1h",
            "processesAfterRun": "Kill", "onTighten": "Finish", "onWiden": "Replace", "onKillUnconfirmed": "Destroy",
        },
        "quota": {
            "concurrentRuns": {"default": 2}, "runsPerDay": {}, "countFiles": true, "sessions": 10, "onExceeded": "Deny",
        },
        "containment": {"probe": "FreshInstance"},
        "audit": {"events": "All", "failure": "Open"},
    })
}

#[tokio::test]
async fn an_empty_policy_has_every_default() {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let answer = try_create(&client, "ExecutionPolicy", "", &object("ExecutionPolicy", "case", &json!({}))).await;
    assert!(answer.is_accepted(), "{}", answer.message());
    assert_eq!(answer.body["spec"], defaults());
    assert_eq!(answer.body["status"], json!({"observedGeneration": -1}));
}

#[tokio::test]
async fn a_part_that_is_given_has_its_other_defaults_and_so_has_one_that_is_null() {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let spec = json!({"limits": {"timeout": "1m"}, "egress": {"mode": "Open"}, "lifecycle": null, "quota": {"sessions": null}});
    let answer = try_create(&client, "ExecutionPolicy", "", &object("ExecutionPolicy", "case", &spec)).await;
    assert!(answer.is_accepted(), "{}", answer.message());
    assert_eq!(
        answer.body["spec"],
        with(defaults(), &json!({"limits": {"timeout": "1m"}, "egress": {"mode": "Open"}}))
    );
}

#[tokio::test]
async fn the_defaults_of_the_schema_are_those_of_the_types() {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let answer = try_create(&client, "ExecutionPolicy", "", &object("ExecutionPolicy", "case", &json!({}))).await;
    let read: api::ExecutionPolicy = serde_json::from_value(answer.body).unwrap();
    let plain: api::ExecutionPolicySpec = serde_json::from_value(json!({})).unwrap();
    assert_eq!(read.spec, plain);
}

#[tokio::test]
async fn the_policies_of_the_chart_are_accepted() {
    let client = cluster::admin(cluster::kubeconfig()).await;
    for name in ["default", "minimal"] {
        let path = cluster::root().join(format!("charts/sprite-operator/files/policies/{name}.yaml"));
        let [policy] = <[Value; 1]>::try_from(cluster::documents(&path)).unwrap();
        assert_eq!(policy["metadata"]["name"], name);
        // A dry run of another name: somebody may have installed the real one.
        let answer = try_create(
            &client,
            "ExecutionPolicy",
            "&fieldValidation=Strict",
            &object("ExecutionPolicy", "case", &policy["spec"]),
        )
        .await;
        assert!(answer.is_accepted(), "{}", answer.message());
        let spec = answer.body["spec"].clone();
        let wanted = match name {
            "default" => defaults(),
            _ => with(defaults(), &json!({"limits": {"timeout": "10s", "output": "32Ki"}})),
        };
        assert_eq!(spec, wanted, "{name}");
    }
}
