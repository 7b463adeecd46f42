//! Runs as the gate would judge them.

use super::*;

const HEAD: &str =
    "apiVersion: sprite-operator.io/v1alpha1\nkind: Run\nmetadata: {name: demo, namespace: team-a}\nspec: ";
const TEAM: &str = "apiVersion: sprite-operator.io/v1alpha1\nkind: ExecutionPolicy\nmetadata: {name: team}\nspec: ";
const OWN: &str = "apiVersion: sprite-operator.io/v1alpha1\nkind: ExecutionPolicy\nmetadata: {name: own}\nspec: ";
const ADMITTED: &str = "{session: {drive: research, conversation: conv-42}, bash: {command: ls}}";

fn policies(manifests: &[String]) -> Vec<PolicyReport> {
    manifests.iter().map(|manifest| PolicyReport::read(manifest, false).unwrap()).collect()
}

/// What is told of a file: lines of JSON, stderr, and the outcome.
fn told_of(file: &str, under: &[String]) -> (Vec<Value>, String, Result<bool, String>) {
    let (mut output, mut notes) = (Vec::new(), Vec::new());
    let outcome = super::super::run(file, policies(under), &mut output, &mut notes, Format::Json);
    let lines = String::from_utf8(output).unwrap();
    let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    (lines, String::from_utf8(notes).unwrap(), outcome.map_err(|error| error.to_string()))
}

fn table_of(file: &str, under: &[String]) -> String {
    let mut output = Vec::new();
    super::super::run(file, policies(under), &mut output, &mut io::sink(), Format::Table).unwrap();
    String::from_utf8(output).unwrap()
}

/// What is told of one Run.
fn judged(spec: &str, under: &[String]) -> Value {
    let (mut lines, _, outcome) = told_of(&format!("{HEAD}{spec}"), under);
    assert_eq!((lines.len(), &outcome), (1, &Ok(lines[0]["admitted"] == true)), "{lines:?}");
    lines.remove(0)
}

fn bash(fields: &Value) -> String {
    let mut bash = json!({"command": "ls"});
    bash.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    json!({"session": {"name": "s"}, "bash": bash}).to_string()
}

#[rstest]
#[case::long(bash(&json!({"command": "x".repeat(21)})), "LimitExceeded", "bash.command has 21 bytes, the policy allows 20: make it")]
#[case::denied(bash(&json!({"command": "nc -l 1"})), "BlockedCommand", "which ExecutionPolicy team denies")]
#[case::metadata(bash(&json!({"command": "curl 169.254.169.254"})), "BlockedCommand", "169.254.169.254")]
#[case::climbing(bash(&json!({"cwd": "../up"})), "PathEscape", "bash.cwd: `../up` leaves /workspace: write a path")]
#[case::reserved(bash(&json!({"env": [{"name": "LD_PRELOAD"}]})), "InvalidEnvironment", "bash.env: `LD_PRELOAD` cannot be set")]
#[case::not_allowed(bash(&json!({"env": [{"name": "OTHER"}]})), "InvalidEnvironment", "`OTHER` is not allowed: ask for it")]
#[case::timeout(ADMITTED.replace("}}", "}, timeout: 11s}"), "LimitExceeded", "timeout 11s is more than the policy's 10s: ask")]
#[case::large(bash(&json!({"stdin": "\u{1}".repeat(210 << 10)})), "TooLarge", "so its output could not be stored: make")]
#[case::read("{session: {name: s}, readFile: {path: ../x}}".to_owned(), "PathEscape", "readFile.path: `../x` leaves")]
#[case::write("{session: {name: s}, writeFile: {path: a, content: 12345}}".replace("12345", &"x".repeat(1025)), "LimitExceeded", "writeFile.content has 1025 bytes")]
#[case::edit("{session: {name: s}, editFile: {path: /etc/passwd, oldText: a, newText: b}}".to_owned(), "PathEscape", "editFile.path: ")]
fn the_gate_denies_with_its_own_words(#[case] spec: String, #[case] reason: &str, #[case] part: &str) {
    let team = format!(
        "{TEAM}{{limits: {{timeout: 10s, command: 20, write: 1024}}, environment: {{allow: [NODE_ENV]}}, commands: {{deny: ['\\bnc\\b']}}}}"
    );
    let line = judged(&spec, &[team]);
    assert_eq!((&line["phase"], &line["reason"]), (&json!("Denied"), &json!(reason)), "{line}");
    assert!(line["message"].as_str().unwrap().contains(part), "{line}");
    assert_eq!((&line["complaints"], &line["holds"]), (&json!([]), &Value::Null), "{line}");
}

#[test]
fn all_complaints_of_the_gate_come_at_once() {
    let fields = json!({"command": "curl 169.254.169.254", "cwd": "..", "env": [{"name": "A"}, {"name": "B"}]});
    let line = judged(&bash(&fields), &[]);
    for part in ["169.254.169.254", "bash.cwd", "`A` is not", "`B` is not"] {
        assert!(line["message"].as_str().unwrap().contains(part), "{part}: {line}");
    }
}

#[rstest]
#[case::two_tools("bash: {command: ls}, readFile: {path: a}", &["spec: write exactly one of bash, writeFile, readFile, editFile"])]
#[case::no_tool("cancel: false", &["spec: write exactly one of bash, writeFile, readFile, editFile"])]
#[case::unknown("bash: {comand: x, command: ls}", &["spec.bash.comand: there is no such field: write one of command, cwd"])]
#[case::timeout("bash: {command: ls}, timeout: 1h", &["spec.timeout: `1h` is not taken: write a duration such as 30s"])]
#[case::no_unit("bash: {command: ls}, timeout: 30", &["spec.timeout: 30 is a number: write a duration"])]
#[case::no_command("bash: {cwd: a}", &["spec.bash.command: there is none: write one"])]
#[case::twice("bash: {command: ls, env: [{name: A}, {name: A}]}", &["spec.bash.env[1]: `A` stands there twice: keep one"])]
#[case::all("bash: {command: 5, cwd: ''}, ttl: 1h, ttlAfterFinished: 9000h", &["spec.bash.command: it is a number: write it in quotes", "spec.bash.cwd: it is empty", "spec.ttl: there is no such field", "spec.ttlAfterFinished: `9000h` is not taken"])]
fn what_the_schema_refuses_is_told_with_what_to_write(#[case] fields: &str, #[case] starts: &[&str]) {
    let line = judged(&format!("{{session: {{name: s}}, {fields}}}"), &[]);
    let all = line["complaints"].as_array().unwrap();
    assert_eq!((all.len(), &line["holds"]), (starts.len(), &Value::Null), "{line}");
    for start in starts {
        assert!(all.iter().any(|said| said.as_str().unwrap().starts_with(start)), "{start}: {line}");
    }
}

#[test]
fn a_flaw_of_the_manifest_hides_nothing_that_the_gate_says() {
    let line = judged("{session: {name: s}, bash: {command: ls, cwd: ../up}, ttl: 5}", &[]);
    assert_eq!((&line["reason"], line["complaints"].as_array().unwrap().len()), (&json!("PathEscape"), 1), "{line}");
    let table = table_of(&format!("{HEAD}{{session: {{name: s}}, bash: {{command: ls, cwd: ../up}}, ttl: 5}}"), &[]);
    assert!(table.starts_with("run team-a/demo: REFUSED, the manifest is not valid\n  - spec.ttl: "), "{table}");
    assert!(table.contains("\n  - the gate, too: PathEscape: bash.cwd: "), "{table}");
}

#[test]
fn an_admitted_run_is_told_with_what_holds_for_it() {
    let team = format!(
        "{TEAM}{{limits: {{timeout: 1m, start: 2m, output: 1Ki}}, output: {{redact: 'Off', onLimit: Kill}}, \
         egress: {{mode: Allowlist, allow: [a.example.com]}}, environment: {{set: [{{name: TEAM, value: hunter2}}], allow: [NODE_ENV]}}}}"
    );
    let spec = ADMITTED.replace("ls", "ls, cwd: sub, env: [{name: NODE_ENV, value: hunter3}]");
    let line = judged(&spec, std::slice::from_ref(&team));
    assert_eq!(
        line["holds"],
        json!({
            "session": "c-f21e7ae03a09a2fb6636c806b8682398", "timeout": "1m", "start": "2m", "outputLimit": 1024, "redact": false,
            "tool": {"bash": {"cwd": "/workspace/sub", "environment": ["TEAM", "NODE_ENV"], "onLimit": "Kill"}},
        })
    );
    assert_eq!((&line["policies"], &line["notes"], &line["reason"]), (&json!(["team"]), &json!([]), &Value::Null));
    assert!(line["notJudged"].as_array().unwrap().iter().any(|what| what.as_str().unwrap().contains("switch")));
    let table = table_of(&format!("{HEAD}{spec}"), &[team]);
    assert!(table.starts_with("run team-a/demo: admitted\n  policy       team\n"), "{table}");
    for part in ["c-f21e7ae0", "/workspace/sub", "TEAM, NODE_ENV", "the command is stopped", "\nnot judged without a"] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("hunter") && !line.to_string().contains("hunter"), "{table}");
}

#[rstest]
#[case::by_name("{name: s1}", "s1")]
#[case::of_its_own("{drive: d}", "run-<uid>")]
#[case::of_a_conversation("{drive: research, conversation: conv-42}", "c-f21e7ae03a09a2fb6636c806b8682398")]
fn the_session_that_a_run_resolves_to_is_named(#[case] selector: &str, #[case] name: &str) {
    let line = judged(&format!("{{session: {selector}, bash: {{command: ls}}}}"), &[]);
    assert_eq!(line["holds"]["session"], name, "{line}");
}

#[rstest]
#[case::write("writeFile: {path: a/b, content: x}", json!({"writeFile": {"path": "/workspace/a/b"}}))]
#[case::read("readFile: {path: a, offset: 5}", json!({"readFile": {"path": "/workspace/a", "offset": 5, "length": 65_536}}))]
#[case::edit("editFile: {path: a, oldText: x, newText: z}", json!({"editFile": {"path": "/workspace/a"}}))]
fn a_file_operation_is_told_with_its_file(#[case] tool: &str, #[case] expected: Value) {
    let line = judged(&format!("{{session: {{name: s}}, {tool}}}"), &[]);
    assert_eq!(line["holds"]["tool"], expected, "{line}");
}

#[test]
fn without_a_policy_the_defaults_of_the_schema_hold_and_that_is_said() {
    let line = judged(ADMITTED, &[]);
    assert_eq!((&line["policies"], &line["holds"]["timeout"]), (&json!([]), &json!("30s")));
    assert!(line["notes"][0].as_str().unwrap().starts_with("no policy was given: judged under the defaults"), "{line}");
    assert!(table_of(&format!("{HEAD}{ADMITTED}"), &[]).contains("  policy       the defaults of the schema\n"));
}

#[rstest]
#[case::tightened("{limits: {timeout: 5s}}", "policyRef: {name: own}", "", "")]
#[case::other_egress(
    "{egress: {mode: Allowlist, allow: [a.example.com]}}",
    "policyRef: {name: own}",
    "PolicyNotApplicable",
    ""
)]
#[case::suspended("{suspend: true}", "policyRef: {name: own}", "PolicySuspended", "")]
#[case::broken("{commands: {deny: ['(']}}", "policyRef: {name: own}", "PolicyNotReady", "")]
#[case::another_name(
    "{}",
    "policyRef: {name: third}",
    "",
    "spec.policyRef names `third`, and the second policy is `own`"
)]
#[case::no_reference("{suspend: true}", "cancel: false", "", "the second policy, `own`, does not hold for it")]
#[case::the_sessions("{suspend: true}", "policyRef: {name: team}", "", "")]
fn the_second_policy_is_the_runs_own(
    #[case] own: &str,
    #[case] reference: &str,
    #[case] reason: &str,
    #[case] note: &str,
) {
    let under = [format!("{TEAM}{{limits: {{timeout: 20s}}}}"), format!("{OWN}{own}")];
    let line = judged(&format!("{{session: {{name: s}}, bash: {{command: ls}}, {reference}}}"), &under);
    assert_eq!(line["reason"].as_str().unwrap_or_default(), reason, "{line}");
    let notes = line["notes"].to_string();
    assert!(if note.is_empty() { notes == "[]" } else { notes.contains(note) }, "{line}");
    if own.contains("5s") {
        assert_eq!((&line["holds"]["timeout"], &line["policies"]), (&json!("5s"), &json!(["team", "own"])), "{line}");
    }
}

#[test]
fn a_policy_that_was_not_given_is_named() {
    let spec = "{session: {name: s}, bash: {command: ls}, policyRef: {name: own}}";
    let note = "spec.policyRef names `own`, which was not given";
    assert!(judged(spec, &[]).to_string().contains(note));
    assert!(judged(spec, &[format!("{TEAM}{{}}")]).to_string().contains(note));
    assert!(!judged(spec, &[format!("{OWN}{{}}")]).to_string().contains(note));
}

#[test]
fn what_is_wrong_with_a_policy_is_told_with_its_name() {
    let line = judged(ADMITTED, &[format!("{TEAM}{{limits: {{timeout: 2h}}, commands: {{deny: ['(']}}}}")]);
    assert_eq!((&line["reason"], &line["complaints"]), (&json!("PolicyNotReady"), &json!([])), "{line}");
    let all = line["policyComplaints"].as_array().unwrap();
    assert_eq!(all.len(), 2, "{line}");
    assert!(all[0].as_str().unwrap().starts_with("ExecutionPolicy team: spec.limits.timeout: `2h` is more"), "{line}");
}

#[test]
fn each_run_of_a_file_is_told_and_the_worst_is_the_outcome() {
    let run = |name: &str, command: &str| {
        format!("{HEAD}{{session: {{name: s}}, bash: {{command: {command}}}}}\n").replace("demo", name)
    };
    let policy = format!("{TEAM}{{}}\n");
    let good = format!("{}---\n{}---\n{policy}", run("a", "ls"), run("b", "ls"));
    let (lines, notes, outcome) = told_of(&good, &[]);
    assert_eq!((lines.len(), outcome), (2, Ok(true)));
    assert!(notes.contains("document 3, ExecutionPolicy team: no Run, so not judged"), "{notes}");
    let bad = format!("{good}---\n{}", run("c", "curl 169.254.169.254"));
    let (lines, _, outcome) = told_of(&bad, &[]);
    let names: Vec<_> = lines.iter().map(|line| (line["name"].as_str().unwrap(), &line["admitted"])).collect();
    assert_eq!((names, outcome), (vec![("a", &json!(true)), ("b", &json!(true)), ("c", &json!(false))], Ok(false)));
    // What cannot be read outweighs what is refused, and hides none of it.
    let (lines, _, outcome) = told_of(&format!("{bad}\n---\nspec: [x\n"), &[]);
    assert!(lines.len() == 3 && outcome.as_ref().is_err_and(|why| why.contains("document 5")), "{outcome:?}");
    let (lines, _, outcome) = told_of(&format!("{}---\n{}", run("a", "ls"), run("a", "pwd")), &[]);
    assert!(lines[1]["complaints"][0].as_str().unwrap().starts_with("metadata.name: `a` stands twice"), "{lines:?}");
    assert_eq!(outcome, Ok(false));
    assert!(table_of(&good, &[]).contains("\n\nrun team-a/b: admitted\n"));
}

#[rstest]
#[case::a_policy(format!("{TEAM}{{}}"), "there is no Run in it: write kind: Run")]
#[case::no_kind("{metadata: {name: x}}".to_owned(), "write kind: Run and apiVersion: sprite-operator.io/v1alpha1")]
#[case::another_version(HEAD.replace("v1alpha1", "v1"), "document 1 has kind Run and apiVersion sprite-operator.io/v1")]
#[case::no_yaml("a: [".to_owned(), "nothing can be read here, also no Run: ")]
fn what_is_no_run_says_so(#[case] file: String, #[case] part: &str) {
    let error = told_of(&file, &[]).2.unwrap_err();
    assert!(error.contains(part), "{error}");
}

/// Wherever it stands, and whatever else is wrong.
#[rstest]
#[case::alias("bash: {command: *hunter2}")]
#[case::reserved("bash:\n    command: @hunter2")]
#[case::anchor("bash:\n    command: &hunter2 ls")]
#[case::tag("bash:\n    command: !hunter2 hunter2")]
#[case::key_twice("bash: {command: {hunter2: 1, hunter2: 2}}")]
#[case::a_key_among_the_fields("bash:\n    command: |\n      ls\n  hunter2\n")]
#[case::binary("bash: {command: !!binary hunter2}")]
#[case::escape(r#"bash: {command: "\hunter2"}"#)]
#[case::number("bash: {command: hunter2, env: [{name: A, value: 222}]}")]
#[case::entry("bash: {command: ls, env: [A=hunter2]}")]
#[case::nul(r#"bash: {command: "hunter2\0", stdin: hunter2}"#)]
#[case::text("bash: hunter2")]
#[case::content("writeFile: {path: a, contentBase64: hunter2}")]
#[case::texts("editFile: {path: a, oldText: hunter2, newText: hunter2}")]
#[case::admitted("bash: {command: hunter2, stdin: hunter2}")]
fn nothing_that_is_executed_or_handed_over_is_repeated(#[case] tool: &str) {
    let file = format!("{HEAD}\n  session: {{name: s}}\n  {tool}\n");
    for format in [Format::Json, Format::Table] {
        let (mut output, mut notes) = (Vec::new(), Vec::new());
        let outcome = super::super::run(&file, Vec::new(), &mut output, &mut notes, format);
        let said = [output, notes, outcome.map_or_else(|error| error.to_string(), |_| String::new()).into_bytes()];
        let said = String::from_utf8(said.concat()).unwrap();
        assert!(!said.is_empty() && !said.contains("hunter2") && !said.contains("222"), "{said}");
    }
}

#[test]
fn a_value_that_yaml_shortens_is_noted_by_its_line() {
    let line = judged("\n  session: {name: s}\n  bash:\n    command: &x ls\n", &[]);
    assert!(line["notes"][1].as_str().unwrap().starts_with("line 7: a value begins with `&`"), "{line}");
    // In a script nothing is meant so.
    let line = judged("{session: {name: s}, bash: {command: '[ -f x ] && y'}}", &[]);
    assert_eq!(line["notes"].as_array().unwrap().len(), 1, "{line}");
}

#[rstest]
#[case::cancelled(ADMITTED.replace("}}", "}, cancel: true}"), "Cancelled", "CancelRequested")]
#[case::null_is_absent(ADMITTED.replace("}}", "}, readFile: null, timeout: }"), "", "")]
fn the_rest_of_a_spec_counts_as_at_the_gate(#[case] spec: String, #[case] phase: &str, #[case] reason: &str) {
    let line = judged(&spec, &[]);
    let word = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
    assert_eq!((word("phase").as_str(), word("reason").as_str()), (phase, reason), "{line}");
}

#[test]
fn an_export_is_judged_as_a_run_that_is_new() {
    let status = "\nstatus: {phase: Succeeded}";
    let exported = HEAD.replace("namespace:", "uid: u, deletionTimestamp: '2026-01-01T00:00:00Z', namespace:");
    let (lines, _, outcome) = told_of(&format!("{exported}{ADMITTED}{status}"), &[]);
    assert_eq!(outcome, Ok(true), "{lines:?}");
    let generated = HEAD.replace("name: demo", "generateName: demo-");
    assert_eq!(told_of(&format!("{generated}{ADMITTED}"), &[]).2, Ok(true));
    let named = HEAD.replace("name: demo", "generateName: Demo_").replace("team-a", "Team.A");
    let complaints = &told_of(&format!("{named}{ADMITTED}"), &[]).0[0]["complaints"];
    assert!(
        complaints[0].as_str().unwrap().starts_with("metadata.generateName: `Demo_` begins no name"),
        "{complaints}"
    );
    assert!(
        complaints[1].as_str().unwrap().starts_with("metadata.namespace: `Team.A` is no namespace"),
        "{complaints}"
    );
    let unnamed = HEAD.replace("name: demo, ", "");
    assert_eq!(
        told_of(&format!("{unnamed}{ADMITTED}"), &[]).0[0]["complaints"],
        json!(["metadata.name: there is none: write one"])
    );
}
