//! Failures of the platform under a running command: what the guest says decides, and nothing runs twice or is called what it
//! was not.

use api::{Run, reasons::Evidence};
use serde_json::json;
use test_support::{
    TestEnv,
    environment::{message, phase, reason, stdout},
};

fn evidence(run: &Run) -> Option<Evidence> {
    run.status.as_ref()?.execution.as_ref()?.evidence
}

fn incomplete(run: &Run) -> Option<bool> {
    run.status.as_ref()?.output.as_ref().map(|output| output.incomplete)
}

fn charged(run: &Run) -> bool {
    run.status.as_ref().is_some_and(|status| status.admission.is_some())
}

/// Asserts how it ended, and that all of its output is stored.
fn assert_whole(run: &Run, ended: &str) {
    let seen = (reason(run), stdout(run), incomplete(run));
    assert_eq!(seen, (ended, "kept\n", Some(false)), "{}", message(run));
}

/// What a command without a failure shows, for comparison.
async fn calm(env: &TestEnv) -> Run {
    env.bash("calm", "s1", "echo x >> n; echo kept").await;
    let run = env.finished("calm").await;
    assert_whole(&run, "Completed");
    run
}

#[tokio::test]
async fn output_that_is_lost_on_the_way_is_read_from_the_guest_and_a_code_of_the_runners_own_is_the_scripts() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let calm = calm(&env).await;
    env.faults(json!([{"route": "exec", "match": "so-run", "effect": "output-lost"}])).await;
    env.bash("r1", "s1", "echo x >> n; echo kept").await;
    let run = env.finished("r1").await;
    assert_whole(&run, "Completed");
    assert_eq!(evidence(&run), evidence(&calm), "the frame came, and the record says the same");
    // A marker that was not seen is no proof of anything: the code is what a runner ends with that starts nothing.
    for code in [90, 91, 92, 93, 94, 127] {
        let name = format!("r{code}");
        env.bash(&name, "s1", &format!("echo x >> n; exit {code}")).await;
        let run = env.finished(&name).await;
        assert_eq!(reason(&run), "NonZeroExit", "{code}: {}", message(&run));
        assert_eq!((run.status.as_ref().unwrap().exit_code, charged(&run)), (Some(code), true), "{code}");
        assert_eq!(env.starts_of(&run).await, 1);
    }
    env.faults(json!([])).await;
    env.bash("last", "s1", "wc -l < n").await;
    assert_eq!(stdout(&env.finished("last").await), "8\n");
}

#[tokio::test]
async fn a_spool_that_cannot_be_read_at_once_is_read_again_and_what_stays_away_is_marked() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    calm(&env).await;
    for (name, effect) in [
        ("refused", json!({"route": "fs.read", "effect": "error-before", "status": 503, "count": 3})),
        ("cut", json!({"route": "fs.read", "effect": "truncated-body", "count": 1})),
    ] {
        env.faults(json!([{"route": "exec", "match": "so-run", "effect": "exit-frame-lost", "count": 1}, effect]))
            .await;
        env.bash(name, "s1", "echo x >> n; echo kept; exit 6").await;
        let run = env.finished(name).await;
        assert_whole(&run, "NonZeroExit");
        assert_eq!(evidence(&run), Some(Evidence::GuestRecord), "{name}: the frame was lost");
    }
    env.faults(json!([
        {"route": "exec", "match": "so-run", "effect": "exit-frame-lost", "count": 1},
        {"route": "fs.read", "effect": "error-before", "status": 503},
    ]))
    .await;
    let bash = json!({"command": "echo kept; exit 6"});
    env.run("never", json!({"session": {"name": "s1"}, "timeout": "1s", "bash": bash})).await;
    let run = env.finished("never").await;
    assert_eq!(
        (reason(&run), stdout(&run), incomplete(&run)),
        ("NonZeroExit", "kept\n", Some(true)),
        "{}",
        message(&run)
    );
}

#[tokio::test]
async fn a_command_whose_instance_is_replaced_under_it_is_unknown_and_runs_nowhere_else() {
    let env = TestEnv::new().await;
    let before = env.ready_session("s1").await;
    calm(&env).await;
    env.faults(json!([{"route": "exec", "match": "so-run", "effect": "instance-replaced", "count": 1}])).await;
    env.bash("r1", "s1", "echo x >> n; echo kept").await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Unknown", "OutcomeUnknown"), "{}", message(&run));
    assert_eq!((run.status.as_ref().unwrap().exit_code, charged(&run)), (None, true));
    env.faults(json!([])).await;
    env.bash("next", "s1", "cat n 2>/dev/null; echo fresh").await;
    let next = env.finished("next").await;
    assert_eq!(stdout(&next), "fresh\n", "nothing of it ran there: {}", message(&next));
    let after = env.sessions().get("s1").await.unwrap();
    let id = |session: &api::SandboxSession| session.status.clone().unwrap().sprite.unwrap().id;
    assert_ne!(id(&before), id(&after), "it was another instance");
}

/// found K3: one Run removes the operator's files. The next finds the lockdown lost, starts nothing, and the one after it runs.
#[tokio::test]
async fn a_lockdown_that_a_run_removed_is_made_again_for_the_runs_after_it() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    for (n, destroy) in [
        "rm -rf ~/.sprite-operator",
        "rm -rf ~/.sprite-operator/nonce",
        "rm -rf ~/.sprite-operator/bin; mkfifo ~/.sprite-operator/bin",
        "cd ~/.sprite-operator/bin && f=$(ls | head -1) && rm \"$f\" && ln -s /bin/true \"$f\"",
        "chmod 0500 ~/.sprite-operator",
        "rm -rf ~ 2>/dev/null; true",
    ]
    .iter()
    .enumerate()
    {
        let names = ["a", "b", "c"].map(|part| format!("{part}{n}"));
        env.bash(&names[0], "s1", destroy).await;
        env.finished(&names[0]).await;
        env.bash(&names[1], "s1", "echo x >> /workspace/lost").await;
        let lost = env.finished(&names[1]).await;
        assert_eq!(
            (phase(&lost), reason(&lost), charged(&lost)),
            ("Failed", "NotStarted", false),
            "{destroy}: {}",
            message(&lost)
        );
        assert!(message(&lost).contains("locked down again"), "{destroy}: {}", message(&lost));
        env.bash(&names[2], "s1", "cat /workspace/lost 2>/dev/null; echo runs").await;
        let runs = env.finished(&names[2]).await;
        assert_eq!((reason(&runs), stdout(&runs)), ("Completed", "runs\n"), "{destroy}: {}", message(&runs));
    }
}
