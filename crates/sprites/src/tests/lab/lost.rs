//! Answers that are lost: what was asked for may have been done, is found by reading, and is never asked for again.

use serde_json::json;

use super::super::super::{Error, Target};
use super::{Site, deny_all, named};

#[tokio::test]
async fn a_create_without_an_answer_was_sent_once_and_is_found_by_a_get() {
    let site = Site::new();
    site.faults(json!([{ "route": "create", "effect": "lost-reply" }])).await;
    let error = site.client.create(&named("one")).await.unwrap_err();
    assert!(matches!(error, Error::Unknown { status: None, sent: true, .. }), "{error:?}");
    assert!(error.may_have_happened());
    assert_eq!(site.hits().await, [1]);

    site.faults(json!([])).await;
    let made = site.client.get("one").await.unwrap();
    let again = site.client.create(&named("one")).await.unwrap_err();
    assert!(matches!(again, Error::Busy { .. }) && !again.may_have_happened(), "{again:?}");
    assert_eq!(site.client.get("one").await.unwrap().id, made.id);
    assert_eq!(site.events("create").await.len(), 1);
    site.end().await;
}

#[tokio::test]
async fn a_delete_without_an_answer_was_sent_once_and_is_seen_by_a_get() {
    let site = Site::new();
    let sprite = site.create("one").await;
    site.faults(json!([{ "route": "delete", "effect": "lost-reply" }])).await;
    let error = site.client.delete(Target::from(&sprite)).await.unwrap_err();
    assert!(error.may_have_happened() && !error.is_absent(), "{error:?}");
    assert_eq!(site.hits().await, [1]);
    assert!(site.client.get("one").await.unwrap_err().is_absent());
    assert_eq!(site.events("delete").await.len(), 1);

    site.faults(json!([])).await;
    assert!(site.client.delete(Target::any("one")).await.unwrap_err().is_absent());
    site.end().await;
}

#[tokio::test]
async fn rules_set_without_an_answer_are_unknown_until_they_are_read() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "policy.set", "effect": "lost-reply" }])).await;
    for on in [on.clone(), on.checked()] {
        let error = site.client.set_network_policy(&on, &deny_all()).await.unwrap_err();
        assert!(matches!(error, Error::Unknown { status: None, sent: true, .. }), "{error:?}");
    }
    assert_eq!(site.hits().await, [2]);
    assert_eq!(site.client.network_policy(&on).await.unwrap(), deny_all());
    assert_eq!(site.events("policy-set").await.len(), 2);
    site.end().await;
}
