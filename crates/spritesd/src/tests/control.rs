//! The control socket: operations one after the other, as each vendor client writes them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::support::{Client, Frame, Lab, Wire, eventually};

const GO: &[(&str, &str)] = &[("User-Agent", "sprites-go-sdk/1.0")];

async fn control(client: &Client, headers: &[(&str, &str)]) -> Wire {
    client.wire("one/control", headers).await.unwrap()
}

async fn start(wire: &mut Wire, args: &Value) {
    let message = json!({ "type": "op.start", "op": "exec", "args": args });
    wire.text(&format!("control:{message}")).await;
}

/// The next message about operations, which must be prefixed.
async fn about(wire: &mut Wire) -> Value {
    let Frame::Text(text) = wire.next().await else { panic!("no text") };
    serde_json::from_str(text.strip_prefix("control:").unwrap_or_else(|| panic!("{text}"))).unwrap()
}

/// Starts a command and reads the first message; gives the session's id.
async fn begin(wire: &mut Wire, args: &Value) -> String {
    start(wire, args).await;
    let info = wire.json().await;
    assert_eq!(info["type"], "session_info", "{info}");
    info["session_id"].as_str().unwrap().to_owned()
}

/// Reads frames until the end of the operation; gives them and its code.
async fn complete(wire: &mut Wire) -> (Vec<Vec<u8>>, i64) {
    let mut frames = Vec::new();
    loop {
        match wire.next().await {
            Frame::Binary(data) => frames.push(data),
            Frame::Text(text) => {
                let message = text.strip_prefix("control:").unwrap_or_else(|| panic!("{text}"));
                let message: Value = serde_json::from_str(message).unwrap();
                assert_eq!(message["type"], "op.complete");
                return (frames, message["args"]["exitCode"].as_i64().unwrap());
            }
            other => panic!("{other:?} after {frames:?}"),
        }
    }
}

#[tokio::test]
async fn many_commands_on_one_socket() {
    let lab = Lab::with("one").await;
    let mut wire = control(&lab.client, &[]).await;
    assert_eq!(wire.headers["sprite-version"], "v0.0.1-rc46");
    for n in 0..100u8 {
        let script = format!("echo {n}; exit {n}");
        begin(&mut wire, &json!({ "cmd": ["sh", "-c", script], "stdin": "false" })).await;
        // Sent though there is no input, and perhaps after the end.
        wire.send(&[4]).await;
        let expected = vec![[b"\x01", format!("{n}\n").as_bytes()].concat(), vec![3, n]];
        assert_eq!(complete(&mut wire).await, (expected, n.into()));
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn input_comes_as_each_client_writes_it() {
    let lab = Lab::with("one").await;
    let data: Vec<u8> = (0..1_000_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    for (headers, prefix) in [(&[][..], &[0u8][..]), (GO, &[])] {
        let mut wire = control(&lab.client, headers).await;
        for _ in 0..2 {
            begin(&mut wire, &json!({ "cmd": ["cat"], "stdin": true, "path": "" })).await;
            for chunk in data.chunks(30_000) {
                wire.send(&[prefix, chunk].concat()).await;
            }
            wire.send(&[4]).await;
            let (frames, code) = complete(&mut wire).await;
            let out: Vec<u8> =
                frames.iter().filter(|frame| frame[0] == 1).flat_map(|frame| frame[1..].to_vec()).collect();
            assert!(out == data && code == 0, "{} bytes came back", out.len());
        }
    }
    // Raw input may begin with anything.
    let mut wire = control(&lab.client, GO).await;
    begin(&mut wire, &json!({ "cmd": ["od", "-An", "-tx1"], "stdin": "true" })).await;
    for frame in [&[0, 1][..], &[4, 4], &[], br#"{"type":"signal","signal":"KILL"}"#, &[4]] {
        wire.send(frame).await;
    }
    let (frames, code) = complete(&mut wire).await;
    assert!(frames[0].starts_with(b"\x01 00 01 04 04 7b 22") && code == 0, "{frames:?}");
    lab.server.stop().await;
}

#[tokio::test]
async fn a_terminal_by_control() {
    let lab = Lab::with("one").await;
    let mut wire = control(&lab.client, GO).await;
    begin(&mut wire, &json!({ "cmd": ["stty", "size"], "tty": "true" })).await;
    assert_eq!(wire.next().await, Frame::Binary(b"24 80\r\n".to_vec()));
    assert_eq!(wire.json().await, json!({ "type": "exit", "exit_code": 0 }));
    assert_eq!(about(&mut wire).await, json!({ "type": "op.complete", "args": { "exitCode": 0 } }));

    let mut wire = control(&lab.client, &[]).await;
    let args = json!({ "cmd": ["bash", "--norc"], "tty": true, "rows": "50", "cols": 100, "env": ["PS1=ready>"] });
    begin(&mut wire, &args).await;
    wire.until("ready>").await;
    // One client sends its messages as binary, the other as text.
    wire.send(br#"{"type":"resize","cols":90,"rows":30}"#).await;
    wire.send(b"stty size\n").await;
    wire.until("30 90\r\n").await;
    wire.text(r#"{"type":"resize","cols":91,"rows":31}"#).await;
    wire.send(b"stty size; exit 5\n").await;
    wire.until("31 91\r\nexit\r\n").await;
    assert_eq!(wire.json().await, json!({ "type": "exit", "exit_code": 5 }));
    assert_eq!(about(&mut wire).await["args"]["exitCode"], 5);
    lab.server.stop().await;
}

#[tokio::test]
async fn signals_as_text_and_as_binary() {
    let lab = Lab::with("one").await;
    let mut wire = control(&lab.client, &[]).await;
    for binary in [true, false] {
        begin(&mut wire, &json!({ "cmd": ["sleep", "600"] })).await;
        let message = r#"{"type":"signal","signal":"SIGINT"}"#;
        if binary {
            wire.send(message.as_bytes()).await;
        } else {
            wire.text(message).await;
        }
        assert_eq!(complete(&mut wire).await, (vec![vec![3, 130]], 130));
    }
    lab.server.stop().await;
}

/// Who sees the output of a command end starts the next without waiting for its last word.
#[tokio::test]
async fn the_next_operation_waits_for_one_that_is_ending() {
    let lab = Lab::with("one").await;
    let mut wire = control(&lab.client, &[]).await;
    for _ in 0..5 {
        begin(&mut wire, &json!({ "cmd": ["true"] })).await;
        start(&mut wire, &json!({ "cmd": ["echo", "next"] })).await;
        assert_eq!(complete(&mut wire).await.1, 0);
        next(&mut wire, "next").await;
    }
    // What does not end is not waited for, and answers stay in their order.
    begin(&mut wire, &json!({ "cmd": ["bash", "-c", "trap '' TERM; echo up; read line; exit 6"], "stdin": true }))
        .await;
    assert_eq!(wire.next().await, Frame::Binary(b"\x01up\n".to_vec()));
    wire.text(r#"{"type":"signal","signal":"TERM"}"#).await;
    let asked = Instant::now();
    start(&mut wire, &json!({ "cmd": ["true"] })).await;
    assert_eq!(about(&mut wire).await["args"]["error"], "another operation is running");
    assert!(asked.elapsed() < Duration::from_secs(1));
    wire.send(&[4]).await;
    assert_eq!(complete(&mut wire).await.1, 6);
    lab.server.stop().await;
}

/// Reads what a client is told that has started `echo TEXT`: nothing else.
async fn next(wire: &mut Wire, text: &str) {
    assert_eq!(wire.json().await["type"], "session_info");
    assert_eq!(complete(wire).await, (vec![format!("\x01{text}\n").into_bytes(), vec![3, 0]], 0));
}

/// Clients take all that comes after they have started a command for what that command says.
#[tokio::test]
async fn what_its_client_has_ended_says_nothing_to_the_next() {
    let lab = Lab::with("one").await;
    let mut wire = control(&lab.client, &[]).await;
    let obeys = ["bash", "-c", "trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done"];
    // Not of its process group, and keeps its output open.
    let leaves = ["bash", "-c", "setsid sleep 2 & echo up; sleep 600"];
    for (cmd, terminal, signal) in [
        (&["sleep", "600"][..], false, "KILL"),
        (&["sleep", "600"], false, "SIGINT"),
        (&["cat"], true, "KILL"),
        (&obeys, false, "TERM"),
        (&leaves, false, "KILL"),
    ] {
        // At once, or while the end is on its way.
        for pause in [0, 0, 2, 10, 50] {
            begin(&mut wire, &json!({ "cmd": cmd, "tty": terminal })).await;
            if cmd.len() > 2 {
                assert_eq!(wire.next().await, Frame::Binary(b"\x01up\n".to_vec()));
            }
            wire.text(&json!({ "type": "signal", "signal": signal }).to_string()).await;
            tokio::time::sleep(Duration::from_millis(pause)).await;
            for number in 0..3 {
                let text = format!("{pause} {number}");
                start(&mut wire, &json!({ "cmd": ["echo", text] })).await;
                next(&mut wire, &text).await;
            }
        }
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn output_that_waits_for_its_client_goes_with_what_was_killed() {
    let lab = Lab::with("one").await;
    let mut wire = control(&lab.client, &[]).await;
    begin(&mut wire, &json!({ "cmd": ["yes", "old"] })).await;
    // More than the connection takes, so that all on the way to it is full.
    tokio::time::sleep(Duration::from_millis(500)).await;
    wire.text(r#"{"type":"signal","signal":"KILL"}"#).await;
    start(&mut wire, &json!({ "cmd": ["echo", "new"] })).await;
    // What the connection has taken already cannot be had back.
    while let frame = wire.next().await
        && !matches!(&frame, Frame::Text(text) if text.contains("session_info"))
    {
        assert!(matches!(&frame, Frame::Binary(data) if data[0] == 1), "{frame:?}");
    }
    assert_eq!(complete(&mut wire).await, (vec![b"\x01new\n".to_vec(), vec![3, 0]], 0));
    lab.server.stop().await;
}

/// Who waits for the end of what it has ended gets all of it.
#[tokio::test]
async fn an_end_that_is_waited_for_is_told() {
    let lab = Lab::with("one").await;
    let mut wire = control(&lab.client, &[]).await;
    let script = "exec 2>/dev/null; trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done";
    for (signal, frames, code) in
        [("TERM", vec![b"\x01bye\n".to_vec(), vec![3, 5]], 5), ("KILL", vec![vec![3, 137]], 137)]
    {
        begin(&mut wire, &json!({ "cmd": ["bash", "-c", script] })).await;
        assert_eq!(wire.next().await, Frame::Binary(b"\x01up\n".to_vec()));
        let asked = Instant::now();
        wire.text(&json!({ "type": "signal", "signal": signal }).to_string()).await;
        assert_eq!(complete(&mut wire).await, (frames, code));
        assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn errors_leave_the_socket_usable() {
    let lab = Lab::with("one").await;
    let mut wire = control(&lab.client, &[]).await;
    for (message, why) in [
        (r#"control:{"type":"op.start","op":"dance"}"#, "unknown operation: dance"),
        (r#"control:{"type":"op.start","op":"exec","args":[]}"#, "args must be an object"),
        (r#"control:{"type":"op.start","op":"exec","args":{"cmd":["a\u0000"]}}"#, "contains NUL"),
        (r#"control:{"type":"op.start","op":"exec","args":{"cmd":[""],"id":"99999"}}"#, "session not found: 99999"),
        ("control:{", "invalid message"),
        (r#"control:{"type":"dance"}"#, "unknown message type"),
    ] {
        wire.text(message).await;
        let error = about(&mut wire).await;
        assert_eq!(error["type"], "op.error", "{message}");
        assert!(error["args"]["error"].as_str().unwrap().contains(why), "{message}: {error}");
    }
    // What goes to no operation: ignored.
    for text in
        ["", "{", "[]", r#"{"type":"signal","signal":"KILL"}"#, r#"{"type":"keepalive"}"#, r#"{"type":"release"}"#]
    {
        wire.text(text).await;
    }
    for data in [&[4][..], &[], &[0, 1]] {
        wire.send(data).await;
    }
    // What the newer client does not mean for us.
    wire.text(r#"{"type":"op.start","op":"fs.read","args":"path=a"}"#).await;
    assert_eq!(wire.json().await["type"], "op.error");

    begin(&mut wire, &json!({ "cmd": ["cat"], "stdin": true })).await;
    start(&mut wire, &json!({ "cmd": ["true"] })).await;
    let busy = about(&mut wire).await;
    assert_eq!(busy, json!({ "type": "op.error", "args": { "error": "another operation is running" } }));
    wire.send(b"\0still").await;
    wire.send(&[4]).await;
    assert_eq!(complete(&mut wire).await, (vec![b"\x01still".to_vec(), vec![3, 0]], 0));

    start(&mut wire, &json!({ "cmd": ["none"] })).await;
    assert_eq!(wire.json().await["session_id"], "0");
    assert_eq!(complete(&mut wire).await, (vec![b"\x02none: command not found\n".to_vec(), vec![3, 127]], 127));
    begin(&mut wire, &json!({ "cmd": ["true"] })).await;
    assert_eq!(complete(&mut wire).await, (vec![vec![3, 0]], 0));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_session_released_or_left_can_be_attached_to() {
    let lab = Lab::with("one").await;
    let script = "echo before; read line; echo got $line; exit 4";
    let mut wire = control(&lab.client, &[]).await;
    let id = begin(&mut wire, &json!({ "cmd": ["bash", "-c", script], "stdin": "true" })).await;
    assert_eq!(wire.next().await, Frame::Binary(b"\x01before\n".to_vec()));
    wire.text(r#"{"type":"release"}"#).await;
    // The socket is free for another.
    begin(&mut wire, &json!({ "cmd": ["true"] })).await;
    assert_eq!(complete(&mut wire).await.1, 0);
    // Without a close frame.
    drop(wire);

    for headers in [GO, &[]] {
        let mut back = control(&lab.client, headers).await;
        assert_eq!(begin(&mut back, &json!({ "cmd": [""], "path": "", "id": id })).await, id);
        back.send(&[4]).await;
        assert_eq!(back.next().await, Frame::Binary(b"\x01before\n".to_vec()));
    }
    let mut back = control(&lab.client, &[]).await;
    begin(&mut back, &json!({ "cmd": [""], "id": id })).await;
    back.send(&[4]).await;
    back.send(b"\0hello\n").await;
    let (frames, code) = complete(&mut back).await;
    assert_eq!((frames.concat(), code), (b"\x01before\n\x01got hello\n\x03\x04".to_vec(), 4));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_command_outlives_its_socket_only_so_long() {
    let lab = Lab::with("one").await;
    let mut wire = control(&lab.client, &[]).await;
    begin(&mut wire, &json!({ "cmd": ["sleep", "600"], "max_run_after_disconnect": "200ms" })).await;
    drop(wire);
    let client = &lab.client;
    eventually("it ended", async || client.sessions("one").await.is_empty()).await;
    lab.server.stop().await;
}

#[tokio::test]
async fn a_query_starts_at_once() {
    let lab = Lab::with("one").await;
    let mut wire = lab.client.wire("one/control?op=exec&cmd=echo&cmd=a", &[]).await.unwrap();
    assert_eq!(wire.json().await["type"], "session_info");
    assert_eq!(complete(&mut wire).await, (vec![b"\x01a\n".to_vec(), vec![3, 0]], 0));
    assert_eq!(lab.client.refused("one/control?op=dance").await, (400, "unknown op: dance".into()));
    assert_eq!(lab.client.refused("two/control").await.0, 404);
    assert_eq!(lab.client.call("GET", "/one/control", "").await.0.as_u16(), 400);
    lab.server.stop().await;
}
