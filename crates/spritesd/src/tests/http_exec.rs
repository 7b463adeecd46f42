//! Exec by plain HTTP, seen as the bytes of the answer: there, a chunk is a frame.

use std::time::Duration;

use http::StatusCode;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::support::{Lab, PATIENCE, TOKEN, eventually};

/// A request whose answer is read chunk by chunk.
struct Raw {
    stream: BufReader<TcpStream>,
    status: String,
}

impl Raw {
    async fn post(lab: &Lab, query: &str, headers: &str, body: &[u8]) -> Self {
        let mut stream = TcpStream::connect(lab.server.address()).await.unwrap();
        let head = format!(
            "POST /v1/sprites/one/exec?{query} HTTP/1.1\r\nHost: sprites\r\nAuthorization: Bearer {TOKEN}\r\n{headers}\r\n"
        );
        stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
        Self { stream: BufReader::new(stream), status: String::new() }
    }

    /// Reads the head; it must announce chunks.
    async fn head(&mut self) {
        self.status = self.line().await;
        let mut chunked = false;
        loop {
            let line = self.line().await.to_ascii_lowercase();
            chunked |= line == "transfer-encoding: chunked";
            assert!(!line.starts_with("content-encoding"), "{line}");
            if line.is_empty() {
                break;
            }
        }
        assert!(chunked && self.status.starts_with("HTTP/1.1 200"), "{}", self.status);
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        timeout(PATIENCE, self.stream.read_line(&mut line)).await.expect("nothing came").unwrap();
        line.trim_end().to_owned()
    }

    /// The next chunk; none at the end.
    async fn chunk(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line().await, 16).ok()?;
        let mut data = vec![0; size];
        timeout(PATIENCE, self.stream.read_exact(&mut data)).await.expect("nothing came").unwrap();
        assert_eq!(self.line().await, "");
        (size > 0).then_some(data)
    }

    async fn chunks(&mut self) -> Vec<Vec<u8>> {
        let mut chunks = Vec::new();
        while let Some(chunk) = self.chunk().await {
            chunks.push(chunk);
        }
        chunks
    }
}

#[tokio::test]
async fn each_frame_is_a_chunk_and_comes_at_once() {
    let lab = Lab::with("one").await;
    let script = "echo+a%3B+read+x%3B+echo+b+$x+%3E%262%3B+exit+7";
    let headers = "Transfer-Encoding: chunked\r\n";
    let mut raw = Raw::post(&lab, &format!("cmd=bash&cmd=-c&cmd={script}&stdin=true"), headers, b"").await;
    raw.head().await;
    // While the request's body is still open.
    assert_eq!(raw.chunk().await.unwrap(), b"\x01a\n");
    raw.stream.get_mut().write_all(b"3\r\nhi\n\r\n").await.unwrap();
    assert_eq!(raw.chunk().await.unwrap(), b"\x02b hi\n");
    assert_eq!(raw.chunk().await.unwrap(), [3, 7]);
    raw.stream.get_mut().write_all(b"0\r\n\r\n").await.unwrap();
    assert_eq!(raw.chunk().await, None);
    lab.server.stop().await;
}

#[tokio::test]
async fn frames_are_never_joined() {
    let lab = Lab::with("one").await;
    let mut raw = Raw::post(&lab, "cmd=sh&cmd=-c&cmd=head+-c+3000000+/dev/zero%3B+echo+end+%3E%262", "", b"").await;
    raw.head().await;
    // A slow reader lets frames pile up.
    let client = &lab.client;
    client.sh("one", "sleep 0.3").await;
    let chunks = raw.chunks().await;
    assert!(chunks.iter().all(|chunk| (1..=3).contains(&chunk[0]) && chunk.len() <= 32 * 1024));
    let out: usize = chunks.iter().filter(|chunk| chunk[0] == 1).map(|chunk| chunk.len() - 1).sum();
    assert!(chunks.iter().filter(|chunk| chunk[0] == 1).all(|chunk| chunk[1..].iter().all(|byte| *byte == 0)));
    assert_eq!(out, 3_000_000);
    assert_eq!(chunks.last().unwrap(), &[3, 0]);
    lab.server.stop().await;
}

#[tokio::test]
async fn input_of_any_size_and_bytes() {
    let lab = Lab::with("one").await;
    let data: Vec<u8> = (0..3_000_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    let headers = format!("Content-Length: {}\r\n", data.len());
    let mut raw = Raw::post(&lab, "cmd=sha256sum&stdin=true", &headers, &data).await;
    raw.head().await;
    let chunks = raw.chunks().await;
    let local = lab.client.call("PUT", "/one/fs/write?path=/workspace/data", data).await;
    assert_eq!(local.0, StatusCode::OK);
    let expected = lab.client.sh("one", "sha256sum < /workspace/data").await;
    assert_eq!(chunks, [[b"\x01", expected.as_bytes()].concat(), vec![3, 0]]);
    lab.server.stop().await;
}

#[tokio::test]
async fn codes_and_refusals() {
    let lab = Lab::with("one").await;
    for (query, chunks) in [
        ("cmd=true", vec![vec![3, 0]]),
        ("cmd=sh&cmd=-c&cmd=kill+-15+$$", vec![vec![3, 143]]),
        ("cmd=none", vec![b"\x02none: command not found\n".to_vec(), vec![3, 127]]),
        // A body nobody asked for is not input.
        ("cmd=cat", vec![vec![3, 0]]),
    ] {
        let mut raw = Raw::post(&lab, query, "Content-Length: 3\r\n", b"abc").await;
        raw.head().await;
        assert_eq!(raw.chunks().await, chunks, "{query}");
    }
    for query in ["cmd=sh&tty=true", "id=5", "cmd=a&env=x", "cmd=a%00"] {
        assert_eq!(
            lab.client.call("POST", &format!("/one/exec?{query}"), "").await.0,
            StatusCode::BAD_REQUEST,
            "{query}"
        );
    }
    assert_eq!(lab.client.call("POST", "/two/exec?cmd=true", "").await.0, StatusCode::NOT_FOUND);
    assert_eq!(lab.client.call("PATCH", "/one/exec?cmd=true", "").await.0, StatusCode::METHOD_NOT_ALLOWED);
    lab.server.stop().await;
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_end_of_input() {
    let lab = Lab::with("one").await;
    let script = "cat+%3E/workspace/got%3B+touch+/workspace/done";
    let query = format!("cmd=sh&cmd=-c&cmd={script}&stdin=true&max_run_after_disconnect=300ms");
    let mut raw = Raw::post(&lab, &query, "Content-Length: 10\r\n", b"part").await;
    raw.head().await;
    drop(raw);
    let client = &lab.client;
    eventually("it was ended", async || client.sessions("one").await.is_empty()).await;
    assert_eq!(client.sh("one", "cd /workspace; cat got; test ! -e done").await, "part");
    lab.server.stop().await;
}

#[tokio::test]
async fn scripted_failures_reach_it() {
    let lab = Lab::with("one").await;
    lab.faults(r#"[{"route":"exec.http","effect":"exit-frame-lost","count":1},{"route":"exec.http","match":"early","effect":"early-close"}]"#).await;
    let mut raw = Raw::post(&lab, "cmd=echo&cmd=a", "", b"").await;
    raw.head().await;
    assert_eq!(raw.chunks().await, [b"\x01a\n"]);
    let mut raw = Raw::post(&lab, "cmd=echo&cmd=early", "", b"").await;
    let mut rest = Vec::new();
    drop(timeout(Duration::from_secs(20), raw.stream.read_to_end(&mut rest)).await.expect("never ends"));
    assert!(!rest.ends_with(b"\x03\x00\r\n0\r\n\r\n"), "{rest:?}");
    lab.server.stop().await;
}
