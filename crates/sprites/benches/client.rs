//! What the Sprites client costs: an exec through it against a bare WebSocket, 500 execs at once, 100 MB of output through a
//! cap of 64 KiB. Real spritesd, real sandboxes; ratios are within one run.
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
    reason = "a bench fails by panicking, and prints"
)]

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{StreamExt, stream};
use sprite_operator_sprites::{Awake, Client, Config, CreateSprite, Exec, ExecEvent, ExecRequest, OnDrop, TokenSource};
use test_support::process::{Process, resident};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::ClientRequestBuilder;
use url::form_urlencoded;

const TOKEN: &str = "bench";
const EXECS: usize = 400;
const AT_ONCE: usize = 500;
const SHORT: usize = 2000;
/// The 500 are spread over so many Sprites.
const SPRITES: usize = 10;
const FLOOD: usize = 100_000_000;
const FLOODS: usize = 5;
const CAP: usize = 64 * 1024;

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
        std::fs::write(&token, TOKEN).unwrap();
        println!("bench: starting spritesd");
        let mut command = Process::command(test_support::programs::spritesd());
        command.args(["--listen", "127.0.0.1:0", "--boot", "call", "--idle-after", "1h", "--token-file"]).arg(&token);
        command.arg("--data").arg(dir.path().join("data"));
        let (server, lines) = Process::start(&mut command, 1);
        let url = lines[0].strip_prefix("listening ").unwrap().to_owned();
        let client = Client::new(Config::new(url.parse().unwrap(), TokenSource::File(token))).unwrap();
        let mut sprites = Vec::new();
        for n in 0..SPRITES {
            let name = format!("bench-{n}");
            client.create(&CreateSprite { name: name.clone(), ..CreateSprite::default() }).await.unwrap();
            sprites.push(client.wake(&name).await.unwrap());
        }
        latency(&client, &sprites[0], &url).await;
        crowd(&client, &sprites).await;
        flood(&client, &sprites[0], &url).await;
        drop(server);
    });
}

fn bash(script: &str) -> ExecRequest {
    let argv = ["bash", "--noprofile", "--norc", "-c", script].map(str::to_owned).to_vec();
    let max_run_after_disconnect = Duration::from_secs(1);
    ExecRequest { argv, max_run_after_disconnect, on_drop: OnDrop::Leave, ..ExecRequest::default() }
}

/// An exec as plainly as it can be made; how many bytes of output came.
async fn bare(url: &str, sprite: &str, script: &str) -> usize {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(bash(script).argv.iter().map(|argument| ("cmd", argument)));
    query.append_pair("stdin", "false").append_pair("max_run_after_disconnect", "1s");
    let url = format!("{}/v1/sprites/{sprite}/exec?{}", url.replacen("http", "ws", 1), query.finish());
    let request =
        ClientRequestBuilder::new(url.parse().unwrap()).with_header("Authorization", format!("Bearer {TOKEN}"));
    let (mut socket, _) = tokio_tungstenite::connect_async(request).await.unwrap();
    let mut received = 0;
    while let Some(Ok(message)) = socket.next().await {
        let Message::Binary(data) = message else { continue };
        match data[0] {
            3 => return received,
            _ => received += data.len() - 1,
        }
    }
    panic!("no exit");
}

async fn latency(client: &Client, on: &Awake, url: &str) {
    println!("bench: the same command {EXECS} times through the client and over a bare WebSocket, in turn");
    let (mut through, mut bare_times) = (Vec::new(), Vec::new());
    for n in 0..EXECS + 20 {
        let begun = Instant::now();
        let output = client.run(on, &bash("echo hello"), Bytes::new(), CAP, Duration::from_secs(30)).await.unwrap();
        let client_time = begun.elapsed();
        assert_eq!((output.exit, output.stdout.as_slice()), (Some(0), &b"hello\n"[..]));
        let begun = Instant::now();
        assert_eq!(bare(url, on.name(), "echo hello").await, 6);
        if n >= 20 {
            through.push(client_time);
            bare_times.push(begun.elapsed());
        }
    }
    println!("\n{:<44} {:>9} {:>9}", "milliseconds", "p50", "p99");
    let (a, b) = (row("exec through the client", &mut through), row("bare WebSocket", &mut bare_times));
    println!("{:<44} {:>9.2} {:>9.2}", "added", a.0 - b.0, a.1 - b.1);
    println!("{:<44} {:>9.2} {:>9.2}\n", "ratio", a.0 / b.0, a.1 / b.1);
}

async fn crowd(client: &Client, sprites: &[Awake]) {
    println!("bench: {AT_ONCE} execs open at once, over {SPRITES} Sprites");
    let before = resident(std::process::id());
    let begun = Instant::now();
    let mut open: Vec<Exec> = stream::iter(0..AT_ONCE)
        .map(|n| async move {
            let request = ExecRequest { stdin: true, ..bash("read -r line; echo \"$line\"") };
            client.exec(&sprites[n % SPRITES], &request).await.unwrap()
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let opened = begun.elapsed();
    let with = resident(std::process::id());
    let begun = Instant::now();
    stream::iter(&mut open)
        .for_each_concurrent(AT_ONCE, async |exec| {
            exec.send_stdin(Bytes::from_static(b"hello\n")).await.unwrap();
            exec.close_stdin().await.unwrap();
            let mut output = Vec::new();
            loop {
                match exec.next().await {
                    ExecEvent::Stdout(data) => output.extend_from_slice(&data),
                    ExecEvent::Session { .. } | ExecEvent::Stderr(_) => {}
                    ExecEvent::Exit(code) => break assert_eq!((code, output.as_slice()), (0, &b"hello\n"[..])),
                    ExecEvent::Lost(reason) => panic!("{reason}"),
                }
            }
        })
        .await;
    println!("opened in {:.2} s, all answered in {:.2} s", opened.as_secs_f64(), begun.elapsed().as_secs_f64());
    println!(
        "resident memory of this client: {:.1} MiB before, {:.1} MiB with {AT_ONCE} open: {:.1} KiB each",
        before as f64 / 1024.0,
        with as f64 / 1024.0,
        (with.saturating_sub(before)) as f64 / AT_ONCE as f64
    );
    drop(open);

    println!("bench: {SHORT} short execs, {AT_ONCE} at a time");
    let begun = Instant::now();
    stream::iter(0..SHORT)
        .for_each_concurrent(AT_ONCE, async |n| {
            let on = &sprites[n % SPRITES];
            let output = client.run(on, &bash("echo hello"), Bytes::new(), CAP, Duration::from_mins(2)).await.unwrap();
            assert_eq!((output.exit, output.stdout.as_slice()), (Some(0), &b"hello\n"[..]));
        })
        .await;
    println!("{:.0} execs/s\n", SHORT as f64 / begun.elapsed().as_secs_f64());
}

async fn flood(client: &Client, on: &Awake, url: &str) {
    println!(
        "bench: {} MB of output through a cap of 64 KiB, and over a bare WebSocket, {FLOODS} times",
        FLOOD / 1_000_000
    );
    let script = format!("head -c {FLOOD} /dev/zero");
    let (mut through, mut bare_times, mut most) = (Vec::new(), Vec::new(), 0);
    for _ in 0..FLOODS {
        let before = resident(std::process::id());
        let begun = Instant::now();
        let output = client.run(on, &bash(&script), Bytes::new(), CAP, Duration::from_mins(2)).await.unwrap();
        through.push(begun.elapsed());
        assert_eq!((output.exit, output.stdout.len(), output.truncated), (Some(0), CAP, true));
        most = most.max(resident(std::process::id()).saturating_sub(before));
        let begun = Instant::now();
        assert_eq!(bare(url, on.name(), &script).await, FLOOD);
        bare_times.push(begun.elapsed());
    }
    let rate = |times: &mut Vec<Duration>| FLOOD as f64 / 1e6 / (quantiles(times).0 / 1000.0);
    let (a, b) = (rate(&mut through), rate(&mut bare_times));
    println!("through the cap {a:.0} MB/s, bare {b:.0} MB/s, ratio {:.2}; grew by at most {most} KiB", a / b);
}

/// p50 and p99, in milliseconds.
fn quantiles(times: &mut [Duration]) -> (f64, f64) {
    times.sort();
    let at = |quantile: usize| times[(times.len() * quantile / 100).min(times.len() - 1)].as_secs_f64() * 1000.0;
    (at(50), at(99))
}

fn row(name: &str, times: &mut [Duration]) -> (f64, f64) {
    let (p50, p99) = quantiles(times);
    println!("{name:<44} {p50:>9.2} {p99:>9.2}");
    (p50, p99)
}
