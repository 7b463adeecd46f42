//! Stands between the operator and spritesd, and forwards what it held back later, also when the sender is gone: a request
//! that is on its way while its sender is killed.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// How long the end of the sender's connection is held back from the server.
const ENDS_AFTER: Duration = Duration::from_secs(2);

/// The proxy; it ends with the test's runtime.
pub struct LateProxy {
    /// Where the operator finds it.
    pub url: String,
    state: Arc<State>,
}

struct State {
    upstream: SocketAddr,
    /// Requests with this in their head are held.
    pattern: Mutex<Option<String>>,
    held: watch::Sender<usize>,
    released: watch::Sender<bool>,
}

impl LateProxy {
    /// In front of a server at `http://ADDRESS`.
    pub async fn start(upstream: &str) -> Self {
        let upstream = upstream.strip_prefix("http://").unwrap().parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (held, released) = (watch::Sender::new(0), watch::Sender::new(false));
        let state = Arc::new(State { upstream, pattern: Mutex::new(None), held, released });
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let state = Arc::clone(&shared);
                tokio::spawn(async move { connection(&state, client).await });
            }
        });
        Self { url, state }
    }

    /// Holds what has this in its first line or headers.
    pub fn hold(&self, pattern: &str) {
        self.state.released.send_replace(false);
        *self.state.pattern.lock().unwrap() = Some(pattern.to_owned());
    }

    /// Waits until so many requests are held, since the start.
    pub async fn until_held(&self, number: usize) {
        let mut held = self.state.held.subscribe();
        tokio::time::timeout(Duration::from_secs(30), held.wait_for(|held| *held >= number)).await.unwrap().unwrap();
    }

    /// Forwards what is held, and holds nothing any more.
    pub fn release(&self) {
        *self.state.pattern.lock().unwrap() = None;
        self.state.released.send_replace(true);
    }
}

async fn connection(state: &State, mut client: TcpStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|part| part == b"\r\n\r\n") {
        if client.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let pattern = state.pattern.lock().unwrap().clone();
    if pattern.is_some_and(|pattern| String::from_utf8_lossy(&head).contains(&pattern)) {
        state.held.send_modify(|held| *held += 1);
        state.released.subscribe().wait_for(|released| *released).await.ok()?;
    }
    let mut server = TcpStream::connect(state.upstream).await.ok()?;
    server.write_all(&head).await.ok()?;
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) = (client.split(), server.split());
    // Each way ends by itself: a client that is gone does not take back what it sent.
    tokio::join!(
        async {
            let _ = copy(&mut from_client, &mut to_server).await;
            // A server may drop a request whose connection ends before it was looked at.
            tokio::time::sleep(ENDS_AFTER).await;
            let _ = to_server.shutdown().await;
        },
        async {
            let _ = copy(&mut from_server, &mut to_client).await;
            let _ = to_client.shutdown().await;
        }
    );
    Some(())
}
