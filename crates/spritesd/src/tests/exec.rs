//! One command on one socket: order, codes, bytes, pressure.

use std::time::{Duration, Instant};

use futures::SinkExt as _;
use rstest::rstest;
use tokio_tungstenite::tungstenite::{self, Message};

use super::support::{Exec, Lab, Seen};

#[tokio::test]
async fn frames_come_in_their_order() {
    let lab = Lab::with("one").await;
    let exec = lab.client.start("one", &["sh", "-c", "echo out; echo err >&2; exit 7"], &[]).await;
    assert_eq!(exec.headers["sprite-version"], "v0.0.1-rc46");
    assert_eq!(exec.headers["x-sprite-capabilities"], "signal");
    assert!(!exec.headers.contains_key("sec-websocket-extensions"));
    let ran = exec.finish().await;

    let Seen::Text(info) = &ran.seen[0] else { panic!("{:?}", ran.seen) };
    assert_eq!((info["type"].as_str(), info["tty"].as_bool()), (Some("session_info"), Some(false)));
    assert!(info["session_id"].as_str().unwrap().parse::<u32>().unwrap() > 1);
    assert_eq!(info["command"], "/usr/bin/sh -c echo out; echo err >&2; exit 7");
    let [.., exit, close] = &ran.seen[..] else { panic!("{:?}", ran.seen) };
    assert_eq!((exit, close), (&Seen::Exit(vec![7]), &Seen::Close(Some(1000))));
    let between = &ran.seen[1..ran.seen.len() - 2];
    assert!(between.iter().all(|seen| matches!(seen, Seen::Stdout(_) | Seen::Stderr(_))), "{:?}", ran.seen);
    assert_eq!((ran.out().as_str(), ran.err().as_str()), ("out\n", "err\n"));
    lab.server.stop().await;
}

#[tokio::test]
async fn codes_are_a_shells() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "touch /workspace/plain; printf '\\177' > /workspace/odd; chmod 755 /workspace/odd").await;
    let cases: [(&[&str], u8, &str); 11] = [
        (&["true"], 0, ""),
        (&["false"], 1, ""),
        (&["sh", "-c", "exit 255"], 255, ""),
        (&["sh", "-c", "kill -9 $$"], 137, ""),
        (&["sh", "-c", "kill -15 $$"], 143, ""),
        (&["no-such-program"], 127, "no-such-program: command not found"),
        (&["/no/such"], 127, "No such file or directory"),
        (&["/workspace/plain"], 126, "Permission denied"),
        (&["/workspace"], 126, "Permission denied"),
        (&["/workspace/odd"], 126, "Exec format error"),
        (&["/etc/ssl/private/key"], 127, ""),
    ];
    for (argv, code, text) in cases {
        let ran = lab.client.run("one", argv).await;
        if argv == ["/etc/ssl/private/key"] {
            assert!(matches!(ran.code, Some(126 | 127)), "{ran:?}");
            continue;
        }
        assert_eq!((ran.code, ran.close), (Some(code), Some(1000)), "{argv:?}");
        assert!(matches!(ran.seen[0], Seen::Text(_)), "{argv:?}");
        assert!(ran.err().contains(text), "{argv:?}: {}", ran.err());
    }
    let ran = lab.client.start("one", &["true"], &[("dir", "/nowhere")]).await.finish().await;
    assert_eq!(ran.code, Some(127));
    assert!(ran.err().contains("/nowhere: No such file or directory"), "{}", ran.err());
    // What could not start leaves the agent and its counting of children in order.
    assert_eq!(lab.client.run("one", &["true"]).await.code, Some(0));
    lab.server.stop().await;
}

#[tokio::test]
async fn the_environment_is_minimal_and_overlaid() {
    let lab = Lab::with("one").await;
    let ran = lab
        .client
        .start("one", &["sh", "-c", "pwd; env"], &[("env", "FOO=a=b"), ("env", "TERM=dumb"), ("dir", "/tmp")])
        .await;
    let out = ran.finish().await.out();
    let mut lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.remove(0), "/tmp");
    lines.sort_unstable();
    let path = "PATH=/.sprite/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/.sprite/aliases";
    assert_eq!(lines, ["FOO=a=b", "HOME=/home/sprite", "LANG=C.UTF-8", path, "PWD=/tmp", "TERM=dumb", "USER=sprite"]);
    assert_eq!(
        lab.client.sh("one", "pwd; id -un; hostname; umask; ulimit -c").await,
        "/home/sprite\nsprite\none\n0022\n0\n"
    );
    lab.server.stop().await;
}

async fn cat(exec: &mut Exec, data: &[u8], chunk: usize) {
    for part in data.chunks(chunk) {
        exec.send(&[&[0], part].concat()).await;
    }
    exec.send(&[4]).await;
}

#[tokio::test]
async fn a_megabyte_goes_through_unchanged() {
    let lab = Lab::with("one").await;
    let data: Vec<u8> = (0..1_000_003u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    for chunk in [data.len(), 1000] {
        let mut exec = lab.client.start("one", &["cat"], &[("stdin", "true")]).await;
        // Everything is written before anything is read: neither side may lock up.
        cat(&mut exec, &data, chunk).await;
        let ran = exec.finish().await;
        assert_eq!(ran.code, Some(0));
        assert!(ran.stdout == data, "{} bytes came back", ran.stdout.len());
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn input_nobody_reads_does_not_delay_the_end() {
    let lab = Lab::with("one").await;
    let mut exec = lab.client.start("one", &["sh", "-c", "exec 0<&-; echo gone"], &[("stdin", "true")]).await;
    cat(&mut exec, &vec![b'x'; 4 << 20], 64 << 10).await;
    let ran = exec.finish().await;
    assert_eq!((ran.out().as_str(), ran.code, ran.close), ("gone\n", Some(0), Some(1000)));
    lab.server.stop().await;
}

#[tokio::test]
async fn without_stdin_there_is_none() {
    let lab = Lab::with("one").await;
    assert_eq!(lab.client.sh("one", "cat; readlink /proc/self/fd/0").await, "/dev/null\n");
    lab.server.stop().await;
}

#[tokio::test]
async fn two_hundred_short_commands_lose_nothing() {
    let lab = Lab::with("one").await;
    for n in 0..200 {
        let word = format!("{n}");
        let mut exec = lab.client.start("one", &["echo", &word], &[("stdin", "true")]).await;
        // As vendor clients do, whether it still arrives or not.
        drop(exec.socket.send(Message::binary(vec![4])).await);
        let ran = exec.finish().await;
        assert_eq!((ran.out(), ran.code, ran.close), (format!("{n}\n"), Some(0), Some(1000)));
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn many_at_once_do_not_mix() {
    let lab = Lab::with("one").await;
    let runs = (0..40).map(|n| {
        let client = lab.client.clone();
        async move {
            let ran = client
                .run("one", &["sh", "-c", &format!("for i in 1 2 3 4 5 6 7 8 9; do echo {n}; done; exit {n}")])
                .await;
            assert_eq!((ran.out(), ran.code), (format!("{n}\n").repeat(9), Some(n)));
        }
    });
    futures::future::join_all(runs).await;
    assert_eq!(lab.client.sessions("one").await.len(), 0);
    // All are reaped: the agent and this shell are there, and those of its pipe that have begun.
    let left = lab.client.sh("one", "ls /proc | grep -c '^[0-9]'").await;
    assert!(left.trim().parse::<u32>().unwrap() <= 4, "{left}");
    lab.server.stop().await;
}

#[tokio::test]
async fn a_background_child_does_not_delay_the_end() {
    let lab = Lab::with("one").await;
    let begun = Instant::now();
    let ran = lab.client.run("one", &["sh", "-c", "sleep 600 & echo now; (sleep 0.1; echo late) & exit 5"]).await;
    assert_eq!((ran.out().as_str(), ran.code), ("now\nlate\n", Some(5)));
    let endless = lab.client.run("one", &["sh", "-c", "yes & while :; do echo x >&2; sleep 0.1; done & exit 6"]).await;
    assert_eq!(endless.code, Some(6));
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    lab.server.stop().await;
}

#[tokio::test]
async fn a_slow_client_blocks_the_program_and_a_gone_one_does_not() {
    let lab = Lab::with("one").await;
    let script = "head -c 100000000 /dev/zero; touch /workspace/done; sleep 600";
    let mut exec = lab.client.start("one", &["bash", "-c", script], &[("max_run_after_disconnect", "0")]).await;
    exec.id().await;
    assert!(matches!(exec.next().await, Seen::Stdout(_)));
    // Ten times the time it takes when somebody reads; the client reads nothing meanwhile.
    lab.client.sh("one", "sleep 1; test ! -e /workspace/done").await;
    drop(exec);
    let client = &lab.client;
    eventually_done(client).await;
    lab.server.stop().await;
}

async fn eventually_done(client: &super::support::Client) {
    super::support::eventually("the program went on", async || {
        client.run("one", &["test", "-e", "/workspace/done"]).await.code == Some(0)
    })
    .await;
}

#[tokio::test]
async fn all_output_of_a_slow_reader_arrives() {
    let lab = Lab::with("one").await;
    let ran =
        lab.client.run("one", &["sh", "-c", "head -c 20000000 /dev/zero; head -c 3000000 /dev/zero >&2; exit 9"]).await;
    assert_eq!((ran.stdout.len(), ran.stderr.len(), ran.code), (20_000_000, 3_000_000, Some(9)));
    lab.server.stop().await;
}

#[tokio::test]
async fn pings_are_answered_and_nonsense_is_ignored() {
    let lab = Lab::with("one").await;
    let mut exec = lab.client.start("one", &["cat"], &[("stdin", "true")]).await;
    exec.id().await;
    for nonsense in [&[9, 9][..], &[], &[1, 2, 3], &[3]] {
        exec.send(nonsense).await;
    }
    for nonsense in [
        "",
        "{",
        "[]",
        r#"{"type":"signal"}"#,
        r#"{"type":"signal","signal":"NONE"}"#,
        r#"{"type":"resize","cols":1,"rows":1}"#,
    ] {
        exec.text(nonsense).await;
    }
    exec.socket.send(Message::Ping(vec![5, 6].into())).await.unwrap();
    assert_eq!(exec.next().await, Seen::Pong(vec![5, 6]));
    exec.send(b"\0ok").await;
    exec.send(&[4]).await;
    let ran = exec.finish().await;
    assert_eq!((ran.out().as_str(), ran.code), ("ok", Some(0)));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_message_of_ten_megabytes_passes() {
    let lab = Lab::with("one").await;
    let mut exec = lab.client.start("one", &["wc", "-c"], &[("stdin", "true")]).await;
    let size = 10 << 20;
    exec.send(&vec![0; size]).await;
    exec.send(&[4]).await;
    assert_eq!(exec.finish().await.out().trim(), (size - 1).to_string());
    lab.server.stop().await;
}

#[tokio::test]
async fn a_message_of_absurd_size_ends_the_connection_only() {
    let lab = Lab::with("one").await;
    let mut exec = lab.client.start("one", &["cat"], &[("stdin", "true")]).await;
    exec.id().await;
    drop(exec.socket.send(Message::binary(vec![0; (10 << 20) + 1])).await);
    assert_eq!(exec.finish().await.code, None);
    assert_eq!(lab.client.run("one", &["true"]).await.code, Some(0));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_signal_by_text() {
    let lab = Lab::with("one").await;
    for (name, code) in [("SIGTERM", 143), ("INT", 130), ("KILL", 137)] {
        let mut exec = lab.client.start("one", &["sleep", "600"], &[]).await;
        exec.id().await;
        exec.text(&format!(r#"{{"type":"signal","signal":"{name}"}}"#)).await;
        assert_eq!(exec.finish().await.code, Some(code), "{name}");
    }
    lab.server.stop().await;
}

#[rstest]
#[case(&[("cmd", "sh"), ("tty", "true"), ("rows", "x")], "invalid rows")]
#[case(&[("cmd", "sh"), ("tty", "maybe")], "invalid tty")]
#[case(&[("cmd", "sh"), ("env", "A")], "invalid env")]
#[case(&[("cmd", "sh"), ("max_run_after_disconnect", "x")], "invalid max_run_after_disconnect")]
#[case(&[("cmd", "a\0b")], "contains NUL")]
#[tokio::test]
async fn bad_parameters_are_refused_before_the_upgrade(#[case] query: &[(&str, &str)], #[case] why: &str) {
    let lab = Lab::with("one").await;
    let Err(tungstenite::Error::Http(response)) = lab.client.open("one", "", query).await else { panic!("accepted") };
    let text = String::from_utf8(response.body().clone().unwrap()).unwrap();
    assert_eq!(response.status().as_u16(), 400);
    assert!(text.contains(why), "{text}");
    assert_eq!(lab.client.json("GET", "/one", "").await.1["status"], "cold");
}

#[tokio::test]
async fn no_sprite_no_socket() {
    let lab = Lab::new().await;
    let Err(tungstenite::Error::Http(response)) = lab.client.open("two", "", &[("cmd", "true")]).await else {
        panic!("accepted")
    };
    assert_eq!(response.status().as_u16(), 404);
}

#[tokio::test]
async fn output_is_kept_from_the_first_byte_however_late_the_client_reads() {
    use crate::exec::query::{self, Query};
    use crate::exec::session::{Begun, Next};
    let lab = Lab::with("one").await;
    let sprite = lab.server.app.registry.get("one").unwrap();
    // More than is kept for who attaches later.
    let Query::Start(command) = query::parse("cmd=head&cmd=-c&cmd=3000000&cmd=/dev/zero").unwrap() else { panic!() };
    let Begun::Session(watcher) = sprite.begin(command).await.unwrap() else { panic!() };
    // As busy as a server can be: the program has long filled all there is to fill.
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let mut bytes = 0;
    while let Next::Frame(frame) = watcher.next().await {
        bytes += frame.len() - 1;
    }
    assert_eq!(bytes, 3_000_000);
    lab.server.stop().await;
}
