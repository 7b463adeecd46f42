//! Clients that hang up in the middle of a call: what was begun is done whole or not at all.

use std::time::Duration;

use http::StatusCode;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::support::{Lab, TOKEN, eventually, processes_with};

/// Sends a whole request and hangs up `after` that.
async fn hang_up(lab: &Lab, method: &str, path: &str, body: &str, after: Duration) {
    let mut stream = TcpStream::connect(lab.server.address()).await.unwrap();
    let head = format!("{method} /v1/sprites{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n");
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.unwrap();
    // How far the server gets is chance: that is the test.
    tokio::time::sleep(after).await;
}

#[tokio::test]
async fn a_wake_that_nobody_waits_for_leaves_one_sandbox_and_none_after_the_delete() {
    let lab = Lab::new().await;
    for n in 0..8u64 {
        let name = format!("hang-{n}");
        lab.client.create(&name).await;
        hang_up(&lab, "POST", &format!("/{name}/exec?cmd=true"), "", Duration::from_millis(8 * n)).await;
        assert_eq!(lab.client.sh(&name, "echo fine").await, "fine\n");
        // bubblewrap names the Sprite in its arguments: two processes of one sandbox.
        assert!(processes_with(&format!("--hostname\0{name}\0")).len() <= 2, "two sandboxes of one Sprite");
        assert_eq!(lab.client.call("DELETE", &format!("/{name}"), "").await.0, StatusCode::NO_CONTENT);
        assert_eq!(processes_with(&format!("--hostname\0{name}\0")).len(), 0);
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn the_last_policy_that_was_acknowledged_is_the_one_on_disk() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "true").await;
    let allow = r#"{"domain":"*.example.com","action":"allow"},"#.repeat(600);
    let open = format!(r#"{{"rules":[{allow}{{"domain":"*","action":"allow"}}]}}"#);
    for n in 0..20 {
        hang_up(&lab, "POST", "/one/policy/network", &open, Duration::from_millis(n % 5)).await;
        let deny = format!(
            r#"{{"rules":[{{"domain":"x{n}.example.com","action":"deny"}},{{"domain":"*","action":"deny"}}]}}"#
        );
        let (status, text) = lab.client.call("POST", "/one/policy/network", deny.clone()).await;
        assert_eq!(status, StatusCode::NO_CONTENT, "{text}");
        let stored = std::fs::read(lab.data.path().join("sprites/one/meta.json")).unwrap();
        let stored: Value = serde_json::from_slice(&stored).unwrap();
        assert_eq!(stored["network"], serde_json::from_str::<Value>(&deny).unwrap());
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn a_creation_that_nobody_waits_for_is_whole_or_did_not_happen() {
    let lab = Lab::new().await;
    for n in 0..12u64 {
        let body = format!(r#"{{"name":"hang-{n}"}}"#);
        hang_up(&lab, "POST", "", &body, Duration::from_millis(4 * n)).await;
        let (status, text) = lab.client.call("POST", "", body).await;
        assert!(status == StatusCode::CREATED || status == StatusCode::CONFLICT, "{status}: {text}");
        assert_eq!(lab.client.call("GET", &format!("/hang-{n}"), "").await.0, StatusCode::OK);
    }
    let users: std::collections::BTreeSet<_> =
        lab.server.app.registry.all().values().map(|one| one.meta().user).collect();
    assert_eq!(users.len(), 12, "a host user each");
    lab.server.stop().await;
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_is_a_session_until_it_ends() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "true").await;
    let mark = format!("77{}", std::process::id());
    for n in 0..12 {
        let path = format!("/one/exec?cmd=sleep&cmd={mark}&max_run_after_disconnect=1s");
        hang_up(&lab, "POST", &path, "", Duration::from_millis(n % 6)).await;
    }
    let count = async || {
        lab.client.sh("one", &format!("pgrep -fxc 'sleep {mark}'; true")).await.trim().parse::<usize>().unwrap()
    };
    eventually("they have ended", async || count().await == 0).await;
    assert_eq!(lab.client.sessions("one").await.len(), 0);
    lab.server.stop().await;
}

#[tokio::test]
async fn a_guest_cannot_use_up_the_servers_descriptors() {
    let lab = Lab::with("one").await;
    lab.client.create("two").await;
    let script = "import socket, time\nall = []\nfor n in range(3000):\n    s = socket.socket(socket.AF_UNIX); s.settimeout(1)\n    try: s.connect('/.sprite/api.sock'); s.send(b'POST /v1/tasks HTTP/1.1\\r\\n')\n    except OSError: break\n    all.append(s)\nprint('up', flush=True)\ntime.sleep(60)";
    let before = std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut flood = lab.client.start("one", &["python3", "-c", script], &[]).await;
    flood.until("up").await;
    let held = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(held < before + 1500, "{before} {held}");
    assert_eq!(lab.client.sh("two", "echo fine").await, "fine\n");
    drop(flood);
    lab.server.stop().await;
}
