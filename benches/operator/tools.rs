//! File operations beside a bash Run, and a flood of output under either `onLimit`.

use std::time::{Duration, Instant};

use api::Run;
use bytes::Bytes;
use kube::ResourceExt as _;
use runner_protocol::{Launch, Task, installed};
use serde_json::{Value, json};
use sprites::{Client, ExecRequest};
use test_support::{TestEnv, environment::reason, process::peak_resident};

use super::{Watch, condition_of_run, quantile};
use futures::TryStreamExt as _;

/// How often each tool is used.
const EACH: usize = 60;
const KIB: usize = 1024;
const FLOOD: &str = "yes 0123456789abcde | head -c 100000000";

/// Creates a Run, and returns it once a watcher sees that it is over, with how long that took.
async fn finished(env: &TestEnv, watch: &mut Watch, name: &str, tool: &Value) -> (Run, Duration) {
    let mut spec = tool.clone();
    spec["session"] = json!({"name": "bench"});
    let begun = Instant::now();
    env.run(name, spec).await;
    loop {
        let run = watch.try_next().await.unwrap().unwrap();
        if run.name_any() == name && condition_of_run(&run, "Finished") == Some("True") {
            return (run, begun.elapsed());
        }
    }
}

/// Each tool in turns with a bash Run, so that both have the same weather.
pub async fn files(env: &TestEnv, watch: &mut Watch) {
    let policy = format!("default-{}", env.id);
    env.policy(&policy, json!({"limits": {"read": "128Ki", "timeout": "50s"}})).await;
    let content = |size: usize| "a line of text.\n".repeat(size / 16);
    let tools = [
        ("writeFile, 1 KiB", json!({"writeFile": {"path": "small", "content": content(KIB)}})),
        ("readFile, 1 KiB", json!({"readFile": {"path": "small"}})),
        ("writeFile, 128 KiB", json!({"writeFile": {"path": "large", "content": content(128 * KIB)}})),
        ("readFile, 128 KiB", json!({"readFile": {"path": "large"}})),
    ];
    println!("bench: file operations, {EACH} each, in turns with as many bash Runs");
    println!("\n{:<44} {:>9} {:>9} {:>9}", "warm, created -> Finished, milliseconds", "p50", "p99", "/ bash");
    for (number, (name, tool)) in tools.iter().enumerate() {
        let (mut times, mut bash) = (Vec::new(), Vec::new());
        for n in 0..EACH {
            let (run, took) = finished(env, watch, &format!("tool{number}-{n}"), tool).await;
            assert_eq!(reason(&run), "Completed");
            times.push(took);
            let script = json!({"bash": {"command": "true"}});
            bash.push(finished(env, watch, &format!("beside{number}-{n}"), &script).await.1);
        }
        let (p50, p99, beside) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99), quantile(&mut bash, 0.5));
        println!("{name:<44} {p50:>9.1} {p99:>9.1} {:>9.2}", p50 / beside);
    }
}

/// A hundred megabytes of output: what crosses the wire, what the operator holds, how long it takes.
pub async fn flood(env: &TestEnv, watch: &mut Watch, client: &Client, sprite: &str, proof: (&str, &str)) {
    println!("bench: 100 MB of output, cut and stopped");
    println!("\n{:<44} {:>9} {:>9}", "100 MB of output", "Truncate", "Kill");
    let (mut times, mut peak, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    let pid = env.operator.as_ref().unwrap().pid();
    for kill in [false, true] {
        let word = if kill { "Kill" } else { "Truncate" };
        let policy = format!("flood-{}-{}", word.to_lowercase(), env.id);
        env.policy(&policy, json!({"limits": {"timeout": "50s"}, "output": {"onLimit": word}})).await;
        let before = peak_resident(pid);
        let spec = json!({"policyRef": {"name": policy}, "bash": {"command": FLOOD}});
        let (run, time) = finished(env, watch, &policy, &spec).await;
        let expected = if kill { "OutputLimitExceeded" } else { "Completed" };
        assert_eq!(reason(&run), expected);
        times.push(time.as_secs_f64() * 1000.0);
        peak.push((peak_resident(pid) - before) as f64);
        sent.push(bytes_sent(client, sprite, proof, kill).await as f64 / KIB as f64);
    }
    for (name, values) in [
        ("created -> Finished, milliseconds", times),
        ("peak of the operator grows by, KiB", peak),
        ("output on the wire, KiB", sent),
    ] {
        println!("{name:<44} {:>9.0} {:>9.0}", values[0], values[1]);
    }
}

/// The same runner by hand: what it sends in all.
async fn bytes_sent(client: &Client, sprite: &str, (hash, nonce): (&str, &str), kill: bool) -> usize {
    let uid = uuid::Uuid::new_v4().to_string();
    let launch = Launch {
        runner: &installed(hash),
        uid: &uid,
        nonce,
        timeout: Duration::from_secs(50),
        cap: 65_536,
        lookahead: 12_288,
        environment: &[],
        directory: "/workspace",
        task: Task::Script(FLOOD),
        stdin: b"",
        kill_leftovers: true,
        stop_at_cap: kill,
        live: &[],
    };
    let (argv, input) = launch.encode().unwrap();
    let request = ExecRequest { argv, max_run_after_disconnect: Duration::from_secs(1), ..ExecRequest::default() };
    let on = client.wake(sprite).await.unwrap();
    let most = 200 << 20;
    let output = client.run(&on, &request, Bytes::from(input), most, Duration::from_mins(1)).await.unwrap();
    output.stdout.len() + output.stderr.len()
}
