//! A server that answers exactly the bytes it is told to.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

/// What arrived: head and body as text.
pub(super) type Requests = Arc<Mutex<Vec<String>>>;

/// Answers each request on a connection of its own with what `answer` makes of it, then closes.
pub(super) async fn http<F>(answer: F) -> (SocketAddr, Requests)
where
    F: Fn(&str) -> Vec<u8> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests = Requests::default();
    let seen = requests.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let request = read_request(&mut stream).await;
            let bytes = answer(&request);
            seen.lock().unwrap().push(request);
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
        }
    });
    (address, requests)
}

/// A whole answer.
pub(super) fn answer(status: u16, headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}").into_bytes()
}

pub(super) fn json(status: u16, body: &str) -> Vec<u8> {
    answer(status, "Content-Type: application/json\r\n", body)
}

/// Accepts one connection, reads its request and hands it over; for servers that do worse than answer.
pub(super) async fn raw<F, R>(serve: F) -> SocketAddr
where
    F: FnOnce(TcpStream, String) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_request(&mut stream).await;
        serve(stream, request).await;
    });
    address
}

/// Accepts one exec and hands over its WebSocket.
pub(super) async fn exec<F, R>(serve: F) -> SocketAddr
where
    F: FnOnce(WebSocketStream<TcpStream>, String) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    raw(|mut stream, request| async move {
        stream.write_all(&switching(&request)).await.unwrap();
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, None).await;
        serve(socket, request).await;
    })
    .await
}

/// The 101 that this request wants.
pub(super) fn switching(request: &str) -> Vec<u8> {
    let key = header(request, "sec-websocket-key").unwrap();
    let accept = derive_accept_key(key.as_bytes());
    format!("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: {accept}\r\n\r\n")
        .into_bytes()
}

pub(super) fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

async fn read_request(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "content-length").map_or(0, |length| length.parse().unwrap());
            if body.len() >= length {
                return text.into_owned();
            }
        }
        if stream.read_buf(&mut bytes).await.unwrap() == 0 {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
    }
}
