//! The specs of a `SandboxSession` and a `SandboxUsage`.

use serde_json::{Value, json};

use super::{Accepted, Case, Refused, judge, object, try_create, with};
use test_support::cluster;

pub fn sessions() -> Vec<Case> {
    const BYTES: &str = "at most 253 bytes of UTF-8: write a shorter name";
    let session = |change: &Value| with(json!({"drive": "research", "conversation": "c"}), change);
    vec![
        ("a session", session(&json!({})), Accepted),
        (
            "everything said",
            session(&json!({"policyRef": {"name": "minimal"}, "suspend": true, "access": "Owner"})),
            Accepted,
        ),
        ("no drive", json!({"conversation": "c"}), Refused("spec.drive: Required value")),
        ("no conversation", json!({"drive": "d"}), Refused("spec.conversation: Required value")),
        (
            "an empty drive",
            session(&json!({"drive": ""})),
            Refused("spec.drive in body should be at least 1 chars long"),
        ),
        (
            "an empty conversation",
            session(&json!({"conversation": ""})),
            Refused("spec.conversation in body should be at least 1 chars long"),
        ),
        (
            "NUL in a drive",
            session(&json!({"drive": "a\0b"})),
            Refused("spec.drive in body should match '^[^\\x00]+$'"),
        ),
        (
            "NUL in a conversation",
            session(&json!({"conversation": "a\0b"})),
            Refused("spec.conversation in body should match '^[^\\x00]+$'"),
        ),
        ("a drive of 253 bytes", session(&json!({"drive": "d".repeat(253)})), Accepted),
        ("a longer drive", session(&json!({"drive": "d".repeat(254)})), Refused("spec.drive: Too long")),
        ("a conversation with too many bytes", session(&json!({"conversation": "é".repeat(127)})), Refused(BYTES)),
        ("a conversation that just fits", session(&json!({"conversation": "é".repeat(126)})), Accepted),
        (
            "a policy that is none",
            session(&json!({"policyRef": {"name": "No"}})),
            Refused("spec.policyRef.name in body should match"),
        ),
        ("a policy without a name", session(&json!({"policyRef": {}})), Refused("spec.policyRef.name: Required value")),
        (
            "no such access",
            session(&json!({"access": "Everybody"})),
            Refused("spec.access: Unsupported value: \"Everybody\": supported values: \"Owner\", \"Drive\""),
        ),
    ]
}

pub fn usages() -> Vec<Case> {
    vec![
        ("a user", json!({"user": "system:serviceaccount:team:agent"}), Accepted),
        ("no user", json!({}), Refused("spec.user: Required value")),
        ("an empty user", json!({"user": ""}), Refused("spec.user in body should be at least 1 chars long")),
        ("a user of 1024", json!({"user": "u".repeat(1024)}), Accepted),
        ("a longer user", json!({"user": "u".repeat(1025)}), Refused("spec.user: Too long")),
    ]
}

#[tokio::test]
async fn a_session_has_a_drive_and_a_conversation() {
    judge("SandboxSession", sessions()).await;
}

#[tokio::test]
async fn a_usage_has_a_user() {
    judge("SandboxUsage", usages()).await;
}

#[tokio::test]
async fn what_is_absent_is_filled_in() {
    let client = cluster::admin(cluster::kubeconfig()).await;
    let spec = json!({"drive": "d", "conversation": "c", "policyRef": null});
    let answer = try_create(&client, "SandboxSession", "", &object("SandboxSession", "case", &spec)).await;
    let filled = json!({"drive": "d", "conversation": "c", "suspend": false, "access": "Drive"});
    assert_eq!(answer.body["spec"], filled, "{}", answer.message());
    assert_eq!(answer.body["status"], json!({"observedGeneration": -1}));
    let answer = try_create(&client, "SandboxUsage", "", &object("SandboxUsage", "case", &json!({"user": "u"}))).await;
    assert_eq!(answer.body["spec"], json!({"user": "u"}), "{}", answer.message());
    assert_eq!(answer.body["status"], json!({"observedGeneration": -1}));
}
