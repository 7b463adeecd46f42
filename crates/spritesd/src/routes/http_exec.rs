//! Exec by plain HTTP: one command, its input in the request's body, its output in the answer's.
//!
//! There is no length in a frame: each one is an HTTP chunk, and none may be joined with another.

use std::io;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Path, RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _};
use http::{HeaderName, header};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::exec::{Client, mishap};
use super::{Shared, asleep};
use crate::connection::Connection;
use crate::errors::ApiError;
use crate::exec::frames::{self, Input};
use crate::exec::query::{self, Query};
use crate::exec::session::{Begun, End, Next, Session, Watcher};
use crate::exec::socket::Mishap;
use crate::faults::Fault;

/// Runs a command and streams its frames.
pub(super) async fn run(
    State(app): State<Shared>,
    Path(name): Path<String>,
    ConnectInfo(connection): Client,
    RawQuery(raw): RawQuery,
    fault: Option<Extension<Fault>>,
    body: Body,
) -> Result<Response, ApiError> {
    let sprite = app.sprite(&name)?;
    let command = match query::parse(raw.as_deref().unwrap_or_default()).map_err(ApiError::bad)? {
        Query::Start(command) if command.terminal.is_none() => command,
        Query::Start(_) => return Err(ApiError::bad("tty needs a WebSocket")),
        Query::Attach(_) => return Err(ApiError::bad("attaching needs a WebSocket")),
    };
    let takes_input = command.spawn.stdin;
    let frames = match sprite.begin(command).await.map_err(|error| asleep(&error))? {
        Begun::Refused { text, code } => {
            let said = frames::output(frames::Stream::Stderr, format!("{text}\n").as_bytes());
            futures::stream::iter([Ok(said), Ok(frames::exit(code))]).left_stream()
        }
        Begun::Session(watcher) => {
            let mishaps = mishap(fault.as_ref().map(|fault| &fault.0));
            let broken = CancellationToken::new();
            if takes_input {
                tokio::spawn(feed(Arc::clone(&watcher.session), body, broken.clone()));
            }
            frames_of(watcher, connection, broken, mishaps).right_stream()
        }
    };
    // Nothing between here and the client may hold frames back.
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream"),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((headers, Body::from_stream(frames)).into_response())
}

/// Gives the body to the program. A body that breaks off is not an end, as the program must not take a part for all:
/// then the client is gone.
async fn feed(session: Arc<Session>, body: Body, broken: CancellationToken) {
    let mut chunks = body.into_data_stream();
    let feeding = async {
        while let Some(chunk) = chunks.next().await {
            match chunk {
                Ok(data) => session.input(Input::Data(data)).await,
                Err(error) => {
                    debug!(session = session.id, %error, "the input broke off");
                    broken.cancel();
                    return;
                }
            }
        }
        session.input(Input::End).await;
    };
    tokio::select! {
        () = feeding => {}
        _ = session.wait() => {}
    }
}

/// All frames of a session, the exit's last. The client's leaving drops the watcher.
fn frames_of(
    watcher: Watcher,
    connection: Connection,
    broken: CancellationToken,
    mishap: Mishap,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    futures::stream::unfold(Some(watcher), move |watcher| {
        let (connection, broken) = (connection.clone(), broken.clone());
        async move {
            let watcher = watcher?;
            let next = tokio::select! {
                next = watcher.next() => next,
                // The server below would not notice before the next frame.
                () = broken.cancelled() => return Some((Err(io::ErrorKind::ConnectionAborted.into()), None)),
            };
            match next {
                Next::Frame(frame) => {
                    if let Some(pause) = mishap.slow {
                        tokio::time::sleep(pause).await;
                    }
                    let last = mishap.early_close && frames::is_stdout(&frame);
                    if last {
                        connection.cut();
                    }
                    // What a chunk of nothing would mean to a client is its business: no chunk is sent for it.
                    let frame = if mishap.output_lost { Bytes::new() } else { frame };
                    Some((Ok(frame), (!last).then_some(watcher)))
                }
                Next::End(End::Exited(_)) if mishap.exit_frame_lost => None,
                Next::End(End::Exited(code)) => Some((Ok(frames::exit(code)), None)),
                Next::End(End::Lost) => {
                    connection.cut();
                    None
                }
            }
        }
    })
}
