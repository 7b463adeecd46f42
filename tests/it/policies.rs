//! What a policy says of itself, and what its expressions match.

use kube::Api;
use serde_json::json;

use api::ExecutionPolicy;
use test_support::{
    TestEnv,
    environment::{message, phase, reason, until},
};

#[tokio::test]
async fn a_policy_says_which_of_its_fields_have_no_effect_yet() {
    let env = TestEnv::new().await;
    let name = format!("ambitious-{}", env.id);
    env.policy(&name, json!({"quota": {"runsPerDay": {"user": 5}}, "audit": {"failure": "Closed"}})).await;
    let policies: Api<ExecutionPolicy> = Api::all(env.client.clone());
    let ready = async || {
        let status = policies.get(&name).await.unwrap().status?;
        status.conditions.get("Ready").filter(|ready| ready.status == "True").map(|ready| ready.message.clone())
    };
    assert_eq!(
        until("the policy is ready", ready).await,
        "the policy is in force; 2 fields that it sets have no effect in this version: quota.runsPerDay.user, audit.failure"
    );
}

#[tokio::test]
async fn an_expression_matches_a_command_however_its_words_are_written() {
    let env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"commands": {"deny": [r"\brm\s+-rf\b"]}})).await;
    env.ready_session("s1").await;
    for (name, command) in
        [("continued", "rm \\\n-rf x"), ("quoted", "'r'm \"-rf\" x"), ("nested", "bash -c 'r\\m -rf x'")]
    {
        env.bash(name, "s1", command).await;
        let run = env.finished(name).await;
        assert_eq!((phase(&run), reason(&run)), ("Denied", "BlockedCommand"), "{name}: {}", message(&run));
    }
    env.bash("harmless", "s1", "echo rm; echo x-rf").await;
    assert_eq!(phase(&env.finished("harmless").await), "Succeeded");
}
