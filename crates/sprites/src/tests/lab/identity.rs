//! A name that stands for another instance: seen before a call, and after rules were set.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::super::super::{Awake, Client, Error, Sprite, Target, UpdateSprite};
use super::{Site, command, deny_all};

async fn refused(client: &Client, on: &Awake, index: usize) -> Result<(), Error> {
    let short = Duration::from_secs(1);
    match index {
        0 => client.set_network_policy(on, &deny_all()).await,
        1 => client.exec(on, &command(&["echo", "mark-7"])).await.map(drop).map_err(|error| {
            assert!(!error.may_have_started());
            error.into_error()
        }),
        2 => client.attach(on, "1").await.map(drop).map_err(super::super::super::ExecError::into_error),
        3 => client.kill(on, "1", "SIGTERM", short).await.map(drop),
        4 => client.kill_marked(on, &["mark-7"], "SIGTERM", short).await.map(drop),
        5 => client.write_file(on, "/tmp/x", None, Bytes::new()).await,
        6 => client.delete_file(on, "/tmp/x").await,
        7 => client.restart(on).await,
        8 => client.delete_service(on, "web").await,
        9 => client.create_checkpoint(on, "").await,
        10 => client.restore_checkpoint(on, "v0").await,
        11 => client.delete(Target::from(on)).await,
        _ => client.update(Target::from(on), &UpdateSprite::default()).await.map(drop),
    }
}

#[tokio::test]
async fn a_checked_call_finds_another_instance_before_anything_is_sent() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "get", "effect": "instance-replaced", "count": 1 }])).await;
    let other = site.client.get("one").await.unwrap();
    assert_ne!(other.id, on.id());
    let made: Vec<_> = site.daemon.log().await;
    let checked = on.checked();
    for index in 0..13 {
        let error = refused(&site.client, &checked, index).await.unwrap_err();
        let Error::Replaced { instance, sent: false } = &error else { panic!("{index}: {error:?}") };
        assert_eq!(instance.as_str(), other.id);
        assert!(!error.may_have_happened());
    }
    assert_eq!(site.daemon.log().await.len(), made.len(), "nothing happened to the other one");
    assert_eq!(site.client.get("one").await.unwrap().id, other.id);
    // Who does not ask for it is not asked.
    assert!(site.client.set_network_policy(&on, &deny_all()).await.is_ok());
    site.end().await;
}

#[tokio::test]
async fn rules_that_reached_another_instance_are_said_to() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "policy.set", "effect": "instance-replaced", "count": 1 }])).await;
    let error = site.client.set_network_policy(&on.checked(), &deny_all()).await.unwrap_err();
    assert!(matches!(error, Error::Replaced { sent: true, .. }) && error.may_have_happened(), "{error:?}");
    assert_eq!(site.events("policy-set").await.len(), 1);

    // Before the rules are set it is seen, and they are not sent.
    let on = site.client.wake("one").await.unwrap();
    site.faults(json!([{ "route": "get", "effect": "instance-replaced", "count": 1 }])).await;
    let error = site.client.set_network_policy(&on.checked(), &deny_all()).await.unwrap_err();
    assert!(matches!(error, Error::Replaced { sent: false, .. }), "{error:?}");
    assert_eq!(site.events("policy-set").await.len(), 1);
    site.end().await;
}

#[tokio::test]
async fn rules_whose_second_look_fails_are_not_called_set() {
    let site = Site::new();
    let on = site.awake("one").await;
    let second = json!([{ "route": "get", "effect": "delay", "delay": "1ms", "count": 1 },
                        { "route": "get", "effect": "error-before", "status": 404 }]);
    site.faults(second).await;
    let error = site.client.set_network_policy(&on.checked(), &deny_all()).await.unwrap_err();
    assert_eq!(site.events("policy-set").await.len(), 1);
    assert!(error.may_have_happened(), "the rules were sent: {error:?}");
    site.end().await;
}

#[tokio::test]
async fn a_change_meant_for_one_instance_leaves_another_alone() {
    let site = Site::new();
    let old: Sprite = site.create("one").await;
    site.client.delete(Target::from(&old)).await.unwrap();
    let new = site.create("one").await;
    let labels = UpdateSprite { labels: Some(vec!["a".to_owned()]), ..UpdateSprite::default() };
    for error in [
        site.client.delete(Target::from(&old)).await.unwrap_err(),
        site.client.update(Target::instance("one", &old.id), &labels).await.map(drop).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::Replaced { sent: false, instance } if instance.as_str() == new.id),
            "{error:?}"
        );
    }
    let now = site.client.get("one").await.unwrap();
    assert_eq!((now.id.as_str(), now.labels.len()), (new.id.as_str(), 0));

    // Replaced in the very moment of the change: the answer tells.
    site.faults(json!([{ "route": "update", "effect": "instance-replaced", "count": 1 }])).await;
    let error = site.client.update(Target::from(&new), &labels).await.unwrap_err();
    assert!(matches!(error, Error::Replaced { sent: true, .. }), "{error:?}");
    site.end().await;
}
