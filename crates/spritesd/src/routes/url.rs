//! The URL of a Sprite, `http://<name>.<suffix>:<port>`: a reverse proxy to what listens inside.
//!
//! Connections are made inside the guest, by its agent. The Sprite is woken, and stays awake while a request or a
//! WebSocket is open. Bodies are passed on as they come. The token never gets in.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http1;
use hyper::upgrade::{OnUpgrade, on};
use hyper_util::rt::TokioIo;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::time::sleep;
use tracing::debug;

use super::guard::has_token;
use super::{App, Shared, asleep};
use crate::errors::ApiError;
use crate::guest::protocol::{Answer, Request as Ask};
use crate::guest::{Guest, GuestError};
use crate::lifecycle::Awake;
use crate::settings::LOCALHOST;
use crate::sprite::Sprite;

/// How often a service that has just been started is tried.
const AGAIN: Duration = Duration::from_millis(50);
/// Fields that are about one connection, not about the request.
const HOP_BY_HOP: [&str; 8] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Takes what is meant for a Sprite; the rest is for the API.
pub(super) async fn pass(State(app): State<Shared>, request: Request, next: Next) -> Response {
    match sprite_of(request.headers(), request.uri(), &app.registry.shared.settings.url_suffix) {
        None => next.run(request).await,
        Some(name) => forward(&app, &name, request).await.unwrap_or_else(ApiError::into_response),
    }
}

/// The name of the Sprite a request is meant for: before the suffix of URLs, or before `localhost`, which leads here
/// whatever the suffix. A target with a host of its own overrides the field.
fn sprite_of(headers: &HeaderMap, uri: &Uri, suffix: &str) -> Option<String> {
    let field = || headers.get(header::HOST)?.to_str().ok()?.parse::<Authority>().ok();
    let host = uri.authority().cloned().or_else(field)?.host().to_ascii_lowercase();
    let host = host.strip_suffix('.').unwrap_or(&host);
    let name = [suffix, LOCALHOST].into_iter().find_map(|suffix| host.strip_suffix(suffix)?.strip_suffix('.'));
    name.map(str::to_owned)
}

async fn forward(app: &App, name: &str, mut request: Request) -> Result<Response, ApiError> {
    let sprite = app.sprite(name)?;
    let ours = has_token(app, request.headers());
    if sprite.meta().url_settings.auth != "public" && !ours {
        return Err(ApiError::Unauthenticated);
    }
    if ours {
        request.headers_mut().remove(header::AUTHORIZATION);
    }
    let awake = sprite.wake().await.map_err(|error| asleep(&error))?;
    let stream = connect(&sprite, &awake).await?;
    let (upgrade, client) = (upgrade_of(request.headers()), request.extensions_mut().remove::<OnUpgrade>());
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            debug!(%error, "a connection into a sprite broke");
        }
    });
    prepare(&mut request, upgrade.as_ref());
    let mut response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    let answered = upgrade_of(response.headers());
    strip(response.headers_mut());
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        let (Some(client), Some(protocol), true) = (client, answered, upgrade.is_some()) else {
            return Err(bad_gateway("the sprite switched protocols unasked"));
        };
        mark(response.headers_mut(), protocol);
        tokio::spawn(tunnel(client, on(&mut response), awake));
        let (parts, _) = response.into_parts();
        return Ok(Response::from_parts(parts, Body::empty()));
    }
    Ok(response.map(|body| Body::new(Held { body, _awake: awake })))
}

/// Connects to the port of the URL. A service that has been started for this gets time to listen.
async fn connect(sprite: &Arc<Sprite>, awake: &Awake) -> Result<TcpStream, ApiError> {
    let port = sprite.serve_http(awake).await;
    loop {
        match dial(awake, port).await {
            Ok(stream) => return Ok(stream),
            // No event tells that a program listens.
            Err(_) if sprite.may_listen_soon() => sleep(AGAIN).await,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(bad_gateway(&format!("nothing listens on port {port} of the sprite")));
            }
            Err(error) => return Err(bad_gateway(&format!("cannot connect to port {port} of the sprite: {error}"))),
        }
    }
}

async fn dial(guest: &Guest, port: u16) -> io::Result<TcpStream> {
    match guest.ask(Ask::Connect { host: "localhost".into(), port }, &[]).await {
        Ok((Answer::Connected { .. }, Some(fd))) => {
            let stream = std::net::TcpStream::from(fd);
            stream.set_nonblocking(true)?;
            TcpStream::from_std(stream)
        }
        Ok((Answer::Failed(error), _)) if error.code == "ECONNREFUSED" => {
            Err(io::Error::new(io::ErrorKind::ConnectionRefused, error.error))
        }
        Ok((Answer::Failed(error), _)) => Err(io::Error::other(error.error)),
        Ok(_) => Err(io::Error::other(GuestError::Confused)),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Makes of a client's request one of our own.
fn prepare(request: &mut Request, upgrade: Option<&HeaderValue>) {
    let target = request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    if !request.headers().contains_key(header::HOST)
        && let Some(host) = request.uri().authority().and_then(|host| HeaderValue::from_str(host.as_str()).ok())
    {
        request.headers_mut().insert(header::HOST, host);
    }
    *request.uri_mut() = Uri::from(target);
    *request.version_mut() = http::Version::HTTP_11;
    strip(request.headers_mut());
    if let Some(protocol) = upgrade {
        mark(request.headers_mut(), protocol.clone());
    }
}

/// The protocol that one side wants to change to.
fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    let wanted = connection_words(headers).any(|word| word.eq_ignore_ascii_case("upgrade"));
    headers.get(header::UPGRADE).filter(|_| wanted).cloned()
}

fn connection_words(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let fields = headers.get_all(header::CONNECTION).iter().filter_map(|field| field.to_str().ok());
    fields.flat_map(|field| field.split(',').map(str::trim))
}

/// Removes what is about the connection.
fn strip(headers: &mut HeaderMap) {
    let named: Vec<String> = connection_words(headers).map(str::to_owned).collect();
    for name in named.iter().map(String::as_str).chain(HOP_BY_HOP) {
        headers.remove(name);
    }
}

fn mark(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

/// Passes bytes both ways until both sides have ended.
async fn tunnel(client: OnUpgrade, guest: OnUpgrade, awake: Awake) {
    if let (Ok(client), Ok(guest)) = tokio::join!(client, guest) {
        let copied = copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(guest)).await;
        debug!(?copied, "a connection into a sprite ended");
    }
    drop(awake);
}

fn broken(error: &hyper::Error) -> ApiError {
    debug!(%error, "a request to a sprite failed");
    bad_gateway("the program in the sprite broke the connection")
}

fn bad_gateway(text: &str) -> ApiError {
    ApiError::Text(StatusCode::BAD_GATEWAY, text.to_owned())
}

/// A body that keeps its Sprite awake.
struct Held {
    body: Incoming,
    _awake: Awake,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Poll::Ready(ready!(Pin::new(&mut self.body).poll_frame(cx)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("one.localhost", Some("one"))]
    #[case("one.localhost:8080", Some("one"))]
    #[case("ONE.Localhost.:8080", Some("one"))]
    #[case("a.b.localhost", Some("a.b"))]
    #[case("localhost:8080", None)]
    #[case("127.0.0.1:8080", None)]
    #[case("[::1]:8080", None)]
    #[case("one.localhost.example.com", None)]
    #[case("one.Sprites.example.org:8080", Some("one"))]
    #[case("sprites.example.org:8080", None)]
    #[case("one.notsprites.example.org", None)]
    #[case("", None)]
    fn hosts(#[case] host: &str, #[case] name: Option<&str>) {
        let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_str(host).unwrap())]);
        let suffix = "sprites.example.org";
        assert_eq!(sprite_of(&headers, &Uri::from_static("/v1/sprites"), suffix).as_deref(), name);
        let absolute = Uri::from_static("http://two.localhost/x");
        assert_eq!(sprite_of(&headers, &absolute, suffix).as_deref(), Some("two"));
    }

    #[test]
    fn what_is_about_a_connection_does_not_pass() {
        let mut request = Request::get("http://one.localhost/a?b=c").body(Body::empty()).unwrap();
        for (name, value) in
            [("connection", "X-Private, Upgrade"), ("x-private", "1"), ("upgrade", "websocket"), ("te", "x")]
        {
            request.headers_mut().insert(name, value.parse().unwrap());
        }
        request.headers_mut().insert("x-public", "1".parse().unwrap());
        let upgrade = upgrade_of(request.headers());
        prepare(&mut request, upgrade.as_ref());
        let mut names: Vec<&str> = request.headers().keys().map(header::HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["connection", "host", "upgrade", "x-public"]);
        assert_eq!(
            (request.uri().to_string().as_str(), request.headers()["host"].to_str().unwrap()),
            ("/a?b=c", "one.localhost")
        );
    }
}
