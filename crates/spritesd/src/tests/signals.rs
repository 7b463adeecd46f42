//! Whom a signal reaches, by which way it ever comes.

use serde_json::json;

use super::support::{Lab, eventually, processes_with};

/// A shell with children in its process group: one behind it, two it waits for.
fn family(mark: &str) -> [String; 3] {
    ["bash".into(), "-c".into(), format!("sleep {mark} & echo up; sleep {mark} | sleep {mark}; true")]
}

/// The way a signal takes to a command.
#[derive(Debug, Clone, Copy)]
enum Way {
    Socket,
    Control,
    KillCall,
}

/// Sends a signal to a family and gives how many of its four are left.
async fn left_after(way: Way, signal: &str, expected: usize) {
    let lab = Lab::with("one").await;
    let mark = format!("88{}{}", way as u8, std::process::id());
    let argv = family(&mark);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let message = json!({ "type": "signal", "signal": signal }).to_string();
    match way {
        Way::Socket | Way::KillCall => {
            let mut exec = lab.client.start("one", &argv, &[]).await;
            let id = exec.id().await;
            exec.until("up").await;
            eventually("all are there", async || processes_with(&mark).len() == 4).await;
            if matches!(way, Way::Socket) {
                exec.text(&message).await;
            } else {
                let path = format!("/one/exec/{id}/kill?signal={signal}&timeout=0s");
                assert_eq!(lab.client.call("POST", &path, "").await.0.as_u16(), 200);
            }
        }
        Way::Control => {
            let mut wire = lab.client.wire("one/control", &[]).await.unwrap();
            let start = json!({ "type": "op.start", "op": "exec", "args": { "cmd": argv } });
            wire.text(&format!("control:{start}")).await;
            wire.until("up").await;
            eventually("all are there", async || processes_with(&mark).len() == 4).await;
            wire.text(&message).await;
        }
    }
    eventually("those that are hit have ended", async || processes_with(&mark).len() == expected).await;
    lab.server.stop().await;
}

#[tokio::test]
async fn what_ends_a_command_ends_its_process_group() {
    for way in [Way::Socket, Way::Control, Way::KillCall] {
        left_after(way, "KILL", 0).await;
        left_after(way, "SIGTERM", 0).await;
        // A shell has what it starts behind it ignore this one.
        left_after(way, "INT", 1).await;
    }
}

#[tokio::test]
async fn a_signal_comes_once() {
    let lab = Lab::with("one").await;
    let script = "trap 'echo got; n=1' TERM; echo up; until [ \"$n\" ]; do sleep 0.01; done; sleep 0.1; exit 7";
    let mut exec = lab.client.start("one", &["bash", "-c", script], &[]).await;
    exec.id().await;
    exec.until("up").await;
    exec.text(r#"{"type":"signal","signal":"TERM"}"#).await;
    let ran = exec.finish().await;
    assert_eq!((ran.out().as_str(), ran.code), ("up\ngot\n", Some(7)));
    lab.server.stop().await;
}

#[tokio::test]
async fn what_only_tells_a_program_something_is_not_for_its_children() {
    let lab = Lab::with("one").await;
    let script = "sleep 600 & trap 'kill $! && echo child; exit 8' USR1; echo up; while :; do sleep 0.01; done";
    let mut exec = lab.client.start("one", &["bash", "-c", script], &[]).await;
    exec.id().await;
    exec.until("up").await;
    exec.text(r#"{"type":"signal","signal":"USR1"}"#).await;
    let ran = exec.finish().await;
    assert_eq!((ran.out().as_str(), ran.code), ("up\nchild\n", Some(8)));
    lab.server.stop().await;
}
