//! How commands end: an exit code comes from an exit frame or not at all, and silence is no death.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::json;

use super::super::super::{Config, ExecEvent, LostReason, Output};
use super::{Site, rest, run, script};

fn hasty(config: &mut Config) {
    config.ping_interval = Duration::from_millis(200);
    config.dead_after = Duration::from_secs(1);
}

#[tokio::test]
async fn without_an_exit_frame_a_normal_close_is_lost_and_no_exit() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "exec", "match": "mark-7", "effect": "exit-frame-lost" }])).await;
    let output = run(&site.client, &on, "echo mark-7; echo bad >&2").await;
    assert_eq!(
        (output.exit, output.stdout.as_slice(), output.stderr.as_slice()),
        (None, &b"mark-7\n"[..], &b"bad\n"[..])
    );
    assert!(matches!(output.lost, Some(LostReason::Closed { code: Some(1000), .. })), "{output:?}");
    assert_eq!(site.starts("mark-7").await, 1);
    site.end().await;
}

#[tokio::test]
async fn a_connection_dropped_in_the_middle_is_lost_with_what_came() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "exec", "match": "mark-7", "effect": "early-close" }])).await;
    let output = run(&site.client, &on, "echo mark-7; sleep 0.2; echo more").await;
    assert_eq!((output.exit, output.stdout.as_slice()), (None, &b"mark-7\n"[..]));
    assert!(matches!(output.lost, Some(LostReason::Reset { .. })), "{output:?}");
    assert_eq!(site.starts("mark-7").await, 1);
    site.end().await;
}

#[tokio::test]
async fn an_exit_without_the_output_before_it_is_an_exit_and_nothing_is_invented() {
    let site = Site::new();
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "exec", "match": "mark-7", "effect": "output-lost" }])).await;
    let output = run(&site.client, &on, "echo mark-7; echo bad >&2").await;
    assert_eq!(output, Output { exit: Some(0), ..Output::default() });
    site.end().await;
}

#[tokio::test]
async fn a_peer_that_falls_silent_is_dead_in_time_and_a_silent_command_is_not() {
    let site = Site::set(&[], hasty);
    let on = site.awake("one").await;
    site.faults(json!([{ "route": "exec", "match": "mark-7", "effect": "half-open" }])).await;
    let silent = run(&site.client, &on, "sleep 3; exit 5");
    let dead = async {
        let mut exec = site.client.exec(&on, &script("echo mark-7; exec sleep 9473")).await.unwrap();
        while exec.next().await != ExecEvent::Stdout(Bytes::from_static(b"mark-7\n")) {}
        let began = Instant::now();
        let end = rest(&mut exec).await;
        (end, began.elapsed())
    };
    let (silent, ((output, end), after)) = tokio::join!(silent, dead);
    assert_eq!(silent.exit, Some(5), "{silent:?}");
    assert!(matches!(end, ExecEvent::Lost(LostReason::DeadPeer { .. })), "{end:?}");
    assert_eq!(output, "");
    // Counted from the last sign of life, which may be a pong just after the output.
    assert!((Duration::from_millis(900)..Duration::from_millis(1500)).contains(&after), "{after:?}");
    site.end().await;
}

#[tokio::test]
async fn children_that_hold_the_streams_do_not_delay_the_end() {
    let site = Site::new();
    let on = site.awake("one").await;
    let began = Instant::now();
    let output = run(&site.client, &on, "sleep 9474 & echo done; exit 3").await;
    assert_eq!((output.exit, output.stdout.as_slice()), (Some(3), &b"done\n"[..]));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    site.end().await;
}
