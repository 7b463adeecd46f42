//! `spritesd` as a process, and what tests ask of it beside the client: raw calls, scripted failures, its log.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;
use tempfile::TempDir;
use test_support::{process::Process, programs};

use super::super::install_provider;

pub(super) const TOKEN: &str = "org/1/token/secret-of-the-tests";

/// A server on a directory of its own; its end is the end of its guests.
pub(super) struct Daemon {
    process: Process,
    address: String,
    admin: String,
    http: reqwest::Client,
    // Removed after the process has ended.
    _data: TempDir,
}

impl Daemon {
    /// Starts a server with flags, for example `["--idle-after", "1s"]`; file calls wake unless a flag says otherwise.
    pub(super) fn start(flags: &[&str]) -> Self {
        install_provider();
        let data = tempfile::tempdir().unwrap();
        let token = data.path().join("token");
        std::fs::write(&token, TOKEN).unwrap();
        let mut command = Process::command(programs::spritesd());
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--token-file"]).arg(&token);
        command.arg("--data").arg(data.path().join("sprites")).args(flags);
        if !flags.contains(&"--boot") {
            // What wakes a Sprite is what is tested.
            command.args(["--boot", "call"]);
        }
        if !flags.contains(&"--fs-on-cold") {
            command.args(["--fs-on-cold", "wake"]);
        }
        let (process, lines) = Process::start(&mut command, 2);
        let after = |line: &String, word: &str| line.strip_prefix(word).unwrap().to_owned();
        let (address, admin) = (after(&lines[0], "listening http://"), after(&lines[1], "admin "));
        let http = reqwest::Client::builder().timeout(Duration::from_secs(30)).no_proxy().build().unwrap();
        Self { process, address, admin, http, _data: data }
    }

    /// Host and port of the API.
    pub(super) fn address(&self) -> &str {
        &self.address
    }

    /// A call of the API without the client; `path` follows `/v1/sprites`.
    pub(super) async fn call(&self, method: &str, path: &str, body: impl Into<reqwest::Body>) -> (StatusCode, String) {
        let url = format!("http://{}/v1/sprites{path}", self.address);
        let request = self.http.request(method.parse().unwrap(), url).bearer_auth(TOKEN).body(body);
        let response = request.send().await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    /// Replaces the scripted failures.
    pub(super) async fn set_faults(&self, rules: &Value) {
        let response = self.http.put(format!("{}/faults", self.admin)).body(rules.to_string()).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::NO_CONTENT, "{}", response.text().await.unwrap());
    }

    /// The scripted failures with their counts.
    pub(super) async fn faults(&self) -> Vec<Value> {
        self.http.get(format!("{}/faults", self.admin)).send().await.unwrap().json().await.unwrap()
    }

    /// The event log, as `(event, line)`.
    pub(super) async fn log(&self) -> Vec<(String, Value)> {
        let text = self.http.get(format!("{}/log", self.admin)).send().await.unwrap().text().await.unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["event"].as_str().unwrap().to_owned(), line)).collect()
    }

    /// Ends it as its users do, and waits.
    pub(super) async fn stop(mut self) {
        let ended = tokio::task::spawn_blocking(move || self.process.terminate()).await.unwrap();
        assert_eq!(ended, Some(0));
    }
}
