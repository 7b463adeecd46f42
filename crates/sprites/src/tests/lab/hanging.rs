//! Calls that hang for their whole deadline take no room from what must go at once.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinSet;

use super::super::super::{Awake, Killed, Target};
use super::{Site, deny_all, script, session};
use test_support::waiting::eventually;

const HANGING: usize = 300;

/// A Sprite with a marked command, and more reads that get no answer than may be under way.
async fn stuck(effect: &str) -> (Site, Awake, JoinSet<()>) {
    let site = Site::new();
    let on = site.awake("one").await;
    site.create("two").await;
    let mut exec = site.client.exec(&on, &script("exec sleep 9472 # the-mark")).await.unwrap();
    session(&mut exec).await;
    exec.leave();
    site.faults(json!([{ "route": "policy.get", "effect": effect, "delay": "20s" }])).await;
    let mut calls = JoinSet::new();
    for _ in 0..HANGING {
        let (client, on) = (site.client.clone(), on.clone());
        calls.spawn(async move {
            let _ = client.network_policy(&on).await;
        });
    }
    eventually("the reads hang", async || site.client.limiter().counts() == (HANGING - 128, 128)).await;
    (site, on, calls)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_goes_at_once_while_three_hundred_reads_hang() {
    let (site, on, calls) = stuck("delay").await;
    let began = Instant::now();
    let killed = site.client.kill_marked(&on.checked(), &["the-mark"], "SIGTERM", Duration::from_secs(5)).await;
    assert!(matches!(killed, Ok(Killed::Confirmed { sessions: 1 })), "{killed:?}");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    drop(calls);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_goes_at_once_while_three_hundred_connections_are_half_open() {
    let (site, on, calls) = stuck("half-open").await;
    let began = Instant::now();
    let killed = site.client.kill_marked(&on, &["the-mark"], "SIGTERM", Duration::from_secs(5)).await;
    assert!(matches!(killed, Ok(Killed::Confirmed { sessions: 1 })), "{killed:?}");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    drop(calls);
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_one_instance_goes_at_once_though_its_id_is_to_be_read_first() {
    let (site, on, calls) = stuck("delay").await;
    let began = Instant::now();
    let two = site.client.with_priority(super::super::super::Priority::Delete).get("two").await.unwrap();
    site.client.set_network_policy(&on.checked(), &deny_all()).await.unwrap();
    site.client.delete(Target::from(&two)).await.unwrap();
    site.client.restart(&on.checked()).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    drop(calls);
    site.end().await;
}
