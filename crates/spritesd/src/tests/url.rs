//! The URL of a Sprite: real HTTP and WebSocket servers inside, raw clients outside.

use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::client_async;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::ClientRequestBuilder;

use super::support::{Lab, PATIENCE, TOKEN, eventually};

/// A server of Python's standard library. Answers with what it got; `/slow` answers in two parts, the second when the
/// file `/tmp/go` is there; `/ws` echoes WebSocket frames as they come.
const SERVER: &str = r#"
import base64, hashlib, json, os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/ws":
            return self.ws()
        if self.path == "/slow":
            return self.slow()
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if "chunked" in self.headers.get("transfer-encoding", ""):
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        seen = {"method": self.command, "path": self.path, "headers": {k.lower(): v for k, v in self.headers.items()},
                "length": len(body), "sum": hashlib.sha256(body).hexdigest()}
        answer = json.dumps(seen).encode()
        self.send_response(200 if self.path != "/missing" else 404)
        self.send_header("content-length", str(len(answer)))
        self.send_header("x-from", "guest")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_POST = do_PUT = do_HEAD = do_DELETE = do_GET

    def slow(self):
        self.send_response(200)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"5\r\nfirst\r\n")
        while not os.path.exists("/tmp/go"):
            time.sleep(0.01)
        self.wfile.write(b"6\r\nsecond\r\n0\r\n\r\n")

    def ws(self):
        key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("upgrade", "websocket")
        self.send_header("connection", "Upgrade")
        self.send_header("sec-websocket-accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while head := self.rfile.read(2):
            length = head[1] & 127
            if length == 126:
                length = int.from_bytes(self.rfile.read(2), "big")
            mask, data = self.rfile.read(4), self.rfile.read(length)
            data = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
            size = bytes([length]) if length < 126 else bytes([126]) + length.to_bytes(2, "big")
            self.wfile.write(bytes([head[0]]) + size + data)
            if head[0] & 15 == 8:
                return

    def log_message(self, *args):
        pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#;

/// Makes the server a service of the Sprite `one`.
async fn serve(lab: &Lab, port: u16, http_port: Option<u16>) {
    let (status, _) = lab.client.call("PUT", "/one/fs/write?path=/home/sprite/server.py", SERVER).await;
    assert_eq!(status, StatusCode::OK);
    let body =
        json!({ "cmd": "python3", "args": ["/home/sprite/server.py", port.to_string()], "http_port": http_port });
    let (status, text) = lab.client.call("PUT", "/one/services/web?duration=0", body.to_string()).await;
    assert!(status == StatusCode::OK && text.contains("started"), "{text}");
}

/// Waits until something listens on a port inside.
async fn listens(lab: &Lab, port: u16) {
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
    eventually("it listens", async || lab.client.run("one", &["bash", "-c", &script]).await.code == Some(0)).await;
}

/// Calls the URL of a Sprite: its name is in the host field, as a browser would send it.
fn call(lab: &Lab, method: &str, name: &str, path: &str) -> reqwest::RequestBuilder {
    let address = lab.server.address();
    let request = lab.client.http.request(method.parse().unwrap(), format!("http://{address}{path}"));
    request.header("Host", format!("{name}.localhost:{}", address.port()))
}

async fn status(lab: &Lab, path: &str) -> StatusCode {
    call(lab, "GET", "one", path).bearer_auth(TOKEN).send().await.unwrap().status()
}

#[tokio::test]
async fn requests_pass_with_everything_but_the_token() {
    let lab = Lab::with("one").await;
    serve(&lab, 9000, Some(9000)).await;
    let data: Vec<u8> = (0..3_000_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    let request = call(&lab, "POST", "one", "/v1/sprites?a=b%20c").bearer_auth(TOKEN).header("X-Mine", "1");
    let response = request.header("Cookie", "a=1").body(data.clone()).send().await.unwrap();
    assert_eq!((response.status(), &response.headers()["x-from"]), (StatusCode::OK, &"guest".parse().unwrap()));
    let seen: serde_json::Value = response.json().await.unwrap();
    assert_eq!(
        (&seen["method"], &seen["path"], &seen["length"]),
        (&json!("POST"), &json!("/v1/sprites?a=b%20c"), &json!(data.len()))
    );
    let headers = &seen["headers"];
    assert_eq!((&headers["x-mine"], &headers["cookie"]), (&json!("1"), &json!("a=1")));
    assert_eq!(headers["host"], format!("one.localhost:{}", lab.server.address().port()));
    assert!(headers.get("authorization").is_none() && !seen.to_string().contains(TOKEN));

    // A body of unknown length, and answers of every kind.
    let chunks = futures::stream::iter((0..20).map(|_| Ok::<_, std::io::Error>(vec![b'x'; 10_000])));
    let chunked = call(&lab, "PUT", "one", "/up").bearer_auth(TOKEN).body(reqwest::Body::wrap_stream(chunks));
    let seen: serde_json::Value = chunked.send().await.unwrap().json().await.unwrap();
    assert_eq!(seen["length"], 200_000);
    assert_eq!(status(&lab, "/missing").await, StatusCode::NOT_FOUND);
    let head = call(&lab, "HEAD", "one", "/").bearer_auth(TOKEN).send().await.unwrap();
    assert!(head.headers()["content-length"].to_str().unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(head.text().await.unwrap(), "");
    lab.server.stop().await;
}

#[tokio::test]
async fn who_may_call_and_what_is_not_there() {
    let lab = Lab::with("one").await;
    for name in ["two", "a.b", "-"] {
        let response = call(&lab, "GET", name, "/").bearer_auth(TOKEN).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{name}");
    }
    for request in [call(&lab, "GET", "one", "/"), call(&lab, "GET", "one", "/").bearer_auth("other")] {
        assert_eq!(request.send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    }
    // Refused callers wake nothing.
    assert_eq!(lab.client.json("GET", "/one", "").await.1["status"], "cold");
    let response = call(&lab, "GET", "one", "/").bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::BAD_GATEWAY);
    assert_eq!(response.text().await.unwrap(), "nothing listens on port 8080 of the sprite");

    // Without a port of its own, 8080.
    serve(&lab, 8080, None).await;
    listens(&lab, 8080).await;
    assert_eq!(status(&lab, "/").await, StatusCode::OK);
    let (code, _) = lab.client.call("PUT", "/one", r#"{"url_settings":{"auth":"public"}}"#).await;
    assert_eq!(code, StatusCode::OK);
    let open = call(&lab, "GET", "one", "/").bearer_auth("of the application").send().await.unwrap();
    let seen: serde_json::Value = open.json().await.unwrap();
    assert_eq!(seen["headers"]["authorization"], "Bearer of the application");
    let ours = call(&lab, "GET", "one", "/").bearer_auth(TOKEN).send().await.unwrap();
    assert!(!ours.text().await.unwrap().contains(TOKEN));
    assert_eq!(call(&lab, "GET", "one", "/").send().await.unwrap().status(), StatusCode::OK);

    // The API is where it was.
    let api = lab.client.http.get(&lab.client.base).send().await.unwrap();
    assert_eq!(api.status(), StatusCode::UNAUTHORIZED);
    lab.server.stop().await;
}

#[tokio::test]
async fn the_url_of_the_object_is_the_one_that_works() {
    let lab = Lab::with("one").await;
    serve(&lab, 9000, Some(9000)).await;
    let (_, sprite) = lab.client.json("GET", "/one", "").await;
    let url: url::Url = sprite["url"].as_str().unwrap().parse().unwrap();
    assert_eq!((url.host_str(), url.port()), (Some("one.localhost"), Some(lab.server.address().port())));
    // As a program whose resolver knows names below localhost does.
    let http = reqwest::Client::builder().no_proxy().resolve("one.localhost", lab.server.address()).build().unwrap();
    let response = timeout(PATIENCE, http.get(url).bearer_auth(TOKEN).send()).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    lab.server.stop().await;
}

#[tokio::test]
async fn an_answer_comes_as_it_is_made_and_keeps_awake() {
    let lab = Lab::set(&["--idle-after", "300ms", "--cold-after", "1h"]).await;
    lab.client.create("one").await;
    serve(&lab, 9000, Some(9000)).await;
    let response = call(&lab, "GET", "one", "/slow").bearer_auth(TOKEN).send().await.unwrap();
    let mut body = response.bytes_stream();
    let first = timeout(PATIENCE, body.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(&first[..], b"first");
    // Nothing to wait for but time.
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(lab.client.json("GET", "/one", "").await.1["status"], "running");
    lab.client.sh("one", "touch /tmp/go").await;
    let second = timeout(PATIENCE, body.next()).await.unwrap().unwrap().unwrap();
    assert_eq!(&second[..], b"second");
    assert!(timeout(PATIENCE, body.next()).await.unwrap().is_none());
    let warm = async || lab.client.json("GET", "/one", "").await.1["status"] == "warm";
    eventually("warm", warm).await;
    // It wakes, from warm and from nothing.
    assert_eq!(status(&lab, "/").await, StatusCode::OK);
    lab.server.stop().await;
}

#[tokio::test]
async fn a_request_starts_what_is_not_running_unless_it_was_stopped_by_hand() {
    let lab = Lab::set(&["--idle-after", "200ms", "--cold-after", "100ms"]).await;
    lab.client.create("one").await;
    serve(&lab, 9000, Some(9000)).await;
    eventually("cold", async || lab.client.json("GET", "/one", "").await.1["status"] == "cold").await;
    assert_eq!(status(&lab, "/").await, StatusCode::OK);
    // Crashed, waiting for its restart: started at once. A row of crashes makes the pause long.
    let crash = r#"{"name":"web","signal":"KILL"}"#;
    for _ in 0..4 {
        assert_eq!(lab.client.call("POST", "/one/services/signal", crash).await.0, StatusCode::NO_CONTENT);
        let failed = async || lab.client.json("GET", "/one/services/web", "").await.1["state"]["status"] == "failed";
        eventually("failed", failed).await;
        let begun = std::time::Instant::now();
        assert_eq!(status(&lab, "/").await, StatusCode::OK);
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    }
    lab.client.call("POST", "/one/services/web/stop", "").await;
    assert_eq!(status(&lab, "/").await, StatusCode::BAD_GATEWAY);
    lab.server.stop().await;
}

#[tokio::test]
async fn web_sockets_pass_and_keep_awake() {
    let lab = Lab::set(&["--idle-after", "300ms", "--cold-after", "1h"]).await;
    lab.client.create("one").await;
    serve(&lab, 9000, Some(9000)).await;
    let address = lab.server.address();
    let url = format!("ws://one.localhost:{}/ws", address.port()).parse().unwrap();
    let request = ClientRequestBuilder::new(url).with_header("Authorization", format!("Bearer {TOKEN}"));
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut socket, response) = timeout(PATIENCE, client_async(request, stream)).await.unwrap().unwrap();
    assert_eq!(response.status(), StatusCode::SWITCHING_PROTOCOLS);
    let big = "x".repeat(60_000);
    for text in ["hello", &big, "again"] {
        socket.send(Message::text(text)).await.unwrap();
        let back = timeout(PATIENCE, socket.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(back, Message::text(text));
    }
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(lab.client.json("GET", "/one", "").await.1["status"], "running");
    socket.close(None).await.unwrap();
    while timeout(PATIENCE, socket.next()).await.unwrap().is_some_and(|message| message.is_ok()) {}
    drop(socket);
    eventually("warm", async || lab.client.json("GET", "/one", "").await.1["status"] == "warm").await;
    lab.server.stop().await;
}

#[tokio::test]
async fn what_is_no_http_inside_is_a_bad_gateway_and_hurts_nobody() {
    let lab = Lab::with("one").await;
    let script = "import socket\ns = socket.create_server(('127.0.0.1', 8080))\n\
        for what in (b'', b'\\x00\\x01garbage\\r\\n\\r\\n', b'HTTP/1.1 101 Switching Protocols\\r\\n\\r\\n'):\n \
        c, _ = s.accept()\n c.recv(65536)\n c.sendall(what)\n c.close()\n";
    let mut exec = lab.client.start("one", &["python3", "-c", script], &[]).await;
    exec.id().await;
    // Not by connecting: it counts connections.
    let inside = "until grep -q ':1F90 .* 0A' /proc/net/tcp; do sleep 0.01; done";
    lab.client.sh("one", inside).await;
    for _ in 0..3 {
        assert_eq!(status(&lab, "/").await, StatusCode::BAD_GATEWAY);
    }
    // Requests that are none.
    for text in ["GET / HTTP/1.1\r\nHost: one.localhost\r\nTransfer-Encoding: nonsense\r\n\r\n", "\0\r\n\r\n"] {
        let mut stream = TcpStream::connect(lab.server.address()).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut back = Vec::new();
        stream.shutdown().await.unwrap();
        drop(timeout(PATIENCE, stream.read_to_end(&mut back)).await.expect("it never hangs up"));
        assert!(back.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&back));
    }
    assert_eq!(lab.client.run("one", &["true"]).await.code, Some(0));
    lab.server.stop().await;
}

#[tokio::test]
async fn urls_end_as_the_flag_says() {
    let lab = Lab::set(&["--url-suffix", "Sprites.Example.org"]).await;
    let sprite = lab.client.create("one").await;
    let port = lab.server.address().port();
    assert_eq!(sprite["url"], format!("http://one.sprites.example.org:{port}"));
    serve(&lab, 8080, None).await;
    listens(&lab, 8080).await;
    // As a client whose resolver knows the domain, and as one that only knows the loopback.
    let http = reqwest::Client::builder()
        .no_proxy()
        .resolve("one.sprites.example.org", lab.server.address())
        .resolve("one.localhost", lab.server.address())
        .build()
        .unwrap();
    for url in [sprite["url"].as_str().unwrap().to_owned(), format!("http://one.localhost:{port}")] {
        let answer = http.get(&url).bearer_auth(TOKEN).send().await.unwrap();
        assert_eq!(
            (answer.status(), &answer.headers()["x-from"]),
            (StatusCode::OK, &"guest".parse().unwrap()),
            "{url}"
        );
    }
    assert!(lab.client.sh("one", "sprite-env info").await.contains(&format!("http://one.sprites.example.org:{port}")));
    lab.server.stop().await;
}
