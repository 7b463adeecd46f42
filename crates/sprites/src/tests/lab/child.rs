//! A client in a process of its own, whose memory can be measured and which can be stopped: this test program again, at
//! [`entry`].

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use super::super::super::{Client, Config, ExecEvent};
use super::{Site, TOKEN, run, script, session};

/// What the process is to do, as JSON; the token is no argument, which others could see.
const PART: &str = "SPRITES_TEST_CLIENT";

/// The client, running.
pub(super) struct Played {
    pub(super) child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Played {
    /// Starts it. `part` is a function of this module.
    pub(super) fn start(site: &Site, part: &str, script: &str) -> Self {
        let plan = json!({ "address": site.daemon.address(), "part": part, "script": script });
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--ignored", "--nocapture", "--test-threads=1", "tests::lab::child::entry"])
            .env(PART, plan.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// What it says next. Blocks.
    pub(super) fn says(&mut self) -> Value {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        let line = lines.find_map(|line| line.split_once("says ").map(|(_, json)| json.to_owned()));
        serde_json::from_str(&line.expect("the client process ended")).unwrap()
    }
}

impl Drop for Played {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Speaks to the test that started it.
fn say(value: &Value) {
    println!("says {value}");
}

#[test]
#[ignore = "a client process, started by a test"]
fn entry() {
    let Ok(plan) = std::env::var(PART) else { return };
    let plan: Value = serde_json::from_str(&plan).unwrap();
    let client = super::client(plan["address"].as_str().unwrap(), TOKEN, hasty);
    let script = plan["script"].as_str().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        match plan["part"].as_str().unwrap() {
            "run" => flooded_run(&client, script).await,
            "exec" => flooded_exec(&client, script).await,
            "stopped" => stopped(&client, script).await,
            other => panic!("{other}"),
        }
    });
}

/// Short, so that a process can be stopped for longer.
fn hasty(config: &mut Config) {
    config.ping_interval = Duration::from_millis(200);
    config.dead_after = Duration::from_secs(1);
}

/// The most memory that this process ever held, in KiB.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// All output of a script into a small bound.
async fn flooded_run(client: &Client, text: &str) {
    let on = client.wake("one").await.unwrap();
    run(client, &on, "echo warm").await;
    let (before, began) = (peak(), Instant::now());
    let deadline = Duration::from_mins(2);
    let output = client.run(&on, &script(text), Bytes::new(), 64 * 1024, deadline).await.unwrap();
    say(&json!({
        "grew": peak() - before, "seconds": began.elapsed().as_secs_f64(), "exit": output.exit,
        "kept": output.stdout.len(), "truncated": output.truncated,
    }));
}

/// All output of a script to a consumer that does not come for a while, then takes everything.
async fn flooded_exec(client: &Client, text: &str) {
    let on = client.wake("one").await.unwrap();
    run(client, &on, "echo warm").await;
    let before = peak();
    let mut exec = client.exec(&on, &script(text)).await.unwrap();
    session(&mut exec).await;
    // Longer than a peer may be silent.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (asleep, mut taken) = (peak() - before, 0);
    let end = loop {
        match exec.next().await {
            ExecEvent::Stdout(data) => taken += data.len(),
            ExecEvent::Session { .. } | ExecEvent::Stderr(_) => {}
            end @ (ExecEvent::Exit(_) | ExecEvent::Lost(_)) => break end,
        }
    };
    say(&json!({ "asleep": asleep, "grew": peak() - before, "taken": taken, "end": format!("{end:?}") }));
}

/// Says when a command runs, and how it ended.
async fn stopped(client: &Client, text: &str) {
    let on = client.wake("one").await.unwrap();
    let mut exec = client.exec(&on, &script(text)).await.unwrap();
    let id = session(&mut exec).await;
    say(&json!({ "session": id }));
    let (_, end) = super::rest(&mut exec).await;
    say(&json!({ "end": format!("{end:?}") }));
}
