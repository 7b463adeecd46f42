//! TCP through a WebSocket, to real servers inside a guest.

use futures::SinkExt as _;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::support::{Exec, Frame, Lab, Wire, bytes};

/// Starts a server in the guest that says its port, and serves each connection with `handler`.
async fn server(lab: &Lab, handler: &str) -> (Exec, u16) {
    let script = format!(
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\nprint(s.getsockname()[1], flush=True)\n\
         while True:\n c, _ = s.accept()\n {handler}\n c.close()\n"
    );
    let mut exec = lab.client.start("one", &["python3", "-c", &script], &[]).await;
    exec.id().await;
    exec.until("\n").await;
    let port = exec.seen_out().trim().parse().unwrap();
    (exec, port)
}

async fn open(lab: &Lab, target: &serde_json::Value) -> Wire {
    let mut wire = lab.client.wire("one/proxy", &[]).await.unwrap();
    wire.text(&target.to_string()).await;
    wire
}

#[tokio::test]
async fn bytes_go_both_ways_unchanged() {
    let lab = Lab::with("one").await;
    let (_server, port) = server(&lab, "while d := c.recv(65536): c.sendall(d)").await;
    let mut wire = open(&lab, &json!({ "host": "localhost", "port": port })).await;
    assert_eq!(wire.json().await, json!({ "status": "connected", "target": format!("127.0.0.1:{port}") }));
    let data: Vec<u8> = (0..1_000_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    let mut back = Vec::new();
    for chunk in data.chunks(50_000) {
        let expected = back.len() + chunk.len();
        wire.send(chunk).await;
        while back.len() < expected {
            let Frame::Binary(data) = wire.next().await else { panic!("ended after {}", back.len()) };
            back.extend(data);
        }
    }
    assert!(back == data);
    wire.socket.close(None).await.unwrap();
    assert!(matches!(wire.rest().await[..], [Frame::Close(_), ..] | [Frame::Broken]));
    lab.server.stop().await;
}

#[tokio::test]
async fn the_end_of_the_connection_is_a_normal_close_after_all_data() {
    let lab = Lab::with("one").await;
    let (_server, port) = server(&lab, "c.sendall(b'x' * 2000000)").await;
    let mut wire = open(&lab, &json!({ "host": "127.0.0.1", "port": port })).await;
    assert_eq!(wire.json().await["status"], "connected");
    let frames = wire.rest().await;
    assert_eq!((bytes(&frames).len(), frames.last()), (2_000_000, Some(&Frame::Close(Some(1000)))));
    lab.server.stop().await;
}

#[tokio::test]
async fn the_guests_server_sees_the_client_leave() {
    let lab = Lab::with("one").await;
    let (mut exec, port) = server(&lab, "print(c.recv(5), c.recv(1), flush=True)").await;
    let mut wire = open(&lab, &json!({ "port": port })).await;
    assert_eq!(wire.json().await["status"], "connected");
    wire.send(b"hello").await;
    drop(wire);
    exec.until("b'hello' b''").await;
    lab.server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_reached() {
    let lab = Lab::with("one").await;
    for (target, why) in [
        (json!({ "host": "localhost", "port": 1 }), "connection refused"),
        (json!({ "host": "no-such-host.example.com", "port": 80 }), ""),
        (json!({ "host": "", "port": 80 }), "invalid host"),
        (json!({ "host": "localhost", "port": 0 }), "invalid port"),
        (json!({ "host": "localhost" }), "invalid target"),
        (json!([]), "invalid target"),
    ] {
        let mut wire = open(&lab, &target).await;
        let answer = wire.json().await;
        assert_eq!(answer["status"], "error", "{target}");
        assert!(answer["error"].as_str().unwrap().contains(why), "{target}: {answer}");
        assert!(matches!(wire.rest().await[..], [Frame::Close(Some(_))]), "{target}");
    }
    let mut wire = lab.client.wire("one/proxy", &[]).await.unwrap();
    wire.send(b"bytes first").await;
    assert_eq!(wire.json().await["status"], "error");
    assert_eq!(lab.client.refused("two/proxy").await.0, 404);
    lab.server.stop().await;
}

#[tokio::test]
async fn the_hosts_own_servers_are_not_the_guests() {
    let lab = Lab::with("one").await;
    let mut wire = open(&lab, &json!({ "host": "127.0.0.1", "port": lab.server.address().port() })).await;
    assert_eq!(wire.json().await["status"], "error");
    lab.server.stop().await;
}

/// Talks through a proxied connection to its end.
async fn upper(mut wire: Wire) {
    assert_eq!(wire.json().await["status"], "connected");
    wire.socket.send(Message::binary(b"hello".to_vec())).await.unwrap();
    assert_eq!(wire.rest().await, [Frame::Binary(b"HELLO".to_vec()), Frame::Close(Some(1000))]);
}

#[tokio::test]
async fn it_starts_from_a_control_socket_too() {
    let lab = Lab::with("one").await;
    let (_server, port) = server(&lab, "c.sendall(c.recv(5).upper())").await;
    let mut by_message = lab.client.wire("one/control", &[("User-Agent", "sprites-go-sdk/1.0")]).await.unwrap();
    let params = json!({ "host": "localhost", "port": port, "keep_alive": true });
    by_message.text(&json!({ "type": "start", "operation": "proxy", "params": params }).to_string()).await;
    upper(by_message).await;
    // After the first: the server in the guest takes one at a time.
    upper(lab.client.wire(&format!("one/control?op=proxy&port={port}"), &[]).await.unwrap()).await;
    lab.server.stop().await;
}
