//! Commands on a terminal: raw bytes both ways, and a session to come back to.

use std::time::Duration;

use serde_json::{Value, json};

use super::support::{Client, Frame, Lab, Wire, bytes, eventually};

/// Starts a command on a terminal; gives the socket and the first message.
async fn terminal(client: &Client, query: &str) -> (Wire, Value) {
    let mut wire = client.wire(&format!("one/exec?tty=true&{query}"), &[]).await.unwrap();
    let info = wire.json().await;
    assert_eq!((&info["type"], &info["tty"]), (&json!("session_info"), &json!(true)));
    (wire, info)
}

/// What a command says on its terminal, up to its end, and how it ends.
async fn end(wire: &mut Wire) -> (String, Value) {
    let frames = wire.rest().await;
    let [.., Frame::Text(exit), Frame::Close(Some(1000))] = &frames[..] else { panic!("{frames:?}") };
    (String::from_utf8(bytes(&frames)).unwrap(), serde_json::from_str(exit).unwrap())
}

#[tokio::test]
async fn the_terminal_is_the_guests_own_and_controls_the_program() {
    let lab = Lab::with("one").await;
    let script =
        "tty; stty size; ps -o tpgid= -p $$ | tr -d ' '; echo $$; test -t 0 -a -t 1 -a -t 2 && echo all; exit 7";
    let query =
        format!("cmd=bash&cmd=-c&cmd={}", url::form_urlencoded::byte_serialize(script.as_bytes()).collect::<String>());
    let (mut wire, info) = terminal(&lab.client, &query).await;
    assert_eq!((&info["rows"], &info["cols"]), (&json!(24), &json!(80)));
    let id = info["session_id"].as_str().unwrap();
    let (out, exit) = end(&mut wire).await;
    // The process itself is the session's leader, its group the one in the foreground.
    assert_eq!(out, format!("/dev/pts/0\r\n24 80\r\n{id}\r\n{id}\r\nall\r\n"));
    assert_eq!(exit, json!({ "type": "exit", "exit_code": 7 }));
    assert!(info["command"].as_str().unwrap().starts_with("/usr/bin/bash -c tty;"), "{info}");
    lab.server.stop().await;
}

#[tokio::test]
async fn a_shell_has_job_control_and_keys_are_signals() {
    let lab = Lab::with("one").await;
    // A prompt that takes its time, as it does on a busy machine.
    let prompt = "env=PS1%3Dready%3E&env=PROMPT_COMMAND%3Dsleep%200.3&env=TERM%3Ddumb";
    let (mut wire, _) = terminal(&lab.client, &format!("cmd=bash&cmd=--norc&rows=50&cols=100&{prompt}")).await;
    wire.until("ready>").await;
    wire.send(b"stty size; set -o | grep monitor\n").await;
    let seen = wire.until("on\r\n").await;
    assert!(seen.contains("50 100\r\n"), "{seen:?}");
    // What speaks is what is in the foreground, before a key is pressed.
    wire.send(b"sh -c 'echo u\"\"p; exec sleep 600'\n").await;
    wire.until("up\r\n").await;
    wire.send(&[3]).await;
    wire.until("ready>").await;
    wire.send(b"echo code $?\n").await;
    wire.until("code 130\r\n").await;
    wire.text(r#"{"type":"resize","rows":30,"cols":"90"}"#).await;
    wire.send(b"stty size\n").await;
    wire.until("30 90\r\n").await;
    // The program in the foreground is told.
    wire.send(b"bash -c \"trap 'echo re''sized; exit' WINCH; echo u''p; while :; do sleep 0.05; done\"\n").await;
    wire.until("up\r\n").await;
    wire.text(r#"{"type":"resize","rows":31,"cols":91}"#).await;
    wire.until("resized\r\nready>").await;
    wire.send(b"sh -c 'echo g\"\"o; exec sleep 600'\n").await;
    wire.until("go\r\n").await;
    wire.send(&[0x1a]).await;
    // What is typed before the prompt is there is echoed by the terminal, and again by the shell that reads it.
    wire.until("600'\r\nready>").await;
    // What is typed before the shell has given the terminal back is not echoed at all, so the wait is for what runs.
    wire.send(b"kill %1; echo r''un; cat\n").await;
    wire.until("run\r\n").await;
    wire.send(b"h\xc3\xa4llo\n").await;
    wire.until("h\u{e4}llo\r\nh\u{e4}llo\r\n").await;
    // The end of the input is a key: of the program in the foreground, then of the shell.
    wire.send(&[4]).await;
    wire.until("ready>").await;
    wire.send(&[4]).await;
    let (_, exit) = end(&mut wire).await;
    assert_eq!(exit["type"], "exit");
    lab.server.stop().await;
}

#[tokio::test]
async fn codes_of_ends_and_of_what_cannot_start() {
    let lab = Lab::with("one").await;
    for (query, code, text) in [
        ("cmd=true", 0, ""),
        ("cmd=sh&cmd=-c&cmd=kill+-9+$$", 137, ""),
        ("cmd=no-such-program", 127, "no-such-program: command not found\r\n"),
        ("cmd=/etc/passwd", 126, "/etc/passwd: Permission denied\r\n"),
        ("cmd=true&dir=/nowhere", 127, "/nowhere: No such file or directory\r\n"),
        // The zeroth argument is the caller's.
        ("path=/usr/bin/bash&cmd=-other&cmd=-c&cmd=echo+$0%3B+tty", 0, "-other\r\n/dev/pts/0\r\n"),
    ] {
        let (mut wire, _) = terminal(&lab.client, query).await;
        assert_eq!(end(&mut wire).await, (text.into(), json!({ "type": "exit", "exit_code": code })), "{query}");
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn no_last_word_is_lost() {
    let lab = Lab::with("one").await;
    for n in 0..100 {
        let (mut wire, _) = terminal(&lab.client, &format!("cmd=echo&cmd={n}")).await;
        assert_eq!(end(&mut wire).await, (format!("{n}\r\n"), json!({ "type": "exit", "exit_code": 0 })));
    }
    // Much at once, and a child that keeps the terminal open.
    let (mut wire, _) = terminal(&lab.client, "cmd=sh&cmd=-c&cmd=sleep+600+%26+seq+20000").await;
    let (out, _) = end(&mut wire).await;
    assert_eq!((out.lines().count(), out.lines().last()), (20_000, Some("20000")));
    lab.server.stop().await;
}

#[tokio::test]
async fn bytes_are_not_touched_where_the_terminal_is_raw() {
    let lab = Lab::with("one").await;
    let script = "stty+raw+-echo%3B+echo+up%3B+head+-c+70000+%7C+cat";
    let (mut wire, _) = terminal(&lab.client, &format!("cmd=sh&cmd=-c&cmd={script}")).await;
    wire.until("up\n").await;
    let data: Vec<u8> = (0..70_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    for part in data.chunks(10_000) {
        wire.send(part).await;
    }
    let frames = wire.rest().await;
    assert!(bytes(&frames) == data, "{} bytes came back", bytes(&frames).len());
    lab.server.stop().await;
}

#[tokio::test]
async fn a_session_is_there_to_come_back_to() {
    let lab = Lab::with("one").await;
    let (mut wire, info) =
        terminal(&lab.client, "cmd=bash&cmd=--norc&env=PS1%3Dready%3E&env=TERM%3Ddumb&rows=40").await;
    let id = info["session_id"].as_str().unwrap().to_owned();
    wire.until("ready>").await;
    wire.send(b"echo a\"\"b\n").await;
    wire.until("ab\r\n").await;
    drop(wire);

    let sessions = lab.client.sessions("one").await;
    assert_eq!((&sessions[0]["id"], &sessions[0]["tty"]), (&json!(id), &json!(true)));
    for path in [format!("one/exec/{id}"), format!("one/exec?id={id}&cmd=")] {
        let mut back = lab.client.wire(&path, &[]).await.unwrap();
        let again = back.json().await;
        assert_eq!((&again["session_id"], &again["rows"]), (&json!(id), &json!(40)));
        // What some clients send before they know what this is: it must not end the shell.
        back.send(&[4]).await;
        back.until("ab\r\nready>").await;
        back.send(b"echo c\"\"d\n").await;
        back.until("cd\r\n").await;
    }
    let mut back = lab.client.wire(&format!("one/exec/{id}"), &[]).await.unwrap();
    back.json().await;
    // A second one is meant.
    back.send(&[4]).await;
    back.send(&[4]).await;
    assert_eq!(end(&mut back).await.1, json!({ "type": "exit", "exit_code": 0 }));
    let client = &lab.client;
    eventually("it is gone", async || client.sessions("one").await.is_empty()).await;
    lab.server.stop().await;
}

#[tokio::test]
async fn it_outlives_what_others_do_not() {
    let lab = Lab::with("one").await;
    let (wire, _) = terminal(&lab.client, "cmd=sleep&cmd=600").await;
    let (short, _) = terminal(&lab.client, "cmd=sleep&cmd=600&max_run_after_disconnect=500ms").await;
    drop((wire, short));
    let client = &lab.client;
    eventually("one ended", async || client.sessions("one").await.len() == 1).await;
    assert!(client.sessions("one").await[0]["tty"].as_bool().unwrap());
    lab.server.stop().await;
}

#[tokio::test]
async fn killing_hangs_the_terminal_up() {
    let lab = Lab::with("one").await;
    let (mut wire, info) = terminal(&lab.client, "cmd=bash&cmd=--norc&env=PS1%3Dready%3E&env=TERM%3Ddumb").await;
    let id = info["session_id"].as_str().unwrap();
    wire.until("ready>").await;
    // A shell at its prompt does not mind being asked.
    let path = format!("/one/exec/{id}/kill?timeout=200ms");
    let (_, text) = lab.client.call("POST", &path, "").await;
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["signal", "timeout", "signal", "killed", "signal", "complete"]);
    assert_eq!((&events[4]["signal"], &events[5]["exit_code"]), (&json!("SIGHUP"), &json!(137)));
    assert_eq!(end(&mut wire).await.1["exit_code"], 137);
    assert_eq!(lab.client.call("POST", &path, "").await.0.as_u16(), 410);
    lab.server.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_nothing_holds_up_only_its_program() {
    let lab = Lab::with("one").await;
    let (mut wire, info) = terminal(&lab.client, "cmd=sh&cmd=-c&cmd=yes+%26+wait").await;
    wire.until("y\r\n").await;
    let begun = std::time::Instant::now();
    assert_eq!(lab.client.run("one", &["true"]).await.code, Some(0));
    assert!(begun.elapsed() < Duration::from_secs(10));
    let id = info["session_id"].as_str().unwrap();
    lab.client.call("POST", &format!("/one/exec/{id}/kill?signal=KILL"), "").await;
    assert_eq!(end(&mut wire).await.1["exit_code"], 137);
    lab.server.stop().await;
}

#[tokio::test]
async fn a_quiet_session_gives_a_sign_of_life() {
    let lab = Lab::with("one").await;
    let client = lab.hasty(Duration::from_millis(50)).await;
    for query in ["tty=true&cmd=sleep&cmd=600", "cmd=sleep&cmd=600"] {
        let mut wire = client.wire(&format!("one/exec?{query}"), &[]).await.unwrap();
        assert_eq!(wire.json().await["type"], "session_info");
        for _ in 0..3 {
            assert_eq!(wire.json().await, json!({ "type": "debug", "msg": "keepalive" }));
        }
    }
    let mut wire = client.wire("one/control", &[]).await.unwrap();
    wire.text(r#"control:{"type":"op.start","op":"exec","args":{"cmd":["sleep","600"]}}"#).await;
    assert_eq!(wire.json().await["type"], "session_info");
    assert_eq!(wire.json().await, json!({ "type": "debug", "msg": "keepalive" }));
    lab.server.stop().await;
}
