//! What only reads is done again; what may have changed something is sent once, whatever comes back.

use std::time::Duration;

use bytes::Bytes;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::super::{Awake, Client, Error, Target, UpdateSprite};
use super::{Site, command, deny_all, named, rest, script, session};

fn outcome<T>(result: Result<T, Error>) -> Result<(), Error> {
    result.map(drop)
}

/// Makes the call that the server knows by this name, with a session that exists.
async fn read(client: &Client, on: &Awake, route: &str, id: &str) -> Result<(), Error> {
    match route {
        "get" => outcome(client.get("one").await),
        "list" => client.list("one").await.map(|found| assert_eq!(found.len(), 1)),
        "policy.get" => outcome(client.network_policy(on).await),
        "exec.list" => client.exec_sessions(on).await.map(|found| assert_eq!(found.len(), 1)),
        "exec.attach" => match client.attach(on, id).await {
            Ok(mut exec) => {
                assert_eq!(session(&mut exec).await, id);
                Ok(())
            }
            Err(error) => Err(error.into_error()),
        },
        "fs.read" => client.read_file(on, "/etc/hostname", 100).await.map(|text| assert!(text.starts_with(b"one"))),
        "fs.list" => outcome(client.list_dir(on, "/etc").await),
        "service.list" => outcome(client.services(on).await),
        "checkpoint.list" => outcome(client.checkpoints(on).await),
        other => panic!("{other}"),
    }
}

#[rstest]
#[case::gateway(json!({ "effect": "error-before", "status": 502, "count": 2 }))]
#[case::overload(json!({ "effect": "error-before", "status": 503, "count": 2 }))]
#[case::dropped(json!({ "effect": "lost-reply", "count": 2 }))]
#[case::limited(json!({ "effect": "rate-limit", "retry_after": 1, "count": 2 }))]
#[case::half_a_body(json!({ "effect": "truncated-body", "count": 2 }))]
#[tokio::test]
async fn reads_are_made_again_and_succeed(#[case] fault: Value) {
    let site = Site::new();
    let on = site.awake("one").await;
    let mut exec = site.client.exec(&on, &script("exec sleep 9475")).await.unwrap();
    let id = session(&mut exec).await;
    let effect = fault["effect"].as_str().unwrap();
    let routes = [
        "get",
        "list",
        "policy.get",
        "exec.list",
        "exec.attach",
        "fs.read",
        "fs.list",
        "service.list",
        "checkpoint.list",
    ];
    for route in routes {
        let useless = match effect {
            // Half a file is as good a file as any; an attach has no body.
            "truncated-body" => ["fs.read", "exec.attach"].contains(&route),
            // Each of them waits: some are enough.
            "rate-limit" => ["fs.list", "service.list", "checkpoint.list", "exec.list"].contains(&route),
            _ => false,
        };
        if useless {
            continue;
        }
        let mut rule = fault.clone();
        rule["route"] = json!(route);
        site.faults(json!([rule])).await;
        let result = read(&site.client, &on, route, &id).await;
        assert!(result.is_ok(), "{route}: {result:?}");
        assert_eq!(site.hits().await, [2], "{route}");
    }
    site.end().await;
}

/// Makes the call that the server knows by this name.
async fn change(client: &Client, on: &Awake, route: &str, id: &str) -> Result<(), Error> {
    match route {
        "create" => outcome(client.create(&named("two")).await),
        "update" => {
            let labels = UpdateSprite { labels: Some(vec!["a".to_owned()]), ..UpdateSprite::default() };
            outcome(client.update(Target::any("one"), &labels).await)
        }
        "delete" => client.delete(Target::any("one")).await,
        "restart" => client.restart(on).await,
        "policy.set" => client.set_network_policy(on, &deny_all()).await,
        "exec" => client
            .exec(on, &command(&["echo", "mark-7"]))
            .await
            .map(drop)
            .map_err(super::super::super::ExecError::into_error),
        "exec.kill" => outcome(client.kill(on, id, "SIGTERM", Duration::from_secs(1)).await),
        "fs.write" => client.write_file(on, "/tmp/x", None, Bytes::from_static(b"x")).await,
        "fs.delete" => client.delete_file(on, "/tmp/x").await,
        "service.delete" => client.delete_service(on, "web").await,
        "checkpoint.create" => client.create_checkpoint(on, "").await,
        "checkpoint.restore" => client.restore_checkpoint(on, "v0").await,
        other => panic!("{other}"),
    }
}

#[rstest]
#[case::gateway("error-before", 502)]
#[case::overload("error-before", 503)]
#[tokio::test]
async fn changes_are_sent_once(#[case] effect: &str, #[case] status: u16) {
    let site = Site::new();
    let on = site.awake("one").await;
    let mut exec = site.client.exec(&on, &script("exec sleep 9476")).await.unwrap();
    let id = session(&mut exec).await;
    let routes = [
        "create",
        "update",
        "delete",
        "restart",
        "policy.set",
        "exec",
        "exec.kill",
        "fs.write",
        "fs.delete",
        "service.delete",
        "checkpoint.create",
        "checkpoint.restore",
    ];
    for route in routes {
        site.faults(json!([{ "route": route, "effect": effect, "status": status }])).await;
        let error = change(&site.client, &on, route, &id).await.unwrap_err();
        assert!(error.may_have_happened(), "{route}: {error:?}");
        assert_eq!(site.hits().await, [1], "{route}");
    }
    assert_eq!(site.starts("mark-7").await, 0);
    site.end().await;
}

#[tokio::test]
async fn a_command_that_was_limited_twice_runs_once() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "exec", "effect": "rate-limit", "retry_after": 1, "count": 2 }])).await;
    let mut exec = site.client.exec(&on, &command(&["echo", "mark-7"])).await.unwrap();
    assert_eq!(rest(&mut exec).await.0, "mark-7\n");
    assert_eq!(site.hits().await, [2]);
    assert_eq!(site.starts("mark-7").await, 1);
    site.end().await;
}

#[tokio::test]
async fn a_command_whose_handshake_was_lost_may_have_run_and_is_not_started_again() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "exec", "match": "mark-7", "effect": "lost-reply" }])).await;
    let error = site.client.exec(&on, &command(&["echo", "mark-7"])).await.unwrap_err();
    assert!(error.may_have_started(), "{error:?}");
    assert_eq!(site.hits().await, [1]);
    assert_eq!(site.starts("mark-7").await, 1);
    site.end().await;
}
