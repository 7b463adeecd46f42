//! Applying the same again changes nothing; what the operator writes is no business of whoever applies; lists are
//! selected by field.

use api::{Run, SandboxSession};
use kube::{Api, api::ListParams};
use serde_json::{Value, json};

use super::{Answer, Scratch};
use test_support::cluster;

fn manifest() -> Value {
    json!({
        "session": {"drive": "d", "conversation": "c"},
        "bash": {"command": "true", "env": [{"name": "A"}]}, "timeout": "1m0s", "policyRef": {"name": "default"},
    })
}

fn version(object: &Value) -> &str {
    object["metadata"]["resourceVersion"].as_str().unwrap()
}

/// What of an object counts: everything but the version.
fn content(object: &Value) -> Value {
    super::with(object.clone(), &json!({"metadata": {"resourceVersion": null}}))
}

/// An object that no controller has seen has its status by default only, which is not stored. The API server stores it with
/// the first update, of whatever kind, and raises the version by that; nothing else changes then, and nothing at all later.
fn unchanged(first: &Answer, second: &Answer, third: &Answer) {
    assert_eq!(second.code, 200, "{}", second.message());
    assert_eq!(content(&second.body), content(&first.body));
    assert_eq!(third.body, second.body);
}

#[tokio::test]
async fn applying_again_on_the_server_side_changes_nothing() {
    let scratch = Scratch::new().await;
    for (kind, name, spec) in [
        ("Run", "a", manifest()),
        ("SandboxSession", "a", json!({"drive": "d", "conversation": "c", "policyRef": {"name": "default"}})),
        ("SandboxUsage", "a", json!({"user": "u"})),
        // Named as the namespace, and removed with it.
        ("ExecutionPolicy", &scratch.namespace, json!({"limits": {"output": "1.5Ki", "timeout": "1m0s"}})),
    ] {
        let first = scratch.apply(kind, name, &spec).await;
        assert_eq!(first.code, 201, "{}", first.message());
        let second = scratch.apply(kind, name, &spec).await;
        let third = scratch.apply(kind, name, &spec).await;
        unchanged(&first, &second, &third);
        // The operator writes status; that stays, and is still no change.
        let status = json!({"status": {"observedGeneration": 1}});
        let written = scratch.patch(kind, &format!("{name}/status"), "", &status).await;
        assert!(written.is_accepted(), "{}", written.message());
        let fourth = scratch.apply(kind, name, &spec).await;
        assert_eq!(version(&fourth.body), version(&written.body), "{kind}");
        assert_eq!(fourth.body["status"], status["status"]);
    }
}

#[tokio::test]
async fn applying_a_run_that_the_operator_has_seen_changes_nothing_at_all() {
    let scratch = Scratch::new().await;
    let first = scratch.apply("Run", "r1", &manifest()).await;
    assert!(first.body["spec"]["actor"].is_object(), "it was stamped: {}", first.message());
    let status = json!({"status": {"observedGeneration": 1, "phase": "Pending", "reason": "Waiting"}});
    let seen = scratch.patch("Run", "r1/status", "", &status).await;
    let second = scratch.apply("Run", "r1", &manifest()).await;
    assert_eq!(second.code, 200, "{}", second.message());
    assert_eq!(version(&second.body), version(&seen.body));
}

#[tokio::test]
async fn what_was_stamped_belongs_to_nobody_who_applies() {
    let scratch = Scratch::new().await;
    let first = scratch.apply("Run", "r1", &manifest()).await;
    let managed = first.body["metadata"]["managedFields"].as_array().unwrap();
    let user = managed.iter().find(|m| m["manager"] == "user" && m["operation"] == "Apply").unwrap();
    assert!(user["fieldsV1"]["f:spec"].get("f:actor").is_none(), "{user}");
    assert!(user["fieldsV1"].get("f:metadata").is_none(), "{user}");
}

#[tokio::test]
async fn applying_a_run_again_on_the_client_side_changes_nothing() {
    let scratch = Scratch::new().await;
    let first = Answer { code: 201, warnings: Vec::new(), body: scratch.create("Run", "r1", &manifest()).await };
    // At most, kubectl sends the manifest itself: lists are replaced, and their defaults filled in again.
    let patch = json!({"apiVersion": "sprite-operator.io/v1alpha1", "kind": "Run", "spec": manifest()});
    let second = scratch.patch("Run", "r1", "&fieldValidation=Strict", &patch).await;
    let third = scratch.patch("Run", "r1", "&fieldValidation=Strict", &patch).await;
    unchanged(&first, &second, &third);
    // As a rule, there is nothing to send.
    let fourth = scratch.patch("Run", "r1", "", &json!({})).await;
    assert_eq!(fourth.body, third.body);
}

#[tokio::test]
async fn a_spec_that_is_applied_cannot_set_status() {
    let scratch = Scratch::new().await;
    scratch.create("Run", "r1", &manifest()).await;
    let patch = json!({"status": {"phase": "Succeeded", "observedGeneration": 7}});
    let answer = scratch.patch("Run", "r1", "", &patch).await;
    assert_eq!(answer.body["status"], json!({"observedGeneration": -1}), "{}", answer.message());
    // And the status of a Run is one of the words.
    let answer = scratch.patch("Run", "r1/status", "", &json!({"status": {"phase": "Done"}})).await;
    assert_eq!(answer.code, 422);
    assert!(answer.message().contains("status.phase: Unsupported value: \"Done\""), "{}", answer.message());
}

#[tokio::test]
async fn lists_are_selected_by_field() {
    let scratch = Scratch::new().await;
    for (name, session) in [("r1", json!({"name": "s1"})), ("r2", json!({"name": "s2"})), ("r3", json!({"drive": "d"}))]
    {
        scratch.create("Run", name, &json!({"session": session, "bash": {"command": "true"}})).await;
    }
    for (name, drive) in [("s1", "d1"), ("s2", "d2")] {
        scratch.create("SandboxSession", name, &json!({"drive": drive, "conversation": "c"})).await;
    }
    for (kind, name, phase) in [("Run", "r2", "Running"), ("Run", "r3", "Denied"), ("SandboxSession", "s2", "Ready")] {
        let answer = scratch.patch(kind, &format!("{name}/status"), "", &json!({"status": {"phase": phase}})).await;
        assert!(answer.is_accepted(), "{}", answer.message());
    }
    let runs: Api<Run> = Api::namespaced(scratch.client.clone(), &scratch.namespace);
    let sessions: Api<SandboxSession> = Api::namespaced(scratch.client.clone(), &scratch.namespace);
    let run_names = async |selector: &str| names(runs.list(&ListParams::default().fields(selector)).await);
    let session_names = async |selector: &str| names(sessions.list(&ListParams::default().fields(selector)).await);
    assert_eq!(run_names("status.phase=Running").await, ["r2"]);
    assert_eq!(run_names("status.phase!=Running").await, ["r1", "r3"]);
    assert_eq!(run_names("spec.session.name=s1").await, ["r1"]);
    assert_eq!(run_names("spec.session.name=s2,status.phase=Denied").await, [""; 0]);
    assert_eq!(session_names("status.phase=Ready").await, ["s2"]);
    assert_eq!(session_names("spec.drive=d1").await, ["s1"]);
}

fn names<K: kube::ResourceExt + Clone>(list: kube::Result<kube::api::ObjectList<K>>) -> Vec<String> {
    list.unwrap().iter().map(kube::ResourceExt::name_any).collect()
}

#[tokio::test]
async fn an_empty_policy_is_applied_by_the_server_as_often_as_one_likes() {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let name = format!("empty-{}", uuid::Uuid::new_v4());
    let policy = serde_json::json!({
        "apiVersion": "sprite-operator.io/v1alpha1", "kind": "ExecutionPolicy", "metadata": {"name": name}, "spec": {},
    });
    let mut applied = Vec::new();
    for _ in 0..3 {
        applied.push(cluster::try_apply(&client, None, &policy).await);
    }
    let policies: kube::Api<api::ExecutionPolicy> = kube::Api::all(client.clone());
    policies.delete(&name, &kube::api::DeleteParams::default()).await.unwrap();
    for outcome in applied {
        outcome.unwrap();
    }
}

/// On a control plane of its own: admission policies hold for a whole cluster.
#[tokio::test]
async fn kubectl_apply_says_unchanged_from_the_second_time_on() {
    let plane = cluster::ControlPlane::start();
    let kubectl = |arguments: &[&str]| {
        let done = cluster::kubectl(plane.kubeconfig()).args(arguments).output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    kubectl(&["apply", "--server-side", "-f", "crds"]);
    kubectl(&["wait", "--for=condition=Established", "-f", "crds"]);
    let dir = tempfile::tempdir().unwrap();
    let policy = dir.path().join("policy.yaml");
    let text = json!({
        "apiVersion": "sprite-operator.io/v1alpha1", "kind": "ExecutionPolicy", "metadata": {"name": "empty-values"},
        "spec": {"environment": {"set": [{"name": "EMPTY"}, {"name": "FULL", "value": "x"}], "allow": ["A"]},
                 "egress": {"mode": "Allowlist", "allow": ["api.example.com"]}, "commands": {"deny": ["a", "b"]},
                 "quota": {"concurrentRuns": {"byTier": {"pro": 4}}, "runsPerDay": {"user": 5}}},
    });
    std::fs::write(&policy, text.to_string()).unwrap();
    let chart = "charts/sprite-operator/files";
    let files = ["admission/stamp.yaml", "rbac/clusterrole.yaml", "policies/default.yaml", "policies/minimal.yaml"];
    let mut manifests = files.map(|file| format!("{chart}/{file}")).to_vec();
    manifests.push(policy.to_str().unwrap().to_owned());
    for manifest in &manifests {
        kubectl(&["apply", "-f", manifest]);
        for _ in 0..2 {
            let said = kubectl(&["apply", "-f", manifest]);
            assert!(said.lines().all(|line| line.ends_with(" unchanged")), "{manifest}: {said}");
        }
    }
}
