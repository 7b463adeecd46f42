//! An account that is told "too many": everyone waits together, nobody gives up early, and kills go first.

use std::time::{Duration, Instant};

use futures::future::join_all;
use serde_json::json;

use super::super::super::{Error, HeldReason, Killed, LimitReason};
use super::{Site, command, rest, script, session};
use test_support::waiting::eventually;

const CALLERS: usize = 100;
/// How long the calls of one wave take to arrive.
const WAVE: Duration = Duration::from_millis(1500);
/// How long before its end a pause is looked at.
const NEARLY: Duration = Duration::from_millis(50);

/// Lets a first wave be refused, looks that nobody is back before the pause is over, and lifts the limit after `limited`.
/// Gives how many were sent until then.
async fn storm(site: &Site, pause: Duration, limited: Duration) -> u64 {
    let began = Instant::now();
    eventually("the first refusal", async || site.hits().await[0] > 0).await;
    // What was let go before the first refusal was heard is on its way.
    tokio::time::sleep(WAVE).await;
    let wave = site.hits().await[0];
    assert!(wave <= CALLERS as u64 && began.elapsed() + NEARLY < pause, "{wave} after {:?}", began.elapsed());
    // The first of them was refused at the earliest when it began.
    tokio::time::sleep(pause.saturating_sub(NEARLY + began.elapsed())).await;
    assert_eq!(site.hits().await, [wave], "someone came back during the pause");
    tokio::time::sleep(limited.saturating_sub(began.elapsed())).await;
    let hits = site.hits().await[0];
    site.faults(json!([])).await;
    hits
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_reads_that_are_refused_wait_together_and_all_succeed() {
    let site = Site::new();
    site.create("one").await;
    site.faults(json!([{ "route": "get", "effect": "rate-limit", "retry_after": 3 }])).await;
    let calls: Vec<_> = (0..CALLERS)
        .map(|_| {
            let client = site.client.clone();
            tokio::spawn(async move { client.get("one").await })
        })
        .collect();
    // One more wave falls into it, smaller than the first.
    let refused = storm(&site, Duration::from_secs(3), Duration::from_millis(4500)).await;
    assert!(refused <= CALLERS as u64 * 2, "{refused} were sent");
    for call in join_all(calls).await {
        assert_eq!(call.unwrap().unwrap().name, "one");
    }
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_commands_that_are_refused_wait_together_and_run_once_each() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "exec", "effect": "rate-limit", "retry_after": 3 }])).await;
    let calls: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (client, on) = (site.client.clone(), on.clone());
            tokio::spawn(async move {
                let mut exec = client.exec(&on, &command(&["echo", "storm"])).await.unwrap();
                rest(&mut exec).await.0
            })
        })
        .collect();
    storm(&site, Duration::from_secs(3), Duration::ZERO).await;
    for call in join_all(calls).await {
        assert_eq!(call.unwrap(), "storm\n");
    }
    assert_eq!(site.starts("storm").await, CALLERS);
    site.end().await;
}

/// A Sprite with a command in it, and an account that was told to wait for half a minute.
async fn paused(operation_timeout: Duration) -> (Site, super::Awake) {
    let site = Site::set(&[], |config| config.operation_timeout = operation_timeout);
    let on = site.awake("one").await;
    let mut exec = site.client.exec(&on, &script("exec sleep 9471 # the-mark")).await.unwrap();
    session(&mut exec).await;
    exec.leave();
    site.faults(json!([{ "route": "get", "effect": "rate-limit", "retry_after": 30, "count": 1 }])).await;
    let error = site.client.without_retries().get("one").await.unwrap_err();
    assert!(matches!(error, Error::RateLimited { reason: LimitReason::CreationRate, .. }), "{error:?}");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(30)));
    site.faults(json!([super::counter()])).await;
    (site, on)
}

#[tokio::test]
async fn a_kill_does_not_wait_for_the_end_of_a_long_pause() {
    let (site, on) = paused(Duration::from_mins(1)).await;
    let began = Instant::now();
    for on in [on.checked(), on] {
        let killed = site.client.kill_marked(&on, &["the-mark"], "SIGTERM", Duration::from_secs(5)).await.unwrap();
        assert!(matches!(killed, Killed::Confirmed { sessions: 1 } | Killed::Nothing), "{killed:?}");
    }
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    assert_eq!(site.events("kill").await.len(), 1);
    site.end().await;
}

#[tokio::test]
async fn a_kill_by_id_does_not_wait_either_though_the_instance_is_to_be_read_first() {
    let (site, on) = paused(Duration::from_secs(20)).await;
    let began = Instant::now();
    let sessions = site.client.with_priority(super::super::super::Priority::Kill).exec_sessions(&on).await.unwrap();
    let report = site.client.kill(&on.checked(), &sessions[0].id, "SIGTERM", Duration::from_secs(5)).await.unwrap();
    assert_eq!(report.outcome, super::super::super::KillOutcome::Completed);
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    site.end().await;
}

#[tokio::test]
async fn a_call_that_ends_before_the_pause_does_is_held_at_once() {
    let (site, on) = paused(Duration::from_secs(5)).await;
    let began = Instant::now();
    let error = site.client.get("one").await.unwrap_err();
    assert!(matches!(error, Error::Held { reason: HeldReason::Paused, .. }), "{error:?}");
    assert!(error.retry_after().is_some_and(|wait| wait > Duration::from_secs(25) && wait <= Duration::from_secs(33)));
    let error = site.client.exec(&on, &command(&["true"])).await.unwrap_err();
    assert!(matches!(error.error(), Error::Held { reason: HeldReason::Paused, .. }), "{error:?}");
    assert!(!error.may_have_started());
    assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
    assert_eq!(site.hits().await, [0], "nothing was sent");
    site.end().await;
}
