//! What is left after the server dies, by any signal.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::support::{ARGUMENTS, Client, TOKEN, eventually, mounts_of, processes_with, serve};

/// A server in a process of its own.
struct Daemon {
    child: Child,
    client: Client,
}

impl Daemon {
    fn start(data: &Path, token: &Path) -> Self {
        Self::started_by(Command::new(std::env::current_exe().unwrap()), data, token)
    }

    fn started_by(mut command: Command, data: &Path, token: &Path) -> Self {
        let arguments = json!([
            "spritesd",
            "--listen",
            "127.0.0.1:0",
            "--data",
            data,
            "--token-file",
            token,
            "--network",
            "none",
            "--guest",
            "bubblewrap"
        ]);
        let mut child = command
            .args(["--exact", "--ignored", "--nocapture", "tests::entries::server"])
            .env(ARGUMENTS, arguments.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let base = lines.find_map(|line| line.split_once("listening ").map(|(_, base)| base.to_owned())).unwrap();
        Self { child, client: Client::new(&base) }
    }

    fn end(&mut self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[rstest]
#[case(Signal::KILL)]
#[case(Signal::TERM)]
#[tokio::test]
async fn a_power_loss_keeps_sprites_and_ends_guests(#[case] signal: Signal) {
    let dir = tempfile::tempdir().unwrap();
    let (data, token) = (dir.path().join("data"), dir.path().join("token"));
    std::fs::write(&token, format!("{TOKEN}\n")).unwrap();
    let mut daemon = Daemon::start(&data, &token);
    let made = daemon.client.create("one").await;
    let policy = json!({ "rules": [{ "domain": "example.com", "action": "allow" }] });
    daemon.client.call("POST", "/one/policy/network", policy.to_string()).await;
    daemon.client.json("PUT", "/one", r#"{"labels":["kept"]}"#).await;
    daemon.client.sh("one", "echo kept | tee ~/f /workspace/f > /tmp/f; sync").await;
    let mark = format!("88{}{}", std::process::id(), signal.as_raw());
    let script = format!("trap '' TERM HUP; setsid sleep {mark} & sleep {mark} & echo up; wait");
    let mut busy = daemon.client.start("one", &["bash", "-c", &script], &[("max_run_after_disconnect", "0")]).await;
    busy.until("up").await;
    assert!(processes_with(&mark).len() >= 2);

    daemon.end(signal);
    assert_eq!(busy.finish().await.code, None);
    if signal == Signal::TERM {
        // It waits for its guests.
        assert_eq!(processes_with(&mark).len(), 0);
    }
    eventually("the guests are gone", async || processes_with(&mark).is_empty() && mounts_of(&data).is_empty()).await;

    let daemon = Daemon::start(&data, &token);
    let (_, found) = daemon.client.json("GET", "/one", "").await;
    assert_eq!((&found["id"], &found["status"], &found["labels"]), (&made["id"], &json!("cold"), &json!(["kept"])));
    assert_eq!(daemon.client.json("GET", "/one/policy/network", "").await.1, policy);
    assert!(daemon.client.sessions("one").await.is_empty());
    assert_eq!(daemon.client.sh("one", "cat ~/f /workspace/f /tmp/f").await, "kept\nkept\nkept\n");
    assert_eq!(daemon.client.call("DELETE", "/one", "").await.0.as_u16(), 204);
}

#[tokio::test]
async fn a_stopped_server_leaves_its_directory_to_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), Vec::new()).await;
    let client = Client::new(&format!("http://{}", server.address()));
    client.create("one").await;
    let mut busy = client.start("one", &["sleep", "600"], &[]).await;
    busy.id().await;
    server.stop().await;
    assert_eq!(busy.finish().await.code, None);

    let server = serve(dir.path(), Vec::new()).await;
    let client = Client::new(&format!("http://{}", server.address()));
    assert_eq!(client.json("GET", "/one", "").await.1["status"], "cold");
    server.stop().await;
}

#[tokio::test]
async fn recreating_at_once_never_revives_the_old_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), Vec::new()).await;
    let client = Client::new(&format!("http://{}", server.address()));
    for _ in 0..10 {
        client.create("one").await;
        // Waking saves the time of it in the background.
        client.run("one", &["true"]).await;
        assert_eq!(client.call("DELETE", "/one", "").await.0.as_u16(), 204);
    }
    let last = client.create("one").await;
    server.stop().await;
    let server = serve(dir.path(), Vec::new()).await;
    let client = Client::new(&format!("http://{}", server.address()));
    assert_eq!(client.json("GET", "/one", "").await.1["id"], last["id"]);
    server.stop().await;
}

#[tokio::test]
async fn nothing_of_whoever_started_the_server_gets_in() {
    let dir = tempfile::tempdir().unwrap();
    let (data, token) = (dir.path().join("data"), dir.path().join("token"));
    std::fs::write(&token, TOKEN).unwrap();
    std::fs::write(dir.path().join("open"), "of the host").unwrap();
    let mut shell = Command::new("bash");
    let script = format!("trap '' INT QUIT; exec 7<{0}/open 42<{0}/open; exec \"$@\"", dir.path().display());
    shell.env("OF_THE_HOST", "1").arg("-c").arg(script).arg("bash").arg(std::env::current_exe().unwrap());
    let daemon = Daemon::started_by(shell, &data, &token);
    daemon.client.create("one").await;
    // The standard streams and the directory `ls` reads.
    let script = "ls -1 /proc/self/fd | wc -l; env | grep HOST; grep SigBlk /proc/self/status";
    let out = daemon.client.sh("one", script).await;
    assert_eq!(out, "4\nSigBlk:\t0000000000000000\n");
    let ran = daemon.client.run("one", &["sh", "-c", "kill -INT $$; echo ignored"]).await;
    assert_eq!((ran.out().as_str(), ran.code), ("", Some(130)));
}

#[tokio::test]
async fn a_guest_that_dies_is_cold_and_wakes_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), Vec::new()).await;
    let client = Client::new(&format!("http://{}", server.address()));
    let name = format!("dies-{}", std::process::id());
    client.create(&name).await;
    let mut busy = client.start(&name, &["bash", "-c", "echo x > ~/f; echo up; sleep 600"], &[]).await;
    let id = busy.id().await;
    busy.until("up").await;
    // Bubblewrap's monitor is the one with the name in its arguments.
    for process in processes_with(&format!("--hostname\0{name}")) {
        let pid = process.file_name().unwrap().to_str().unwrap().parse().unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    let ran = busy.finish().await;
    assert_eq!((ran.code, ran.close), (None, None));
    assert_eq!(client.json("GET", &format!("/{name}"), "").await.1["status"], "cold");
    assert!(client.sessions(&name).await.is_empty());
    let (status, _) = client.call("POST", &format!("/{name}/exec/{id}/kill"), "").await;
    assert_eq!(status.as_u16(), 410);
    assert_eq!(client.sh(&name, "cat ~/f").await, "x\n");
    server.stop().await;
}
