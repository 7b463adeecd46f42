//! What nobody waits for any more: commands are ended, or left running where that was asked for.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::super::{Error, ExecError, ExecEvent, ExecRequest, OnDrop};
use super::{Site, rest, script, session};
use test_support::waiting::eventually;

/// Soon enough for a command that nobody waits for.
const SOON: Duration = Duration::from_millis(2500);

/// Waits until the command has ended, by a kill and not by itself.
async fn ends(site: &Site, mark: &str) {
    let began = Instant::now();
    eventually("the kill", async || !site.events("kill").await.is_empty()).await;
    let kills = site.events("kill").await;
    eventually("the end", async || {
        let ends = site.events("exec-end").await;
        kills.iter().all(|kill| ends.iter().any(|end| end["session"] == kill["session"]))
    })
    .await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(kills.iter().all(|line| line["command"].to_string().contains(mark)), "{kills:?}");
}

#[tokio::test]
async fn a_run_dropped_in_the_middle_ends_its_command() {
    let site = Site::new();
    let on = site.awake("one").await;
    let (client, proof) = (site.client.clone(), on.clone());
    let running = tokio::spawn(async move {
        let request = script("exec sleep 9491");
        client.run(&proof, &request, Bytes::new(), 100, Duration::from_mins(1)).await
    });
    eventually("it runs", async || !site.client.exec_sessions(&on).await.unwrap().is_empty()).await;
    running.abort();
    ends(&site, "9491").await;
    site.end().await;
}

#[tokio::test]
async fn a_run_whose_time_is_over_is_unknown_and_ends_its_command() {
    let site = Site::new();
    let on = site.awake("one").await;
    let limit = Duration::from_millis(500);
    let error = site.client.run(&on, &script("exec sleep 9492"), Bytes::new(), 100, limit).await.unwrap_err();
    assert!(matches!(error, ExecError::Unknown(Error::Timeout { sent: true, .. })), "{error:?}");
    ends(&site, "9492").await;
    site.end().await;
}

#[rstest]
#[case::quiet("exec sleep 9493")]
#[case::flooding("while :; do echo 9493; done")]
#[tokio::test]
async fn a_dropped_exec_ends_its_command(#[case] text: &str) {
    let site = Site::new();
    let on = site.awake("one").await;
    let mut exec = site.client.exec(&on, &script(text)).await.unwrap();
    session(&mut exec).await;
    drop(exec);
    ends(&site, "9493").await;
    site.end().await;
}

#[rstest]
#[case::limited(json!({ "route": "exec.list", "effect": "rate-limit", "retry_after": 1, "count": 1 }))]
#[case::gateway(json!({ "route": "exec.list", "effect": "error-before", "status": 502, "count": 1 }))]
#[case::limited_kill(json!({ "route": "exec.kill", "effect": "rate-limit", "retry_after": 1, "count": 1 }))]
#[tokio::test]
async fn a_dropped_exec_ends_its_command_though_the_service_refuses_at_first(#[case] fault: Value) {
    let site = Site::new();
    let on = site.awake("one").await;
    // Whose haste is that of the start, not of its end.
    let client = site.client.without_retries().within(Duration::from_millis(900));
    let mut exec = client.exec(&on, &script("exec sleep 9494")).await.unwrap();
    session(&mut exec).await;
    site.faults(json!([fault])).await;
    drop(exec);
    ends(&site, "9494").await;
    site.end().await;
}

#[tokio::test]
async fn an_exec_dropped_during_its_handshake_ends_what_that_started() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "exec", "match": "9495", "effect": "delay", "delay": "1s" }])).await;
    let client = site.client.clone();
    let opening = tokio::spawn(async move { client.exec(&on, &script("exec sleep 9495")).await.map(drop) });
    eventually("the handshake", async || site.hits().await == [1]).await;
    opening.abort();
    eventually("the start", async || site.starts("9495").await == 1).await;
    ends(&site, "9495").await;
    site.end().await;
}

#[rstest]
#[case::asked_for(OnDrop::Leave, false)]
#[case::decided_later(OnDrop::Kill, true)]
#[tokio::test]
async fn a_command_that_is_left_runs_on_and_another_client_hears_its_end(#[case] on_drop: OnDrop, #[case] leave: bool) {
    let site = Site::new();
    let on = site.awake("one").await;
    let text = "echo first; until [ -e /tmp/go ]; do sleep 0.05; done; echo last; exit 7 # 9496";
    let mut exec = site.client.exec(&on, &ExecRequest { on_drop, ..script(text) }).await.unwrap();
    let id = session(&mut exec).await;
    assert_eq!(exec.next().await, ExecEvent::Stdout(Bytes::from_static(b"first\n")));
    if leave {
        exec.leave();
    } else {
        drop(exec);
    }
    // Long enough for a kill to have come.
    tokio::time::sleep(Duration::from_millis(500)).await;

    let client = site.another(|_| {});
    let on = client.get("one").await.unwrap().awake().unwrap();
    let mut attached = client.attach(&on, &id).await.unwrap();
    assert_eq!(session(&mut attached).await, id);
    super::run(&client, &on, "touch /tmp/go").await;
    assert_eq!(rest(&mut attached).await, ("first\nlast\n".to_owned(), ExecEvent::Exit(7)));
    assert_eq!(site.events("kill").await.len(), 0);

    // What has ended is not there to attach to.
    let error = client.attach(&on, &id).await.unwrap_err();
    assert!(matches!(error, ExecError::Refused(Error::Absent { .. })), "{error:?}");
    site.end().await;
}

#[tokio::test]
async fn an_attached_exec_leaves_its_command_running_when_dropped() {
    let site = Site::new();
    let on = site.awake("one").await;
    let mut exec = site.client.exec(&on, &script("exec sleep 9497")).await.unwrap();
    let id = session(&mut exec).await;
    let mut attached = site.client.attach(&on, &id).await.unwrap();
    session(&mut attached).await;
    drop(attached);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(site.client.exec_sessions(&on).await.unwrap().len(), 1);
    assert_eq!(site.events("kill").await.len(), 0);
    drop(exec);
    ends(&site, "9497").await;
    site.end().await;
}
