use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use rstest::rstest;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::super::{Client, Error, Exec, ExecError, ExecEvent, ExecRequest, LostReason, OnDrop};
use super::server::{self, answer, switching};
use super::{TOKEN, client, config, install_provider, on};

fn command() -> ExecRequest {
    ExecRequest {
        argv: vec!["bash".to_owned(), "-c".to_owned(), "a&b=c d".to_owned()],
        stdin: false,
        max_run_after_disconnect: Duration::from_secs(90),
        path: None,
        on_drop: OnDrop::Leave,
    }
}

fn binary(bytes: &'static [u8]) -> Message {
    Message::Binary(Bytes::from_static(bytes))
}

fn close(code: u16) -> Message {
    Message::Close(Some(CloseFrame { code: code.into(), reason: "bye".into() }))
}

async fn start(address: SocketAddr) -> Exec {
    client(address).exec(&on("so-1"), &command()).await.unwrap()
}

/// Everything up to and with the terminal event.
async fn all(exec: &mut Exec) -> Vec<ExecEvent> {
    let mut events = vec![];
    loop {
        events.push(exec.next().await);
        if events.last().is_some_and(ExecEvent::is_terminal) {
            return events;
        }
    }
}

/// A server that says these messages, then drops the connection.
async fn says(messages: Vec<Message>) -> SocketAddr {
    server::exec(|mut socket, _| async move {
        for message in messages {
            socket.send(message).await.unwrap();
        }
        linger(socket).await;
    })
    .await
}

/// Reads until the client has gone, so that no unread byte turns our close into a reset.
async fn linger(mut socket: WebSocketStream<TcpStream>) {
    while let Some(Ok(_)) = socket.next().await {}
}

#[tokio::test]
async fn a_command_is_heard_from_its_session_to_its_exit() {
    let address = says(vec![
        Message::text(r#"{"type":"debug","msg":"session_created"}"#),
        Message::text(r#"{"type":"session_info","session_id":"42","command":"bash"}"#),
        binary(b"\x01out"),
        binary(b""),
        binary(b"\x09unknown stream"),
        binary(b"\x02err"),
        binary(b"\x03\x80"),
        binary(b"\x01too late"),
        binary(b"\x03\x00"),
    ])
    .await;
    let mut exec = start(address).await;
    assert_eq!(
        all(&mut exec).await,
        [
            ExecEvent::Session { id: "42".to_owned() },
            ExecEvent::Stdout(Bytes::from_static(b"out")),
            ExecEvent::Stderr(Bytes::from_static(b"err")),
            ExecEvent::Exit(128),
        ]
    );
    assert_eq!(exec.session_id(), Some("42"));
    assert_eq!(exec.next().await, ExecEvent::Exit(128), "the end stays the end");
    assert!(matches!(exec.send_stdin(Bytes::from_static(b"x")).await, Err(Error::Ended)));
}

#[tokio::test]
async fn the_request_says_everything_and_nothing_more() {
    let (tell, told) = oneshot::channel();
    let address = server::exec(|mut socket, request| async move {
        let first = socket.next().await.unwrap().unwrap();
        let _ = tell.send((request, first));
        socket.send(binary(b"\x03\x00")).await.unwrap();
        linger(socket).await;
    })
    .await;
    all(&mut start(address).await).await;
    let (request, first) = told.await.unwrap();
    let line =
        "GET /v1/sprites/so-1/exec?cmd=bash&cmd=-c&cmd=a%26b%3Dc+d&stdin=false&max_run_after_disconnect=90s HTTP/1.1";
    assert_eq!(request.lines().next(), Some(line));
    assert_eq!(server::header(&request, "authorization"), Some("Bearer org/1/2/very-secret"));
    assert_eq!(server::header(&request, "sec-websocket-extensions"), None);
    assert_eq!(first, binary(b"\x04"), "no input: the end of it is said at once");
}

#[rstest]
#[case::normal(Some(1000))]
#[case::error(Some(1011))]
#[case::without_code(None)]
#[tokio::test]
async fn a_close_without_exit_is_lost_never_zero(#[case] code: Option<u16>) {
    let address = says(vec![binary(b"\x01part"), code.map_or(Message::Close(None), close)]).await;
    let events = all(&mut start(address).await).await;
    assert_eq!(events[0], ExecEvent::Stdout(Bytes::from_static(b"part")));
    let ExecEvent::Lost(LostReason::Closed { code: seen, .. }) = &events[1] else { panic!("{events:?}") };
    assert_eq!(*seen, code);
}

#[rstest]
#[case::no_code(b"\x03")]
#[case::four_bytes(b"\x03\x00\x00\x00\x07")]
#[tokio::test]
async fn a_malformed_exit_is_lost_never_zero(#[case] frame: &'static [u8]) {
    let address =
        says(vec![Message::text(r#"{"type":"exit","exit_code":0}"#), binary(frame), binary(b"\x03\x00")]).await;
    let events = all(&mut start(address).await).await;
    assert!(matches!(events[..], [ExecEvent::Lost(LostReason::Protocol { .. })]), "{events:?}");
}

#[rstest]
#[case::then_close(vec![close(1000)], 7)]
#[case::then_output_and_close(vec![binary(b"\x01x"), close(1006 - 6)], 7)]
#[case::the_frame_wins(vec![binary(b"\x03\x09"), close(1000)], 9)]
#[tokio::test]
async fn a_text_exit_counts_when_only_the_end_follows(#[case] then: Vec<Message>, #[case] code: u8) {
    let mut messages = vec![Message::text(r#"{"type":"exit","exit_code":7}"#)];
    messages.extend(then);
    let events = all(&mut start(says(messages).await).await).await;
    assert_eq!(events.last(), Some(&ExecEvent::Exit(code)));
}

#[tokio::test]
async fn a_reset_after_the_exit_changes_nothing() {
    let address = server::exec(|mut socket, _| async move {
        socket.send(binary(b"\x01out")).await.unwrap();
        socket.send(binary(b"\x03\x00")).await.unwrap();
        // The client's first frame lies unread: closing now is a reset.
        drop(socket);
    })
    .await;
    let events = all(&mut start(address).await).await;
    assert_eq!(events.last(), Some(&ExecEvent::Exit(0)));
}

#[tokio::test]
async fn a_connection_cut_inside_a_frame_is_lost() {
    let address = server::raw(|mut stream, request| async move {
        stream.write_all(&switching(&request)).await.unwrap();
        // A binary frame of five bytes, of which two come.
        stream.write_all(b"\x82\x05\x01o").await.unwrap();
        stream.shutdown().await.unwrap();
    })
    .await;
    let events = all(&mut start(address).await).await;
    assert!(matches!(events[..], [ExecEvent::Lost(LostReason::Reset { .. })]), "{events:?}");
}

#[tokio::test]
async fn a_message_above_ten_mebibytes_is_refused() {
    let address = server::raw(|mut stream, request| async move {
        stream.write_all(&switching(&request)).await.unwrap();
        let mut head = vec![0x82, 127];
        head.extend_from_slice(&(11_u64 << 20).to_be_bytes());
        let _ = stream.write_all(&head).await;
        std::future::pending::<()>().await;
    })
    .await;
    let events = all(&mut start(address).await).await;
    assert!(matches!(events[..], [ExecEvent::Lost(LostReason::Protocol { .. })]), "{events:?}");
}

/// What a start that fails says about the command.
#[rstest]
#[case::absent(answer(404, "", "sprite not found"), "refused", false)]
#[case::full(answer(429, "", "{}"), "refused", false)]
#[case::proxy(answer(502, "Content-Type: text/html\r\n", "<html>"), "refused", true)]
#[case::plain_ok(answer(200, "", "[]"), "refused", true)]
#[case::no_answer(vec![], "unknown", true)]
#[case::another_protocol(b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n".to_vec(), "unknown", true)]
#[case::wrong_key(b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n".to_vec(), "unknown", true)]
#[tokio::test]
async fn a_failed_start_says_whether_the_command_may_run(
    #[case] bytes: Vec<u8>,
    #[case] kind: &str,
    #[case] started: bool,
) {
    let (address, requests) = server::http(move |_| bytes.clone()).await;
    let error = client(address).exec(&on("so-1"), &command()).await.unwrap_err();
    let seen = match &error {
        ExecError::NotStarted(_) => "not started",
        ExecError::Refused(_) => "refused",
        ExecError::Unknown(_) => "unknown",
    };
    assert_eq!((seen, error.may_have_started()), (kind, started), "{error:?}");
    assert_eq!(requests.lock().unwrap().len(), 1, "never sent twice");
}

#[tokio::test]
async fn without_a_connection_nothing_started() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = client(address).exec(&on("so-1"), &command()).await.unwrap_err();
    assert!(matches!(error, ExecError::NotStarted(_)), "{error:?}");
}

#[tokio::test]
async fn a_failed_tls_handshake_has_started_nothing() {
    let (address, _) = server::http(|_| answer(200, "", "")).await;
    install_provider();
    let mut config = config(address);
    config.url.set_scheme("https").unwrap();
    let error = Client::new(config).unwrap().exec(&on("so-1"), &command()).await.unwrap_err();
    assert!(matches!(error, ExecError::NotStarted(_)), "{error:?}");
}

#[tokio::test]
async fn a_handshake_without_answer_ends_at_its_deadline_as_unknown() {
    let address = server::raw(|stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    install_provider();
    let mut config = config(address);
    config.open_timeout = Duration::from_millis(200);
    let error = Client::new(config).unwrap().exec(&on("so-1"), &command()).await.unwrap_err();
    assert!(matches!(error, ExecError::Unknown(Error::Timeout { sent: true, .. })), "{error:?}");
}

#[tokio::test]
async fn arguments_that_no_proxy_passes_are_refused_before_anything_is_sent() {
    let (address, requests) = server::http(|_| vec![]).await;
    let client = client(address);
    for argv in [vec![], vec!["x".repeat(5000)], vec!["a\0b".to_owned()]] {
        let request = ExecRequest { argv, ..command() };
        let error = client.exec(&on("so-1"), &request).await.unwrap_err();
        assert!(matches!(error, ExecError::NotStarted(Error::Invalid { status: None, .. })));
    }
    assert!(requests.lock().unwrap().is_empty());
}

fn impatient(address: SocketAddr) -> Client {
    install_provider();
    let mut config = config(address);
    config.ping_interval = Duration::from_millis(50);
    config.dead_after = Duration::from_millis(300);
    Client::new(config).unwrap().without_retries()
}

#[tokio::test]
async fn a_peer_that_answers_no_ping_is_dead() {
    let address = server::exec(|mut socket, _| async move {
        socket.send(binary(b"\x01hello")).await.unwrap();
        std::future::pending::<()>().await;
    })
    .await;
    let mut exec = impatient(address).exec(&on("so-1"), &command()).await.unwrap();
    let events = all(&mut exec).await;
    assert!(matches!(events[..], [ExecEvent::Stdout(_), ExecEvent::Lost(LostReason::DeadPeer { .. })]), "{events:?}");
}

#[tokio::test]
async fn a_command_that_does_not_take_its_input_is_no_dead_peer() {
    let address = server::exec(|mut socket, _| async move {
        // Three times what a silent peer is given: it reads nothing, so no ping reaches it.
        tokio::time::sleep(Duration::from_millis(900)).await;
        socket.send(binary(b"\x03\x05")).await.unwrap();
        linger(socket).await;
    })
    .await;
    let request = ExecRequest { stdin: true, ..command() };
    let mut exec = impatient(address).exec(&on("so-1"), &request).await.unwrap();
    exec.send_stdin(Bytes::from(vec![b'y'; 16 << 20])).await.unwrap();
    assert_eq!(all(&mut exec).await, [ExecEvent::Exit(5)]);
}

#[tokio::test]
async fn the_peers_words_do_not_hold_the_token() {
    let reason = format!("no {TOKEN} here");
    let address = says(vec![Message::Close(Some(CloseFrame { code: 1008.into(), reason: reason.into() }))]).await;
    let events = all(&mut start(address).await).await;
    assert!(matches!(events[..], [ExecEvent::Lost(LostReason::Closed { code: Some(1008), .. })]));
    assert!(!format!("{events:?}").contains("very-secret"), "{events:?}");
}

#[tokio::test]
async fn a_silent_command_behind_a_living_peer_is_alive() {
    let address = server::exec(|mut socket, _| async move {
        // Reading answers the pings; twelve of them are twice the time a dead peer is given.
        let mut pings = 0;
        while pings < 12 {
            pings += u32::from(socket.next().await.unwrap().unwrap().is_ping());
        }
        socket.send(binary(b"\x03\x05")).await.unwrap();
        linger(socket).await;
    })
    .await;
    let mut exec = impatient(address).exec(&on("so-1"), &command()).await.unwrap();
    assert_eq!(all(&mut exec).await, [ExecEvent::Exit(5)]);
}

#[tokio::test]
async fn a_consumer_slower_than_death_loses_nothing() {
    const FRAMES: usize = 400;
    let address = server::exec(|mut socket, _| async move {
        let mut frame = vec![b'x'; 32 * 1024];
        frame[0] = 1;
        for _ in 0..FRAMES {
            socket.send(Message::Binary(frame.clone().into())).await.unwrap();
        }
        socket.send(binary(b"\x03\x00")).await.unwrap();
        linger(socket).await;
    })
    .await;
    let mut exec = impatient(address).exec(&on("so-1"), &command()).await.unwrap();
    // The passing of time is what is tested: twice what a silent peer is given.
    tokio::time::sleep(Duration::from_millis(600)).await;
    let events = all(&mut exec).await;
    assert_eq!(events.len(), FRAMES + 1);
    assert_eq!(events.last(), Some(&ExecEvent::Exit(0)));
}

/// A guest like `cat`: gives back what it gets, and reads no further while its output is not taken.
async fn cat() -> SocketAddr {
    server::exec(|mut socket, _| async move {
        while let Some(Ok(message)) = socket.next().await {
            let Message::Binary(data) = message else {
                continue;
            };
            let reply = match data[0] {
                0 => [&[1_u8][..], &data[1..]].concat(),
                _ => vec![3, 0],
            };
            socket.send(Message::Binary(reply.into())).await.unwrap();
        }
    })
    .await
}

#[tokio::test]
async fn a_large_input_given_at_once_and_its_echo_do_not_deadlock() {
    let input = Bytes::from(vec![b'y'; 16 << 20]);
    let request = ExecRequest { stdin: true, ..command() };
    let mut exec = client(cat().await).exec(&on("so-1"), &request).await.unwrap();
    exec.send_stdin(input.clone()).await.unwrap();
    exec.close_stdin().await.unwrap();
    let mut echoed = 0;
    loop {
        match exec.next().await {
            ExecEvent::Stdout(data) => echoed += data.len(),
            ExecEvent::Exit(code) => break assert_eq!(code, 0),
            other @ (ExecEvent::Session { .. } | ExecEvent::Stderr(_) | ExecEvent::Lost(_)) => panic!("{other:?}"),
        }
    }
    assert_eq!(echoed, input.len());
}

#[tokio::test]
async fn dropping_an_exec_closes_its_connection() {
    let (tell, told) = oneshot::channel();
    let address = server::exec(|socket, _| async move {
        linger(socket).await;
        let _ = tell.send(());
    })
    .await;
    drop(start(address).await);
    told.await.unwrap();
}

#[tokio::test]
async fn attaching_names_the_session_and_sends_no_keystroke() {
    let (tell, told) = oneshot::channel();
    let address = server::exec(|mut socket, request| async move {
        socket.send(binary(b"\x03\x00")).await.unwrap();
        let mut first = None;
        while let Some(Ok(message)) = socket.next().await {
            first.get_or_insert(message);
        }
        let _ = tell.send((request, first));
    })
    .await;
    let mut exec = client(address).attach(&on("so-1"), "a/1").await.unwrap();
    assert_eq!(exec.next().await, ExecEvent::Exit(0));
    drop(exec);
    let (request, first) = told.await.unwrap();
    assert!(request.starts_with("GET /v1/sprites/so-1/exec/a%2F1?stdin=false HTTP/1.1\r\n"));
    assert!(!matches!(first, Some(Message::Binary(_))), "{first:?}");
}

#[tokio::test]
async fn a_short_command_is_run_to_its_end_and_its_output_bounded() {
    let client = client(cat().await);
    let input = Bytes::from_static(b"0123456789");
    let output = client.run(&on("so-1"), &command(), input, 4, Duration::from_secs(5)).await.unwrap();
    assert_eq!((output.stdout.as_slice(), output.exit, output.truncated), (&b"0123"[..], Some(0), true));
}

#[tokio::test]
async fn a_short_command_that_hangs_ends_at_its_deadline_as_unknown() {
    let address = server::exec(|socket, _| linger(socket)).await;
    let running = client(address);
    let result = running.run(&on("so-1"), &command(), Bytes::new(), 4, Duration::from_millis(200)).await;
    assert!(matches!(result, Err(ExecError::Unknown(Error::Timeout { .. }))));
}
