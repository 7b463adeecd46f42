//! A server, and clients that know only HTTP and WebSocket.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::ClientRequestBuilder;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use url::form_urlencoded;

pub(crate) use test_support::waiting::{PATIENCE, eventually, mounts_of, processes_with};

use crate::{Config, FaultRule, SelfProgram, Server, Settings, start};

pub(crate) const TOKEN: &str = "org/1/token/secret-of-the-tests";
/// Environment variable with the arguments of a server process.
pub(super) const ARGUMENTS: &str = "SPRITESD_TEST_ARGUMENTS";

pub(super) type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// The test program in the place of the server's.
pub(super) fn program() -> SelfProgram {
    let entry = |name: &str| {
        ["--exact", "--ignored", "--nocapture", "--test-threads=1"]
            .into_iter()
            .map(str::to_owned)
            .chain([format!("tests::entries::{name}")])
            .collect()
    };
    SelfProgram { path: std::env::current_exe().unwrap(), launch: entry("launch"), agent: entry("agent") }
}

/// A server in this process, on a directory of its own.
pub(crate) struct Lab {
    pub(crate) data: TempDir,
    pub(crate) server: Server,
    pub(crate) client: Client,
}

impl Lab {
    pub(super) async fn new() -> Self {
        Self::set(&[]).await
    }

    /// A server with flags, for example `["--idle-after", "1s"]`.
    pub(crate) async fn set(flags: &[&str]) -> Self {
        let data = tempfile::tempdir().unwrap();
        let server = serve_set(data.path(), Vec::new(), settings(flags)).await;
        let client = Client::new(&format!("http://{}", server.address()));
        Self { data, server, client }
    }

    /// A server with one Sprite.
    pub(super) async fn with(name: &str) -> Self {
        let lab = Self::new().await;
        lab.client.create(name).await;
        lab
    }

    pub(crate) async fn faults(&self, rules: &str) {
        let url = format!("http://{}/faults", self.server.admin_address().unwrap());
        let response = self.client.http.put(url).body(rules.to_owned()).send().await.unwrap();
        assert_eq!(response.status(), StatusCode::NO_CONTENT, "{}", response.text().await.unwrap());
    }

    /// The event log, as `(event, line)`.
    pub(crate) async fn log(&self) -> Vec<(String, Value)> {
        let url = format!("http://{}/log", self.server.admin_address().unwrap());
        let text = self.client.http.get(url).send().await.unwrap().text().await.unwrap();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        lines.map(|line| (line["event"].as_str().unwrap().to_owned(), line)).collect()
    }
}

/// The settings these flags make; a new Sprite waits for a call, and file calls wake, unless a test says otherwise.
pub(super) fn settings(flags: &[&str]) -> Settings {
    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        settings: Settings,
    }
    let mut all = vec!["spritesd"];
    all.extend(flags);
    if !flags.contains(&"--fs-on-cold") {
        all.extend(["--fs-on-cold", "wake"]);
    }
    if !flags.contains(&"--boot") {
        all.extend(["--boot", "call"]);
    }
    <Flags as clap::Parser>::parse_from(all).settings
}

pub(super) async fn serve(data: &Path, faults: Vec<FaultRule>) -> Server {
    serve_set(data, faults, settings(&[])).await
}

async fn serve_set(data: &Path, faults: Vec<FaultRule>, settings: Settings) -> Server {
    let any = "127.0.0.1:0".parse().unwrap();
    let config = Config {
        listen: any,
        admin: Some(any),
        data: data.to_owned(),
        token: TOKEN.into(),
        faults,
        program: program(),
        settings,
    };
    start(config).await.unwrap()
}

/// A raw client of one server.
#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) base: String,
}

impl Client {
    pub(super) fn new(base: &str) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let http = reqwest::Client::builder().timeout(PATIENCE).no_proxy().build().unwrap();
        Self { http, base: format!("{base}/v1/sprites") }
    }

    pub(crate) async fn call(&self, method: &str, path: &str, body: impl Into<reqwest::Body>) -> (StatusCode, String) {
        let response = self.request(method, path, body).await.unwrap();
        (response.status(), response.text().await.unwrap())
    }

    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> reqwest::Result<reqwest::Response> {
        let request = self.http.request(method.parse().unwrap(), format!("{}{path}", self.base));
        request.bearer_auth(TOKEN).body(body).send().await
    }

    pub(crate) async fn json(&self, method: &str, path: &str, body: &str) -> (StatusCode, Value) {
        let (status, text) = self.call(method, path, body.to_owned()).await;
        (status, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{status}: {text}")))
    }

    pub(super) async fn create(&self, name: &str) -> Value {
        let (status, sprite) = self.json("POST", "", &format!(r#"{{"name":"{name}"}}"#)).await;
        assert_eq!(status, StatusCode::CREATED, "{sprite}");
        sprite
    }

    /// Opens an exec socket; `path` is what follows the name and `exec`.
    pub(super) async fn open(
        &self,
        sprite: &str,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Exec, tungstenite::Error> {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        let url = format!("{}/{sprite}/exec{path}?{query}", self.base.replacen("http", "ws", 1));
        let request =
            ClientRequestBuilder::new(url.parse().unwrap()).with_header("Authorization", format!("Bearer {TOKEN}"));
        let (socket, response) = connect_async(request).await?;
        let headers = response.headers().iter().map(|(k, v)| (k.to_string(), v.to_str().unwrap().to_owned())).collect();
        Ok(Exec { socket, headers, seen: Vec::new() })
    }

    /// Starts `argv`.
    pub(super) async fn start(&self, sprite: &str, argv: &[&str], more: &[(&str, &str)]) -> Exec {
        let query: Vec<(&str, &str)> = argv.iter().map(|word| ("cmd", *word)).chain(more.iter().copied()).collect();
        self.open(sprite, "", &query).await.unwrap()
    }

    /// Runs `argv` to its end.
    pub(super) async fn run(&self, sprite: &str, argv: &[&str]) -> Ran {
        self.start(sprite, argv, &[]).await.finish().await
    }

    /// Runs a shell script and gives its standard output; it must succeed.
    pub(super) async fn sh(&self, sprite: &str, script: &str) -> String {
        let ran = self.run(sprite, &["bash", "-c", script]).await;
        assert_eq!((ran.code, ran.close), (Some(0), Some(1000)), "{script}: {}", ran.err());
        ran.out()
    }

    pub(super) async fn sessions(&self, sprite: &str) -> Vec<Value> {
        let (status, list) = self.json("GET", &format!("/{sprite}/exec"), "").await;
        assert_eq!(status, StatusCode::OK);
        assert_eq!(list["count"].as_u64(), list["sessions"].as_array().map(|all| all.len() as u64));
        list["sessions"].as_array().unwrap().clone()
    }
}

/// What the other side sent, in its order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seen {
    Text(Value),
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Exit(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>),
    /// The connection ended without a close frame.
    Broken,
}

/// An open exec socket.
pub(super) struct Exec {
    pub(super) socket: Socket,
    pub(super) headers: HashMap<String, String>,
    seen: Vec<Seen>,
}

impl Exec {
    pub(super) async fn send(&mut self, frame: &[u8]) {
        self.socket.send(Message::binary(frame.to_vec())).await.unwrap();
    }

    pub(super) async fn text(&mut self, text: &str) {
        self.socket.send(Message::text(text.to_owned())).await.unwrap();
    }

    pub(super) async fn next(&mut self) -> Seen {
        let message = tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("nothing came");
        let seen = match message {
            Some(Ok(Message::Text(text))) => Seen::Text(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Binary(frame))) => {
                assert!(frame.len() <= 32 * 1024, "a frame of {} bytes", frame.len());
                match frame.split_first().unwrap() {
                    (1, data) => Seen::Stdout(data.to_vec()),
                    (2, data) => Seen::Stderr(data.to_vec()),
                    (3, code) => Seen::Exit(code.to_vec()),
                    other => panic!("a frame of another type: {other:?}"),
                }
            }
            Some(Ok(Message::Pong(data))) => Seen::Pong(data.to_vec()),
            Some(Ok(Message::Close(frame))) => Seen::Close(frame.map(|frame| frame.code.into())),
            Some(Ok(other @ (Message::Ping(_) | Message::Frame(_)))) => {
                panic!("unexpected {other:?}")
            }
            Some(Err(_)) | None => Seen::Broken,
        };
        self.seen.push(seen.clone());
        seen
    }

    /// The session's id, from the first message.
    pub(super) async fn id(&mut self) -> String {
        let first = self.next().await;
        let Seen::Text(info) = &first else { panic!("no session_info but {first:?}") };
        assert_eq!(info["type"], "session_info");
        info["session_id"].as_str().unwrap().to_owned()
    }

    /// Standard output so far.
    pub(super) fn seen_out(&self) -> String {
        Ran::new(self.seen.clone()).out()
    }

    /// Reads until all of standard output so far contains `text`.
    pub(super) async fn until(&mut self, text: &str) {
        while !Ran::new(self.seen.clone()).out().contains(text) {
            let seen = self.next().await;
            assert!(!matches!(seen, Seen::Close(_) | Seen::Broken), "ended before {text:?}: {:?}", self.seen);
        }
    }

    /// Reads to the end.
    pub(super) async fn finish(mut self) -> Ran {
        while !matches!(self.next().await, Seen::Close(_) | Seen::Broken) {}
        Ran::new(self.seen)
    }
}

/// A command that has ended, or lost its socket.
#[derive(Debug)]
pub(super) struct Ran {
    pub(super) seen: Vec<Seen>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) code: Option<u8>,
    pub(super) close: Option<u16>,
}

impl Ran {
    fn new(seen: Vec<Seen>) -> Self {
        let mut ran = Self { seen: Vec::new(), stdout: Vec::new(), stderr: Vec::new(), code: None, close: None };
        for one in &seen {
            match one {
                Seen::Stdout(data) => ran.stdout.extend(data),
                Seen::Stderr(data) => ran.stderr.extend(data),
                Seen::Exit(code) => {
                    let [code] = code[..] else { panic!("exit payload {code:?}") };
                    ran.code = Some(code);
                }
                Seen::Close(code) => ran.close = *code,
                Seen::Text(_) | Seen::Pong(_) | Seen::Broken => {}
            }
        }
        ran.seen = seen;
        ran
    }

    pub(super) fn out(&self) -> String {
        String::from_utf8(self.stdout.clone()).unwrap()
    }

    pub(super) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// A WebSocket to any path of a Sprite, whatever is spoken on it.
pub(super) struct Wire {
    pub(super) socket: Socket,
    pub(super) headers: HashMap<String, String>,
}

/// One message of a [`Wire`].
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Frame {
    Text(String),
    Binary(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>),
    /// The connection ended without a close frame.
    Broken,
}

impl Client {
    /// Opens a WebSocket; `path` begins with the Sprite's name.
    pub(super) async fn wire(&self, path: &str, headers: &[(&str, &str)]) -> Result<Wire, tungstenite::Error> {
        let url = format!("{}/{path}", self.base.replacen("http", "ws", 1));
        let mut request =
            ClientRequestBuilder::new(url.parse().unwrap()).with_header("Authorization", format!("Bearer {TOKEN}"));
        for (name, value) in headers {
            request = request.with_header(*name, *value);
        }
        let (socket, response) = connect_async(request).await?;
        let headers = response.headers().iter().map(|(k, v)| (k.to_string(), v.to_str().unwrap().to_owned())).collect();
        Ok(Wire { socket, headers })
    }

    /// The status and text a WebSocket is refused with.
    pub(super) async fn refused(&self, path: &str) -> (u16, String) {
        match self.wire(path, &[]).await {
            Err(tungstenite::Error::Http(response)) => {
                (response.status().as_u16(), String::from_utf8(response.body().clone().unwrap_or_default()).unwrap())
            }
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("accepted"),
        }
    }
}

impl Wire {
    pub(super) async fn send(&mut self, data: &[u8]) {
        self.socket.send(Message::binary(data.to_vec())).await.unwrap();
    }

    pub(super) async fn text(&mut self, text: &str) {
        self.socket.send(Message::text(text.to_owned())).await.unwrap();
    }

    pub(super) async fn next(&mut self) -> Frame {
        match tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("nothing came") {
            Some(Ok(Message::Text(text))) => Frame::Text(text.to_string()),
            Some(Ok(Message::Binary(data))) => Frame::Binary(data.to_vec()),
            Some(Ok(Message::Pong(data))) => Frame::Pong(data.to_vec()),
            Some(Ok(Message::Close(frame))) => Frame::Close(frame.map(|frame| frame.code.into())),
            Some(Ok(other @ (Message::Ping(_) | Message::Frame(_)))) => panic!("unexpected {other:?}"),
            Some(Err(_)) | None => Frame::Broken,
        }
    }

    /// The next message, which must be JSON text.
    pub(crate) async fn json(&mut self) -> Value {
        match self.next().await {
            Frame::Text(text) => serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")),
            other => panic!("no text but {other:?}"),
        }
    }

    /// Reads to the end.
    pub(super) async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            frames.push(self.next().await);
            if matches!(frames.last(), Some(Frame::Close(_) | Frame::Broken)) {
                return frames;
            }
        }
    }

    /// Reads binary messages until all of them together contain `text`; gives them.
    pub(super) async fn until(&mut self, text: &str) -> String {
        let mut seen = Vec::new();
        let begun = std::time::Instant::now();
        loop {
            let so_far = String::from_utf8_lossy(&seen).into_owned();
            if so_far.contains(text) {
                return so_far;
            }
            // Signs of life go on coming.
            assert!(begun.elapsed() < PATIENCE, "never {text:?}, only {so_far:?}");
            match self.next().await {
                Frame::Binary(data) => seen.extend(data),
                Frame::Text(_) => {}
                other => panic!("{other:?} before {text:?}: {so_far:?}"),
            }
        }
    }
}

/// The bytes of all binary messages.
pub(super) fn bytes(frames: &[Frame]) -> Vec<u8> {
    let data =
        frames.iter().filter_map(|frame| if let Frame::Binary(data) = frame { Some(data.as_slice()) } else { None });
    data.collect::<Vec<_>>().concat()
}

impl Lab {
    /// A client of a second address of the same server, whose sockets give a sign of life more often.
    pub(super) async fn hasty(&self, every: Duration) -> Client {
        use crate::connection::{Connection, CuttableListener};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heartbeat = crate::exec::socket::Heartbeat(every);
        let router = crate::routes::router(std::sync::Arc::clone(&self.server.app)).layer(axum::Extension(heartbeat));
        let service = router.into_make_service_with_connect_info::<Connection>();
        let listener =
            CuttableListener { listener, stop: self.server.cut.clone(), blackhole: std::sync::Arc::default() };
        tokio::spawn(async move { axum::serve(listener, service).await });
        Client::new(&format!("http://{address}"))
    }
}
