use std::time::Duration;

use bytes::Bytes;
use rstest::rstest;
use tokio::io::AsyncWriteExt;

use super::super::{Client, CreateSprite, Error, KillOutcome, NetworkRule, Target, TokenSource};
use super::server::{self, answer, json};
use super::{TOKEN, client, config, install_provider, on, retrying};

const SPRITE: &str =
    r#"{"id":"sprite-1","name":"so-1","status":"cold","labels":["a"],"url_settings":{"auth":"sprite"}}"#;

#[tokio::test]
async fn a_get_carries_the_token_and_reads_the_sprite() {
    let (address, requests) = server::http(|_| json(200, SPRITE)).await;
    let sprite = client(address).get("so-1").await.unwrap();
    assert_eq!(sprite.id, "sprite-1");
    let request = requests.lock().unwrap().remove(0);
    assert!(request.starts_with("GET /v1/sprites/so-1 HTTP/1.1\r\n"), "{request}");
    assert_eq!(server::header(&request, "authorization"), Some("Bearer org/1/2/very-secret"));
}

#[rstest]
#[case::another_sprite(json(200, r#"{"id":"sprite-1","name":"so-2"}"#), "protocol")]
#[case::no_id(json(200, r#"{"name":"so-1"}"#), "protocol")]
#[case::not_json(json(200, "<html>"), "protocol")]
#[case::empty(json(200, ""), "protocol")]
#[case::absent(json(404, r#"{"error":"sprite not found"}"#), "absent")]
#[case::absent_as_500(json(500, r#"{"error":"failed to retrieve sprite"}"#), "absent")]
#[case::other_500(answer(500, "", "boom"), "unknown")]
#[case::portal(answer(404, "Content-Type: text/html\r\n", "<html>"), "unknown")]
#[case::half(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"id\":".to_vec(), "unknown")]
#[case::half_head(b"HTTP/1.1 20".to_vec(), "unknown")]
#[case::nothing(vec![], "unknown")]
#[case::garbage(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(), "unknown")]
#[tokio::test]
async fn what_is_no_answer_is_no_sprite_and_asked_once(#[case] bytes: Vec<u8>, #[case] kind: &str) {
    let (address, requests) = server::http(move |_| bytes.clone()).await;
    let error = client(address).get("so-1").await.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_refused_connection_is_known_to_have_done_nothing() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = client(address).delete(Target::any("so-1")).await.unwrap_err();
    assert!(!error.may_have_happened());
    assert!(error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn a_body_above_the_cap_is_refused() {
    let large = format!(r#"{{"sprites":[],"padding":"{}"}}"#, "x".repeat(2 << 20));
    let (address, _) = server::http(move |_| json(200, &large)).await;
    let error = client(address).list("so-").await.unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
}

#[tokio::test]
async fn a_body_that_drips_ends_at_the_deadline_of_the_whole_call() {
    let address = server::raw(|mut stream, _| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await.unwrap();
        let mut drip = tokio::time::interval(Duration::from_millis(20));
        while stream.write_all(b" ").await.is_ok() {
            drip.tick().await;
        }
    })
    .await;
    install_provider();
    let mut config = config(address);
    config.call_timeout = Duration::from_millis(200);
    let error = Client::new(config).unwrap().without_retries().get("so-1").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { sent: true, .. }), "{error}");
}

#[tokio::test]
async fn a_call_ends_within_what_its_caller_has_and_not_its_attempts_only() {
    let address = server::raw(|stream, _| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let client = retrying(address).within(Duration::from_millis(200));
    let error = client.get("so-1").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { after, sent: true } if after <= Duration::from_millis(200)), "{error}");
}

#[tokio::test]
async fn what_may_be_sent_for_a_while_only_is_not_begun_later() {
    let (address, requests) = server::http(|_| answer(429, "Retry-After: 1\r\n", "")).await;
    let client = retrying(address).sent_within(Duration::from_millis(500));
    let create = CreateSprite { name: "so-1".to_owned(), ..CreateSprite::default() };
    // Refused, and the pause lasts longer than it may wait: nothing more is sent.
    let error = client.create(&create).await.unwrap_err();
    assert!(matches!(error, Error::RateLimited { .. }), "{error}");
    assert_eq!(requests.lock().unwrap().len(), 1);
    let error = client.create(&create).await.unwrap_err();
    assert!(matches!(error, Error::Held { .. }) && !error.may_have_happened(), "{error}");
    assert_eq!(requests.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn what_was_begun_in_time_may_take_its_own_time_to_be_answered() {
    let address = server::raw(|mut stream, _| async move {
        tokio::time::sleep(Duration::from_millis(600)).await;
        stream.write_all(&json(200, SPRITE)).await.unwrap();
    })
    .await;
    let client = retrying(address).sent_within(Duration::from_millis(200));
    assert_eq!(client.get("so-1").await.unwrap().id, "sprite-1");
}

/// A server that keeps connections open, and tells how many it was given.
async fn keeping() -> (std::net::SocketAddr, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::io::AsyncReadExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, count) = (listener.local_addr().unwrap(), std::sync::Arc::new(AtomicUsize::new(0)));
    let counted = std::sync::Arc::clone(&count);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while stream.read_buf(&mut head).await.is_ok_and(|read| read > 0) {
                    if head.ends_with(b"\r\n\r\n") {
                        head.clear();
                        let body = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{SPRITE}", SPRITE.len());
                        stream.write_all(body.as_bytes()).await.unwrap();
                    }
                }
            });
        }
    });
    (address, count)
}

#[tokio::test]
async fn reads_share_a_connection_and_a_kill_never_trusts_one_that_lay_idle() {
    let (address, connections) = keeping().await;
    let count = || connections.load(std::sync::atomic::Ordering::SeqCst);
    let client = client(address);
    for _ in 0..3 {
        client.get("so-1").await.unwrap();
    }
    assert_eq!(count(), 1);
    for kills in 1..=2 {
        client.kill(&on("so-1"), "12", "SIGTERM", Duration::from_secs(1)).await.unwrap();
        assert_eq!(count(), 1 + kills);
    }
}

#[tokio::test]
async fn a_change_that_is_tried_again_looks_at_the_instance_again() {
    let gets = std::sync::atomic::AtomicUsize::new(0);
    let (address, requests) = server::http(move |request| {
        if request.starts_with("GET") {
            let seen = gets.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
            json(200, &format!(r#"{{"id":"sprite-{seen}","name":"so-1"}}"#))
        } else {
            answer(429, "Retry-After: 1\r\n", "")
        }
    })
    .await;
    let error = retrying(address).delete(Target::instance("so-1", "sprite-1")).await.unwrap_err();
    assert!(matches!(error, Error::Replaced { sent: false, .. }), "{error}");
    let requests = requests.lock().unwrap();
    assert_eq!(requests.iter().filter(|request| request.starts_with("DELETE")).count(), 1);
}

#[tokio::test]
async fn a_look_before_a_change_that_fails_says_that_nothing_was_sent() {
    let (address, requests) = server::http(|_| answer(500, "", "")).await;
    let error = client(address).delete(Target::instance("so-1", "sprite-1")).await.unwrap_err();
    assert!(!error.may_have_happened(), "{error}");
    assert!(requests.lock().unwrap().iter().all(|request| request.starts_with("GET")));
}

#[tokio::test]
async fn times_without_end_are_taken_for_long() {
    let (address, _) = server::http(|_| json(200, SPRITE)).await;
    let client = retrying(address).within(Duration::MAX).sent_within(Duration::MAX);
    assert!(client.get("so-1").await.is_ok());
    let _ = client.kill(&on("so-1"), "12", "SIGTERM", Duration::MAX).await;
}

#[tokio::test]
async fn a_token_file_that_gives_nothing_holds_no_call() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("token");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (address, requests) = server::http(|_| json(200, SPRITE)).await;
    install_provider();
    let mut config = config(address);
    config.token = TokenSource::File(fifo.clone());
    let client = Client::new(config).unwrap().within(Duration::from_millis(200));
    let error = client.get("so-1").await.unwrap_err();
    assert!(matches!(error, Error::Timeout { sent: false, .. } | Error::Held { .. }), "{error}");
    assert!(requests.lock().unwrap().is_empty());
    // Lets the reader go, which no runtime can interrupt. It may have closed by the time something is written.
    let _ = std::fs::write(&fifo, "x");
}

#[tokio::test]
async fn what_only_reads_is_asked_again_and_nothing_else() {
    let (address, requests) = server::http(|_| answer(502, "", "")).await;
    let client = retrying(address);
    assert_eq!(client.get("so-1").await.unwrap_err().kind(), "unknown");
    assert_eq!(requests.lock().unwrap().len(), 3);
    let create = CreateSprite { name: "so-1".to_owned(), ..CreateSprite::default() };
    assert!(client.create(&create).await.unwrap_err().may_have_happened());
    assert!(client.delete(Target::any("so-1")).await.unwrap_err().may_have_happened());
    assert_eq!(requests.lock().unwrap().len(), 5);
}

#[tokio::test]
async fn redirects_are_not_followed_and_the_token_does_not_travel() {
    let (elsewhere, stolen) = server::http(|_| json(200, SPRITE)).await;
    let (address, _) = server::http(move |_| answer(307, &format!("Location: http://{elsewhere}/\r\n"), "")).await;
    let error = client(address).get("so-1").await.unwrap_err();
    assert_eq!(error.kind(), "unknown");
    assert!(stolen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_rotated_token_is_used_by_the_next_call() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("token");
    std::fs::write(&path, "old-token\n").unwrap();
    let (address, requests) = server::http(|request| match server::header(request, "authorization") {
        Some("Bearer new-token") => json(200, SPRITE),
        _ => json(401, r#"{"error":"authentication failed"}"#),
    })
    .await;
    install_provider();
    let mut config = config(address);
    config.token = TokenSource::File(path.clone());
    let client = Client::new(config).unwrap().without_retries();

    let error = client.get("so-1").await.unwrap_err();
    assert!(matches!(error, Error::Denied { status: 401, .. }));
    std::fs::write(&path, "new-token\n").unwrap();
    assert!(client.get("so-1").await.is_ok());
    std::fs::write(&path, "").unwrap();
    assert!(matches!(client.get("so-1").await, Err(Error::Token(_))));
    assert_eq!(requests.lock().unwrap().len(), 2, "nothing is sent without a token");
}

#[tokio::test]
async fn the_token_is_nowhere_to_be_seen_when_the_server_echoes_it() {
    let (address, _) = server::http(|request| answer(400, "", &format!("what is this? {request}"))).await;
    let client = client(address);
    let error = client.get("so-1").await.unwrap_err();
    assert!(!format!("{error} {error:?} {client:?}").contains("very-secret"));
    assert!(!TOKEN.is_empty());
}

#[tokio::test]
async fn a_list_has_all_pages_of_our_prefix() {
    let (address, requests) = server::http(|request| {
        let page = |names: [&str; 2], more: &str| {
            let [a, b] = names.map(|name| format!(r#"{{"id":"i-{name}","name":"{name}"}}"#));
            json(200, &format!(r#"{{"sprites":[{a},{b}],{more}}}"#))
        };
        if request.contains("continuation_token=a%2Fb") {
            // As recorded: more to come, it says, and no way to ask for it.
            page(["so-3", "so-4"], r#""has_more":true,"next_continuation_token":null"#)
        } else {
            page(["so-1", "other"], r#""has_more":true,"next_continuation_token":"a/b""#)
        }
    })
    .await;
    let sprites = client(address).list("so-").await.unwrap();
    let names: Vec<_> = sprites.iter().map(|sprite| sprite.name.as_str()).collect();
    assert_eq!(names, ["so-1", "so-3", "so-4"]);
    assert!(requests.lock().unwrap()[0].starts_with("GET /v1/sprites?prefix=so-&max_results=50 "));
}

#[rstest]
#[case::a_circle(r#"{"sprites":[],"has_more":true,"next_continuation_token":"same"}"#)]
#[case::without_id(r#"{"sprites":[{"name":"so-1"}],"has_more":false}"#)]
#[case::no_list(r#"{"has_more":false}"#)]
#[tokio::test]
async fn half_a_list_is_an_error(#[case] body: &'static str) {
    let (address, requests) = server::http(move |_| json(200, body)).await;
    let error = client(address).list("so-").await.unwrap_err();
    assert!(matches!(error, Error::Protocol { .. }), "{error}");
    assert!(requests.lock().unwrap().len() <= 2);
}

#[tokio::test]
async fn creating_asks_for_exactly_what_was_said() {
    let (address, requests) = server::http(|_| json(201, SPRITE)).await;
    let create = CreateSprite {
        name: "so-1".to_owned(),
        labels: vec!["so-inst-1".to_owned()],
        url_settings: super::super::UrlSettings::private(),
        config: None,
    };
    client(address).create(&create).await.unwrap();
    let request = requests.lock().unwrap().remove(0);
    assert!(request.starts_with("POST /v1/sprites HTTP/1.1\r\n"));
    let body = request.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(
        body,
        r#"{"name":"so-1","labels":["so-inst-1"],"url_settings":{"auth":"sprite","private_access":"admins"}}"#
    );
}

#[rstest]
#[case::full(r#"{"error":"concurrent_sprite_limit_exceeded"}"#, true, Some(120))]
#[case::rate(r#"{"error":"sprite_creation_rate_limited","retry_after_seconds":7}"#, false, Some(7))]
#[tokio::test]
async fn a_full_account_is_told_from_a_rate(
    #[case] body: &'static str,
    #[case] capacity: bool,
    #[case] wait: Option<u64>,
) {
    let (address, _) = server::http(move |_| answer(429, "Retry-After: 120\r\n", body)).await;
    let create = CreateSprite { name: "so-1".to_owned(), ..CreateSprite::default() };
    let error = client(address).create(&create).await.unwrap_err();
    assert_eq!(error.is_capacity(), capacity);
    assert_eq!(error.retry_after(), wait.map(Duration::from_secs));
}

#[tokio::test]
async fn no_rules_are_never_sent_and_rules_are_replaced_as_they_are() {
    let (address, requests) = server::http(|_| answer(204, "", "")).await;
    let client = client(address);
    assert!(client.set_network_policy(&on("so-1"), &[]).await.is_err());
    let deny = NetworkRule { domain: Some("*".to_owned()), action: Some("deny".to_owned()), ..NetworkRule::default() };
    client.set_network_policy(&on("so-1"), &[deny]).await.unwrap();
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].starts_with("POST /v1/sprites/so-1/policy/network "));
    assert!(requests[0].ends_with(r#"{"rules":[{"domain":"*","action":"deny"}]}"#));
}

#[rstest]
#[case::range_ignored(answer(200, "", "0123456789"), Some("0123"))]
#[case::range_obeyed(answer(206, "Content-Range: bytes 0-3/10\r\n", "0123"), Some("0123"))]
#[case::another_range(answer(206, "Content-Range: bytes 4-7/10\r\n", "4567"), None)]
#[case::empty_file(answer(416, "", ""), Some(""))]
#[case::empty_file_200(answer(200, "", ""), Some(""))]
#[tokio::test]
async fn a_file_is_read_up_to_its_bound(#[case] bytes: Vec<u8>, #[case] content: Option<&'static str>) {
    let (address, requests) = server::http(move |_| bytes.clone()).await;
    let read = client(address).read_file(&on("so-1"), "/workspace/a b", 4).await;
    assert_eq!(read.ok(), content.map(|content| Bytes::from_static(content.as_bytes())));
    let request = requests.lock().unwrap().remove(0);
    assert!(request.starts_with("GET /v1/sprites/so-1/fs/read?path=%2Fworkspace%2Fa+b&workingDir=%2F "), "{request}");
    assert_eq!(server::header(&request, "range"), Some("bytes=0-3"));
}

#[tokio::test]
async fn a_missing_file_is_not_a_missing_sprite() {
    let (address, _) = server::http(|_| json(404, r#"{"error":"no such file","code":"ENOENT"}"#)).await;
    let error = client(address).read_file(&on("so-1"), "/workspace/x", 4).await.unwrap_err();
    assert!(error.is_missing_file() && !error.is_absent());
}

#[tokio::test]
async fn a_file_is_written_with_its_mode() {
    let (address, requests) = server::http(|_| json(200, r#"{"path":"/w/x","size":2,"mode":"0600"}"#)).await;
    let content = Bytes::from_static(b"hi");
    client(address).write_file(&on("so-1"), "/w/x", Some(0o600), content).await.unwrap();
    let request = requests.lock().unwrap().remove(0);
    assert!(
        request.starts_with("PUT /v1/sprites/so-1/fs/write?path=%2Fw%2Fx&workingDir=%2F&mkdirParents=true&mode=0600 ")
    );
    assert!(request.ends_with("\r\n\r\nhi"));
}

#[rstest]
#[case::ended_before(answer(410, "", "already exited"), KillOutcome::AlreadyEnded)]
#[case::confirmed(answer(200, "", "{\"type\":\"complete\",\"exit_code\":143}\n"), KillOutcome::Completed)]
#[case::cut(answer(200, "", "{\"type\":\"signal\",\"message\":\"x\"}\n"), KillOutcome::Unconfirmed)]
#[tokio::test]
async fn a_kill_reports_what_is_known(#[case] bytes: Vec<u8>, #[case] outcome: KillOutcome) {
    let (address, requests) = server::http(move |_| bytes.clone()).await;
    let report = client(address).kill(&on("so-1"), "12", "SIGTERM", Duration::from_secs(5)).await.unwrap();
    assert_eq!(report.outcome, outcome);
    assert!(requests.lock().unwrap()[0].starts_with("POST /v1/sprites/so-1/exec/12/kill?signal=SIGTERM&timeout=5s "));
}

#[tokio::test]
async fn names_that_climb_are_refused_before_anything_is_sent() {
    let (address, requests) = server::http(|_| json(200, SPRITE)).await;
    let client = client(address);
    for name in ["", ".", "..", "a/b", "A", "-a", "a%2f", "a?b", "a\0"] {
        assert!(matches!(client.get(name).await, Err(Error::Invalid { status: None, .. })), "{name:?}");
    }
    assert!(client.kill(&on("so-1"), "..", "SIGTERM", Duration::ZERO).await.is_err());
    assert!(client.read_file(&on("so-1"), "relative", 4).await.is_err());
    assert!(requests.lock().unwrap().is_empty());
}
