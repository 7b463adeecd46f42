//! `--guest instant`: the runner's protocol over real sockets, and that the rest is as on any server.

mod life;
mod runs;
mod stops;

use std::time::Duration;

use http::StatusCode;
use runner_protocol::{Fence, Launch, Record, State, Stdout, Task, answer};
use serde_json::Value;

use super::support::{Client, Exec, Lab, Ran, Seen};

const NONCE: &str = "nonce-1";
const HASH: &str = "ab12";
const RUNNER: &str = "/home/sprite/.sprite-operator/bin/ab12";

/// A server with one Sprite that has the runner.
async fn lab(flags: &[&str]) -> Lab {
    let lab = Lab::set(&[&["--guest", "instant"], flags].concat()).await;
    lab.client.create("one").await;
    install(&lab.client).await;
    lab
}

/// Puts the runner there as the operator does.
async fn install(client: &Client) {
    let file = format!("{RUNNER}.0001");
    let path = format!("/one/fs/write?path={file}&mode=0755");
    assert_eq!(client.call("PUT", &path, "the runner's bytes").await.0, StatusCode::OK);
    let ran = client.run("one", &[&file, "so-install", HASH, NONCE, "/workspace"]).await;
    assert_eq!((ran.out(), ran.code), (answer::installed(HASH, NONCE), Some(0)), "{}", ran.err());
}

fn launch<'a>(uid: &'a str, script: &'a str) -> Launch<'a> {
    Launch {
        runner: RUNNER,
        uid,
        nonce: NONCE,
        timeout: Duration::from_mins(1),
        cap: 65_536,
        lookahead: 4096,
        kill_leftovers: true,
        stop_at_cap: false,
        live: &[],
        environment: &[],
        directory: "/workspace",
        task: Task::Script(script),
        stdin: b"the script's own",
    }
}

/// Starts a launch whose arguments and input are sent whole.
async fn start(client: &Client, launch: &Launch<'_>) -> Exec {
    let (argv, input) = launch.encode().unwrap();
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    let more = [("stdin", "true"), ("max_run_after_disconnect", "1m")];
    let mut exec = client.start("one", &argv, &more).await;
    // In pieces, as a client sends it.
    for piece in input.chunks(40) {
        exec.send(&[&[0], piece].concat()).await;
    }
    exec
}

async fn run(client: &Client, launch: &Launch<'_>) -> Ran {
    start(client, launch).await.finish().await
}

/// A Run's standard output, its record, and that the record has the exit code.
fn apart(uid: &str, ran: &Ran) -> (Vec<u8>, Record) {
    let mut stdout = Stdout::new(uid);
    let mut output = stdout.push(&ran.stdout);
    assert!(stdout.started(), "{ran:?}");
    let (rest, record) = stdout.finish();
    output.extend(rest);
    let record = record.unwrap_or_else(|| panic!("no record: {ran:?}"));
    assert_eq!((ran.code, ran.close), (Some(record.code), Some(1000)));
    (output, record)
}

async fn ask(client: &Client, question: &str, uid: &str) -> Vec<u8> {
    let ran = client.run("one", &[RUNNER, question, uid]).await;
    assert_eq!(ran.code, Some(0), "{}", ran.err());
    ran.stdout
}

async fn fence(client: &Client, uid: &str) -> Fence {
    Fence::parse(uid, &ask(client, "so-fence", uid).await).unwrap()
}

async fn state(client: &Client, uid: &str) -> State {
    State::parse(uid, &ask(client, "so-state", uid).await).unwrap()
}

/// Scripts answers.
async fn answers(lab: &Lab, rules: &str) {
    let (status, text) = admin(lab, "PUT", rules).await;
    assert_eq!(status, StatusCode::NO_CONTENT, "{text}");
}

async fn admin(lab: &Lab, method: &str, body: &str) -> (StatusCode, String) {
    let url = format!("http://{}/instant", lab.server.admin_address().unwrap());
    let request = lab.client.http.request(method.parse().unwrap(), url).body(body.to_owned());
    let response = request.send().await.unwrap();
    (response.status(), response.text().await.unwrap())
}

/// Kills a session, to its end; gives the types of the events.
async fn kill(client: &Client, id: &str, signal: &str) -> Vec<Value> {
    let (status, text) = client.call("POST", &format!("/one/exec/{id}/kill?signal={signal}&timeout=10s"), "").await;
    assert_eq!(status, StatusCode::OK);
    text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].clone()).collect()
}

/// Reads until the start marker.
async fn started(exec: &mut Exec, uid: &str) -> String {
    let Seen::Text(info) = exec.next().await else { panic!("no session_info") };
    exec.until(&runner_protocol::start_marker(uid)).await;
    info["session_id"].as_str().unwrap().to_owned()
}
