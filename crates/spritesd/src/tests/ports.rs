//! The ports a guest listens on, as they open and close.

use serde_json::{Value, json};

use super::support::Lab;

#[tokio::test]
async fn ports_are_told_as_they_open_and_close() {
    let lab = Lab::with("one").await;
    let script = "import socket, sys\n\
        s = socket.create_server(('127.0.0.1', 8080))\nprint('up', flush=True)\nsys.stdin.readline()\n\
        t = socket.create_server(('0.0.0.0', 9090))\nsys.stdin.readline()\ns.close()\nsys.stdin.readline()\n";
    let mut exec = lab.client.start("one", &["python3", "-c", script], &[("stdin", "true")]).await;
    let pid: u64 = exec.id().await.parse().unwrap();
    exec.until("up\n").await;
    let mut wire = lab.client.wire("one/ports/watch", &[]).await.unwrap();
    let first = wire.json().await;
    let port = |port: u16, address: &str| json!({ "port": port, "address": address, "pid": pid });
    let told = |kind: &str, mut port: Value| {
        port["type"] = kind.into();
        port
    };
    assert_eq!(first, json!({ "type": "port_list", "ports": [port(8080, "127.0.0.1")] }));
    exec.send(b"\0\n").await;
    assert_eq!(wire.json().await, told("port_opened", port(9090, "0.0.0.0")));
    exec.send(b"\0\n").await;
    assert_eq!(wire.json().await, told("port_closed", port(8080, "127.0.0.1")));
    exec.send(b"\0\n").await;
    assert_eq!(wire.json().await, told("port_closed", port(9090, "0.0.0.0")));
    assert_eq!(lab.client.call("GET", "/one/ports/watch", "").await.0.as_u16(), 400);
    assert_eq!(lab.client.refused("two/ports/watch").await.0, 404);
    lab.server.stop().await;
}
