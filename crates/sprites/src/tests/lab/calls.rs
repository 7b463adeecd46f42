//! The calls beside commands: services, restart, checkpoints.

use serde_json::json;

use super::super::super::Error;
use super::{Site, deny_all, run, script, session};

#[tokio::test]
async fn services_are_seen_and_removed() {
    let site = Site::new();
    let on = site.awake("one").await;
    assert_eq!(site.client.services(&on).await.unwrap(), []);
    for name in ["web", "worker"] {
        let body = json!({ "cmd": "sleep", "args": ["9501"] }).to_string();
        let (status, text) = site.daemon.call("PUT", &format!("/one/services/{name}?duration=0"), body).await;
        assert!(status.is_success(), "{status} {text}");
    }
    let services = site.client.services(&on).await.unwrap();
    let mut names: Vec<_> = services.iter().map(|service| service.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["web", "worker"]);
    assert!(services.iter().all(|service| service.status.is_some()), "{services:?}");
    for service in &services {
        site.client.delete_service(&on, &service.name).await.unwrap();
    }
    assert_eq!(site.client.services(&on).await.unwrap(), []);
    site.gone("9501").await;
    assert!(site.client.delete_service(&on, "web").await.unwrap_err().is_absent());
    site.end().await;
}

#[tokio::test]
async fn a_restart_ends_every_process_and_keeps_files_and_rules() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.client.set_network_policy(&on, &deny_all()).await.unwrap();
    run(&site.client, &on, "echo kept > ~/file; setsid sleep 9502 >/dev/null 2>&1 &").await;
    let mut exec = site.client.exec(&on, &script("exec sleep 9502")).await.unwrap();
    session(&mut exec).await;
    site.client.restart(&on.checked()).await.unwrap();
    assert_eq!(site.events("restart").await.len(), 1);
    site.gone("9502").await;
    assert!(matches!(exec.next().await, super::super::super::ExecEvent::Lost(_)));
    let on = site.client.wake("one").await.unwrap();
    assert_eq!(run(&site.client, &on, "cat ~/file").await.stdout, b"kept\n");
    assert_eq!(site.client.network_policy(&on).await.unwrap(), deny_all());
    assert_eq!(site.client.exec_sessions(&on).await.unwrap(), []);
    site.end().await;
}

#[tokio::test]
async fn a_checkpoint_is_made_found_and_gone_back_to() {
    let site = Site::new();
    let on = site.awake("one").await;
    run(&site.client, &on, "echo old > ~/file; sync").await;
    let before = site.client.checkpoints(&on).await.unwrap();
    site.client.create_checkpoint(&on, "by the test").await.unwrap();
    let after = site.client.checkpoints(&on).await.unwrap();
    let made: Vec<_> = after.iter().filter(|one| !before.contains(one) && one.id != "Current").collect();
    let [made] = made[..] else { panic!("{after:?}") };
    assert_eq!(made.comment.as_deref(), Some("by the test"));

    run(&site.client, &on, "echo new > ~/file; sync").await;
    site.client.restore_checkpoint(&on.checked(), &made.id).await.unwrap();
    let on = site.client.wake("one").await.unwrap();
    assert_eq!(run(&site.client, &on, "cat ~/file").await.stdout, b"old\n");

    let error = site.client.restore_checkpoint(&on, "v99").await.unwrap_err();
    assert!(!matches!(error, Error::Protocol { .. }), "{error:?}");
    assert_eq!(site.events("restore").await.len(), 1);
    site.end().await;
}

#[tokio::test]
async fn a_report_that_is_cut_is_no_success() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "checkpoint.create", "effect": "truncated-body" }])).await;
    let error = site.client.create_checkpoint(&on, "").await.unwrap_err();
    assert!(error.may_have_happened(), "{error:?}");
    assert_eq!((site.hits().await, site.events("checkpoint").await.len()), (vec![1], 1));
    site.end().await;
}
