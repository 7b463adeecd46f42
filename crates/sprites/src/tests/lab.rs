//! The client against `spritesd`: real sandboxes, scripted failures, and the server's own word on what really happened.
//! Needs what `spritesd` needs.

mod account;
mod bounds;
mod calls;
mod child;
mod daemon;
mod dropping;
mod exits;
mod hanging;
mod identity;
mod kill;
mod lost;
mod retries;
mod storms;
mod telemetry;
mod wake;

use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use serde_json::{Value, json};

use super::super::{
    Awake, Client, Config, CreateSprite, Exec, ExecEvent, ExecRequest, NetworkRule, Output, Sprite, TokenSource,
};
use super::install_provider;
use daemon::{Daemon, TOKEN};
use test_support::waiting::{PATIENCE, eventually, processes_with};

/// A server and a client of it.
struct Site {
    daemon: Daemon,
    client: Client,
}

impl Site {
    fn new() -> Self {
        Self::set(&[], |_| {})
    }

    /// With flags of the server and a client that is not the usual one.
    fn set(flags: &[&str], change: impl FnOnce(&mut Config)) -> Self {
        let plain = ["--network", "none", "--disk-limit", "none"];
        let daemon = Daemon::start(&[&plain, flags].concat());
        let client = client(daemon.address(), TOKEN, change);
        Self { daemon, client }
    }

    /// Another client of the same server, as another process would be.
    fn another(&self, change: impl FnOnce(&mut Config)) -> Client {
        client(self.daemon.address(), TOKEN, change)
    }

    async fn create(&self, name: &str) -> Sprite {
        self.client.create(&named(name)).await.unwrap()
    }

    /// A new Sprite, awake.
    async fn awake(&self, name: &str) -> Awake {
        self.create(name).await;
        self.client.wake(name).await.unwrap()
    }

    /// Replaces the scripted failures.
    async fn faults(&self, rules: Value) {
        self.daemon.set_faults(&rules).await;
    }

    /// How many calls each failure has met.
    async fn hits(&self) -> Vec<u64> {
        let rules = self.daemon.faults().await;
        rules.iter().map(|rule| rule["hits"].as_u64().unwrap()).collect()
    }

    /// What the server says of one kind of event.
    async fn events(&self, kind: &str) -> Vec<Value> {
        self.daemon.log().await.into_iter().filter(|(event, _)| event == kind).map(|(_, line)| line).collect()
    }

    /// How often a command with this text in its arguments was started.
    async fn starts(&self, mark: &str) -> usize {
        self.events("exec").await.iter().filter(|line| line["argv"].to_string().contains(mark)).count()
    }

    /// Waits until nobody on this machine sleeps for so long any more.
    async fn gone(&self, seconds: &str) {
        let sleep = format!("sleep\0{seconds}\0");
        eventually(seconds, async || processes_with(&sleep).is_empty()).await;
    }

    /// Waits until the Sprite is in this state. Looking wakes nothing.
    async fn reaches(&self, name: &str, state: super::super::SpriteState) {
        eventually("its state", async || self.client.get(name).await.unwrap().status == state).await;
    }

    async fn end(self) {
        self.daemon.stop().await;
    }
}

fn client(address: &str, token: &str, change: impl FnOnce(&mut Config)) -> Client {
    install_provider();
    let url = format!("http://{address}").parse().unwrap();
    let mut config = Config::new(url, TokenSource::Fixed(SecretString::from(token)));
    change(&mut config);
    Client::new(config).unwrap()
}

fn named(name: &str) -> CreateSprite {
    CreateSprite { name: name.to_owned(), ..CreateSprite::default() }
}

/// A shell script; it lives on for a minute without a connection.
fn script(text: &str) -> ExecRequest {
    command(&["bash", "-c", text])
}

fn command(argv: &[&str]) -> ExecRequest {
    ExecRequest {
        argv: argv.iter().map(|&word| word.to_owned()).collect(),
        max_run_after_disconnect: Duration::from_mins(1),
        ..ExecRequest::default()
    }
}

async fn run(client: &Client, on: &Awake, text: &str) -> Output {
    client.run(on, &script(text), Bytes::new(), 64 * 1024, Duration::from_secs(30)).await.unwrap()
}

/// What comes next; what has not come by then does not come.
async fn next(exec: &mut Exec) -> ExecEvent {
    tokio::time::timeout(PATIENCE, exec.next()).await.expect("nothing came")
}

/// Its standard output and its end.
async fn rest(exec: &mut Exec) -> (String, ExecEvent) {
    let mut stdout = Vec::new();
    loop {
        match next(exec).await {
            ExecEvent::Stdout(data) => stdout.extend_from_slice(&data),
            ExecEvent::Session { .. } | ExecEvent::Stderr(_) => {}
            end @ (ExecEvent::Exit(_) | ExecEvent::Lost(_)) => return (String::from_utf8(stdout).unwrap(), end),
        }
    }
}

/// The id of its session.
async fn session(exec: &mut Exec) -> String {
    match next(exec).await {
        ExecEvent::Session { id } => id,
        other => panic!("no session but {other:?}"),
    }
}

fn deny_all() -> Vec<NetworkRule> {
    vec![NetworkRule { domain: Some("*".to_owned()), action: Some("deny".to_owned()), ..NetworkRule::default() }]
}

/// A rule that only counts.
fn counter() -> Value {
    json!({ "route": "*", "effect": "delay", "delay": "1ms" })
}
