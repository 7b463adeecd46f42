//! Watching files, seen by what happens to real ones.

use serde_json::{Value, json};

use super::support::{Lab, Wire, eventually};

async fn subscribe(lab: &Lab, message: &Value) -> Wire {
    let mut wire = lab.client.wire("one/fs/watch", &[]).await.unwrap();
    wire.text(&message.to_string()).await;
    wire
}

/// Reads events until one of `kind` about `path`; gives it. None of another path among `never` may come before.
async fn until(wire: &mut Wire, kind: &str, path: &str) -> Value {
    loop {
        let event = wire.json().await;
        assert_eq!(event["type"], "event", "{event}");
        assert!(!event["path"].as_str().unwrap().contains(".part"), "{event}");
        if event["event"] == kind && event["path"] == path {
            return event;
        }
    }
}

#[tokio::test]
async fn each_kind_of_event_is_told() {
    let lab = Lab::with("one").await;
    let mut wire = subscribe(&lab, &json!({ "type": "subscribe", "paths": ["."], "workingDir": "/workspace" })).await;
    assert_eq!(wire.json().await, json!({ "type": "subscribed", "paths": ["/workspace"] }));
    lab.client.sh("one", "cd /workspace; echo 12345 > f; chmod 600 f; mv f g; rm g; mkdir d; touch d/unseen; rmdir -p d 2>/dev/null || true").await;
    let created = until(&mut wire, "create", "/workspace/f").await;
    assert!(created["timestamp"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    assert_eq!(created["isDir"], false);
    until(&mut wire, "write", "/workspace/f").await;
    until(&mut wire, "chmod", "/workspace/f").await;
    until(&mut wire, "rename", "/workspace/f").await;
    until(&mut wire, "create", "/workspace/g").await;
    until(&mut wire, "remove", "/workspace/g").await;
    assert_eq!(until(&mut wire, "create", "/workspace/d").await["isDir"], true);
    // Not recursive: what happens below is not told. What is written through the API is, whole, with its size.
    lab.client.call("PUT", "/one/fs/write?path=/workspace/d/also-unseen", "x").await;
    lab.client.call("PUT", "/one/fs/write?path=/workspace/api", "12345").await;
    let event = wire.json().await;
    assert_eq!(
        (&event["path"], &event["event"], &event["size"]),
        (&json!("/workspace/api"), &json!("create"), &json!(5))
    );
    assert_eq!(wire.json().await["event"], "write");
    lab.server.stop().await;
}

#[tokio::test]
async fn a_recursive_watch_covers_what_comes_later() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "mkdir -p /workspace/old/deep /tmp/other").await;
    let mut wire = subscribe(&lab, &json!({ "type": "subscribe", "paths": ["/workspace"], "recursive": true })).await;
    assert_eq!(wire.json().await["type"], "subscribed");
    lab.client.sh("one", "touch /workspace/old/deep/f").await;
    until(&mut wire, "create", "/workspace/old/deep/f").await;
    // Made at once: nothing in it may be missed, and nothing told twice.
    lab.client.sh("one", "cd /workspace; mkdir -p a/b/c; for i in 1 2 3; do touch a/b/c/$i; done; mkdir end").await;
    let mut created = Vec::new();
    while created.last().is_none_or(|path| path != "/workspace/end") {
        let event = wire.json().await;
        if event["event"] == "create" {
            created.push(event["path"].as_str().unwrap().to_owned());
        }
    }
    created.sort();
    let expected =
        ["a", "a/b", "a/b/c", "a/b/c/1", "a/b/c/2", "a/b/c/3", "end"].map(|path| format!("/workspace/{path}"));
    assert_eq!(created, expected);
    // Moved away, it is no longer watched; moved in, it is.
    lab.client.sh("one", "cd /workspace; mv a /workspace/moved; touch moved/b/c/4; rm -r moved; mkdir fin").await;
    until(&mut wire, "create", "/workspace/moved").await;
    until(&mut wire, "create", "/workspace/moved/b/c/4").await;
    until(&mut wire, "remove", "/workspace/moved").await;
    until(&mut wire, "create", "/workspace/fin").await;
    lab.server.stop().await;
}

#[tokio::test]
async fn a_file_can_be_watched_and_errors_leave_the_socket_usable() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "echo a > /workspace/f").await;
    let mut wire = subscribe(&lab, &json!({ "type": "subscribe", "paths": ["/workspace/none"] })).await;
    let error = wire.json().await;
    assert_eq!(
        (&error["type"], &error["message"]),
        (&json!("error"), &json!("/workspace/none: no such file or directory"))
    );
    for nonsense in [
        "",
        "{",
        r#"{"type":"dance"}"#,
        r#"{"type":"subscribe","paths":[]}"#,
        r#"{"type":"subscribe","paths":["a"],"workingDir":"b"}"#,
    ] {
        wire.text(nonsense).await;
        assert_eq!(wire.json().await["type"], "error", "{nonsense}");
    }
    wire.text(r#"{"type":"subscribe","paths":["/workspace/f"]}"#).await;
    assert_eq!(wire.json().await["type"], "subscribed");
    lab.client.sh("one", "echo b >> /workspace/f; rm /workspace/f").await;
    until(&mut wire, "write", "/workspace/f").await;
    until(&mut wire, "remove", "/workspace/f").await;
    assert_eq!(lab.client.refused("two/fs/watch").await.0, 404);
    lab.server.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_leaves_nothing_behind() {
    let lab = Lab::with("one").await;
    let client = &lab.client;
    let threads = async || client.sh("one", "grep Threads /proc/1/status").await;
    let before = threads().await;
    let mut wires = Vec::new();
    for _ in 0..5 {
        let mut wire =
            subscribe(&lab, &json!({ "type": "subscribe", "paths": ["/workspace"], "recursive": true })).await;
        assert_eq!(wire.json().await["type"], "subscribed");
        wires.push(wire);
    }
    assert_ne!(threads().await, before);
    drop(wires);
    eventually("the watches ended", async || threads().await == before).await;
    lab.server.stop().await;
}
