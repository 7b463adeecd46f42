//! The WebSocket handshake of an exec, over the same HTTP stack as every other call (one TLS set-up, one proxy rule), on a
//! connection of its own. Its one job is to say honestly whether the command may have started.

use std::time::Duration;

use reqwest::StatusCode;
use reqwest::header::{
    AUTHORIZATION, CONNECTION, HeaderMap, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use secrecy::SecretString;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use url::Url;

use super::super::awake::Awake;
use super::super::call::CallKind;
use super::super::client::{Client, bearer};
use super::super::error::{Error, ExecError};
use super::super::frame::MESSAGE_CAP;
use super::super::go_duration::go_duration;
use super::super::response::Subject;
use super::{Exec, ExecRequest, OnDrop, task};

/// Proxies on the way were seen to refuse longer requests with an error that explains nothing.
const URL_CAP: usize = 4096;

impl Client {
    /// Starts a command. **Not repeatable**: on [`ExecError::Unknown`] the command may be running. Tried again here only
    /// where no connection was made or the service refused with 429.
    pub async fn exec(&self, on: &Awake, request: &ExecRequest) -> Result<Exec, ExecError> {
        self.exec_within(on, request, self.config().open_timeout).await
    }

    /// The same with another deadline for the handshake: a Sprite that wakes takes its time.
    pub(in super::super) async fn exec_within(
        &self,
        on: &Awake,
        request: &ExecRequest,
        limit: Duration,
    ) -> Result<Exec, ExecError> {
        self.still_awake(on).map_err(ExecError::NotStarted)?;
        let url = self.exec_url(on.name(), request).map_err(ExecError::NotStarted)?;
        let asked = task::Asked {
            on: on.clone(),
            on_drop: request.on_drop,
            arguments: request.argv.clone(),
            token: SecretString::default(),
        };
        let exec = self.open(CallKind::ExecStart, url, asked, limit).await?;
        if !request.stdin {
            // `stdin=false` says so already; the frame makes sure that a command which reads sees the end.
            // It can only fail when the command has ended already, which its events tell.
            let _ = exec.stdin.close().await;
        }
        Ok(exec)
    }

    /// Attaches to a session that exists: its output so far, as the service keeps it, then what comes. Starts nothing, so it is
    /// repeated like any read. Dropped, it leaves the command running. An unknown session is [`ExecError::Refused`] with
    /// [`Error::Absent`].
    pub async fn attach(&self, on: &Awake, session_id: &str) -> Result<Exec, ExecError> {
        self.still_awake(on).map_err(ExecError::NotStarted)?;
        let mut url = self.sprite_url(on.name(), &["exec", session_id]).map_err(ExecError::NotStarted)?;
        // No end-of-input frame here: on a terminal session it is a keystroke that can end a shell.
        url.query_pairs_mut().append_pair("stdin", "false");
        let asked = task::Asked {
            on: on.clone(),
            on_drop: OnDrop::Leave,
            arguments: Vec::new(),
            token: SecretString::default(),
        };
        self.open(CallKind::ExecAttach, url, asked, self.config().open_timeout).await
    }

    fn exec_url(&self, name: &str, request: &ExecRequest) -> Result<Url, Error> {
        if request.argv.is_empty() {
            return Err(Error::refused_here("a command without arguments"));
        }
        if request.argv.iter().chain(&request.path).any(|text| text.contains('\0')) {
            return Err(Error::refused_here("an argument holds NUL"));
        }
        let after_disconnect = go_duration(request.max_run_after_disconnect);
        let mut url = self.sprite_url(name, &["exec"])?;
        url.query_pairs_mut()
            .extend_pairs(request.argv.iter().map(|argument| ("cmd", argument)))
            .extend_pairs(request.path.iter().map(|path| ("path", path)))
            .append_pair("stdin", if request.stdin { "true" } else { "false" })
            .append_pair("max_run_after_disconnect", &after_disconnect);
        if url.as_str().len() > URL_CAP {
            return Err(Error::refused_here(&format!(
                "the arguments make a request of {} bytes, above the {URL_CAP} that pass; send them on standard input",
                url.as_str().len()
            )));
        }
        Ok(url)
    }

    async fn open(&self, kind: CallKind, url: Url, asked: task::Asked, limit: Duration) -> Result<Exec, ExecError> {
        let exec = self.attempts(kind, limit, |limit| self.attempt_open(url.clone(), asked.clone(), limit)).await?;
        asked.on.renew();
        Ok(exec)
    }

    async fn attempt_open(&self, url: Url, asked: task::Asked, limit: Duration) -> Result<Exec, ExecError> {
        let on_drop = asked.on_drop;
        let client = self.clone();
        let opening = async move {
            match tokio::time::timeout(limit, client.handshake(url, asked, limit)).await {
                Ok(result) => result,
                // The connection itself has a shorter deadline, so the request was sent.
                Err(_) => Err(ExecError::Unknown(Error::Timeout { after: limit, sent: true })),
            }
        };
        match on_drop {
            OnDrop::Leave => opening.await,
            // In a task of its own: when the caller goes away in the middle, what the handshake started still comes to
            // be known by its id, and is ended as the dropped result of this task.
            OnDrop::Kill => tokio::spawn(opening).await.unwrap_or(Err(ExecError::Unknown(Error::Ended))),
        }
    }

    async fn handshake(&self, url: Url, asked: task::Asked, limit: Duration) -> Result<Exec, ExecError> {
        let started = Instant::now();
        let token = self.token_within(limit).await.map_err(ExecError::NotStarted)?;
        if asked.on.is_checked() {
            // Whatever that read meets: the command was not asked for yet.
            let (name, id) = (asked.on.name(), asked.on.id());
            self.is_instance(name, id, limit).await.map_err(ExecError::NotStarted)?;
        }
        let transport = self.transport();
        let key = generate_key();
        // No extensions are offered: compression has broken clients here before, and unbounds what a message may grow to.
        let request = transport
            .execs
            .get(url)
            .header(AUTHORIZATION, bearer(&token))
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let response = match request.send().await {
            Ok(response) => response,
            Err(error) => {
                let error = Error::transport(error, started.elapsed());
                return Err(if error.may_have_happened() {
                    ExecError::Unknown(error)
                } else {
                    ExecError::NotStarted(error)
                });
            }
        };
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(ExecError::Refused(self.failure(response, Subject::Other, &token).await));
        }
        check_upgrade(response.headers(), &key).map_err(ExecError::Unknown)?;
        let upgraded =
            response.upgrade().await.map_err(|error| ExecError::Unknown(Error::transport(error, started.elapsed())))?;
        let socket = websocket(upgraded).await;
        Ok(task::spawn(socket, self, task::Asked { token, ..asked }))
    }
}

/// A WebSocket over an upgraded connection, with bounds on what a peer can make it hold.
pub(in super::super) async fn websocket<S: task::Stream>(upgraded: S) -> WebSocketStream<S> {
    let config = WebSocketConfig::default()
        .read_buffer_size(32 * 1024)
        .write_buffer_size(0)
        .max_message_size(Some(MESSAGE_CAP))
        .max_frame_size(Some(MESSAGE_CAP));
    WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await
}

/// RFC 6455 §4.1: only a peer that speaks WebSocket knows the answer to our key.
fn check_upgrade(headers: &HeaderMap, key: &str) -> Result<(), Error> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    if !text(UPGRADE).is_some_and(|protocol| protocol.eq_ignore_ascii_case("websocket")) {
        return Err(Error::Protocol { what: "an upgrade to WebSocket" });
    }
    if text(SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes()).as_str()) {
        return Err(Error::Protocol { what: "the answer to our WebSocket key" });
    }
    if headers.contains_key(SEC_WEBSOCKET_EXTENSIONS) {
        return Err(Error::Protocol { what: "no WebSocket extension, since none was offered" });
    }
    Ok(())
}
