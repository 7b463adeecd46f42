//! Stops and refusals: switch, env, session, policy, spec.

use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use test_support::{
    TestEnv,
    environment::{message, phase, reason, stdout},
};

#[tokio::test]
async fn the_switch_kills_what_runs_and_refuses_what_comes() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "echo begun; sleep 300").await;
    env.running("r1").await;
    env.switch(Some("false")).await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Cancelled", "KillSwitch"));
    env.bash("r2", "s1", "echo never").await;
    let run = env.finished("r2").await;
    assert_eq!((phase(&run), reason(&run)), ("Denied", "KillSwitchOff"));
    env.switch(None).await;
    env.bash("r3", "s1", "echo never").await;
    assert_eq!(reason(&env.finished("r3").await), "KillSwitchOff", "absent is off");
    env.switch(Some("true")).await;
    // Seen within one poll; a Run before that is refused, which is the safe side.
    for n in 0.. {
        let name = format!("on{n}");
        env.bash(&name, "s1", "echo on").await;
        let run = env.finished(&name).await;
        if reason(&run) != "KillSwitchOff" {
            assert_eq!(stdout(&run), "on\n");
            break;
        }
    }
}

#[tokio::test]
async fn a_suspended_session_kills_and_refuses_and_a_held_one_too() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "sleep 300").await;
    env.running("r1").await;
    let patch = async |value: Value| {
        env.sessions().patch("s1", &PatchParams::default(), &Patch::Merge(value)).await.unwrap();
    };
    patch(json!({"spec": {"suspend": true}})).await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Cancelled", "Suspended"));
    env.bash("r2", "s1", "echo never").await;
    assert_eq!(reason(&env.finished("r2").await), "SessionSuspended");
    patch(json!({"spec": {"suspend": false}})).await;
    env.session_until("s1", |s| s.status.as_ref().is_some_and(|s| s.conditions.is_true("Ready"))).await;
    env.bash("r3", "s1", "sleep 300").await;
    env.running("r3").await;
    patch(json!({"metadata": {"annotations": {"sprite-operator.io/hold": "incident 7"}}})).await;
    let run = env.finished("r3").await;
    assert_eq!((phase(&run), reason(&run)), ("Cancelled", "Held"));
    env.bash("r4", "s1", "echo never").await;
    assert_eq!(reason(&env.finished("r4").await), "SessionHeld");
    assert_eq!(env.living().await.len(), 1, "its Sprite and files stay");
}

#[tokio::test]
async fn a_suspended_policy_kills_and_refuses() {
    let env = TestEnv::new().await;
    let default = format!("default-{}", env.id);
    env.ready_session("s1").await;
    env.bash("r1", "s1", "sleep 300").await;
    env.running("r1").await;
    env.policy(&default, json!({"suspend": true})).await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Cancelled", "PolicySuspended"));
    env.bash("r2", "s1", "echo never").await;
    let run = env.finished("r2").await;
    assert_eq!((phase(&run), reason(&run)), ("Denied", "PolicySuspended"));
}

#[tokio::test]
async fn a_namespace_that_is_not_opted_in_gets_nothing() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(env.client.clone());
    env.bash("running", "s1", "sleep 300").await;
    env.running("running").await;
    let out = Patch::Merge(json!({"metadata": {"labels": {"sprite-operator.io/code-execution": "yes"}}}));
    namespaces.patch(&env.namespace, &PatchParams::default(), &out).await.unwrap();
    let run = env.finished("running").await;
    assert_eq!((phase(&run), reason(&run)), ("Cancelled", "TenantDisabled"), "what runs is killed: {}", message(&run));
    env.session("s2", json!({})).await;
    env.session_until("s2", |s| {
        s.status.as_ref().and_then(|s| s.conditions.get("Ready")).is_some_and(|c| c.reason == "TenantNotEnabled")
    })
    .await;
    env.bash("r1", "s1", "echo never").await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Denied", "TenantNotEnabled"));
    assert_eq!(env.living().await.len(), 1);
}

#[tokio::test]
async fn every_refusal_has_its_reason_says_what_to_do_and_starts_nothing() {
    let env = TestEnv::new().await;
    let named = |name: &str| format!("{name}-{}", env.id);
    env.policy(
        &named("tight"),
        json!({"limits": {"timeout": "5s", "command": "32", "stdin": "4"}, "commands": {"deny": ["\\bnc\\b"]}}),
    )
    .await;
    env.policy(&named("broken"), json!({"egress": {"mode": "Allowlist", "allow": ["localhost"]}})).await;
    env.policy(&named("wide"), json!({"egress": {"mode": "Allowlist", "allow": ["api.example.com"]}})).await;
    env.ready_session("s1").await;
    env.session("tight", json!({"policyRef": {"name": named("tight")}})).await;
    env.run("owner", json!({"session": {"drive": "d"}, "bash": {"command": "sleep 300"}})).await;
    let owner = env.running("owner").await;
    let of_owner = owner.status.unwrap().session.unwrap().name;
    let (s1, tight) = (json!({"name": "s1"}), json!({"name": "tight"}));
    let bash = |command: &str| json!({"command": command});
    let cases = [
        ("size", json!({"session": tight, "bash": bash(&"x".repeat(33))}), "LimitExceeded", "make it smaller"),
        (
            "stdin",
            json!({"session": tight, "bash": {"command": "cat", "stdin": "12345"}}),
            "LimitExceeded",
            "bash.stdin",
        ),
        ("timeout", json!({"session": tight, "bash": bash("true"), "timeout": "6s"}), "LimitExceeded", "at most"),
        ("blocked", json!({"session": tight, "bash": bash("nc example.com 1")}), "BlockedCommand", "denies"),
        ("cwd", json!({"session": s1, "bash": {"command": "true", "cwd": "../etc"}}), "PathEscape", "/workspace"),
        (
            "env",
            json!({"session": s1, "bash": {"command": "true", "env": [{"name": "LD_PRELOAD", "value": "x"}]}}),
            "InvalidEnvironment",
            "LD_PRELOAD",
        ),
        ("file", json!({"session": s1, "readFile": {"path": "."}}), "InvalidSpec", "the workspace itself"),
        (
            "nopolicy",
            json!({"session": s1, "policyRef": {"name": "none"}, "bash": bash("true")}),
            "PolicyNotFound",
            "none",
        ),
        (
            "broken",
            json!({"session": s1, "policyRef": {"name": named("broken")}, "bash": bash("true")}),
            "PolicyNotReady",
            "conditions",
        ),
        (
            "wide",
            json!({"session": s1, "policyRef": {"name": named("wide")}, "bash": bash("true")}),
            "PolicyNotApplicable",
            "egress",
        ),
        ("foreign", json!({"session": {"name": of_owner}, "bash": bash("true")}), "SessionMismatch", "another Run"),
    ];
    for (name, spec, _, _) in &cases {
        env.run(name, spec.clone()).await;
    }
    for (name, _, expected, says) in &cases {
        let run = env.finished(name).await;
        assert_eq!((phase(&run), reason(&run)), ("Denied", *expected), "{name}: {}", message(&run));
        assert!(message(&run).contains(says), "{name}: {}", message(&run));
        assert_eq!(env.starts_of(&run).await, 0, "{name}");
    }
}

#[tokio::test]
async fn a_run_may_tighten_by_a_policy_of_its_own() {
    let env = TestEnv::new().await;
    let tight = format!("tight-{}", env.id);
    env.policy(&tight, json!({"limits": {"output": "4"}, "output": {"onLimit": "Kill"}})).await;
    env.ready_session("s1").await;
    let spec = json!({"session": {"name": "s1"}, "policyRef": {"name": tight}, "bash": {"command": "printf 123456"}});
    env.run("r1", spec).await;
    let run = env.finished("r1").await;
    assert_eq!((reason(&run), stdout(&run)), ("OutputLimitExceeded", "1234"), "{}", message(&run));
}

#[tokio::test]
async fn as_many_runs_as_the_policy_says_run_at_once_and_the_others_wait() {
    let env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"parallelRuns": 1}})).await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "sleep 2; date +%s%N > first").await;
    env.running("r1").await;
    env.bash("r2", "s1", "test -s first && echo after").await;
    let waiting = env.run_until("r2", |run| phase(run) == "Pending").await;
    assert!(message(&waiting).starts_with("Queued: "), "{}", message(&waiting));
    assert_eq!(stdout(&env.finished("r2").await), "after\n");
}
