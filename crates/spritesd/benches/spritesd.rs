//! What the local Sprites server costs: a command in a Sprite against bubblewrap alone, the steps of a Sprite's life
//! with few and with many around, memory of one that idles. Ratios are within one run.
//!
//! `make bench`. Needs what `make test` needs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a bench fails by panicking, and prints"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, stream};
use sprites::{Client, Config, CreateSprite, ExecRequest, NetworkRule, Target, TokenSource};
use test_support::process::{Process, resident};

const EXECS: usize = 200;
const LIVES: usize = 40;
const MANY: usize = 200;
/// How many Sprites are made at once.
const AT_ONCE: usize = 8;

fn main() {
    // `cargo test --all-targets` builds and starts benches, too; there is nothing to test here.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let dir = tempfile::tempdir().unwrap();
        let token = dir.path().join("token");
        std::fs::write(&token, "bench").unwrap();
        println!("bench: starting spritesd");
        let mut command = Process::command(test_support::programs::spritesd());
        command.args(["--listen", "127.0.0.1:0", "--boot", "call", "--idle-after", "1h", "--token-file"]).arg(&token);
        command.arg("--data").arg(dir.path().join("data"));
        let (server, lines) = Process::start(&mut command, 1);
        let url = lines[0].strip_prefix("listening ").unwrap();
        let client = Client::new(Config::new(url.parse().unwrap(), TokenSource::File(token))).unwrap();

        println!("bench: the same command {EXECS} times in a running Sprite, in a new bubblewrap, and without one");
        create(&client, "first").await;
        let (mut sprite, mut bubblewrap, mut plain) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..EXECS {
            sprite.push(exec(&client, "first").await);
            bubblewrap.push(by_hand(&sandbox()));
            plain.push(by_hand(&[]));
        }
        println!("\n{:<44} {:>9} {:>9}", "milliseconds", "p50", "p99");
        let of_sprite = row("exec in a running Sprite", &mut sprite);
        let of_bubblewrap = row("bubblewrap alone", &mut bubblewrap);
        row("no sandbox", &mut plain);
        println!(
            "{:<44} {:>9.1} {:>9.1}",
            "ratio Sprite / bubblewrap",
            of_sprite.0 / of_bubblewrap.0,
            of_sprite.1 / of_bubblewrap.1
        );

        println!("\nbench: {LIVES} lives of a Sprite, one after the other, with 1 other around");
        let few = lives(&client, "few").await;
        let before = resident(server.pid());
        println!("bench: making {MANY} running Sprites");
        let names: Vec<String> = (0..MANY).map(|n| format!("many-{n}")).collect();
        stream::iter(&names)
            .for_each_concurrent(AT_ONCE, async |name| {
                create(&client, name).await;
                exec(&client, name).await;
            })
            .await;
        let after = resident(server.pid());
        let inside = idle_memory();
        println!("bench: {LIVES} lives of a Sprite with {MANY} others around");
        let many = lives(&client, "more").await;
        println!("\n{:<28} {:>9} {:>9} {:>9} {:>9} {:>7}", "milliseconds", "p50", "p99", "p50", "p99", "ratio");
        println!("{:<28} {:>19} {:>19}", "", "with 1 other", format!("with {MANY} others"));
        for ((step, mut few), (_, mut many)) in few.into_iter().zip(many) {
            let (a, b) = (quantiles(&mut few), quantiles(&mut many));
            println!("{step:<28} {:>9.1} {:>9.1} {:>9.1} {:>9.1} {:>7.1}", a.0, a.1, b.0, b.1, b.0 / a.0);
        }
        println!(
            "\nmemory of an idle Sprite: {:.1} MiB in its own processes (proportional), {:.0} KiB in the server",
            inside,
            (after - before) as f64 / MANY as f64
        );
        println!("bench: deleting them");
        stream::iter(&names)
            .for_each_concurrent(AT_ONCE, async |name| drop(client.delete(Target::any(name)).await))
            .await;
        drop(server);
    });
}

async fn create(client: &Client, name: &str) {
    client.create(&CreateSprite { name: name.into(), ..CreateSprite::default() }).await.unwrap();
}

/// The first command in a Sprite that sleeps.
async fn wake(client: &Client, sprite: &str) -> Duration {
    let begun = Instant::now();
    client.wake(sprite).await.unwrap();
    begun.elapsed()
}

async fn exec(client: &Client, sprite: &str) -> Duration {
    let on = client.wake(sprite).await.unwrap();
    let argv = ["bash", "--noprofile", "--norc", "-c", "echo hello"].map(str::to_owned).to_vec();
    let request = ExecRequest { argv, max_run_after_disconnect: Duration::from_secs(1), ..ExecRequest::default() };
    let begun = Instant::now();
    let output = client.run(&on, &request, Bytes::new(), 65_536, Duration::from_mins(1)).await.unwrap();
    assert_eq!((output.exit, output.stdout.as_ref()), (Some(0), b"hello\n".as_ref()));
    begun.elapsed()
}

/// The namespaces and mounts of a Sprite, by hand.
fn sandbox() -> Vec<&'static str> {
    let mut words = vec!["bwrap", "--unshare-all", "--die-with-parent", "--clearenv", "--ro-bind", "/usr", "/usr"];
    for root in ["bin", "sbin", "lib", "lib64"] {
        if Path::new("/").join(root).is_symlink() {
            words.extend([
                "--symlink",
                match root {
                    "bin" => "usr/bin",
                    "sbin" => "usr/sbin",
                    "lib" => "usr/lib",
                    _ => "usr/lib64",
                },
                match root {
                    "bin" => "/bin",
                    "sbin" => "/sbin",
                    "lib" => "/lib",
                    _ => "/lib64",
                },
            ]);
        }
    }
    words.extend(["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--"]);
    words
}

fn by_hand(wrapper: &[&str]) -> Duration {
    let words: Vec<&str> =
        wrapper.iter().copied().chain(["bash", "--noprofile", "--norc", "-c", "echo hello"]).collect();
    let begun = Instant::now();
    let output = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.stdout, b"hello\n");
    begun.elapsed()
}

/// The steps of lives, in order.
async fn lives(client: &Client, prefix: &str) -> Vec<(&'static str, Vec<Duration>)> {
    let deny =
        [NetworkRule { domain: Some("*".into()), action: Some("deny".into()), include: None, unknown: Vec::new() }];
    let mut steps: Vec<(&str, Vec<Duration>)> =
        ["create", "first exec (cold)", "lock", "exec", "delete"].into_iter().map(|step| (step, Vec::new())).collect();
    for n in 0..LIVES {
        let name = format!("{prefix}-{n}");
        let mut begun = Instant::now();
        let mut lap = |step: usize| {
            steps[step].1.push(begun.elapsed());
            begun = Instant::now();
        };
        create(client, &name).await;
        lap(0);
        wake(client, &name).await;
        lap(1);
        let on = client.wake(&name).await.unwrap();
        client.set_network_policy(&on, &deny).await.unwrap();
        lap(2);
        exec(client, &name).await;
        lap(3);
        client.delete(Target::any(&name)).await.unwrap();
        lap(4);
    }
    steps
}

/// Mean proportional memory of all processes of a Sprite, in MiB: of those named `many-*` by their host name.
fn idle_memory() -> f64 {
    let mut total = 0.0;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let command = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).into_owned();
        // bubblewrap's own two processes carry the host name as an argument; the agent is their child.
        let is_guest =
            command.contains("/.sprite/agent") && (command.contains("many-") || command.starts_with("/.sprite/agent"));
        if !is_guest {
            continue;
        }
        let rollup = std::fs::read_to_string(entry.path().join("smaps_rollup")).unwrap_or_default();
        let pss = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        total += pss.and_then(|pss| pss.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(0.0);
    }
    total / 1024.0 / MANY as f64
}

fn quantiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort();
    let at = |q: f64| times[((times.len() - 1) as f64 * q).round() as usize].as_secs_f64() * 1000.0;
    (at(0.5), at(0.99))
}

fn row(name: &str, times: &mut [Duration]) -> (f64, f64) {
    let (p50, p99) = quantiles(times);
    println!("{name:<44} {p50:>9.1} {p99:>9.1}");
    (p50, p99)
}
