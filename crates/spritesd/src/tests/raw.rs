//! What a client gets that checks exactly: statuses, types and frames that one vendor client or another insists on.
//! Also bytes no client should send.

use std::time::Duration;

use futures::SinkExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;

use super::support::{Frame, Lab, PATIENCE, TOKEN};

/// Sends bytes on a connection of its own; gives what comes back until the server closes or stops talking.
async fn talk(lab: &Lab, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(lab.server.address()).await.unwrap();
    // The server may hang up in the middle of what it does not want.
    drop(stream.write_all(bytes).await);
    drop(stream.shutdown().await);
    let mut back = Vec::new();
    drop(timeout(PATIENCE, stream.read_to_end(&mut back)).await.expect("it never hangs up"));
    back
}

fn request(line: &str, more: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: sprites\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n{more}\r\n")
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n";

/// A handshake as Node's client offers it, and what follows on the same connection.
async fn upgraded(lab: &Lab, path: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(lab.server.address()).await.unwrap();
    let head = format!("GET {path} HTTP/1.1\r\nHost: sprites\r\nAuthorization: Bearer {TOKEN}\r\n{UPGRADE}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap());
    }
    (stream, String::from_utf8(answer).unwrap().to_ascii_lowercase())
}

/// A masked frame of a client; the mask is zero, so the bytes are as they are.
fn frame(opcode: u8, data: &[u8]) -> Vec<u8> {
    let length = u8::try_from(data.len()).unwrap();
    assert!(length < 126);
    [&[0x80 | opcode, 0x80 | length, 0, 0, 0, 0], data].concat()
}

#[tokio::test]
async fn statuses_and_shapes_that_are_insisted_on() {
    let lab = Lab::new().await;
    let (status, sprite) =
        lab.client.json("POST", "", r#"{"name":"one","environment":{},"config":{"ram_mb":1}}"#).await;
    assert_eq!((status.as_u16(), &sprite["name"]), (201, &json!("one")));
    let policy = r#"{"rules":[]}"#;
    assert_eq!(
        lab.client.call("POST", "/one/policy/network", policy).await,
        (http::StatusCode::NO_CONTENT, String::new())
    );
    // Asked before attaching, to choose the route.
    let head = lab.client.request("HEAD", "/one/exec", "").await.unwrap();
    assert_eq!((head.status().as_u16(), &head.headers()["sprite-version"]), (200, &"v0.0.1-rc46".parse().unwrap()));
    assert_eq!(head.text().await.unwrap(), "");

    let mut wire = lab.client.wire("one/exec?cmd=cat&path=cat&stdin=true", &[]).await.unwrap();
    let info = wire.json().await;
    let id = info["session_id"].as_str().expect("a string");
    assert!(info["created"].is_i64() && info["is_owner"].is_boolean() && info["cols"].is_u64(), "{info}");
    let (_, list) = lab.client.json("GET", "/one/exec", "").await;
    let session = &list["sessions"][0];
    assert_eq!((&list["count"], &session["id"]), (&json!(1), &json!(id)));
    assert!(session["command"].is_string() && session["created"].is_string() && session["bytes_per_second"].is_u64());
    assert_eq!(lab.client.refused("one/exec?id=99999&cmd=").await, (404, "session not found: 99999".into()));

    // Signals go by the kill call where the socket has not promised them.
    let path = format!("/one/exec/{id}/kill?signal=INT&timeout=0s");
    let (status, events) = lab.client.call("POST", &path, "").await;
    assert_eq!(status.as_u16(), 200);
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.first().unwrap()["type"], "signal");
    assert_eq!(wire.rest().await, [Frame::Binary(vec![3, 130]), Frame::Close(Some(1000))]);
    assert_eq!(lab.client.call("POST", &path, "").await.0.as_u16(), 410);

    // File calls: 200 where others would say 201 or 204.
    for (method, path, body, status) in [
        ("PUT", "write?path=d/f&workingDir=/workspace&mode=0644&mkdirParents=true", "x", 200),
        ("GET", "read?path=d/f&workingDir=/workspace", "", 200),
        ("GET", "list?path=d/f&workingDir=/workspace", "", 200),
        ("GET", "list?path=none&workingDir=/workspace", "", 404),
        ("POST", "chmod", r#"{"path":"d/f","workingDir":"/workspace","mode":"0600"}"#, 200),
        ("POST", "copy", r#"{"source":"d/f","dest":"g","workingDir":"/workspace"}"#, 200),
        ("POST", "rename", r#"{"source":"g","dest":"h","workingDir":"/workspace"}"#, 200),
        ("DELETE", "delete?path=d&workingDir=/workspace&recursive=true&asRoot=false", "", 200),
        ("DELETE", "delete?path=d&workingDir=/workspace&recursive=true&asRoot=false", "", 404),
    ] {
        assert_eq!(
            lab.client.call(method, &format!("/one/fs/{path}"), body).await.0.as_u16(),
            status,
            "{method} {path}"
        );
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn an_end_of_input_nobody_asked_for_does_no_harm() {
    let lab = Lab::with("one").await;
    for _ in 0..50 {
        let mut wire = lab.client.wire("one/exec?cmd=echo&cmd=a&stdin=false", &[]).await.unwrap();
        drop(wire.socket.send(Message::binary(vec![4])).await);
        let frames = wire.rest().await;
        assert_eq!(
            frames[1..],
            [Frame::Binary(b"\x01a\n".to_vec()), Frame::Binary(vec![3, 0]), Frame::Close(Some(1000))]
        );
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn the_socket_closes_at_once_and_nothing_is_compressed() {
    let lab = Lab::with("one").await;
    lab.client.run("one", &["true"]).await;
    for (query, last) in
        [("cmd=echo&cmd=a", &b"\x82\x02\x03\x00"[..]), ("cmd=echo&cmd=a&tty=true", br#"{"exit_code":0,"type":"exit"}"#)]
    {
        let (mut stream, head) = upgraded(&lab, &format!("/v1/sprites/one/exec?{query}")).await;
        assert!(head.starts_with("http/1.1 101") && head.contains("x-sprite-capabilities: signal"), "{head}");
        assert!(!head.contains("sec-websocket-extensions"), "{head}");
        let begun = std::time::Instant::now();
        // The close frame: normal, without being asked.
        let mut seen = Vec::new();
        while !seen.ends_with(b"\x88\x02\x03\xe8") {
            seen.push(timeout(PATIENCE, stream.read_u8()).await.unwrap().unwrap());
        }
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        let before = &seen[..seen.len() - 4];
        assert!(before.ends_with(last), "{:?}", String::from_utf8_lossy(before));
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn broken_frames_end_their_connection_only() {
    let lab = Lab::with("one").await;
    for path in ["exec?cmd=cat&stdin=true", "exec?cmd=cat&tty=true", "control", "proxy", "fs/watch", "ports/watch"] {
        for bytes in [
            // Not masked; of an unknown kind; reserved bits; longer than anything; text that is no text.
            &[0x82, 1, b'x'][..],
            &frame(0xb, b"x"),
            &[0xf2, 0x81, 0, 0, 0, 0, b'x'],
            &[0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
            &[0x82, 0xff, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0],
            &frame(1, &[0xff, 0xfe]),
            &frame(8, &[3]),
            &[&[0x89, 0xfe, 1, 0, 0, 0, 0, 0][..], &[b'x'; 256]].concat(),
        ] {
            let (mut stream, head) = upgraded(&lab, &format!("/v1/sprites/one/{path}")).await;
            assert!(head.starts_with("http/1.1 101"), "{path}: {head}");
            drop(stream.write_all(bytes).await);
            let mut rest = Vec::new();
            drop(timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap_or_else(|_| panic!("{path} {bytes:?}")));
        }
    }
    assert_eq!(lab.client.run("one", &["true"]).await.code, Some(0));
    lab.server.stop().await;
}

#[tokio::test]
async fn malformed_requests_get_an_answer_or_nothing_and_hurt_nobody() {
    let lab = Lab::with("one").await;
    let long = "x".repeat(1 << 20);
    for (bytes, status) in [
        (b"\0\x01\x02\r\n\r\n".to_vec(), "400"),
        (b"GET / HTTP/9.9\r\n\r\n".to_vec(), "400"),
        (
            request("GET /v1/sprites/one/exec?cmd=true", "Connection: Upgrade\r\nUpgrade: websocket\r\n").into_bytes(),
            "400",
        ),
        (request("POST /v1/sprites/one/exec?cmd=cat&stdin=true", "Transfer-Encoding: chunked\r\n").into_bytes(), ""),
        (request(&format!("GET /v1/sprites/one/exec?cmd={long}"), "").into_bytes(), ""),
        (request("DELETE /v1/sprites/one/exec/5", "").into_bytes(), "405"),
        (request("GET /v1/sprites/one/exec/5", "").into_bytes(), "404"),
        (request("GET /v1/sprites/%2e%2e/exec", "").into_bytes(), "404"),
        (request("GET /v1/sprites/one/fs/read?path=%00", "").into_bytes(), "400"),
        (
            b"GET /v1/sprites HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer no\r\nConnection: close\r\n\r\n".to_vec(),
            "401",
        ),
    ] {
        let back = talk(&lab, &bytes).await;
        let head = String::from_utf8_lossy(&back[..back.len().min(40)]).into_owned();
        assert!(head.is_empty() || status.is_empty() || head.contains(&format!(" {status} ")), "{status}: {head}");
        assert!(!status.starts_with('4') || !head.is_empty(), "{status}");
    }
    assert_eq!(lab.client.run("one", &["true"]).await.code, Some(0));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_clients_close_is_answered_on_every_kind_of_socket() {
    use futures::{SinkExt as _, StreamExt as _};
    use tokio_tungstenite::tungstenite::Message;
    let lab = Lab::with("one").await;
    for path in ["control", "ports/watch", "fs/watch", "proxy", "exec?cmd=sleep&cmd=60"] {
        let mut wire = lab.client.wire(&format!("one/{path}"), &[]).await.unwrap();
        wire.socket.send(Message::Close(None)).await.ok();
        let answer = tokio::time::timeout(super::support::PATIENCE, async {
            loop {
                match wire.socket.next().await {
                    Some(Ok(Message::Close(_))) => return true,
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return false,
                }
            }
        });
        assert!(answer.await.unwrap(), "{path}");
    }
    lab.server.stop().await;
}
