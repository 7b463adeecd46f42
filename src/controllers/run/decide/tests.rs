//! The table of a Run's decisions.

use runner_protocol::FileOperation;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::{
    access::tenant::Tenant,
    controllers::{
        run::{
            fixtures::{NOW, at, in_phase, live, named, observed, owner, policy, run, with_session},
            observed::{LiveRead, Source},
            plan::{Need, Tool},
        },
        state::executions::Finished,
    },
    lockdown::instance::LiveSprite,
};
use api::{
    conditions::{ConditionUpdate, Conditions},
    reasons::WaitingCause,
};

/// What a plan comes to, in a word.
fn word(plan: &Plan) -> String {
    match plan {
        Plan::Finish(outcome) => outcome.reason.to_string(),
        Plan::Wait(wait) => wait.waiting.cause.to_string(),
        Plan::Stop(stop) | Plan::Adopt(Some(stop)) => format!("{} {stop:?}", plan.name()),
        other => other.name().to_owned(),
    }
}

type Change = fn(Observed) -> Observed;

#[rstest]
#[case("all is well", |o: Observed| o, "Start")]
#[case("switch off", |o: Observed| Observed { switch: Switch::Off, ..o }, "KillSwitchOff")]
#[case("switch unreadable", |o: Observed| Observed { switch: Switch::Frozen, ..o }, "SwitchFrozen")]
#[case("not opted in", |o: Observed| Observed { tenant: Tenant { enabled: false, terminating: false }, ..o }, "TenantNotEnabled")]
#[case("no policy", |o: Observed| Observed { session_policy: PolicyView::NotFound("x".into()), ..o }, "PolicyNotFound")]
#[case("broken policy", |o: Observed| Observed { session_policy: PolicyView::NotReady("x".into(), "y".into()), ..o }, "PolicyNotReady")]
#[case("suspended policy", |o: Observed| Observed { session_policy: policy("x", "{suspend: true}"), ..o }, "PolicySuspended")]
#[case("other egress", |o: Observed| Observed { run_policy: Some(policy("x", "{egress: {mode: Allowlist}}")), ..o }, "PolicyNotApplicable")]
#[case("a variable that the session's policy does not allow", |o: Observed| Observed { run_policy: Some(policy("x", "{environment: {set: [{name: A, value: '1'}]}}")), ..o }, "PolicyNotApplicable")]
#[case("one that it allows", |o: Observed| Observed { session_policy: policy("y", "{environment: {allow: [A]}}"), run_policy: Some(policy("x", "{environment: {set: [{name: A, value: '1'}]}}")), ..o }, "Start")]
#[case("a command that the Run's own policy denies", |o: Observed| Observed { run_policy: Some(policy("x", "{commands: {deny: ['^true$']}}")), ..o }, "BlockedCommand")]
#[case("a command too long for the Run's own policy", |o: Observed| Observed { run_policy: Some(policy("x", "{limits: {command: 3}}")), ..o }, "LimitExceeded")]
#[case("denied command", |o: Observed| Observed { session_policy: policy("x", "{commands: {deny: ['^true$']}}"), ..o }, "BlockedCommand")]
#[case("a metadata service", |mut o: Observed| { Arc::make_mut(&mut o.run).spec.bash.as_mut().unwrap().command = "curl http://2852039166/".into(); o }, "BlockedCommand")]
#[case("a mention of it", |mut o: Observed| { Arc::make_mut(&mut o.run).spec.bash.as_mut().unwrap().command = "grep -r 169.254.169.254 .".into(); o }, "Start")]
#[case("an attempt beside a mistake", |mut o: Observed| {
    let run = Arc::make_mut(&mut o.run);
    run.spec.timeout = Some(serde_json::from_value(json!("56m")).unwrap());
    run.spec.bash.as_mut().unwrap().command = "curl http://2852039166/".into();
    o
}, "BlockedCommand")]
#[case("too long a command", |o: Observed| Observed { session_policy: policy("x", "{limits: {command: 3}}"), ..o }, "LimitExceeded")]
#[case("no such session", |o: Observed| Observed { session: SessionView::Absent, ..o }, "SessionNotReady")]
#[case("an unreadable session", |o: Observed| Observed { session: SessionView::Unreadable("x".into()), ..o }, "SessionNotReady")]
#[case("a suspended session", |o: Observed| with_session(o, |s| s.spec.suspend = true), "SessionSuspended")]
#[case("a held session", |o: Observed| with_session(o, |s| drop(s.annotations_mut().insert(HOLD_ANNOTATION.into(), String::new()))), "SessionHeld")]
#[case("a session being deleted", |o: Observed| with_session(o, |s| s.metadata.deletion_timestamp = Some(Time(at(1)))), "SessionDeleted")]
#[case("a session that nobody saw", |o: Observed| with_session(o, |s| s.status = None), "SessionNotReady")]
#[case("no token", |o: Observed| with_session(o, |s| s.status.as_mut().unwrap().lockdown.as_mut().unwrap().token = None), "SessionNotReady")]
#[case("a token of other rules", |o: Observed| Observed { session_policy: policy("x", "{egress: {mode: Allowlist}}"), ..o }, "SessionNotReady")]
#[case("a token of another instance", |o: Observed| with_session(o, |s| s.status.as_mut().unwrap().sprite.as_mut().unwrap().id = Some("j".into())), "SessionNotReady")]
#[case("a full session", |o: Observed| Observed { in_session: 4, ..o }, "Queued")]
#[case("an owner that only looks like a Run", |o: Observed| with_session(o, |s| s.metadata.owner_references = Some(vec![OwnerReference { api_version: "batch/v1".into(), ..owner("other") }])), "Start")]
#[case("another Run's session", |o: Observed| with_session(o, |s| s.metadata.owner_references = Some(vec![owner("other")])), "SessionMismatch")]
#[case("its deadline passed", |o: Observed| Observed { now: at(NOW + 299), ..o }, "StartDeadlineExceeded")]
fn the_gate_refuses_what_it_must(#[case] name: &str, #[case] change: Change, #[case] expected: &str) {
    assert_eq!(word(&decide(&change(observed(named())))), expected, "{name}");
}

#[rstest]
#[case(json!({"session": {"name": "s"}}), "InvalidSpec")]
#[case(json!({"session": {"name": "s"}, "bash": {"command": "true"}, "readFile": {"path": "x"}}), "InvalidSpec")]
#[case(json!({"session": {"name": "s"}, "bash": {"command": "a\u{0}b"}}), "InvalidSpec")]
#[case(json!({"session": {"name": "s"}, "bash": {"command": "true", "cwd": "../x"}}), "PathEscape")]
#[case(json!({"session": {"name": "s"}, "bash": {"command": "true", "env": [{"name": "A", "value": "1"}]}}), "InvalidEnvironment")]
#[case(json!({"session": {"name": "s"}, "bash": {"command": "true"}, "timeout": "31s"}), "LimitExceeded")]
#[case(json!({"session": {"name": "s"}, "bash": {"command": "true"}, "cancel": true}), "CancelRequested")]
#[case(json!({"session": {"drive": "other"}, "bash": {"command": "true"}}), "SessionMismatch")]
#[case(json!({"session": {"drive": "d", "conversation": "c"}, "bash": {"command": "true"}}), "Start")]
fn a_spec_is_judged_by_itself(#[case] spec: serde_json::Value, #[case] expected: &str) {
    assert_eq!(word(&decide(&observed(run(spec)))), expected);
}

/// What is executed for a file operation, or the reason and a part of the message of its refusal.
#[rstest]
#[case(json!({"writeFile": {"path": "a/../b", "content": "x"}}), Ok(FileOperation::Write { path: "/workspace/b".into(), mode: None, content: b"x".into() }))]
#[case(json!({"writeFile": {"path": "/workspace/b", "contentBase64": "AP8=", "mode": "0750"}}), Ok(FileOperation::Write { path: "/workspace/b".into(), mode: Some(0o750), content: vec![0, 255] }))]
#[case(json!({"writeFile": {"path": "b", "content": ""}}), Ok(FileOperation::Write { path: "/workspace/b".into(), mode: None, content: vec![] }))]
#[case(json!({"writeFile": {"path": "b", "content": "12345678901"}}), Err(("LimitExceeded", "writeFile.content has 11 bytes, the policy allows 10")))]
#[case(json!({"writeFile": {"path": "b", "contentBase64": "MTIzNDU2Nzg5MDE="}}), Err(("LimitExceeded", "has 11 bytes")))]
#[case(json!({"writeFile": {"path": "b", "contentBase64": "AP8"}}), Err(("InvalidSpec", "is no base64 with padding")))]
#[case(json!({"writeFile": {"path": "b", "content": "x", "contentBase64": "AP8="}}), Err(("InvalidSpec", "exactly one of content, contentBase64")))]
#[case(json!({"writeFile": {"path": "b"}}), Err(("InvalidSpec", "exactly one of content, contentBase64")))]
#[case(json!({"writeFile": {"path": "b", "content": "x", "mode": "4755"}}), Err(("InvalidSpec", "no octal number up to 0777")))]
#[case(json!({"writeFile": {"path": ".", "content": "x"}}), Err(("InvalidSpec", "is the workspace itself")))]
#[case(json!({"writeFile": {"path": "../x", "content": "x"}}), Err(("PathEscape", "leaves /workspace")))]
#[case(json!({"readFile": {"path": "b"}}), Ok(read("/workspace/b", 0, 10)))]
#[case(json!({"readFile": {"path": "b", "offset": 7, "length": 10}}), Ok(read("/workspace/b", 7, 10)))]
#[case(json!({"readFile": {"path": "b", "length": 0}}), Ok(read("/workspace/b", 0, 0)))]
#[case(json!({"readFile": {"path": "b", "length": 11}}), Err(("LimitExceeded", "the policy allows 10: read several parts")))]
#[case(json!({"readFile": {"path": "b", "offset": -1}}), Err(("InvalidSpec", "readFile.offset is negative")))]
#[case(json!({"readFile": {"path": "/etc/passwd"}}), Err(("PathEscape", "leaves /workspace")))]
#[case(json!({"editFile": {"path": "b", "oldText": "x", "newText": "yy", "replaceAll": true}}), Ok(FileOperation::Edit { path: "/workspace/b".into(), old: b"x".into(), new: b"yy".into(), all: true }))]
#[case(json!({"editFile": {"path": "b", "oldText": "", "newText": "y"}}), Err(("InvalidSpec", "oldText is empty")))]
#[case(json!({"editFile": {"path": "b", "oldText": "x", "newText": "12345678901"}}), Err(("LimitExceeded", "editFile.newText has 11 bytes")))]
#[case(json!({"editFile": {"path": "%2e%2e/x", "oldText": "x", "newText": "y"}}), Err(("PathEscape", "leaves /workspace")))]
fn a_file_operation_is_judged(
    #[case] mut spec: serde_json::Value,
    #[case] expected: Result<FileOperation, (&str, &str)>,
) {
    spec["session"] = json!({"name": "s"});
    let policy = policy("x", "{limits: {write: 10, read: 10}}");
    match (decide(&Observed { session_policy: policy, ..observed(run(spec)) }), expected) {
        (Plan::Start(start), Ok(operation)) => assert_eq!(start.request.tool, Tool::File(operation)),
        (Plan::Finish(outcome), Err((reason, part))) => {
            assert_eq!(outcome.reason.as_str(), reason);
            assert!(outcome.message.contains(part), "{}", outcome.message);
        }
        (plan, expected) => panic!("{} for {expected:?}", plan.name()),
    }
}

fn read(path: &str, offset: u64, length: u64) -> FileOperation {
    FileOperation::Read { path: path.into(), offset, length, before: 6144, ahead: 12_288 }
}

/// decisions Q-a: whose turn it is.
#[rstest]
#[case("alone", &[], 0, "Start")]
#[case("behind another", &["a"], 3, "Queued")]
#[case("behind another, and two slots are free", &["a"], 2, "Start")]
#[case("behind one that stands aside", &["-a"], 3, "Start")]
#[case("behind many", &["a", "b", "c", "d"], 0, "Queued")]
fn runs_of_a_session_start_in_turn(
    #[case] name: &str,
    #[case] before: &[&str],
    #[case] in_session: usize,
    #[case] expected: &str,
) {
    let candidate = |uid: &str, stored| rules::order::Candidate {
        uid: uid.trim_start_matches('-').to_owned(),
        created: 1,
        stored,
        stands_aside: uid.starts_with('-'),
    };
    let candidates = before.iter().map(|uid| candidate(uid, 1)).chain([candidate("run-uid", 9)]).collect();
    assert_eq!(word(&decide(&Observed { in_session, candidates, ..observed(named()) })), expected, "{name}");
}

#[test]
fn stdin_of_a_script_may_be_bytes() {
    let decide = |bash| decide(&observed(run(json!({"session": {"name": "s"}, "bash": bash}))));
    let Plan::Start(start) = decide(json!({"command": "cat", "stdinBase64": "AP8="})) else { panic!("not started") };
    let Tool::Bash { stdin, .. } = &start.request.tool else { panic!("no script") };
    assert_eq!(stdin, &[0, 255]);
    let Plan::Finish(outcome) = decide(json!({"command": "cat", "stdinBase64": "AP8=", "stdin": "x"})) else {
        panic!()
    };
    assert!(outcome.message.contains("at most one of bash.stdin, bash.stdinBase64"), "{}", outcome.message);
}

#[test]
fn a_spec_with_many_mistakes_is_told_all_of_them() {
    let spec = json!({"session": {"name": "s"}, "timeout": "1h",
        "bash": {"command": "true", "cwd": "/etc", "env": [{"name": "PATH", "value": "x"}]}});
    let mut spec = run(spec);
    spec.spec.timeout = Some("1h".parse().unwrap());
    let Plan::Finish(outcome) = decide(&observed(spec)) else { panic!("not refused") };
    for word in ["timeout", "/etc", "PATH"] {
        assert!(outcome.message.contains(word), "{}", outcome.message);
    }
}

#[test]
fn a_refusal_does_not_repeat_a_secret() {
    let token = ["gh", "p_8jzPde0IgxLd6", "GncfBAep"].concat();
    let spec = json!({"session": {"name": "s"}, "bash": {"command": "true", "cwd": format!("/etc/{token}"),
        "env": [{"name": format!("{token}-x"), "value": "1"}]}});
    let Plan::Finish(outcome) = decide(&observed(run(spec))) else { panic!("not refused") };
    assert!(outcome.message.contains("/etc/REDACTED") && !outcome.message.contains(&token), "{}", outcome.message);
}

#[test]
fn a_command_that_is_too_long_is_not_read() {
    let policy = policy("x", "{limits: {command: 3}, commands: {deny: ['^true$']}}");
    let Plan::Finish(outcome) = decide(&Observed { session_policy: policy, ..observed(named()) }) else { panic!() };
    assert!(!outcome.message.contains("denies"), "{}", outcome.message);
}

#[test]
fn an_object_whose_output_could_not_be_stored_is_refused_at_the_gate() {
    let policy = policy("default", "{limits: {stdin: 512Ki}}");
    let mut big = named();
    big.spec.bash.as_mut().unwrap().stdin = Some("\u{1}".repeat(250_000));
    assert_eq!(word(&decide(&Observed { session_policy: policy, ..observed(big) })), "TooLarge");
}

#[test]
fn a_run_by_drive_makes_its_session_and_deletes_it_in_the_end() {
    let own = || run(json!({"session": {"drive": "d"}, "bash": {"command": "true"}}));
    let o = Observed { session: SessionView::Absent, ..observed(own()) };
    assert_eq!(o.session_name, "run-run-uid");
    assert_eq!(word(&decide(&o)), "CreateSession");
    let over = observed(in_phase(own(), RunPhase::Succeeded));
    let over = with_session(over, |s| s.metadata.owner_references = Some(vec![owner("run-uid")]));
    assert_eq!(word(&decide(&over)), "DeleteSession");
    let over = observed(in_phase(own(), RunPhase::Succeeded));
    assert_eq!(word(&decide(&over)), "Nothing", "another's session is not deleted");
}

#[rstest]
#[case("nobody has it", None, |o: Observed| o, "Adopt")]
#[case("nobody has it, and it is deleted", None, |mut o: Observed| { Arc::make_mut(&mut o.run).metadata.deletion_timestamp = Some(Time(at(1))); o }, "Adopt Deleted")]
#[case("it runs", Some(ExecutionView::Running(None)), |o: Observed| o, "Nothing")]
#[case("switch off", Some(ExecutionView::Running(None)), |o: Observed| Observed { switch: Switch::Off, ..o }, "Stop KillSwitch")]
#[case("switch unreadable kills nothing", Some(ExecutionView::Running(None)), |o: Observed| Observed { switch: Switch::Frozen, ..o }, "Nothing")]
#[case("suspended", Some(ExecutionView::Running(None)), |o: Observed| with_session(o, |s| s.spec.suspend = true), "Stop Suspended")]
#[case("held", Some(ExecutionView::Running(None)), |o: Observed| with_session(o, |s| drop(s.annotations_mut().insert(HOLD_ANNOTATION.into(), String::new()))), "Stop Held")]
#[case("opted out", Some(ExecutionView::Running(None)), |o: Observed| Observed { tenant: Tenant { enabled: false, terminating: false }, ..o }, "Stop TenantDisabled")]
#[case("session deleted", Some(ExecutionView::Running(None)), |o: Observed| with_session(o, |s| s.metadata.deletion_timestamp = Some(Time(at(1)))), "Stop SessionDeleted")]
#[case("policy suspended", Some(ExecutionView::Running(None)), |o: Observed| Observed { session_policy: policy("x", "{suspend: true}"), ..o }, "Stop PolicySuspended")]
#[case("told already", Some(ExecutionView::Running(Some(Stop::Cancel))), |o: Observed| Observed { switch: Switch::Off, ..o }, "Nothing")]
fn a_running_command_is_adopted_stopped_or_left(
    #[case] name: &str,
    #[case] execution: Option<ExecutionView>,
    #[case] change: Change,
    #[case] expected: &str,
) {
    let o = Observed { execution, ..observed(in_phase(named(), RunPhase::Running)) };
    assert_eq!(word(&decide(&change(o))), expected, "{name}");
}

/// A cache that lags behind our own write neither has the command adopted nor its end written twice; what stays behind is let go.
#[rstest]
#[case("written just now", RunPhase::Running, 0, "Nothing")]
#[case("the cache is slow", RunPhase::Running, 29, "Nothing")]
#[case("somebody set the status back", RunPhase::Running, 30, "Forget")]
#[case("slower: not even Running is seen", RunPhase::Pending, 1, "Nothing")]
#[case("seen", RunPhase::Succeeded, 1, "Forget")]
fn an_end_that_was_written_is_waited_for(
    #[case] name: &str,
    #[case] phase: RunPhase,
    #[case] ago: i64,
    #[case] expected: &str,
) {
    let execution = Some(ExecutionView::Concluded(at(NOW - ago)));
    assert_eq!(word(&decide(&Observed { execution, ..observed(in_phase(named(), phase)) })), expected, "{name}");
}

#[test]
fn a_policy_that_vanishes_or_tightens_does_not_stop_what_runs() {
    for policy in [PolicyView::NotFound("x".into()), policy("x", "{limits: {timeout: 1s}}")] {
        let running = observed(in_phase(named(), RunPhase::Running));
        let o = Observed { execution: Some(ExecutionView::Running(None)), session_policy: policy, ..running };
        assert_eq!(word(&decide(&o)), "Nothing");
    }
}

#[test]
fn a_finished_run_is_kept_for_its_time_to_live_and_let_go_when_deleted() {
    let over = |ttl: Option<&str>| {
        let mut run = in_phase(named(), RunPhase::Failed);
        run.spec.ttl_after_finished = ttl.map(|t| t.parse().unwrap());
        run
    };
    assert_eq!(word(&decide(&observed(over(Some("0s"))))), "Expire");
    assert_eq!(word(&decide(&observed(over(Some("10s"))))), "Expire");
    let Plan::Nothing(next) = decide(&observed(over(Some("11s")))) else { panic!("expired") };
    assert_eq!(next, Next::After(Duration::from_secs(1)));
    let Plan::Nothing(next) = decide(&observed(over(None))) else { panic!("expired") };
    assert_eq!(next, Next::After(Duration::from_secs(24 * 3600 - 10)));
    let mut deleted = over(None);
    deleted.metadata.deletion_timestamp = Some(Time(at(1)));
    assert_eq!(word(&decide(&observed(deleted.clone()))), "Release");
    deleted.metadata.finalizers = None;
    assert_eq!(word(&decide(&observed(deleted))), "Nothing");
}

#[test]
fn a_wait_says_the_same_as_long_as_its_cause_is_the_same() {
    let cause = |o: &Observed| match decide(o) {
        Plan::Wait(wait) => (wait.waiting, wait.until),
        other => panic!("{}", other.name()),
    };
    let not_ready = |reason: &'static str| {
        with_session(observed(named()), |s| {
            let status = s.status.as_mut().unwrap();
            status.conditions =
                Conditions::default().merged(vec![ConditionUpdate::new("Ready", false, reason)], None, at(1));
        })
    };
    assert_eq!(cause(&not_ready("Provisioning")), cause(&not_ready("Provisioned")));
    let later = Observed { now: at(NOW + 50), ..not_ready("Provisioning") };
    assert_eq!(cause(&later), cause(&not_ready("Provisioning")));
    assert_ne!(cause(&not_ready("RulesDiffer")), cause(&not_ready("Provisioning")));
    assert_eq!(cause(&not_ready("PlatformCapacity")).0.cause, WaitingCause::PlatformCapacity);
}

fn with_live(o: Observed, change: impl FnOnce(&mut LiveSprite)) -> Observed {
    let mut live = live();
    change(&mut live);
    Observed { live: Some(LiveRead::Sprite(live)), ..o }
}

#[rstest]
#[case("caches alone", |o: Observed| Observed { source: Source::Caches, live: None, ..o }, "NeedServers")]
#[case("a refusal from caches", |o: Observed| Observed { source: Source::Caches, switch: Switch::Off, ..o }, "NeedServers")]
#[case("a session to be made, from caches", |mut o: Observed| { Arc::make_mut(&mut o.run).spec.session = serde_json::from_value(json!({"drive": "d"})).unwrap(); Observed { source: Source::Caches, session: SessionView::Absent, ..o } }, "NeedServers")]
#[case("a deadline that passed, from caches", |o: Observed| Observed { source: Source::Caches, now: at(NOW + 299), ..o }, "NeedServers")]
#[case("a wait rests on caches", |o: Observed| Observed { source: Source::Caches, in_session: 4, ..o }, "Queued")]
#[case("the Sprite was not read", |o: Observed| Observed { live: None, ..o }, "NeedLiveSprite")]
#[case("it is as recorded", |o: Observed| o, "Start")]
#[case("it sleeps", |o: Observed| with_live(o, |live| live.rules = None), "Wake")]
#[case("another instance", |o: Observed| with_live(o, |live| live.id = "j".into()), "Reverify")]
#[case("another instance that sleeps is not woken", |o: Observed| with_live(o, |live| { live.id = "j".into(); live.rules = None; }), "Reverify")]
#[case("not ours, and asleep", |o: Observed| with_live(o, |live| { live.ours = false; live.rules = None; }), "Reverify")]
#[case("its URL is public", |o: Observed| with_live(o, |live| live.private = false), "Reverify")]
#[case("no rules: nothing is denied", |o: Observed| with_live(o, |live| live.rules = Some(Vec::new())), "Reverify")]
#[case("no answer", |o: Observed| Observed { live: Some(LiveRead::NoAnswer("x".into())), ..o }, "Reverify")]
#[case("it is full meanwhile", |o: Observed| Observed { in_session: 4, ..o }, "Queued")]
fn a_start_needs_the_servers_and_then_the_live_sprite(
    #[case] name: &str,
    #[case] change: Change,
    #[case] expected: &str,
) {
    assert_eq!(word(&decide(&change(observed(named())))), expected, "{name}");
}

/// A row for each plan; a new variant does not compile without one.
#[test]
fn every_plan_comes_from_a_row() {
    fn number(plan: &Plan) -> usize {
        match plan {
            Plan::Need(Need::Servers) => 0,
            Plan::Need(Need::LiveSprite(_)) => 1,
            Plan::Nothing(_) => 2,
            Plan::Wait(_) => 3,
            Plan::Finish(_) => 4,
            Plan::CreateSession(_) => 5,
            Plan::Wake(..) => 6,
            Plan::Reverify { .. } => 7,
            Plan::Start(_) => 8,
            Plan::Adopt(_) => 9,
            Plan::Stop(_) => 10,
            Plan::Conclude(_) => 11,
            Plan::DeleteSession => 12,
            Plan::Expire => 13,
            Plan::Release => 14,
            Plan::Forget => 15,
        }
    }
    let drive = || run(json!({"session": {"drive": "d"}, "bash": {"command": "true"}}));
    let executing = |view| Observed { execution: Some(view), ..observed(in_phase(named(), RunPhase::Running)) };
    let finished = Finished {
        outcome: rules::outcome::Outcome::not_started("x"),
        captured: None,
        file: None,
        incomplete: false,
        id: None,
        finished_at: at(NOW),
        duration_ms: None,
    };
    let mut deleted = in_phase(named(), RunPhase::Failed);
    deleted.metadata.deletion_timestamp = Some(Time(at(1)));
    let mut short = in_phase(named(), RunPhase::Failed);
    short.spec.ttl_after_finished = Some("1s".parse().unwrap());
    let own = observed(in_phase(drive(), RunPhase::Succeeded));
    let rows = [
        Observed { source: Source::Caches, ..observed(named()) },
        Observed { live: None, ..observed(named()) },
        executing(ExecutionView::Running(None)),
        Observed { in_session: 4, ..observed(named()) },
        Observed { switch: Switch::Off, ..observed(named()) },
        Observed { session: SessionView::Absent, ..observed(drive()) },
        with_live(observed(named()), |live| live.rules = None),
        with_live(observed(named()), |live| live.private = false),
        observed(named()),
        observed(in_phase(named(), RunPhase::Running)),
        Observed { switch: Switch::Off, ..executing(ExecutionView::Running(None)) },
        executing(ExecutionView::Done(Box::new(finished))),
        with_session(own, |s| s.metadata.owner_references = Some(vec![owner("run-uid")])),
        observed(short),
        observed(deleted),
        Observed {
            execution: Some(ExecutionView::Concluded(at(NOW))),
            ..observed(in_phase(named(), RunPhase::Failed))
        },
    ];
    let numbers: Vec<_> = rows.iter().map(|row| number(&decide(row))).collect();
    assert_eq!(numbers, (0..rows.len()).collect::<Vec<_>>());
}

#[test]
fn every_cause_of_waiting_comes_from_a_row() {
    let capacity = with_session(observed(named()), |s| {
        let full = vec![ConditionUpdate::new("Ready", false, "PlatformCapacity")];
        s.status.as_mut().unwrap().conditions = Conditions::default().merged(full, None, at(1));
    });
    let rows = [
        Observed { switch: Switch::Frozen, ..observed(named()) },
        Observed { session: SessionView::Absent, ..observed(named()) },
        capacity,
        Observed { in_session: 4, ..observed(named()) },
    ];
    let causes: Vec<_> = rows.iter().map(|row| word(&decide(row))).collect();
    let all: Vec<_> = WaitingCause::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(causes, all);
}

#[test]
fn what_is_executed_is_what_was_judged() {
    let spec = json!({"session": {"name": "s"}, "timeout": "20s",
        "bash": {"command": "cat", "cwd": "a/../b", "stdin": "x", "env": [{"name": "A", "value": "1"}]}});
    let o = Observed { session_policy: policy("y", "{environment: {allow: [A]}}"), ..observed(run(spec)) };
    let Plan::Start(start) = decide(&o) else { panic!("not started") };
    let Tool::Bash { command, stdin, directory, environment } = &start.request.tool else { panic!("no script") };
    assert_eq!((command.as_str(), stdin.as_slice(), directory.as_str()), ("cat", b"x".as_slice(), "/workspace/b"));
    assert!(environment.contains(&("A".to_owned(), "1".to_owned())), "{environment:?}");
    assert_eq!(start.request.timeout, Duration::from_secs(20));
}

#[test]
fn a_session_of_a_run_is_named_and_owned_by_it_and_one_of_a_conversation_by_nobody() {
    let made = |spec| {
        let o = Observed { session: SessionView::Absent, ..observed(run(spec)) };
        let Plan::CreateSession(session) = decide(&o) else { panic!("no session") };
        *session
    };
    let own = made(json!({"session": {"drive": "d"}, "policyRef": {"name": "p"}, "bash": {"command": "true"}}));
    assert_eq!(own.metadata.name.as_deref(), Some("run-run-uid"));
    assert_eq!((own.spec.drive.as_str(), own.spec.conversation.as_str()), ("d", "run-uid"));
    assert_eq!(own.spec.policy_ref.unwrap().name, "p");
    let owners = own.metadata.owner_references.unwrap();
    assert_eq!((owners[0].kind.as_str(), owners[0].uid.as_str()), ("Run", "run-uid"));
    let shared = made(json!({"session": {"drive": "d", "conversation": "c"}, "bash": {"command": "true"}}));
    assert_eq!((shared.spec.conversation.as_str(), shared.metadata.owner_references), ("c", None));
    assert!(shared.metadata.name.unwrap().starts_with("c-"));
}
