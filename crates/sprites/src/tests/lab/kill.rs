//! Ending commands by their mark: only those, and never called ended without the list's word.

use std::time::{Duration, Instant};

use rstest::rstest;
use serde_json::{Value, json};

use super::super::super::{Awake, Killed};
use super::{Site, command, run, session};

const GRACE: Duration = Duration::from_secs(5);

/// Starts commands that go on without a connection.
async fn start(site: &Site, on: &Awake, argv: &[&str]) -> String {
    let mut exec = site.client.exec(on, &command(argv)).await.unwrap();
    let id = session(&mut exec).await;
    exec.leave();
    id
}

async fn left(site: &Site, on: &Awake) -> Vec<String> {
    site.client.exec_sessions(on).await.unwrap().into_iter().map(|session| session.id).collect()
}

#[tokio::test]
async fn only_commands_with_every_word_of_the_mark_are_ended() {
    let site = Site::new();
    let on = site.awake("one").await;
    let sleep = "exec sleep 9481";
    let others = [
        start(&site, &on, &["bash", "-c", sleep, "so-run", "7f3a4"]).await,
        start(&site, &on, &["bash", "-c", sleep, "so-run", "x7f3a"]).await,
        start(&site, &on, &["bash", "-c", sleep, "7f3a"]).await,
        start(&site, &on, &["bash", "-c", sleep, "so-run-7f3a"]).await,
    ];
    for _ in 0..2 {
        start(&site, &on, &["bash", "-c", sleep, "so-run", "7f3a"]).await;
    }
    let mark = ["so-run", "7f3a"];
    assert_eq!(site.client.find_marked(&on, &mark).await.unwrap().len(), 2);
    let killed = site.client.kill_marked(&on, &mark, "SIGTERM", GRACE).await.unwrap();
    assert!(matches!(killed, Killed::Confirmed { sessions: 2 }), "{killed:?}");
    assert_eq!(left(&site, &on).await, others);
    assert_eq!(site.events("kill").await.len(), 2);
    for mark in [&mark[..], &[], &[""]] {
        let killed = site.client.kill_marked(&on, mark, "SIGTERM", GRACE).await.unwrap();
        assert!(matches!(killed, Killed::Nothing), "{killed:?}");
    }
    assert_eq!(left(&site, &on).await, others);
    site.end().await;
}

#[tokio::test]
async fn a_command_that_ignores_the_signal_is_killed_after_its_grace() {
    let site = Site::new();
    let on = site.awake("one").await;
    let stubborn = "trap '' TERM; touch /tmp/ready; while :; do sleep 0.1; done";
    start(&site, &on, &["bash", "-c", stubborn, "the-mark"]).await;
    run(&site.client, &on, "until [ -e /tmp/ready ]; do sleep 0.01; done").await;
    let began = Instant::now();
    let grace = Duration::from_millis(500);
    let killed = site.client.kill_marked(&on, &["the-mark"], "SIGTERM", grace).await.unwrap();
    assert!(matches!(killed, Killed::Confirmed { sessions: 1 }), "{killed:?}");
    assert!((grace..Duration::from_secs(3)).contains(&began.elapsed()), "{:?}", began.elapsed());
    let ends = site.events("exec-end").await;
    assert!(ends.iter().any(|line| line["end"] == "Exited(137)"), "{ends:?}");
    site.end().await;
}

#[rstest]
#[case::the_report_is_lost(json!([{ "route": "exec.kill", "effect": "lost-reply" }]))]
#[case::the_report_is_cut(json!([{ "route": "exec.kill", "effect": "truncated-body" }]))]
#[case::too_many_kills(json!([{ "route": "exec.kill", "effect": "rate-limit", "retry_after": 30, "count": 1 }]))]
#[case::the_list_fails_once(json!([
    { "route": "exec.list", "effect": "delay", "delay": "1ms", "count": 1 },
    { "route": "exec.list", "effect": "error-before", "status": 500, "count": 1 }
]))]
#[tokio::test]
async fn what_the_list_does_not_show_any_more_is_confirmed(#[case] faults: Value) {
    let site = Site::new();
    let on = site.awake("one").await;
    start(&site, &on, &["bash", "-c", "exec sleep 9482", "the-mark"]).await;
    site.faults(faults).await;
    let began = Instant::now();
    let killed = site.client.kill_marked(&on, &["the-mark"], "SIGTERM", GRACE).await.unwrap();
    assert!(matches!(killed, Killed::Confirmed { sessions: 1 }), "{killed:?}");
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(site.events("kill").await.len(), 1);
    site.gone("9482").await;
    site.end().await;
}

#[tokio::test]
async fn a_list_that_cannot_be_read_afterwards_confirms_nothing() {
    let site = Site::new();
    let on = site.awake("one").await;
    start(&site, &on, &["bash", "-c", "exec sleep 9483", "the-mark"]).await;
    let faults = json!([{ "route": "exec.list", "effect": "delay", "delay": "1ms", "count": 1 },
                        { "route": "exec.list", "effect": "error-before", "status": 500 }]);
    site.faults(faults).await;
    let killed = site.client.kill_marked(&on, &["the-mark"], "SIGTERM", GRACE).await.unwrap();
    assert!(matches!(killed, Killed::Unconfirmed { left: None, error: Some(_) }), "{killed:?}");
    site.end().await;
}

#[tokio::test]
async fn a_command_that_stays_is_said_to_and_one_that_cannot_be_looked_for_is_an_error() {
    let site = Site::new();
    let on = site.awake("one").await;
    start(&site, &on, &["bash", "-c", "exec sleep 9484", "the-mark"]).await;
    site.faults(json!([{ "route": "exec.kill", "effect": "error-before", "status": 502 }])).await;
    let killed = site.client.kill_marked(&on, &["the-mark"], "SIGTERM", GRACE).await.unwrap();
    assert!(matches!(killed, Killed::Unconfirmed { left: Some(1), error: Some(_) }), "{killed:?}");
    assert_eq!(site.hits().await, [1]);

    site.faults(json!([{ "route": "exec.list", "effect": "error-before", "status": 500 }])).await;
    assert!(site.client.kill_marked(&on, &["the-mark"], "SIGTERM", GRACE).await.is_err());
    assert_eq!(site.events("kill").await.len(), 0);
    site.end().await;
}
