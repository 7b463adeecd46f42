//! Crashes of the operator and of the platform, at points that a script of failures holds open.

use api::reasons::Evidence;
use kube::ResourceExt;
use serde_json::json;

use test_support::{
    TestEnv,
    environment::{condition, message, phase, reason, stdout, until},
    late_proxy::LateProxy,
};

#[tokio::test]
async fn a_create_whose_reply_was_lost_makes_no_second_sprite() {
    let mut env = TestEnv::prepared().await;
    env.start_spritesd();
    env.faults(json!([{"route": "create", "effect": "lost-reply", "count": 1}])).await;
    env.start_operator();
    env.ready_session("s1").await;
    assert_eq!(env.living().await.len(), 1);
    assert_eq!(env.log("create").await.len(), 1);
}

#[tokio::test]
async fn an_operator_killed_while_its_create_is_on_the_way_adopts_what_comes_of_it() {
    let mut env = TestEnv::prepared().await;
    env.start_spritesd();
    env.faults(json!([{"route": "create", "effect": "delay", "delay": "1s", "count": 1}])).await;
    env.start_operator();
    env.session("s1", json!({})).await;
    env.session_until("s1", |s| s.status.as_ref().is_some_and(|s| s.sprite.is_some())).await;
    until("the create is on its way", async || {
        let said = env.operator.as_ref().unwrap().said();
        said.contains("Create {").then_some(())
    })
    .await;
    env.crash_operator().await;
    env.session_until("s1", |s| condition(s, "Ready") == Some("True")).await;
    assert_eq!(env.living().await.len(), 1);
}

/// A frozen process finds timer and exit frame at once when it goes on.
#[tokio::test]
async fn an_operator_that_was_frozen_past_the_timeout_of_a_command_tells_the_end_that_it_had() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    for round in 0..3 {
        let name = format!("r{round}");
        let bash = json!({"command": format!("touch begun{round}; sleep 1; echo done")});
        env.run(&name, json!({"session": {"name": "s1"}, "timeout": "3s", "bash": bash})).await;
        env.file_appears("s1", &format!("begun{round}")).await;
        env.operator.as_ref().unwrap().signal("STOP");
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        env.operator.as_ref().unwrap().signal("CONT");
        let run = env.finished(&name).await;
        assert_eq!((reason(&run), stdout(&run)), ("Completed", "done\n"), "{}", message(&run));
    }
}

/// The first wakes when its timer for the command is over and the Lease is another's.
#[tokio::test]
async fn a_frozen_leader_that_wakes_after_another_took_over_kills_nothing_and_writes_no_end() {
    let mut env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"timeout": "5m"}})).await;
    env.ready_session("s1").await;
    // It stops its own supervisor, so that the operator has to end it: five seconds after its timeout.
    let bash = json!({"command": "kill -STOP $PPID; touch begun; sleep 60"});
    env.run("r1", json!({"session": {"name": "s1"}, "timeout": "40s", "bash": bash})).await;
    env.file_appears("s1", "begun").await;
    let frozen = env.operator.take().unwrap();
    frozen.signal("STOP");
    let begun = std::time::Instant::now();
    env.start_operator();
    until("the other adopts the command", async || {
        env.operator.as_ref().unwrap().said().contains("adopting a command").then_some(())
    })
    .await;
    // The other kills at 45 s; that takes long enough for this one to wake before the command is gone.
    env.faults(json!([{"route": "exec.kill", "effect": "delay", "delay": "5s"}])).await;
    tokio::time::sleep(std::time::Duration::from_millis(46_500).saturating_sub(begun.elapsed())).await;
    frozen.signal("CONT");
    let run = env.finished("r1").await;
    assert_eq!(reason(&run), "Timeout", "{}", message(&run));
    // It did wake, wanted to kill, and found out.
    assert!(
        frozen.said().contains("not killed: the Lease is lost"),
        "{}",
        frozen.said().lines().last().unwrap_or_default()
    );
}

/// Nothing comes through any more and nobody says so: the command ends, and its exit frame is lost.
#[tokio::test]
async fn a_command_whose_connection_died_without_a_word_has_its_own_end_and_output() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let fault = json!([{"route": "exec", "match": "so-run", "effect": "half-open", "count": 1}]);
    env.faults(fault).await;
    let bash = json!({"command": "echo begun; sleep 1; echo done; exit 3"});
    env.run("r1", json!({"session": {"name": "s1"}, "timeout": "4s", "bash": bash})).await;
    let run = env.finished("r1").await;
    let evidence = run.status.as_ref().unwrap().execution.as_ref().unwrap().evidence;
    assert_eq!((reason(&run), stdout(&run)), ("NonZeroExit", "begun\ndone\n"), "{}", message(&run));
    // Not by an exit frame: the fault took effect.
    assert_eq!(evidence, Some(Evidence::GuestRecord));
}

#[tokio::test]
async fn a_command_that_runs_while_the_operator_is_killed_is_adopted_and_not_run_again() {
    let mut env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "echo x >> count; echo begun; sleep 3; echo done; cat count; exit 5").await;
    env.file_appears("s1", "count").await;
    env.crash_operator().await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Failed", "NonZeroExit"), "{}", message(&run));
    assert_eq!(stdout(&run), "begun\ndone\nx\n", "from the guest's spool");
    assert_eq!(run.status.as_ref().unwrap().exit_code, Some(5));
    assert_eq!(env.starts_of(&run).await, 1);
}

#[tokio::test]
async fn a_command_that_ended_while_nobody_looked_is_judged_by_the_guests_record() {
    let mut env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "echo out; touch began; sleep 1; exit 4").await;
    env.file_appears("s1", "began").await;
    env.operator.as_mut().unwrap().kill();
    until("it ended", async || {
        let ended = env.log("exec-end").await;
        ended.iter().any(|e| e["end"].as_str().is_some_and(|end| end.contains('4'))).then_some(())
    })
    .await;
    env.free_lease().await;
    env.start_operator();
    let run = env.finished("r1").await;
    assert_eq!((reason(&run), stdout(&run)), ("NonZeroExit", "out\n"), "{}", message(&run));
    let status = run.status.clone().unwrap();
    assert_eq!(status.exit_code, Some(4));
    assert_eq!(status.execution.unwrap().evidence, Some(Evidence::GuestRecord));
    assert_eq!(env.starts_of(&run).await, 1);
}

#[tokio::test]
async fn a_command_that_ended_before_a_stop_was_asked_for_is_what_it_was() {
    let mut env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "echo out; touch began; sleep 1; exit 4").await;
    env.bash("r2", "s1", "touch also; sleep 300").await;
    env.file_appears("s1", "began").await;
    env.file_appears("s1", "also").await;
    env.operator.as_mut().unwrap().kill();
    until("one ended", async || {
        let ended = env.log("exec-end").await;
        ended.iter().any(|e| e["end"].as_str().is_some_and(|end| end.contains('4'))).then_some(())
    })
    .await;
    env.switch(Some("false")).await;
    env.free_lease().await;
    env.start_operator();
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run), stdout(&run)), ("Failed", "NonZeroExit", "out\n"), "{}", message(&run));
    assert_eq!(run.status.unwrap().exit_code, Some(4));
    // What still runs is stopped.
    let run = env.finished("r2").await;
    assert_eq!((phase(&run), reason(&run)), ("Cancelled", "KillSwitch"), "{}", message(&run));
}

/// The exec is on its way when the operator is killed: it arrives before the adopter looks, or after it has looked.
#[tokio::test]
async fn an_exec_that_arrives_after_its_operator_was_killed_starts_nothing_and_is_told_so() {
    for arrives_first in [false, true] {
        let mut env = TestEnv::prepared().await;
        env.start_spritesd();
        let proxy = LateProxy::start(&env.sprites_url).await;
        env.proxy_url = Some(proxy.url.clone());
        env.start_operator();
        env.ready_session("s1").await;
        proxy.hold("so-run");
        env.bash("r1", "s1", "echo x >> count").await;
        proxy.until_held(1).await;
        let running = env.running("r1").await;
        env.operator.as_mut().unwrap().kill();
        let arrived = async |env: &TestEnv| {
            proxy.release();
            until("the exec arrives", async || (env.starts_of(&running).await == 1).then_some(())).await;
        };
        if arrives_first {
            arrived(&env).await;
        }
        env.free_lease().await;
        env.start_operator();
        let run = env.finished("r1").await;
        assert_eq!((phase(&run), reason(&run)), ("Failed", "NotStarted"), "{}", message(&run));
        assert_eq!(run.status.unwrap().admission, None, "what never started is not charged");
        if !arrives_first {
            arrived(&env).await;
        }
        // The runner met the fence, or was ended before it had its input.
        let sprite = env.sessions().get("s1").await.unwrap().status.unwrap().sprite.unwrap().name;
        let uid = running.metadata.uid.clone().unwrap();
        until("its runner ended", async || {
            let (_, sessions) = env.sprites_call("GET", &format!("/v1/sprites/{sprite}/exec"), None).await;
            (!sessions.to_string().contains(&uid)).then_some(())
        })
        .await;
        env.bash("r2", "s1", "cat count 2>/dev/null | wc -l").await;
        assert_eq!(stdout(&env.finished("r2").await), "0\n", "arrives first: {arrives_first}");
    }
}

#[tokio::test]
async fn a_lost_exit_frame_is_not_success_but_the_guests_record_is_evidence() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.faults(json!([{"route": "exec", "match": "so-run", "effect": "exit-frame-lost", "count": 1}])).await;
    env.bash("r1", "s1", "echo x >> count; cat count; exit 6").await;
    let run = env.finished("r1").await;
    assert_eq!((reason(&run), stdout(&run)), ("NonZeroExit", "x\n"), "{}", message(&run));
    let status = run.status.clone().unwrap();
    assert_eq!((status.exit_code, status.execution.unwrap().evidence), (Some(6), Some(Evidence::GuestRecord)));
    assert_eq!(env.starts_of(&run).await, 1);
}

#[tokio::test]
async fn a_connection_lost_in_the_middle_is_taken_up_again() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.faults(json!([{"route": "exec", "match": "so-run", "effect": "early-close", "count": 1}])).await;
    env.bash("r1", "s1", "echo one; sleep 1; echo two").await;
    let run = env.finished("r1").await;
    assert_eq!((reason(&run), stdout(&run)), ("Completed", "one\ntwo\n"), "{}", message(&run));
    assert_eq!(env.starts_of(&run).await, 1);
}

#[tokio::test]
async fn a_platform_that_dies_in_the_middle_makes_the_outcome_unknown_and_never_success() {
    let mut env = TestEnv::new().await;
    let before = env.ready_session("s1").await;
    env.bash("r1", "s1", "echo x >> count; sleep 4; echo done").await;
    env.file_appears("s1", "count").await;
    env.spritesd.as_mut().unwrap().kill();
    // A proof read less than a second ago may still be used; then the exec never opens, which is known, too.
    let mut waiting = None;
    for n in 0.. {
        let name = format!("w{n}");
        env.bash(&name, "s1", "cat count").await;
        let run = env.run_until(&name, |run| matches!(phase(run), "Pending" | "Failed")).await;
        if phase(&run) == "Pending" {
            waiting = Some(run);
            break;
        }
        assert_eq!(reason(&run), "NotStarted", "{}", message(&run));
    }
    let waiting = waiting.unwrap();
    assert!(message(&waiting).starts_with("SessionNotReady"), "{}", message(&waiting));
    env.start_spritesd();
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Unknown", "OutcomeUnknown"), "{}", message(&run));
    assert_eq!(run.status.as_ref().unwrap().exit_code, None);
    // All goes on: the same Sprite, its files, no second execution.
    let next = env.finished(&waiting.name_any()).await;
    assert_eq!(stdout(&next), "x\n", "{}", message(&next));
    let after = env.sessions().get("s1").await.unwrap();
    let id = |s: &api::SandboxSession| s.status.clone().unwrap().sprite.unwrap().id;
    assert_eq!(id(&before), id(&after));
    assert_eq!(env.living().await.len(), 1);
}

#[tokio::test]
async fn a_platform_that_fails_for_a_while_makes_runs_wait_and_not_fail() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.faults(json!([
        {"route": "get", "effect": "error-before", "count": 3},
        {"route": "policy.get", "effect": "rate-limit", "count": 1},
    ]))
    .await;
    env.bash("r1", "s1", "echo at last").await;
    assert_eq!(stdout(&env.finished("r1").await), "at last\n");
    assert_eq!(env.living().await.len(), 1, "unknown is not absent");
}

#[tokio::test]
async fn a_delete_that_the_platform_refuses_for_a_while_is_sent_until_the_sprite_is_gone() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.faults(json!([{"route": "delete", "effect": "error-before", "count": 3}])).await;
    env.sessions().delete("s1", &kube::api::DeleteParams::default()).await.unwrap();
    env.gone(env.sessions(), "s1").await;
    assert!(env.living().await.is_empty());
}

#[tokio::test]
async fn a_polite_stop_leaves_the_command_running_for_the_next_operator_and_gives_the_lease_back() {
    let mut env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "touch began; sleep 3; echo survived").await;
    env.file_appears("s1", "began").await;
    assert_eq!(env.operator.as_mut().unwrap().terminate(), Some(0));
    let leases: kube::Api<k8s_openapi::api::coordination::v1::Lease> =
        kube::Api::namespaced(env.client.clone(), &env.operator_namespace);
    let lease = leases.get("sprite-operator").await.unwrap();
    assert_eq!(lease.spec.unwrap().holder_identity, None);
    env.start_operator();
    let run = env.finished("r1").await;
    assert_eq!(stdout(&run), "survived\n", "{}", message(&run));
    assert_eq!(env.starts_of(&run).await, 1);
}

#[tokio::test]
async fn of_two_operators_one_works_and_the_other_goes_on_when_the_first_is_killed() {
    let mut env = TestEnv::new().await;
    env.ready_session("s1").await;
    let second = env.another_operator();
    env.bash("r1", "s1", "echo first").await;
    assert_eq!(stdout(&env.finished("r1").await), "first\n");
    assert!(!second.said().contains("holding the Lease"));
    env.operator.as_mut().unwrap().kill();
    // Not freed by hand: the second must see it run out.
    env.bash("r2", "s1", "echo second").await;
    let run = env.finished("r2").await;
    assert_eq!(stdout(&run), "second\n");
    assert!(second.said().contains("holding the Lease"));
    assert_eq!(env.starts_of(&run).await, 1);
    assert_eq!(run.name_any(), "r2");
}

/// found K15: what runs and was not adopted yet takes its slot.
#[tokio::test]
async fn a_command_that_runs_while_the_operator_restarts_keeps_its_slot() {
    let mut env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"parallelRuns": 1}})).await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "touch begun; sleep 4; touch ended").await;
    env.file_appears("s1", "begun").await;
    for n in 2..6 {
        env.bash(&format!("r{n}"), "s1", "ls ended || echo beside").await;
    }
    env.crash_operator().await;
    for n in 1..6 {
        let run = env.finished(&format!("r{n}")).await;
        assert_eq!(
            (reason(&run), stdout(&run)),
            ("Completed", if n == 1 { "" } else { "ended\n" }),
            "{}",
            message(&run)
        );
    }
}
