//! What may change of an object that exists.

use serde_json::json;

use super::{Accepted, Case, Refused, Scratch};

const RUN: &str = "the spec of a Run cannot change, but for cancel: create another Run";
const COMMAND: &str = "the command of a Run cannot change: create another Run";
const WHO: &str = "on whose behalf a Run acts cannot change: create another Run";
const CANCEL: &str = "cancel cannot be taken back: create another Run";

/// Changes of a Run in which everything is said.
pub fn full_run() -> Vec<Case> {
    vec![
        ("nothing", json!({}), Accepted),
        (
            "the same again",
            json!({"timeout": "20s", "bash": {"command": "true"}, "actor": {"groups": ["a"]}}),
            Accepted,
        ),
        ("cancel", json!({"cancel": true}), Accepted),
        ("another session", json!({"session": {"conversation": "other"}}), Refused(RUN)),
        ("a wider session", json!({"session": {"conversation": null}}), Refused(RUN)),
        ("another policy", json!({"policyRef": {"name": "other"}}), Refused(RUN)),
        ("no policy", json!({"policyRef": null}), Refused(RUN)),
        ("another timeout", json!({"timeout": "21s"}), Refused(RUN)),
        ("the same timeout in other words", json!({"timeout": "20000ms"}), Refused(RUN)),
        ("no timeout", json!({"timeout": null}), Refused(RUN)),
        ("another time to live", json!({"ttlAfterFinished": "2h"}), Refused(RUN)),
        ("no time to live", json!({"ttlAfterFinished": null}), Refused(RUN)),
        ("cancel with another timeout", json!({"cancel": true, "timeout": "1s"}), Refused(RUN)),
        ("another command", json!({"bash": {"command": "false"}}), Refused(COMMAND)),
        ("another directory", json!({"bash": {"cwd": "other"}}), Refused(COMMAND)),
        ("another variable", json!({"bash": {"env": [{"name": "A", "value": "2"}]}}), Refused(COMMAND)),
        ("no stdin", json!({"bash": {"stdin": null}}), Refused(COMMAND)),
        ("another action", json!({"bash": null, "readFile": {"path": "a"}}), Refused(COMMAND)),
        ("another user", json!({"actor": {"user": "mallory"}}), Refused(WHO)),
        ("another group", json!({"actor": {"groups": ["a", "system:masters"]}}), Refused(WHO)),
        ("another UID", json!({"actor": {"uid": "2"}}), Refused(WHO)),
        ("another extra", json!({"actor": {"extra": {"k": ["v", "w"]}}}), Refused(WHO)),
        ("another agent", json!({"agent": {"serviceAccount": "other"}}), Refused(WHO)),
        ("no agent", json!({"agent": null}), Refused(WHO)),
    ]
}

/// Changes of a Run in which as little as possible is said.
pub fn plain_run() -> Vec<Case> {
    vec![
        ("a policy", json!({"policyRef": {"name": "p"}}), Refused(RUN)),
        ("a timeout", json!({"timeout": "1s"}), Refused(RUN)),
        ("a time to live", json!({"ttlAfterFinished": "0s"}), Refused(RUN)),
        ("an agent", json!({"agent": {"serviceAccount": "a"}}), Refused(WHO)),
        ("no actor", json!({"actor": null}), Refused(WHO)),
        ("another drive", json!({"session": {"drive": "e"}}), Refused(RUN)),
        ("by name", json!({"session": {"name": "s", "drive": null}}), Refused(RUN)),
    ]
}

/// Changes of a Run that is cancelled.
pub fn cancelled_run() -> Vec<Case> {
    vec![
        ("cancel again", json!({"cancel": true}), Accepted),
        ("no cancel", json!({"cancel": false}), Refused(CANCEL)),
        ("cancel forgotten", json!({"cancel": null}), Refused(CANCEL)),
    ]
}

pub fn session() -> Vec<Case> {
    vec![
        ("the same again", json!({"drive": "d", "conversation": "c"}), Accepted),
        ("suspend", json!({"suspend": true}), Accepted),
        ("another policy", json!({"policyRef": {"name": "p"}}), Accepted),
        ("another access", json!({"access": "Owner"}), Accepted),
        ("another drive", json!({"drive": "e"}), Refused("spec.drive cannot change: create another SandboxSession")),
        (
            "another conversation",
            json!({"conversation": "e"}),
            Refused("spec.conversation cannot change: create another SandboxSession"),
        ),
    ]
}

pub fn usage() -> Vec<Case> {
    vec![
        ("the same again", json!({"user": "u"}), Accepted),
        (
            "another user",
            json!({"user": "v"}),
            Refused("spec.user cannot change: the operator keeps one SandboxUsage a user"),
        ),
    ]
}

#[tokio::test]
async fn of_a_run_only_cancel_changes_and_only_to_true() {
    let scratch = Scratch::new().await;
    let full = json!({
        "session": {"drive": "d", "conversation": "c"}, "policyRef": {"name": "default"},
        "bash": {"command": "true", "cwd": "sub", "env": [{"name": "A", "value": "1"}], "stdin": "x"},
        "actor": {"user": "alice", "uid": "1", "groups": ["a"], "extra": {"k": ["v"]}},
        "agent": {"serviceAccount": "agent"}, "timeout": "20s", "ttlAfterFinished": "1h",
    });
    scratch.create("Run", "full", &full).await;
    scratch.judge("Run", "full", full_run()).await;
    scratch.create("Run", "plain", &json!({"session": {"drive": "d"}, "bash": {"command": "true"}})).await;
    scratch.judge("Run", "plain", plain_run()).await;
    let cancelled = scratch.patch("Run", "full", "", &json!({"spec": {"cancel": true}})).await;
    assert_eq!(cancelled.body["metadata"]["generation"], 2, "{}", cancelled.message());
    scratch.judge("Run", "full", cancelled_run()).await;
}

#[tokio::test]
async fn file_operations_cannot_change_either() {
    let scratch = Scratch::new().await;
    for (name, action, changes) in [
        (
            "write",
            json!({"writeFile": {"path": "a", "content": "x", "mode": "0644"}}),
            [json!({"path": "b"}), json!({"content": "y"}), json!({"mode": null})],
        ),
        (
            "read",
            json!({"readFile": {"path": "a"}}),
            [json!({"path": "b"}), json!({"offset": 1}), json!({"length": 1})],
        ),
        (
            "edit",
            json!({"editFile": {"path": "a", "oldText": "x", "newText": "y"}}),
            [json!({"oldText": "z"}), json!({"newText": "z"}), json!({"replaceAll": true})],
        ),
    ] {
        let spec = super::with(json!({"session": {"drive": "d"}}), &action);
        scratch.create("Run", name, &spec).await;
        let field = action.as_object().unwrap().keys().next().unwrap().clone();
        let cases = changes.into_iter().map(|change| ("a change", json!({field.as_str(): change}), Refused(COMMAND)));
        scratch.judge("Run", name, cases.collect()).await;
    }
}

#[tokio::test]
async fn a_session_keeps_its_drive_and_conversation() {
    let scratch = Scratch::new().await;
    scratch.create("SandboxSession", "s1", &json!({"drive": "d", "conversation": "c"})).await;
    scratch.judge("SandboxSession", "s1", session()).await;
}

#[tokio::test]
async fn a_usage_keeps_its_user() {
    let scratch = Scratch::new().await;
    scratch.create("SandboxUsage", "u1", &json!({"user": "u"})).await;
    scratch.judge("SandboxUsage", "u1", usage()).await;
}

#[tokio::test]
async fn labels_and_annotations_change_freely() {
    let scratch = Scratch::new().await;
    scratch.create("Run", "r1", &json!({"session": {"drive": "d"}, "bash": {"command": "true"}})).await;
    let patch = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}});
    assert!(scratch.patch("Run", "r1", "", &patch).await.is_accepted());
}

#[tokio::test]
async fn a_spec_cannot_be_taken_away() {
    let scratch = Scratch::new().await;
    scratch.create("Run", "r1", &json!({"session": {"drive": "d"}, "bash": {"command": "true"}})).await;
    let answer = scratch.patch("Run", "r1", "&dryRun=All", &json!({"spec": null})).await;
    assert_eq!(answer.code, 422);
    assert!(answer.message().contains("spec: Required value"), "{}", answer.message());
}
