//! What stands between a command's end and its status is away: nothing that ended is lost, and nothing that waits is refused.

use api::{Run, reasons::Evidence};
use futures::{StreamExt as _, stream};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use test_support::{
    TestEnv, cluster,
    environment::{message, phase, reason, stdout, until},
};

/// Longer than the Lease: nobody holds it when the server is back.
const AWAY: std::time::Duration = std::time::Duration::from_mins(1);

fn evidence(run: &Run) -> Option<Evidence> {
    run.status.as_ref()?.execution.as_ref()?.evidence
}

/// What a Run ended with: reason, exit code, standard output.
fn ending(run: &Run) -> (&'static str, Option<i32>, &str) {
    (reason(run), run.status.as_ref().unwrap().exit_code, stdout(run))
}

async fn in_phase(env: &TestEnv, wanted: &str) -> usize {
    env.runs().list(&ListParams::default()).await.unwrap().items.iter().filter(|run| phase(run) == wanted).count()
}

/// Commands that the session's Sprite saw to their end.
async fn records(env: &TestEnv) -> usize {
    let sprite = env.living().await[0]["name"].as_str().unwrap().to_owned();
    env.peek(&sprite, "ls ~/.sprite-operator/*/record | wc -l").await.trim().parse().unwrap()
}

/// The API server refuses that a Run ends, as a broken admission policy does.
async fn refuse_ends(env: &TestEnv, refused: bool) {
    let name = format!("no-ends-{}", env.id);
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": env.namespace}},
                "resourceRules": [{
                    "apiGroups": ["sprite-operator.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
                    "resources": ["runs/status"],
                }],
            },
            "validations": [{"expression": "object.status.phase in ['Pending', 'Running']", "message": "no ends today"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": if refused { json!(["Deny"]) } else { json!(["Audit"]) }},
    });
    cluster::apply(&env.client, None, &policy).await;
    cluster::apply(&env.client, None, &binding).await;
    let dry = PatchParams { dry_run: true, ..PatchParams::default() };
    let end = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    until("the policy is in force", async || {
        (env.runs().patch_status("probe", &dry, &end).await.is_err() == refused).then_some(())
    })
    .await;
}

/// decisions R5: guard and record of a Run whose end is not on record stay, whatever else ran in that session meanwhile.
#[tokio::test]
async fn ends_that_nobody_could_write_are_known_after_a_restart() {
    /// As many as may run at once.
    const RUNS: usize = 64;
    let mut env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"parallelRuns": RUNS}})).await;
    env.ready_session("s1").await;
    env.bash("probe", "s1", "exit 0").await;
    env.finished("probe").await;
    refuse_ends(&env, true).await;
    let create = async |n: usize| env.bash(&format!("r{n}"), "s1", &format!("echo {n}; exit {}", n % 7)).await;
    stream::iter(0..RUNS).for_each_concurrent(16, create).await;
    until("every command ended, and no Run", async || {
        (records(&env).await > RUNS && in_phase(&env, "Running").await == RUNS).then_some(())
    })
    .await;
    env.crash_operator().await;
    until("the new operator meets the same refusal", async || {
        env.operator.as_ref().unwrap().said().contains("no ends today").then_some(())
    })
    .await;
    refuse_ends(&env, false).await;
    for n in 0..RUNS {
        let run = env.finished(&format!("r{n}")).await;
        let code = i32::try_from(n % 7).unwrap();
        let ended = if code == 0 { "Completed" } else { "NonZeroExit" };
        assert_eq!(ending(&run), (ended, Some(code), format!("{n}\n").as_str()), "{}", message(&run));
        assert_eq!(evidence(&run), Some(Evidence::GuestRecord), "the one that saw the exit frame is gone");
        assert_eq!(env.starts_of(&run).await, 1);
    }
}

/// decisions L-c.
#[tokio::test]
async fn commands_that_end_while_the_api_server_is_away_have_outcome_and_output() {
    const RUNS: usize = 20;
    let mut env = TestEnv::prepared().await;
    let gate = env.gate().await;
    env.start_spritesd();
    env.start_operator();
    env.policy(&format!("default-{}", env.id), json!({"limits": {"parallelRuns": RUNS, "timeout": "2m"}})).await;
    env.ready_session("s1").await;
    for n in 0..RUNS {
        env.bash(&format!("r{n}"), "s1", &format!("echo begun {n}; until [ -e go ]; do sleep 0.2; done; echo {n}"))
            .await;
    }
    until("all run", async || (in_phase(&env, "Running").await == RUNS).then_some(())).await;
    gate.shut();
    let sprite = env.living().await[0]["name"].as_str().unwrap().to_owned();
    env.peek(&sprite, "touch /workspace/go").await;
    tokio::time::sleep(AWAY).await;
    assert_eq!(in_phase(&env, "Running").await, RUNS, "nothing was written meanwhile");
    assert!(records(&env).await == RUNS, "all ended meanwhile");
    assert!(env.operator.as_ref().unwrap().said().contains("the Lease was lost"));
    gate.open();
    // As a kubelet does.
    env.free_lease().await;
    env.start_operator();
    for n in 0..RUNS {
        let run = env.finished(&format!("r{n}")).await;
        assert_eq!(ending(&run), ("Completed", Some(0), format!("begun {n}\n{n}\n").as_str()), "{}", message(&run));
        assert_eq!(
            evidence(&run),
            Some(Evidence::GuestRecord),
            "what was known without the Lease is left to the adopter"
        );
        assert_eq!(env.starts_of(&run).await, 1);
    }
}

/// found C6: the proof of lockdown grows old while Runs with much to read are sent; it is made again.
#[tokio::test]
async fn many_large_runs_at_once_are_proved_again_and_none_is_refused() {
    const RUNS: usize = 200;
    const SESSIONS: usize = 4;
    let env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"parallelRuns": 50, "stdin": "512Ki"}})).await;
    for n in 0..SESSIONS {
        env.ready_session(&format!("s{n}")).await;
    }
    let stdin = "0123456\n".repeat(512 * 1024 / 8);
    let create = async |n: usize| {
        let bash = json!({"command": "wc -c", "stdin": stdin});
        env.run(&format!("r{n}"), json!({"session": {"name": format!("s{}", n % SESSIONS)}, "bash": bash})).await;
    };
    stream::iter(0..RUNS).for_each_concurrent(16, create).await;
    for n in 0..RUNS {
        let run = env.finished(&format!("r{n}")).await;
        assert_eq!(ending(&run), ("Completed", Some(0), "524288\n"), "r{n}: {}", message(&run));
    }
}

/// found C16.
#[tokio::test]
async fn a_token_that_the_platform_no_longer_takes_makes_runs_wait_until_the_new_one_is_there() {
    let mut env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.rotate_token();
    env.bash("r1", "s1", "echo x >> n; cat n").await;
    let run = env.run_until("r1", |run| phase(run) == "Pending" && !message(run).is_empty()).await;
    assert!(message(&run).contains("SessionNotReady") || message(&run).contains("token"), "{}", message(&run));
    env.hand_over_token();
    let run = env.finished("r1").await;
    assert_eq!(ending(&run), ("Completed", Some(0), "x\n"), "{}", message(&run));
    assert_eq!(env.starts_of(&run).await, 1);
}
