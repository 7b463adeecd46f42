//! The network as a guest meets it: the window before a policy, the policy, and what gets round it. Servers are real
//! and in the world; the packet filter itself has tests of its own.

use std::process::Stdio;

use http::StatusCode;
use tokio::process::{Child, Command};

use super::support::{Lab, eventually};

const SERVER: &str = "import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(sys.argv[2].encode())
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer((sys.argv[1], 80), Handler).serve_forever()";

/// A host of the world with a real HTTP server that answers with its own name.
async fn host(lab: &Lab, name: &str, addr: &str) -> Child {
    let admin = format!("http://{}/world", lab.server.admin_address().unwrap());
    let body = format!(r#"{{"name":"{name}","addr":"{addr}"}}"#);
    let response = lab.client.http.post(&admin).body(body).send().await.unwrap();
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    let view: serde_json::Value = lab.client.http.get(&admin).send().await.unwrap().json().await.unwrap();
    let network = format!("--net=/proc/{}/ns/net", view["pid"]);
    let enter = [&network, "--", "python3", "-c", SERVER, addr, name];
    let server = Command::new("nsenter").args(enter).stdin(Stdio::null()).kill_on_drop(true).spawn().unwrap();
    eventually("the server listens", async || {
        let mut look = Command::new("nsenter");
        look.args([&network, "--", "curl", "-s", "-m", "1", &format!("http://{addr}/")]);
        look.stdout(Stdio::null()).status().await.unwrap().success()
    })
    .await;
    server
}

async fn policy(lab: &Lab, sprite: &str, rules: &str) {
    let (status, text) =
        lab.client.call("POST", &format!("/{sprite}/policy/network"), format!(r#"{{"rules":{rules}}}"#)).await;
    assert_eq!(status, StatusCode::NO_CONTENT, "{text}");
}

/// What a guest gets: the body, or `-`.
async fn get(lab: &Lab, sprite: &str, host: &str) -> String {
    lab.client.sh(sprite, &format!("curl -s -m 3 http://{host}/ || echo -n -")).await
}

#[tokio::test]
async fn a_policy_closes_what_was_open_and_opens_what_it_names() {
    let lab = Lab::with("one").await;
    let _hosts = [
        host(&lab, "allowed.example.com", "203.0.113.7").await,
        host(&lab, "other.example.com", "203.0.113.8").await,
        host(&lab, "metadata.internal", "169.254.169.254").await,
    ];
    // The window: a Sprite without rules reaches all of it.
    for target in ["allowed.example.com", "other.example.com", "203.0.113.8", "169.254.169.254"] {
        assert_ne!(get(&lab, "one", target).await, "-", "{target}");
    }
    policy(&lab, "one", r#"[{"domain":"allowed.example.com","action":"allow"},{"domain":"*","action":"deny"}]"#).await;
    assert_eq!(get(&lab, "one", "allowed.example.com").await, "allowed.example.com");
    for target in ["other.example.com", "203.0.113.8", "169.254.169.254", "metadata.internal"] {
        assert_eq!(get(&lab, "one", target).await, "-", "{target}");
    }
    policy(&lab, "one", r#"[{"domain":"*","action":"deny"}]"#).await;
    for target in ["allowed.example.com", "203.0.113.7"] {
        assert_eq!(get(&lab, "one", target).await, "-", "{target}");
    }
    // An empty list is no policy.
    policy(&lab, "one", "[]").await;
    assert_eq!(get(&lab, "one", "203.0.113.8").await, "other.example.com");
    lab.server.stop().await;
}

#[tokio::test]
async fn a_policy_holds_through_sleep_restart_and_power_loss_and_not_for_the_next_instance() {
    let lab = Lab::set(&["--idle-after", "200ms", "--cold-after", "200ms"]).await;
    lab.client.create("one").await;
    let _host = host(&lab, "other.example.com", "203.0.113.8").await;
    assert_ne!(get(&lab, "one", "203.0.113.8").await, "-");
    policy(&lab, "one", r#"[{"domain":"*","action":"deny"}]"#).await;
    eventually("cold", async || lab.client.json("GET", "/one", "").await.1["status"] == "cold").await;
    assert_eq!(get(&lab, "one", "203.0.113.8").await, "-");
    lab.client.call("POST", "/one/restart", "").await;
    assert_eq!(get(&lab, "one", "203.0.113.8").await, "-");
    // Deleted and made again: another instance, open.
    lab.client.call("DELETE", "/one", "").await;
    lab.client.create("one").await;
    assert_ne!(get(&lab, "one", "203.0.113.8").await, "-");
    lab.server.stop().await;
}

#[tokio::test]
async fn tightening_cuts_an_open_connection() {
    let lab = Lab::with("one").await;
    let _host = host(&lab, "other.example.com", "203.0.113.8").await;
    let script = "exec 3<>/dev/tcp/203.0.113.8/80; echo open; read -t 20 -u 3 line; echo \"ended $?\"";
    let mut session = lab.client.start("one", &["bash", "-c", script], &[]).await;
    session.until("open").await;
    policy(&lab, "one", r#"[{"domain":"*","action":"deny"}]"#).await;
    // A reader hears of it at once: 1 is an error of the connection, a read that waits in vain would say 142.
    session.until("ended 1").await;
    let again = "exec 3<>/dev/tcp/203.0.113.8/80 && echo open";
    assert_ne!(lab.client.run("one", &["bash", "-c", again]).await.code, Some(0));
    lab.client.call("DELETE", "/one", "").await;
    lab.server.stop().await;
}

#[tokio::test]
async fn guests_cannot_change_or_get_round_the_network() {
    let lab = Lab::with("one").await;
    lab.client.create("two").await;
    let _host = host(&lab, "other.example.com", "203.0.113.8").await;
    policy(&lab, "one", r#"[{"domain":"*","action":"deny"}]"#).await;
    // No power over its own namespace: not as the namespace's user, not in another user namespace.
    for attempt in [
        "PATH=$PATH:/usr/sbin:/sbin; nft flush ruleset",
        "PATH=$PATH:/usr/sbin:/sbin; ip link set eth0 down",
        "PATH=$PATH:/usr/sbin:/sbin; ip addr add 10.9.9.9/32 dev lo",
        "unshare -U -r -n true",
        "unshare -r nft flush ruleset",
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)'",
        "python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'",
        "echo 1 > /proc/sys/net/ipv4/ip_forward",
        // No packet filter would see these.
        "python3 -c 'import socket; socket.socket(40, socket.SOCK_STREAM)'",
        "python3 -c 'import socket; socket.socket(38, socket.SOCK_SEQPACKET)'",
    ] {
        let ran = lab.client.run("one", &["bash", "-c", &format!("{{ {attempt}; }} 2>/dev/null")]).await;
        assert_ne!(ran.code, Some(0), "{attempt}");
    }
    // Another resolver than the Sprite's own, and the resolver's answer without asking it.
    let dns = "python3 -c \"import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); s.sendto(b'x' * 12, ('203.0.113.8', 53)); print(s.recv(100))\"";
    assert_ne!(lab.client.run("one", &["bash", "-c", dns]).await.code, Some(0));
    // One guest from another: neither what it listens on, nor its address.
    let mut listener = lab
        .client
        .start(
            "two",
            &[
                "python3",
                "-u",
                "-c",
                "import socket; s = socket.create_server(('0.0.0.0', 8080)); print('up'); s.accept(); print('reached')",
            ],
            &[],
        )
        .await;
    listener.until("up").await;
    let address = lab.client.sh("two", "hostname -I").await;
    let address = address.split_whitespace().next().unwrap().to_owned();
    policy(&lab, "one", "[]").await;
    let reach = format!("exec 3<>/dev/tcp/{address}/8080");
    assert_ne!(lab.client.run("one", &["timeout", "2", "bash", "-c", &reach]).await.code, Some(0), "{address}");
    // The host's loopback is not the guest's: the API does not answer there.
    let api = format!("curl -s -m 2 http://127.0.0.1:{}/ ", lab.server.address().port());
    assert_ne!(lab.client.run("one", &["bash", "-c", &api]).await.code, Some(0));
    drop(listener);
    lab.server.stop().await;
}

#[tokio::test]
async fn without_a_network_a_guest_has_its_own_loopback_and_nothing_else() {
    let lab = Lab::set(&["--network", "none"]).await;
    lab.client.create("one").await;
    assert_eq!(lab.client.sh("one", "awk 'NR>2 {print $1}' /proc/net/dev").await, "lo:\n");
    // A policy is taken and told all the same; there is nothing to enforce it on.
    policy(&lab, "one", r#"[{"domain":"*","action":"deny"}]"#).await;
    assert_ne!(lab.client.run("one", &["bash", "-c", "exec 3<>/dev/tcp/203.0.113.8/80"]).await.code, Some(0));
    let admin = format!("http://{}/world", lab.server.admin_address().unwrap());
    assert_eq!(lab.client.http.get(admin).send().await.unwrap().status(), StatusCode::NOT_FOUND);
    lab.server.stop().await;
}

#[tokio::test]
async fn hosts_of_a_file_are_there_from_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), r#"[{"name":"api.example.com","addr":"203.0.113.7"},{"addr":"203.0.113.9"}]"#).unwrap();
    let lab = Lab::set(&["--world", file.path().to_str().unwrap()]).await;
    lab.client.create("one").await;
    assert_eq!(lab.client.sh("one", "getent ahostsv4 api.example.com | awk '{print $1; exit}'").await, "203.0.113.7\n");
    let admin = format!("http://{}/world", lab.server.admin_address().unwrap());
    let view: serde_json::Value = lab.client.http.get(admin).send().await.unwrap().json().await.unwrap();
    assert_eq!(view["hosts"].as_array().unwrap().len(), 2);
    lab.server.stop().await;
}
