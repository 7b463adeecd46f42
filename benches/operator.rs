//! What the operator adds to a command, what it writes, what it holds: on real parts, ratios within one run.
//!
//! `make bench`. Figures depend on the machine; the ratios are what to compare.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::doc_markdown,
    reason = "a bench fails by panicking, and prints"
)]

#[path = "operator/tools.rs"]
mod tools;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use api::Run;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    ResourceExt,
    runtime::{WatchStreamExt, watcher},
};
use runner_protocol::{Launch, Stdout, Task, installed};
use serde_json::json;
use sprite_operator::lockdown::runner::put;
use sprites::{Client, Config, ExecRequest, TokenSource};
use test_support::{
    TestEnv,
    environment::{condition_of_run, until},
    process::resident,
};

const RUNS: usize = 200;
const WARM_UP: usize = 20;
const SESSIONS: usize = 1000;
const AT_ONCE: usize = 300;
const TURNS: usize = 3;
const PUTS: usize = 30;

fn main() {
    // `cargo test --all-targets` builds and starts benches, too; there is nothing to test here.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        println!("bench: starting a control plane, spritesd and an operator");
        let env = TestEnv::new().await;
        let session = env.ready_session("bench").await;
        let status = session.status.clone().unwrap();
        let sprite = status.sprite.unwrap().name;
        let lockdown = status.lockdown.unwrap();
        let (hash, nonce) = (lockdown.runner.unwrap(), lockdown.nonce.unwrap());
        let client = sprites(&env);

        println!("bench: {RUNS} warm Runs, one after the other ({WARM_UP} more to warm up)");
        let mut watch = watch(&env);
        for n in 0..WARM_UP {
            one_run(&env, &mut watch, &format!("warm{n}")).await;
        }
        let before = writes(&env).await;
        let mut runs = Vec::new();
        for n in 0..RUNS {
            runs.push(one_run(&env, &mut watch, &format!("run{n}")).await);
        }
        let after = settled_writes(&env).await;

        println!("bench: the same command by exec on spritesd, and by the same runner sent by hand, {RUNS} times each");
        let (mut direct, mut by_hand) = (Vec::new(), Vec::new());
        for n in 0..RUNS + WARM_UP {
            let (d, h) = (exec(&client, &sprite).await, runner(&client, &sprite, (&hash, &nonce)).await);
            if n >= WARM_UP {
                direct.push(d);
                by_hand.push(h);
            }
        }
        report_latency(&mut runs, &mut direct, &mut by_hand);

        println!("bench: {AT_ONCE} execs at once, and {AT_ONCE} runners at once, in turns, {TURNS} times each");
        let (mut execs, mut runners) = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            execs.push(at_once(async || exec(&client, &sprite).await).await);
            runners.push(at_once(async || runner(&client, &sprite, (&hash, &nonce)).await).await);
        }
        report_at_once(&mut execs, &mut runners);

        println!("bench: putting the runner into a Sprite, {PUTS} times");
        let mut puts = Vec::new();
        for _ in 0..PUTS {
            let on = client.wake(&sprite).await.unwrap();
            let begun = Instant::now();
            put(&client, &on, &nonce).await.unwrap();
            puts.push(begun.elapsed());
        }
        report_puts(&mut puts);
        report_writes(&before, &after);

        tools::files(&env, &mut watch).await;
        tools::flood(&env, &mut watch, &client, &sprite, (&hash, &nonce)).await;
        drop(watch);
        drop(env);

        println!("bench: resident memory with 0 and with {SESSIONS} sessions (suspended)");
        memory().await;
    });
}

fn sprites(env: &TestEnv) -> Client {
    let token = TokenSource::File(env.dir.path().join("token"));
    Client::new(Config::new(env.sprites_url.parse().unwrap(), token)).unwrap()
}

type Watch = std::pin::Pin<Box<dyn futures::Stream<Item = Result<Run, watcher::Error>>>>;

fn watch(env: &TestEnv) -> Watch {
    watcher(env.runs(), watcher::Config::default()).default_backoff().applied_objects().boxed_local()
}

async fn one_run(env: &TestEnv, watch: &mut Watch, name: &str) -> Duration {
    let begun = Instant::now();
    env.bash(name, "bench", "true").await;
    loop {
        let run = watch.try_next().await.unwrap().unwrap();
        if run.name_any() == name && condition_of_run(&run, "Finished") == Some("True") {
            assert_eq!(condition_of_run(&run, "Succeeded"), Some("True"), "{run:?}");
            return begun.elapsed();
        }
    }
}

async fn exec(client: &Client, sprite: &str) -> Duration {
    let argv = ["bash", "--noprofile", "--norc", "-c", "true"].map(str::to_owned).to_vec();
    timed(client, sprite, argv, Bytes::new(), <[u8]>::is_empty).await
}

async fn runner(client: &Client, sprite: &str, (hash, nonce): (&str, &str)) -> Duration {
    let uid = uuid::Uuid::new_v4().to_string();
    let launch = Launch {
        runner: &installed(hash),
        uid: &uid,
        nonce,
        timeout: Duration::from_secs(30),
        cap: 65_536,
        lookahead: 4096,
        environment: &[],
        directory: "/workspace",
        task: Task::Script("true"),
        stdin: b"",
        kill_leftovers: true,
        stop_at_cap: true,
        live: &[],
    };
    let (argv, input) = launch.encode().unwrap();
    let expected = |output: &[u8]| {
        let mut stdout = Stdout::new(&uid);
        let text = stdout.push(output);
        text.is_empty() && stdout.finish().1.is_some()
    };
    timed(client, sprite, argv, Bytes::from(input), expected).await
}

async fn timed(
    client: &Client,
    sprite: &str,
    argv: Vec<String>,
    input: Bytes,
    is_right: impl Fn(&[u8]) -> bool,
) -> Duration {
    let request = ExecRequest { argv, max_run_after_disconnect: Duration::from_secs(1), ..ExecRequest::default() };
    let on = client.wake(sprite).await.unwrap();
    let begun = Instant::now();
    let output = client.run(&on, &request, input, 65_536, Duration::from_secs(30)).await.unwrap();
    let took = begun.elapsed();
    assert!(output.exit == Some(0) && is_right(&output.stdout), "{output:?}");
    took
}

fn quantile(times: &mut [Duration], q: f64) -> f64 {
    times.sort();
    times[((times.len() - 1) as f64 * q).round() as usize].as_secs_f64() * 1000.0
}

fn report_latency(runs: &mut [Duration], direct: &mut [Duration], by_hand: &mut [Duration]) {
    println!("\n{:<44} {:>9} {:>9}", "warm, milliseconds", "p50", "p99");
    let row = |name: &str, times: &mut [Duration]| {
        let (p50, p99) = (quantile(times, 0.5), quantile(times, 0.99));
        println!("{name:<44} {p50:>9.1} {p99:>9.1}");
        (p50, p99)
    };
    let run = row("Run, created -> Finished (as a watcher sees)", runs);
    let direct = row("exec on spritesd", direct);
    let by_hand = row("exec of the same runner, by hand", by_hand);
    println!("{:<44} {:>9.1} {:>9.1}", "the runner over a bare exec", by_hand.0 - direct.0, by_hand.1 - direct.1);
    println!("{:<44} {:>9.1} {:>9.1}", "ratio Run / exec", run.0 / direct.0, run.1 / direct.1);
    println!("{:<44} {:>9.1} {:>9.1}\n", "ratio Run / runner by hand", run.0 / by_hand.0, run.1 / by_hand.1);
}

/// How long it takes until so many are through.
async fn at_once(one: impl AsyncFn() -> Duration) -> Duration {
    let begun = Instant::now();
    stream::iter(0..AT_ONCE)
        .for_each_concurrent(AT_ONCE, async |_| {
            one().await;
        })
        .await;
    begun.elapsed()
}

fn report_at_once(execs: &mut [Duration], runners: &mut [Duration]) {
    let (execs, runners) = (quantile(execs, 0.5), quantile(runners, 0.5));
    println!("\n{:<44} {:>9}", format!("{AT_ONCE} at once, milliseconds until the last"), "p50");
    println!("{:<44} {execs:>9.0}", "execs on spritesd");
    println!("{:<44} {runners:>9.0}", "runners, by hand");
    println!("{:<44} {:>9.2}\n", "ratio", runners / execs);
}

fn report_puts(puts: &mut [Duration]) {
    println!("\n{:<44} {:>9} {:>9}", "added to create -> Ready, milliseconds", "p50", "p99");
    println!("{:<44} {:>9.1} {:>9.1}\n", "write and install the runner", quantile(puts, 0.5), quantile(puts, 0.99));
}

/// Writes that the API server has counted, by resource and subresource.
async fn writes(env: &TestEnv) -> BTreeMap<String, f64> {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = env.client.request_text(request).await.unwrap();
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let label = |name: &str| {
            let at = line.find(&format!(",{name}=\"")).map(|at| at + name.len() + 3)?;
            line[at..].split('"').next().map(str::to_owned)
        };
        let verb = label("verb").unwrap_or_default();
        let dry = label("dry_run").unwrap_or_default();
        if !["POST", "PUT", "PATCH", "APPLY", "DELETE"].contains(&verb.as_str()) || !dry.is_empty() {
            continue;
        }
        let resource = label("resource").unwrap_or_default();
        let subresource = label("subresource").unwrap_or_default();
        let name = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
        let count: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        *counts.entry(name).or_insert(0.0) += count;
    }
    counts
}

/// The counts once the last Event came through.
async fn settled_writes(env: &TestEnv) -> BTreeMap<String, f64> {
    until("the last Event", async || {
        let last = format!("run{}", RUNS - 1);
        (!env.events("Run", &last).await.is_empty()).then_some(())
    })
    .await;
    writes(env).await
}

fn report_writes(before: &BTreeMap<String, f64>, after: &BTreeMap<String, f64>) {
    println!("{:<44} {:>9}", format!("API writes a Run, over {RUNS}"), "writes");
    let of = |name: &str| {
        let count = after.get(name).unwrap_or(&0.0) - before.get(name).unwrap_or(&0.0);
        count / RUNS as f64
    };
    let counted =
        ["runs/status", "sandboxsessions/status", "sandboxusages", "sandboxusages/status", "events", "configmaps"];
    let mut sum = 0.0;
    for name in counted {
        println!("{name:<44} {:>9.3}", of(name));
        sum += of(name);
    }
    println!("{:<44} {sum:>9.3}   (3 at most)", "together");
    println!("{:<44} {:>9.3}   (apart)\n", "leases", of("leases"));
}

async fn memory() {
    let env = TestEnv::new().await;
    env.listen().await;
    until("it holds the Lease", async || {
        env.operator.as_ref().unwrap().said().contains("the switch is on").then_some(())
    })
    .await;
    // Lists and watches are set up; what follows is steady.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let pid = env.operator.as_ref().unwrap().pid();
    let empty = resident(pid);
    stream::iter(0..SESSIONS)
        .for_each_concurrent(16, async |n| env.session(&format!("s{n}"), json!({"suspend": true})).await)
        .await;
    until("every session is seen", async || {
        let all = env.sessions().list(&kube::api::ListParams::default()).await.unwrap();
        let seen = all.iter().filter(|s| s.status.as_ref().is_some_and(|s| s.phase.is_some())).count();
        (seen == SESSIONS).then_some(())
    })
    .await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let full = resident(pid);
    println!("\n{:<44} {:>9}", "resident memory", "MiB");
    println!("{:<44} {:>9.1}", "no session", empty as f64 / 1024.0);
    println!("{:<44} {:>9.1}", format!("{SESSIONS} sessions"), full as f64 / 1024.0);
    println!("{:<44} {:>9.1}", "KiB a session", (full - empty) as f64 / SESSIONS as f64);
}
