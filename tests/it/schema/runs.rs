//! The spec of a `Run`.

use serde_json::{Value, json};

use super::{Accepted, Case, Refused, judge, object, try_create, with};
use test_support::cluster;

const ONE_ACTION: &str = "write exactly one of bash, writeFile, readFile, editFile";
const SELECTOR: &str = "write either session.name or session.drive";

fn run(change: &Value) -> Value {
    with(json!({"session": {"drive": "d"}, "bash": {"command": "true"}}), change)
}

fn session(selector: &Value) -> Value {
    json!({"session": selector, "bash": {"command": "true"}})
}

fn action(action: &Value) -> Value {
    with(json!({"session": {"drive": "d"}}), action)
}

pub fn selectors() -> Vec<Case> {
    vec![
        ("by name", session(&json!({"name": "s1"})), Accepted),
        ("by drive", session(&json!({"drive": "d"})), Accepted),
        ("by drive and conversation", session(&json!({"drive": "d", "conversation": "c"})), Accepted),
        ("none", session(&json!({})), Refused(SELECTOR)),
        ("name and drive", session(&json!({"name": "s1", "drive": "d"})), Refused(SELECTOR)),
        (
            "conversation alone",
            session(&json!({"conversation": "c"})),
            Refused("session.conversation needs session.drive"),
        ),
        (
            "name and conversation",
            session(&json!({"name": "s1", "conversation": "c"})),
            Refused("session.conversation needs session.drive"),
        ),
        ("no session", json!({"bash": {"command": "true"}}), Refused("spec.session: Required value")),
        ("a name that is none", session(&json!({"name": "S1"})), Refused("spec.session.name in body should match")),
        ("an empty drive", session(&json!({"drive": ""})), Refused("spec.session.drive in body should be at least 1")),
        ("any text as drive", session(&json!({"drive": "Größe/1 2\n3"})), Accepted),
        ("a drive of 253 bytes", session(&json!({"drive": "d".repeat(253)})), Accepted),
        ("a drive of 254", session(&json!({"drive": "d".repeat(254)})), Refused("spec.session.drive: Too long")),
        ("a drive of 252 bytes", session(&json!({"drive": "€".repeat(84)})), Accepted),
        (
            "a drive of 255 bytes",
            session(&json!({"drive": "€".repeat(85)})),
            Refused("at most 253 bytes of UTF-8: write a shorter name"),
        ),
        (
            "NUL in a drive",
            session(&json!({"drive": "a\0b"})),
            Refused("spec.session.drive in body should match '^[^\\x00]+$'"),
        ),
        (
            "NUL in a conversation",
            session(&json!({"drive": "d", "conversation": "\0"})),
            Refused("spec.session.conversation in body should match"),
        ),
    ]
}

pub fn actions() -> Vec<Case> {
    let write = json!({"path": "a", "content": ""});
    vec![
        ("bash", action(&json!({"bash": {"command": "true"}})), Accepted),
        ("writeFile", action(&json!({"writeFile": write})), Accepted),
        ("readFile", action(&json!({"readFile": {"path": "a"}})), Accepted),
        ("editFile", action(&json!({"editFile": {"path": "a", "oldText": "a", "newText": "b"}})), Accepted),
        ("none", action(&json!({})), Refused(ONE_ACTION)),
        ("two", run(&json!({"readFile": {"path": "a"}})), Refused(ONE_ACTION)),
        ("three", run(&json!({"readFile": {"path": "a"}, "writeFile": write})), Refused(ONE_ACTION)),
        (
            "explicit null is as absent",
            json!({"session": {"name": "s1", "drive": null}, "bash": null, "readFile": {"path": "a", "length": null}, "timeout": null}),
            Accepted,
        ),
        ("only null", json!({"session": {"drive": "d"}, "bash": null}), Refused(ONE_ACTION)),
    ]
}

pub fn bash() -> Vec<Case> {
    let bash = |change: &Value| run(&json!({"bash": change}));
    let env = |list: &Value| run(&json!({"bash": {"env": list}}));
    let many = |n: usize| (0..n).map(|i| json!({"name": format!("V{i}")})).collect::<Value>();
    vec![
        ("no command", json!({"session": {"drive": "d"}, "bash": {}}), Refused("spec.bash.command: Required value")),
        ("an empty command", bash(&json!({"command": ""})), Refused("spec.bash.command in body should be at least 1")),
        ("a command of 64Ki", bash(&json!({"command": "x".repeat(65_536)})), Accepted),
        ("a longer command", bash(&json!({"command": "x".repeat(65_537)})), Refused("spec.bash.command: Too long")),
        ("lines, tabs, any letters", bash(&json!({"command": "echo 'é\u{1}\t'\r\n\n# x"})), Accepted),
        ("NUL in a command", bash(&json!({"command": "a\0"})), Refused("spec.bash.command in body should match")),
        ("a directory", bash(&json!({"cwd": "sub/dir"})), Accepted),
        ("NUL in a directory", bash(&json!({"cwd": "a\0b"})), Refused("spec.bash.cwd in body should match")),
        ("an empty directory", bash(&json!({"cwd": ""})), Refused("spec.bash.cwd in body should be at least 1")),
        ("stdin with NUL", bash(&json!({"stdin": "a\0b"})), Accepted),
        ("stdin of 512Ki", bash(&json!({"stdin": "x".repeat(524_288)})), Accepted),
        ("stdin as base64", bash(&json!({"stdinBase64": "AP8="})), Accepted),
        (
            "stdin twice",
            bash(&json!({"stdin": "", "stdinBase64": ""})),
            Refused("write at most one of stdin, stdinBase64"),
        ),
        (
            "stdin as base64 without padding",
            bash(&json!({"stdinBase64": "AP8"})),
            Refused("spec.bash.stdinBase64 in body should match"),
        ),
        ("stdin of 512Ki as base64", bash(&json!({"stdinBase64": "AAAA".repeat(174_763)})), Accepted),
        (
            "a longer stdin as base64",
            bash(&json!({"stdinBase64": "AAAA".repeat(174_764)})),
            Refused("spec.bash.stdinBase64: Too long"),
        ),
        ("a longer stdin", bash(&json!({"stdin": "x".repeat(524_289)})), Refused("spec.bash.stdin: Too long")),
        ("variables", env(&json!([{"name": "A", "value": "two\nlines"}, {"name": "_b1"}])), Accepted),
        (
            "a name that starts with a digit",
            env(&json!([{"name": "1A"}])),
            Refused("spec.bash.env[0].name in body should match"),
        ),
        ("a name with a dash", env(&json!([{"name": "A-B"}])), Refused("spec.bash.env[0].name in body should match")),
        ("a name with =", env(&json!([{"name": "A=B"}])), Refused("spec.bash.env[0].name in body should match")),
        (
            "a name with a line end",
            env(&json!([{"name": "A\n"}])),
            Refused("spec.bash.env[0].name in body should match"),
        ),
        ("an empty name", env(&json!([{"name": ""}])), Refused("spec.bash.env[0].name in body should be at least 1")),
        ("no name", env(&json!([{"value": "x"}])), Refused("spec.bash.env[0].name: Required value")),
        ("a name twice", env(&json!([{"name": "A"}, {"name": "A"}])), Refused("spec.bash.env[1]: Duplicate value")),
        (
            "NUL in a value",
            env(&json!([{"name": "A", "value": "\0"}])),
            Refused("spec.bash.env[0].value in body should match"),
        ),
        ("a value of 32Ki", env(&json!([{"name": "A", "value": "x".repeat(32_768)}])), Accepted),
        (
            "a longer value",
            env(&json!([{"name": "A", "value": "x".repeat(32_769)}])),
            Refused("spec.bash.env[0].value: Too long"),
        ),
        (
            "a value with too many bytes",
            env(&json!([{"name": "A", "value": "é".repeat(16_385)}])),
            Refused("a value has at most 32Ki bytes of UTF-8: write a shorter one"),
        ),
        ("128 variables", env(&many(128)), Accepted),
        ("129 variables", env(&many(129)), Refused("spec.bash.env: Too many: 129: must have at most 128 items")),
    ]
}

pub fn files() -> Vec<Case> {
    const ONE_CONTENT: &str = "write exactly one of content, contentBase64";
    const MODE: &str = "spec.writeFile.mode in body should match";
    const BASE64: &str = "spec.writeFile.contentBase64 in body should match";
    let write = |change: &Value| action(&json!({"writeFile": with(json!({"path": "a"}), change)}));
    let mode = |mode: Value| write(&json!({"content": "x", "mode": mode}));
    let base64 = |text: &str| write(&json!({"contentBase64": text}));
    let read = |change: &Value| action(&json!({"readFile": with(json!({"path": "a"}), change)}));
    let edit = |old: &str, new: &str| action(&json!({"editFile": {"path": "a", "oldText": old, "newText": new}}));
    vec![
        ("content", write(&json!({"content": "a\0b"})), Accepted),
        ("no content", write(&json!({})), Refused(ONE_CONTENT)),
        ("both contents", write(&json!({"content": "", "contentBase64": ""})), Refused(ONE_CONTENT)),
        ("content of 512Ki", write(&json!({"content": "x".repeat(524_288)})), Accepted),
        ("more content", write(&json!({"content": "x".repeat(524_289)})), Refused("spec.writeFile.content: Too long")),
        ("base64", base64("YQ=="), Accepted),
        ("base64 of 512Ki", base64(&"AAAA".repeat(174_763)), Accepted),
        ("more base64", base64(&"AAAA".repeat(174_764)), Refused("spec.writeFile.contentBase64: Too long")),
        ("empty base64", base64(""), Accepted),
        ("base64 without padding", base64("YQ"), Refused(BASE64)),
        ("base64 that was cut", base64("YWJjZ"), Refused(BASE64)),
        ("base64 for URLs", base64("_-__"), Refused(BASE64)),
        ("base64 with a line end", base64("YWJj\n"), Refused(BASE64)),
        ("four digits", mode(json!("0755")), Accepted),
        ("three digits", mode(json!("600")), Accepted),
        ("0o755", mode(json!("0o755")), Refused(MODE)),
        ("set-uid", mode(json!("4755")), Refused(MODE)),
        ("not octal", mode(json!("0789")), Refused(MODE)),
        ("a number", mode(json!(755)), Refused("spec.writeFile.mode in body must be of type string: \"integer\"")),
        (
            "no path to write",
            action(&json!({"writeFile": {"content": ""}})),
            Refused("spec.writeFile.path: Required value"),
        ),
        (
            "NUL in a path to write",
            write(&json!({"path": "a\0", "content": ""})),
            Refused("spec.writeFile.path in body should match"),
        ),
        ("an empty path", read(&json!({"path": ""})), Refused("spec.readFile.path in body should be at least 1")),
        ("a path of 4096", read(&json!({"path": "x".repeat(4096)})), Accepted),
        ("a longer path", read(&json!({"path": "x".repeat(4097)})), Refused("spec.readFile.path: Too long")),
        ("NUL in a path to read", read(&json!({"path": "\0"})), Refused("spec.readFile.path in body should match")),
        ("offset and length", read(&json!({"offset": 1_099_511_627_776_i64, "length": 131_072})), Accepted),
        (
            "a negative offset",
            read(&json!({"offset": -1})),
            Refused("spec.readFile.offset in body should be greater than or equal to 0"),
        ),
        (
            "an offset past 1Ti",
            read(&json!({"offset": 1_099_511_627_777_i64})),
            Refused("spec.readFile.offset in body should be less than or equal to"),
        ),
        (
            "a negative length",
            read(&json!({"length": -1})),
            Refused("spec.readFile.length in body should be greater than or equal to 0"),
        ),
        (
            "a length past 128Ki",
            read(&json!({"length": 131_073})),
            Refused("spec.readFile.length in body should be less than or equal to 131072"),
        ),
        ("an edit", edit("a", "b"), Accepted),
        ("an edit that removes", edit("a", ""), Accepted),
        (
            "an edit that changes nothing",
            edit("a", "a"),
            Refused("oldText and newText are the same: nothing would change"),
        ),
        ("an edit of nothing", edit("", "a"), Refused("spec.editFile.oldText in body should be at least 1")),
        ("an edit of 64Ki", edit(&"x".repeat(65_536), ""), Accepted),
        ("a longer edit", edit(&"x".repeat(65_537), ""), Refused("spec.editFile.oldText: Too long")),
        ("a longer new text", edit("x", &"x".repeat(65_537)), Refused("spec.editFile.newText: Too long")),
        (
            "NUL in a path to edit",
            action(&json!({"editFile": {"path": "\0", "oldText": "a", "newText": "b"}})),
            Refused("spec.editFile.path in body should match"),
        ),
    ]
}

pub fn actors() -> Vec<Case> {
    let actor = |change: &Value| run(&json!({"actor": with(json!({"user": "alice"}), change)}));
    let groups = |n: usize| (0..n).map(|i| format!("g{i}")).collect::<Vec<_>>();
    let extra = |n: usize| (0..n).map(|i| (format!("k{i}"), json!(["v"]))).collect::<serde_json::Map<_, _>>();
    let agent = |name: &str| run(&json!({"agent": {"serviceAccount": name}}));
    vec![
        ("a user", actor(&json!({"uid": "u", "groups": ["a", "a"], "extra": {"example.com/x": ["1", "2"]}})), Accepted),
        ("no user", run(&json!({"actor": {"groups": ["a"]}})), Refused("spec.actor.user: Required value")),
        ("an empty user", actor(&json!({"user": ""})), Refused("spec.actor.user in body should be at least 1")),
        ("1024 groups", actor(&json!({"groups": groups(1024)})), Accepted),
        (
            "1025 groups",
            actor(&json!({"groups": groups(1025)})),
            Refused("spec.actor.groups: Too many: 1025: must have at most 1024 items"),
        ),
        ("64 extra keys", actor(&json!({"extra": extra(64)})), Accepted),
        (
            "65 extra keys",
            actor(&json!({"extra": extra(65)})),
            Refused("spec.actor.extra: Too many: 65: must have at most 64 items"),
        ),
        ("an agent", agent("coder"), Accepted),
        ("an agent that is none", agent("system:admin"), Refused("spec.agent.serviceAccount in body should match")),
        ("an agent without a name", run(&json!({"agent": {}})), Refused("spec.agent.serviceAccount: Required value")),
        ("a policy", run(&json!({"policyRef": {"name": "minimal"}})), Accepted),
        (
            "a policy that is none",
            run(&json!({"policyRef": {"name": "-x"}})),
            Refused("spec.policyRef.name in body should match"),
        ),
        (
            "a policy as text",
            run(&json!({"policyRef": "minimal"})),
            Refused("spec.policyRef in body must be of type object"),
        ),
        ("cancelled from the start", run(&json!({"cancel": true})), Accepted),
        ("cancel as text", run(&json!({"cancel": "true"})), Refused("spec.cancel in body must be of type boolean")),
    ]
}

#[tokio::test]
async fn a_session_is_named_in_one_of_three_ways() {
    judge("Run", selectors()).await;
}

#[tokio::test]
async fn a_run_does_exactly_one_thing() {
    judge("Run", actions()).await;
}

#[tokio::test]
async fn a_command_is_bounded_text_without_nul() {
    judge("Run", bash()).await;
}

#[tokio::test]
async fn file_operations_are_complete_and_bounded() {
    judge("Run", files()).await;
}

#[tokio::test]
async fn who_acts_is_bounded() {
    judge("Run", actors()).await;
}

#[tokio::test]
async fn what_is_absent_is_filled_in() {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let spec = json!({"session": {"drive": "d"}, "bash": {"command": "true", "env": [{"name": "A"}]}});
    let mut run = object("Run", "case", &spec);
    // A status at creation is not the operator's.
    run["status"] = json!({"phase": "Succeeded", "observedGeneration": 1});
    let answer = try_create(&client, "Run", "", &run).await;
    let found = &answer.body;
    assert_eq!(found["status"], json!({"observedGeneration": -1}), "{}", answer.message());
    assert_eq!(found["spec"]["cancel"], false);
    // A default inside a list's item would make every client-side apply of it a change.
    assert_eq!(found["spec"]["bash"]["env"], json!([{"name": "A"}]));
    for absent in ["timeout", "ttlAfterFinished", "policyRef", "agent"] {
        assert_eq!(found["spec"].get(absent), None, "{absent}");
    }
    let read = json!({"session": {"drive": "d"}, "readFile": {"path": "a"}, "bash": null});
    let answer = try_create(&client, "Run", "", &object("Run", "case", &read)).await;
    assert_eq!(answer.body["spec"]["readFile"], json!({"path": "a", "offset": 0}));
    assert_eq!(answer.body["spec"].get("bash"), None, "an explicit null is dropped");
    let edit = json!({"session": {"drive": "d"}, "editFile": {"path": "a", "oldText": "a", "newText": "b"}});
    let answer = try_create(&client, "Run", "", &object("Run", "case", &edit)).await;
    assert_eq!(answer.body["spec"]["editFile"]["replaceAll"], false);
}

#[tokio::test]
async fn an_unknown_field_is_refused_or_warned_of_and_never_kept() {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let spec = run(&json!({"bash": {"cmd": "true"}, "timeoutSeconds": 5}));
    let object = object("Run", "case", &spec);
    let answer = try_create(&client, "Run", "&fieldValidation=Strict", &object).await;
    assert_eq!(answer.code, 400);
    for field in ["spec.bash.cmd", "spec.timeoutSeconds"] {
        assert!(answer.message().contains(&format!("unknown field \"{field}\"")), "{}", answer.message());
    }
    let answer = try_create(&client, "Run", "", &object).await;
    assert!(answer.is_accepted());
    assert!(answer.warnings.iter().any(|w| w.contains("unknown field \\\"spec.bash.cmd\\\"")), "{:?}", answer.warnings);
    assert_eq!(answer.body["spec"]["bash"], json!({"command": "true"}));
    assert_eq!(answer.body["spec"].get("timeoutSeconds"), None);
}
