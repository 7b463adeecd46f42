//! The WebSocket of one watcher: output and control texts out, input and signals in.
//!
//! Both directions run at once, so a client that writes without reading cannot lock itself up, and the end of the
//! command ends the socket whatever the client still sends.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout};
use tracing::debug;

use super::frames::{self, Input};
use super::session::{End, Next, Session, Watcher};
use super::stream::Size;
use super::texts::{self, KEEPALIVE, Told, normal_close};
use crate::connection::Connection;

/// A client that takes no byte for this long is gone; the command must not wait for it for ever.
pub(super) const STALLED: Duration = Duration::from_mins(1);
/// How long the client's answer to our close is awaited. Closing TCP over unread input would reset it, and a reset
/// can overtake the last frames.
const LINGER: Duration = Duration::from_secs(5);
/// Larger messages of clients end the connection.
pub(crate) const LARGEST_MESSAGE: usize = 10 << 20;

/// How often a text says that the server is there: some clients give up after 45 s without a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heartbeat(pub(crate) Duration);

impl Default for Heartbeat {
    fn default() -> Self {
        Self(Duration::from_secs(15))
    }
}

impl Heartbeat {
    /// Ticks from now on.
    pub(crate) fn start(self) -> Interval {
        let mut interval = interval_at(Instant::now() + self.0, self.0);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        interval
    }
}

/// What may be made to go wrong on the way out.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mishap {
    /// Close without an exit frame.
    pub(crate) exit_frame_lost: bool,
    /// Drop TCP after the first frame of standard output.
    pub(crate) early_close: bool,
    /// No output at all.
    pub(crate) output_lost: bool,
    /// Fall silent after the first frame of standard output, with the connection open.
    pub(crate) half_open: bool,
    /// Wait before each frame of output.
    pub(crate) slow: Option<Duration>,
}

/// How a client came to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Start,
    /// A lone end of input as first frame is what clients send before they know what they attached to: ignored.
    Attach,
}

/// How a client writes input for a program without a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// With a type byte.
    Framed,
    /// As it is; a frame that is nothing but the byte of the end is the end.
    Raw,
}

/// Reads the binary frames a client sends to one session.
#[derive(Debug)]
pub(crate) struct Reader {
    dialect: Dialect,
    is_terminal: bool,
    /// No frame has come yet on an attached socket.
    is_first: bool,
}

impl Reader {
    pub(crate) fn new(session: &Session, dialect: Dialect, entry: Entry) -> Self {
        Self { dialect, is_terminal: session.terminal().is_some(), is_first: entry == Entry::Attach }
    }

    /// The input in a frame; none when there is none.
    pub(crate) fn input(&mut self, frame: Bytes) -> Option<Input> {
        let is_end = matches!(frames::input(frame.clone()), Some(Input::End)) && frame.len() == 1;
        if std::mem::take(&mut self.is_first) && is_end {
            return None;
        }
        match self.dialect {
            _ if frame.is_empty() => None,
            _ if self.is_terminal => Some(Input::Data(frame)),
            Dialect::Raw if is_end => Some(Input::End),
            Dialect::Raw => Some(Input::Data(frame)),
            Dialect::Framed => frames::input(frame),
        }
    }
}

/// Serves a watcher until the command or the client ends.
pub(crate) async fn serve(
    socket: WebSocket,
    connection: Connection,
    watcher: Watcher,
    entry: Entry,
    heartbeat: Heartbeat,
    mishap: Mishap,
) {
    let (mut sink, mut stream) = socket.split();
    let done = tokio::select! {
        done = write(&mut sink, &watcher, heartbeat, mishap) => done,
        () = read(&mut stream, &watcher.session, entry) => return,
    };
    drop(watcher);
    match done {
        Done::Closed => linger(&mut stream).await,
        Done::Dropped => connection.cut(),
        Done::Silenced => {
            connection.silence();
            // Nothing comes and nothing goes until the connection is cut.
            while let Some(Ok(_)) = stream.next().await {}
        }
    }
}

/// Tells a client that its command could not be started, as a shell would.
pub(crate) async fn refuse(socket: WebSocket, command: &str, text: &str, code: u8, terminal: Option<Size>) {
    let (mut sink, mut stream) = socket.split();
    for message in texts::refusal(command, text, code, terminal).into_iter().chain([normal_close()]) {
        if !sent(&mut sink, message).await {
            return;
        }
    }
    linger(&mut stream).await;
}

async fn sent(sink: &mut SplitSink<WebSocket, Message>, message: Message) -> bool {
    matches!(timeout(STALLED, sink.send(message)).await, Ok(Ok(())))
}

enum Done {
    /// Our close frame is out.
    Closed,
    /// The connection is to be cut.
    Dropped,
    /// The connection is to stay open and silent.
    Silenced,
}

async fn write(
    sink: &mut SplitSink<WebSocket, Message>,
    watcher: &Watcher,
    heartbeat: Heartbeat,
    mishap: Mishap,
) -> Done {
    let session = &watcher.session;
    let is_terminal = session.terminal().is_some();
    let mut heartbeat = heartbeat.start();
    let mut message = Message::text(texts::session_info(session));
    loop {
        let is_stdout = matches!(&message, Message::Binary(frame) if is_terminal || frames::is_stdout(frame));
        let last = matches!(message, Message::Close(_));
        if !sent(sink, message).await {
            debug!(session = session.id, "the client takes nothing");
            return Done::Dropped;
        }
        if last {
            return Done::Closed;
        }
        if is_stdout && mishap.early_close {
            return Done::Dropped;
        }
        if is_stdout && mishap.half_open {
            return Done::Silenced;
        }
        message = tokio::select! {
            next = next(watcher, mishap) => match next {
                Next::Frame(frame) => {
                    if let Some(pause) = mishap.slow {
                        tokio::time::sleep(pause).await;
                    }
                    Message::Binary(frame)
                }
                Next::End(End::Lost) => return Done::Dropped,
                Next::End(End::Exited(code)) => {
                    if !mishap.exit_frame_lost && !sent(sink, texts::exit(code, is_terminal)).await {
                        return Done::Dropped;
                    }
                    normal_close()
                }
            },
            _ = heartbeat.tick() => Message::text(KEEPALIVE),
        };
    }
}

/// What comes next, less what is to be lost.
async fn next(watcher: &Watcher, mishap: Mishap) -> Next {
    loop {
        let next = watcher.next().await;
        if !(mishap.output_lost && matches!(next, Next::Frame(_))) {
            return next;
        }
    }
}

/// Takes what the client sends, until it is gone.
async fn read(stream: &mut SplitStream<WebSocket>, session: &Session, entry: Entry) {
    let mut reader = Reader::new(session, Dialect::Framed, entry);
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Binary(frame) => {
                if let Some(input) = reader.input(frame) {
                    session.input(input).await;
                }
            }
            Message::Text(text) => {
                if let Some(told) = texts::told(text.as_bytes()) {
                    obey(session, told).await;
                }
            }
            Message::Close(_) => {
                // Reading on sends the answer to it.
                drop(timeout(Duration::from_secs(1), stream.next()).await);
                return;
            }
            // Pings are answered by the protocol layer.
            Message::Ping(_) | Message::Pong(_) => {}
        }
    }
}

/// Does what a client's message tells a session.
pub(crate) async fn obey(session: &Session, told: Told) {
    match told {
        Told::Signal(signal) => {
            session.signal(signal).await;
        }
        Told::Resize(size) => session.resize(size),
    }
}

/// Waits for the client to answer our close.
pub(crate) async fn linger(stream: &mut SplitStream<WebSocket>) {
    drop(timeout(LINGER, async { while let Some(Ok(_)) = stream.next().await {} }).await);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const END: &str = "\x04";

    fn data(text: &'static str) -> Input {
        Input::Data(Bytes::from_static(text.as_bytes()))
    }

    #[rstest]
    #[case::framed(Dialect::Framed, false, false, &[("\0ab", Some(data("ab"))), (END, Some(Input::End)), ("ab", None), ("", None)])]
    #[case::framed_attached(Dialect::Framed, false, true, &[(END, None), (END, Some(Input::End))])]
    #[case::raw(Dialect::Raw, false, false, &[("\0ab", Some(data("\0ab"))), ("\x04x", Some(data("\x04x"))), (END, Some(Input::End))])]
    #[case::raw_attached(Dialect::Raw, false, true, &[("a", Some(data("a"))), (END, Some(Input::End))])]
    #[case::terminal(Dialect::Framed, true, false, &[(END, Some(data(END))), ("\0a", Some(data("\0a")))])]
    #[case::terminal_attached(Dialect::Raw, true, true, &[(END, None), (END, Some(data(END)))])]
    fn frames_of_clients(
        #[case] dialect: Dialect,
        #[case] is_terminal: bool,
        #[case] is_first: bool,
        #[case] frames: &[(&'static str, Option<Input>)],
    ) {
        let mut reader = Reader { dialect, is_terminal, is_first };
        for (frame, expected) in frames {
            assert_eq!(reader.input(Bytes::from_static(frame.as_bytes())), *expected, "{frame:?}");
        }
    }
}
