//! One HTTP call, bounded in time and bytes: its success, or a typed error. An attempt sends once; what may be attempted
//! again says [`retry`](super::retry), and when, the limiter.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use secrecy::{ExposeSecret, SecretString};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use url::Url;

use super::awake::Awake;
use super::call::{CallKind, Priority};
use super::client::{Client, bearer};
use super::error::Error;
use super::response::{self, Answer, Subject};
use super::sanitize::ProviderText;
use super::types::{Sprite, WireSprite};

/// The largest JSON or NDJSON answer that is read.
const BODY_CAP: u64 = 1024 * 1024;
/// Enough of a failing answer to understand it.
const ERROR_BODY_CAP: u64 = 64 * 1024;
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// One call, being made.
pub(super) struct Call<'a> {
    client: &'a Client,
    kind: CallKind,
    method: Method,
    url: Url,
    headers: HeaderMap,
    /// Or why it cannot be written.
    body: Result<Option<Bytes>, Error>,
    subject: Subject,
    timeout: Duration,
    answers: Option<Awake>,
    only: Option<(String, String)>,
}

/// A success.
pub(super) struct Success {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// There was more than the cap.
    pub cut: bool,
    /// What was sent with it: taken out of the service's words.
    pub token: SecretString,
}

impl Success {
    /// The part that a 206 holds begins where the whole does.
    pub(super) fn starts_at_zero(&self) -> bool {
        let range = self.headers.get(reqwest::header::CONTENT_RANGE);
        range.is_none_or(|value| value.as_bytes().starts_with(b"bytes 0-"))
    }
}

impl<'a> Call<'a> {
    pub(super) fn new(client: &'a Client, kind: CallKind, method: Method, url: Url, subject: Subject) -> Self {
        let timeout = client.config().call_timeout;
        Self {
            client,
            kind,
            method,
            url,
            headers: HeaderMap::new(),
            body: Ok(None),
            subject,
            timeout,
            answers: None,
            only: None,
        }
    }

    /// A success is a sign of life of this Sprite.
    pub(super) fn answered_by(mut self, on: &Awake) -> Self {
        self.answers = Some(on.clone());
        self
    }

    /// Only for the instance of this name with this id, which is looked at immediately before each attempt.
    pub(super) fn only(mut self, name: &str, id: &str) -> Self {
        self.only = Some((name.to_owned(), id.to_owned()));
        self
    }

    pub(super) fn json(mut self, body: &impl serde::Serialize) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let written = serde_json::to_vec(body).map(|bytes| Some(Bytes::from(bytes)));
        self.body = written.map_err(|_| Error::refused_here("a body that cannot be written as JSON"));
        self
    }

    pub(super) fn bytes(mut self, body: Bytes) -> Self {
        self.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        self.body = Ok(Some(body));
        self
    }

    /// A header; its value must be visible ASCII, or it is left out.
    pub(super) fn header(mut self, name: HeaderName, value: &str) -> Self {
        self.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
        self
    }

    pub(super) fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    pub(super) fn query<'q>(mut self, pairs: impl IntoIterator<Item = (&'q str, &'q str)>) -> Self {
        self.url.query_pairs_mut().extend_pairs(pairs);
        self
    }

    /// Sends, and reads a JSON success. One that cannot be read is no success: it counts as a failure of its attempt.
    pub(super) async fn send_for<T: DeserializeOwned>(self, what: &'static str) -> Result<T, Error> {
        let read = |success| serde_json::from_slice(&whole(success)?.body).map_err(|_| Error::Protocol { what });
        self.send_as(BODY_CAP, read).await
    }

    /// Sends, and reads a success of at most [`BODY_CAP`] bytes.
    pub(super) async fn send(self) -> Result<Success, Error> {
        self.send_as(BODY_CAP, whole).await
    }

    /// Sends, and keeps at most `cap` bytes of a success.
    pub(super) async fn send_capped(self, cap: u64) -> Result<Success, Error> {
        self.send_as(cap, Ok).await
    }

    async fn send_as<T>(mut self, cap: u64, accept: impl Fn(Success) -> Result<T, Error>) -> Result<T, Error> {
        let body = std::mem::replace(&mut self.body, Ok(None))?;
        let (call, accept) = (&self, &accept);
        let attempts = self.client.attempts(self.kind, self.timeout, |timeout| {
            let attempt = call.attempt(body.clone(), cap, timeout);
            async move { accept(attempt.await?) }
        });
        let success = attempts.await?;
        if let Some(on) = &self.answers {
            on.renew();
        }
        Ok(success)
    }

    async fn attempt(&self, body: Option<Bytes>, cap: u64, timeout: Duration) -> Result<Success, Error> {
        let started = Instant::now();
        let token = self.client.token_within(timeout).await?;
        if let Some((name, id)) = &self.only {
            self.client.is_instance(name, id, timeout.saturating_sub(started.elapsed())).await?;
        }
        let timeout = timeout.saturating_sub(started.elapsed());
        let transport = self.client.transport();
        // A pooled connection may be dead without our knowing it: too slow a way to learn that on the way to a kill.
        let urgent = self.client.priority(self.kind) == Priority::Kill;
        let connections = if urgent { &transport.execs } else { &transport.calls };
        let mut request = connections.request(self.method.clone(), self.url.clone()).headers(self.headers.clone());
        request = request.header(AUTHORIZATION, bearer(&token));
        if let Some(body) = body {
            request = request.body(body);
        }
        // One deadline over everything: connection, answer, body, and each of many small pieces of it.
        let exchange = async {
            let response = request.send().await.map_err(|error| Error::transport(error, started.elapsed()))?;
            if !response.status().is_success() {
                return Err(self.client.failure(response, self.subject, &token).await);
            }
            let (status, headers) = (response.status(), response.headers().clone());
            let (body, cut) = read(response, cap).await.map_err(|error| Error::transport(error, started.elapsed()))?;
            Ok(Success { status, headers, body, cut, token: token.clone() })
        };
        match tokio::time::timeout(timeout, exchange).await {
            Ok(result) => result,
            Err(_) => Err(Error::Timeout { after: timeout, sent: true }),
        }
    }
}

fn whole(success: Success) -> Result<Success, Error> {
    if success.cut { Err(Error::Protocol { what: "an answer of at most 1 MiB" }) } else { Ok(success) }
}

impl Client {
    /// [`Error::Replaced`] when the name stands for another instance now. One attempt under the permit of the call that it
    /// is for, which was not sent whatever this meets.
    pub(super) async fn is_instance(&self, name: &str, id: &str, timeout: Duration) -> Result<(), Error> {
        let url = self.sprite_url(name, &[])?;
        let call = self.call(CallKind::Get, Method::GET, url, Subject::Sprite);
        // Boxed: it is an attempt within an attempt.
        let read = Box::pin(call.attempt(None, BODY_CAP, timeout)).await.map_err(Error::of_a_look_before)?;
        let sprite = serde_json::from_slice::<WireSprite>(&read.body).ok().and_then(|wire| Sprite::try_from(wire).ok());
        match sprite.filter(|sprite| sprite.name == name) {
            Some(sprite) if sprite.id == id => Ok(()),
            Some(sprite) => Err(Error::Replaced { instance: ProviderText::new(&sprite.id, None), sent: false }),
            None => Err(Error::Protocol { what: "a Sprite object" }.of_a_look_before()),
        }
    }

    /// The error of an answer that is no success. Reads its body, up to a bound.
    pub(super) async fn failure(&self, response: Response, subject: Subject, token: &SecretString) -> Error {
        let (status, headers) = (response.status(), response.headers().clone());
        if status == StatusCode::UNAUTHORIZED {
            self.forget_token();
        }
        // A status whose body cannot be read is still that status.
        let body = match tokio::time::timeout(ERROR_BODY_TIMEOUT, read(response, ERROR_BODY_CAP)).await {
            Ok(Ok((body, _))) => body,
            Ok(Err(_)) | Err(_) => Bytes::new(),
        };
        let answer = Answer { status, headers: &headers, body: &body, secret: token.expose_secret() };
        response::error(&answer, subject, Timestamp::now())
    }
}

/// Reads until the end or the cap, whichever comes first; says whether there was more. Nothing beyond the cap is kept.
async fn read(mut response: Response, cap: u64) -> Result<(Bytes, bool), reqwest::Error> {
    let cap = usize::try_from(cap).unwrap_or(usize::MAX);
    let mut kept = BytesMut::new();
    while let Some(chunk) = response.chunk().await? {
        let room = cap - kept.len();
        if chunk.len() > room {
            kept.extend_from_slice(chunk.get(..room).unwrap_or_default());
            return Ok((kept.freeze(), true));
        }
        kept.extend_from_slice(&chunk);
    }
    Ok((kept.freeze(), false))
}
