//! What becomes of a Run.

use api::execution_policy::OnLimit;
use futures::StreamExt as _;
use serde_json::json;

use test_support::{
    TestEnv,
    environment::{condition_of_run, message, phase, reason, stdout},
    process::peak_resident,
};

#[tokio::test]
async fn a_run_executes_once_in_a_sprite_that_was_proved() {
    let env = TestEnv::new().await;
    let session = env.ready_session("s1").await;
    env.bash("r1", "s1", "echo hello; pwd; id -un; echo oops >&2").await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Succeeded", "Completed"));
    assert_eq!(stdout(&run), "hello\n/workspace\nsprite\n");
    let status = run.status.clone().unwrap();
    assert_eq!(status.exit_code, Some(0));
    assert_eq!(status.output.unwrap().stderr.text.as_deref(), Some("oops\n"));
    // The proof is the session's, and what spritesd had in force at that moment.
    let lockdown = session.status.unwrap().lockdown.unwrap();
    assert_eq!(status.lockdown_token, lockdown.token);
    assert_eq!(env.starts_of(&run).await, 1);
    let exec = env.log("exec").await.into_iter().find(|e| e["argv"].to_string().contains("so-run")).unwrap();
    assert_eq!(exec["policy"]["rules"], json!([{"domain": "*", "action": "deny"}]), "{exec}");
    assert_eq!(condition_of_run(&run, "Succeeded"), Some("True"));
    assert_eq!(env.events("Run", "r1").await, [("Normal".to_owned(), "Completed".to_owned())]);
}

#[tokio::test]
async fn an_exit_code_is_a_result_and_its_output_is_kept() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "echo before; exit 3").await;
    env.bash("r2", "s1", "kill -9 $$").await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run), stdout(&run)), ("Failed", "NonZeroExit", "before\n"));
    assert_eq!(run.status.unwrap().exit_code, Some(3));
    let killed = env.finished("r2").await;
    assert_eq!((phase(&killed), reason(&killed)), ("Failed", "Killed"));
    assert_eq!(killed.status.unwrap().exit_code, Some(137));
}

#[tokio::test]
async fn stdin_working_directory_and_variables_reach_the_command_exactly() {
    let env = TestEnv::new().await;
    let policy = json!({"environment": {"set": [{"name": "LANG", "value": "C.UTF-8"}], "allow": ["GREETING"]}});
    env.policy(&format!("default-{}", env.id), policy).await;
    env.ready_session("s1").await;
    let bash = json!({
        "command": "printf '%s|' \"$GREETING\" \"$PWD\"; cat",
        "cwd": "sub/dir", "env": [{"name": "GREETING", "value": "two\nlines"}], "stdin": "a\u{20ac}\r\nno newline",
    });
    env.run("r1", json!({"session": {"name": "s1"}, "bash": bash})).await;
    let run = env.finished("r1").await;
    assert_eq!(stdout(&run), "two\nlines|/workspace/sub/dir|a\u{20ac}\r\nno newline", "{}", message(&run));
}

#[tokio::test]
async fn a_run_past_its_timeout_is_killed_with_all_it_started_and_its_sprite_lives() {
    let env = TestEnv::new().await;
    let session = env.ready_session("s1").await;
    let bash = json!({"command": "echo begun; setsid sleep 300 & sleep 301"});
    env.run("r1", json!({"session": {"name": "s1"}, "bash": bash, "timeout": "1s"})).await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run), stdout(&run)), ("Failed", "Timeout", "begun\n"));
    let sprite = session.status.unwrap().sprite.unwrap();
    let living = env.living().await;
    assert_eq!(living.len(), 1);
    assert_eq!(living[0]["id"].as_str(), sprite.id.as_deref());
    let left = env.peek(&sprite.name, "ps -e -o args= | grep -c '[s]leep 30' || true").await;
    assert_eq!(left.trim(), "0");
    env.bash("r2", "s1", "echo alive").await;
    assert_eq!(stdout(&env.finished("r2").await), "alive\n");
    assert!(env.events("Run", "r1").await.contains(&("Warning".to_owned(), "Timeout".to_owned())));
}

#[tokio::test]
async fn ten_megabytes_of_output_never_make_the_operator_hold_more_than_the_cap() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("warm", "s1", "true").await;
    env.finished("warm").await;
    let pid = env.operator.as_ref().unwrap().pid();
    let before = peak_resident(pid);
    let kills = format!("kills-{}", env.id);
    env.policy(&kills, json!({"output": {"onLimit": "Kill"}})).await;
    let command = "yes 0123456789abcde | head -c 10000000; echo the end; exit 3";
    env.bash("r1", "s1", command).await;
    let spec = json!({"session": {"name": "s1"}, "policyRef": {"name": kills}, "bash": {"command": command}});
    env.run("r2", spec).await;
    let (truncated, killed) = (env.finished("r1").await, env.finished("r2").await);
    let grown = peak_resident(pid) - before;
    // The command runs on, and its last words are what a person looks for.
    assert_eq!((phase(&truncated), reason(&truncated)), ("Failed", "NonZeroExit"), "{}", message(&truncated));
    assert_eq!((phase(&killed), reason(&killed)), ("Failed", "OutputLimitExceeded"));
    for run in [truncated, killed] {
        let runs_on = reason(&run) == "NonZeroExit";
        let status = run.status.unwrap();
        let output = status.output.unwrap();
        assert!(output.truncated && output.stored && !output.incomplete);
        let kept = output.stdout.text.unwrap();
        assert!(kept.starts_with("0123456789abcde\n") && kept.len() <= 65_536, "{}", kept.len());
        let on_limit = status.execution.unwrap().on_limit;
        if runs_on {
            assert_eq!((on_limit, output.stdout.bytes), (Some(OnLimit::Truncate), 10_000_008), "all was counted");
            assert!(kept.ends_with("0123456789abcde\nthe end\n") && kept.len() > 65_000, "{}", kept.len());
            let left = kept.lines().find(|line| line.starts_with("[sprite-operator: ")).unwrap();
            let left: u64 = left.split(' ').nth(1).unwrap().parse().unwrap();
            let shown =
                kept.lines().filter(|line| !line.starts_with('[')).map(|line| line.len() as u64 + 1).sum::<u64>();
            assert!(left.abs_diff(10_000_008 - shown) <= 1, "{left} are left out, {shown} shown");
        } else {
            assert_eq!((on_limit, kept.len()), (Some(OnLimit::Kill), 65_536), "the head is kept");
            assert!(output.stdout.bytes > 65_536);
        }
    }
    // The cap, the frames in flight and the status that is written, twice: far from ten megabytes.
    assert!(grown < 2 * 4096, "resident memory grew by {grown} KiB");
}

/// What the guest sends is bounded by the runner; a runner that code in the session forged sends without end.
#[tokio::test]
async fn what_a_forged_runner_sends_never_makes_the_operator_hold_more_than_the_cap() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let forge = "cd ~/.sprite-operator/bin; f=$(ls | head -1); rm -f $f; \
                 printf '#!/bin/bash\nprintf \"so-started %%s\\\\n\" $2; exec yes 0123456789abcde\n' > $f; chmod 755 $f; cat $f";
    env.bash("forge", "s1", forge).await;
    let forged = env.finished("forge").await;
    assert!(stdout(&forged).contains("exec yes"), "{}", message(&forged));
    let pid = env.operator.as_ref().unwrap().pid();
    let before = peak_resident(pid);
    let names = ["r1", "r2", "r3"];
    for name in names {
        env.bash(name, "s1", "true").await;
    }
    for name in names {
        let run = env.finished(name).await;
        // It says to have started, and no guard says so.
        assert_eq!((phase(&run), reason(&run)), ("Unknown", "OutcomeUnknown"), "{}", message(&run));
        let output = run.status.unwrap().output.unwrap();
        let kept = output.stdout.text.unwrap().len();
        assert!((40_000..=65_536).contains(&kept), "{kept}: the head is kept");
        assert!(output.stdout.bytes > 10_000_000, "{} bytes came", output.stdout.bytes);
    }
    let grown = peak_resident(pid) - before;
    assert!(grown < 3 * 4096, "resident memory grew by {grown} KiB");
}

/// Also what is shorter as base64, and what YAML, as which the API server reads what is applied, writes otherwise.
#[tokio::test]
async fn output_that_is_text_is_text_whatever_it_is_made_of() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let table = [
        ("lines", "seq 1 9", "1\n2\n3\n4\n5\n6\n7\n8\n9\n"),
        ("controls", "printf '\\000\\001\\033[1m\\r\\n\\177'", "\0\u{1}\u{1b}[1m\r\n\u{7f}"),
        ("quotes", "echo '{\"a\":\"b\\c\"}'", "{\"a\":\"b\\c\"}\n"),
        ("empty", "echo; echo; echo", "\n\n\n"),
    ];
    for (name, command, _) in table {
        env.bash(name, "s1", command).await;
    }
    for (name, _, expected) in table {
        let run = env.finished(name).await;
        assert_eq!((reason(&run), stdout(&run)), ("Completed", expected), "{name}: {}", message(&run));
    }
}

#[tokio::test]
async fn output_that_is_no_text_is_base64_with_text_to_read_beside_it() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "printf '\\000\\001\\377ok'").await;
    let output = env.finished("r1").await.status.unwrap().output.unwrap();
    assert_eq!(output.stdout.base64.as_deref(), Some("AAH/b2s="));
    assert_eq!((output.stdout.text.as_deref(), output.stdout.bytes), (Some("\0\u{1}\u{fffd}ok"), 5));
    assert!(output.stdout.lossy);
}

#[tokio::test]
async fn a_run_by_drive_has_a_session_of_its_own_that_ends_with_it() {
    let env = TestEnv::new().await;
    env.run("r1", json!({"session": {"drive": "research"}, "bash": {"command": "echo own"}})).await;
    let run = env.finished("r1").await;
    assert_eq!(stdout(&run), "own\n", "{}", message(&run));
    let session = run.status.unwrap().session.unwrap().name;
    assert_eq!(session, format!("run-{}", run.metadata.uid.unwrap()));
    env.gone(env.sessions(), &session).await;
    assert!(env.living().await.is_empty());
}

#[tokio::test]
async fn a_run_by_drive_that_is_cancelled_at_once_leaves_no_session_behind() {
    let env = TestEnv::new().await;
    for n in 0..5 {
        let name = format!("r{n}");
        env.run(&name, json!({"session": {"drive": "research"}, "bash": {"command": "sleep 300"}})).await;
        let cancel = kube::api::Patch::Merge(json!({"spec": {"cancel": true}}));
        env.runs().patch(&name, &kube::api::PatchParams::default(), &cancel).await.unwrap();
        let run = env.finished(&name).await;
        assert_eq!(reason(&run), "CancelRequested");
        env.gone(env.sessions(), &format!("run-{}", run.metadata.uid.unwrap())).await;
    }
    assert!(env.living().await.is_empty());
}

#[tokio::test]
async fn runs_of_one_conversation_share_one_sprite() {
    let env = TestEnv::new().await;
    let session = json!({"drive": "research", "conversation": "conv-42"});
    env.run("r1", json!({"session": session, "bash": {"command": "echo kept > note"}})).await;
    env.finished("r1").await;
    env.run("r2", json!({"session": session, "bash": {"command": "cat note"}})).await;
    assert_eq!(stdout(&env.finished("r2").await), "kept\n");
    assert_eq!(env.living().await.len(), 1);
}

#[tokio::test]
async fn fifty_runs_at_once_in_one_session_are_each_executed_once() {
    let env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"parallelRuns": 50}})).await;
    env.ready_session("s1").await;
    // Each counts those that have begun when it ends, and waits for most of the others first.
    let together = "for i in {1..200}; do [ $(ls n* | wc -l) -lt 40 ] || break; sleep 0.1; done; ls n* | wc -l";
    for n in 0..50 {
        env.bash(&format!("r{n}"), "s1", &format!("echo x >> n{n}; {together} >&2; echo {n}")).await;
    }
    for n in 0..50 {
        let run = env.finished(&format!("r{n}")).await;
        assert_eq!(stdout(&run), format!("{n}\n"), "{}", message(&run));
        assert_eq!(env.starts_of(&run).await, 1);
        let beside = run.status.unwrap().output.unwrap().stderr.text.unwrap();
        assert!(beside.trim().parse::<u32>().unwrap() >= 40, "they ran at once: {beside}");
    }
    env.bash("count", "s1", "cat n* | wc -l").await;
    assert_eq!(stdout(&env.finished("count").await), "50\n");
}

#[tokio::test]
async fn a_cancelled_run_is_killed_and_a_waiting_one_never_starts() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "echo begun; sleep 300").await;
    env.running("r1").await;
    let cancel = kube::api::Patch::Merge(json!({"spec": {"cancel": true}}));
    env.runs().patch("r1", &kube::api::PatchParams::default(), &cancel).await.unwrap();
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Cancelled", "CancelRequested"));
    env.bash("r2", "nowhere", "echo never").await;
    env.run_until("r2", |run| phase(run) == "Pending").await;
    env.runs().patch("r2", &kube::api::PatchParams::default(), &cancel).await.unwrap();
    let run = env.finished("r2").await;
    assert_eq!((phase(&run), reason(&run)), ("Cancelled", "CancelRequested"));
    assert_eq!(env.starts_of(&run).await, 0);
}

#[tokio::test]
async fn a_run_that_waits_says_for_what_and_ends_at_its_deadline() {
    let env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"start": "2s"}})).await;
    env.bash("r1", "not-yet", "echo never").await;
    let waiting = env.run_until("r1", |run| phase(run) == "Pending").await;
    assert!(message(&waiting).starts_with("SessionNotReady: there is no SandboxSession not-yet yet; until "));
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Failed", "StartDeadlineExceeded"));
}

#[tokio::test]
async fn a_finished_run_is_deleted_when_its_time_to_live_is_over() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let spec = json!({"session": {"name": "s1"}, "bash": {"command": "true"}, "ttlAfterFinished": "0s"});
    env.run("r1", spec).await;
    env.gone(env.runs(), "r1").await;
}

/// found V1: a command often ends before the watch has shown the operator its own Running write.
#[tokio::test]
async fn no_status_is_refused_because_of_the_operators_own_write() {
    const RUNS: usize = 60;
    let env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"parallelRuns": RUNS}})).await;
    env.ready_session("s1").await;
    let create = async |n: usize| env.bash(&format!("r{n}"), "s1", "true").await;
    futures::stream::iter(0..RUNS).for_each_concurrent(20, create).await;
    for n in 0..RUNS {
        assert_eq!(reason(&env.finished(&format!("r{n}")).await), "Completed");
    }
    let said = env.operator.as_ref().unwrap().said();
    let refused = said.lines().filter(|line| line.contains("the object has been modified")).count();
    assert_eq!(refused, 0, "writes that lost against another of the operator's own");
}
