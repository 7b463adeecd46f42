//! A client in a process of its own: its memory under floods, and what it makes of having been stopped.

use std::time::Duration;

use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};

use super::Site;
use super::child::Played;

/// 16 MiB, in KiB.
const GROWTH: u64 = 16 * 1024;
const FLOOD: u64 = 1 << 30;

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_into_a_small_bound_takes_no_memory() {
    let site = Site::new();
    site.create("one").await;
    let mut client = Played::start(&site, "run", &format!("head -c {FLOOD} /dev/zero"));
    let said = tokio::task::block_in_place(|| client.says());
    assert_eq!((&said["exit"], &said["kept"], &said["truncated"]), (&0.into(), &65536.into(), &true.into()), "{said}");
    assert!(said["grew"].as_u64().unwrap() < GROWTH, "{said}");
    assert!(said["seconds"].as_f64().unwrap() < 60.0, "{said}");
    site.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gigabyte_for_a_reader_that_sleeps_takes_no_memory_and_is_no_death() {
    let site = Site::new();
    site.create("one").await;
    let mut client = Played::start(&site, "exec", &format!("head -c {FLOOD} /dev/zero; exit 3"));
    let said = tokio::task::block_in_place(|| client.says());
    assert!(said["asleep"].as_u64().unwrap() < GROWTH && said["grew"].as_u64().unwrap() < GROWTH, "{said}");
    assert_eq!((&said["taken"], &said["end"]), (&FLOOD.into(), &"Exit(3)".into()), "{said}");
    site.end().await;
}

#[rstest]
#[case::while_it_prints("for i in $(seq 50); do echo $i; sleep 0.1; done; exit 7")]
#[case::while_it_is_silent("sleep 5; exit 7")]
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_was_stopped_takes_nobody_for_dead(#[case] script: &str) {
    let site = Site::new();
    site.create("one").await;
    let mut client = Played::start(&site, "stopped", script);
    tokio::task::block_in_place(|| client.says());
    let pid = Pid::from_child(&client.child);
    kill_process(pid, Signal::STOP).unwrap();
    // Three times as long as a peer may be silent.
    tokio::time::sleep(Duration::from_secs(3)).await;
    kill_process(pid, Signal::CONT).unwrap();
    let said = tokio::task::block_in_place(|| client.says());
    assert_eq!(said["end"], "Exit(7)");
    site.end().await;
}
