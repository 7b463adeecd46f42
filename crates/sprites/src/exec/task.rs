//! The task that owns an exec's socket: a reader and a writer, side by side. The reader may wait for a slow consumer, the
//! writer for a slow peer; neither waits for the other, so a command that prints while it is being fed cannot deadlock.
//! When the [`Exec`] is dropped before the end, the task ends the command by its session's id, if that was asked for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{SplitSink, SplitStream};
use futures::{FutureExt, SinkExt, StreamExt};
use secrecy::{ExposeSecret, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout, timeout_at};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message, error::ProtocolError};
use tracing::debug;

use super::super::awake::Awake;
use super::super::client::Client;
use super::super::frame::{self, Meaning};
use super::super::sanitize::ProviderText;
use super::{Delivery, Exec, ExecEvent, ExecStdin, LostReason, OnDrop, StdinPiece};

/// Output that is received and not yet taken, in bytes. One message more may be held by the WebSocket library.
const UNREAD_CAP: usize = 1024 * 1024;
/// Events that are not yet taken; small ones would otherwise escape the cap in bytes.
const UNREAD_EVENTS: usize = 256;
/// Pieces of standard input that are not yet sent.
const UNSENT_PIECES: usize = 16;
/// After a text exit the exit frame or the close comes at once, on the real service within 5 s.
const AFTER_TEXT_EXIT: Duration = Duration::from_secs(10);
/// How long the session's id may take to come after the exec was dropped.
const NAMED_WITHIN: Duration = Duration::from_secs(5);
/// How long a dropped command has between TERM and KILL.
const GRACE: Duration = Duration::from_secs(5);
/// In how many parts the silence of a peer is measured; one that took much longer than it should was our own absence.
const SLICES: u32 = 8;
/// Closing politely is worth this long, and nobody waits for it.
const GOODBYE: Duration = Duration::from_secs(1);

/// What a WebSocket runs over.
pub(in super::super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// What the exec was opened for.
#[derive(Clone, Debug)]
pub(in super::super) struct Asked {
    pub(in super::super) on: Awake,
    pub(in super::super) on_drop: OnDrop,
    /// As they will stand in the list of sessions, joined by spaces.
    pub(in super::super) arguments: Vec<String>,
    /// What it was opened with: taken out of the peer's words.
    pub(in super::super) token: SecretString,
}

pub(in super::super) fn spawn<S: Stream>(socket: WebSocketStream<S>, client: &Client, asked: Asked) -> Exec {
    let (events, receiver) = mpsc::channel(UNREAD_EVENTS);
    let (stdin, pieces) = mpsc::channel(UNSENT_PIECES);
    let (parting, parted) = oneshot::channel();
    let (sink, stream) = socket.split();
    let reader = Reader {
        stream,
        events,
        unread: Arc::new(Semaphore::new(UNREAD_CAP)),
        dead_after: client.config().dead_after,
        session: None,
        ignored: 0,
        asking: Arc::default(),
        asked,
    };
    tokio::spawn(run(reader, sink, pieces, parted, client.clone()));
    Exec { events: receiver, stdin: ExecStdin { queue: stdin }, session: None, terminal: None, parting: Some(parting) }
}

async fn run<S: Stream>(
    mut reader: Reader<S>,
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    pieces: mpsc::Receiver<StdinPiece>,
    parted: oneshot::Receiver<OnDrop>,
    client: Client,
) {
    let asking = Arc::clone(&reader.asking);
    // The reader decides the end. A writer that fails only stops: the bytes that say why may still be on their way to us.
    let outcome = {
        let writing = async {
            write(&mut sink, pieces, client.config().ping_interval, &asking).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            terminal = reader.read() => Ok(terminal),
            parting = parted => Err(parting.unwrap_or(reader.asked.on_drop)),
            () = writing => return,
        }
    };
    if reader.ignored > 0 {
        debug!(ignored = reader.ignored, "messages of unknown kinds were ignored");
    }
    let metrics = client.config().metrics.as_ref();
    let terminal = match outcome {
        Ok(terminal) => terminal,
        Err(on_drop) => {
            if let Some(metrics) = metrics {
                metrics.exec_ended("dropped");
            }
            match on_drop {
                OnDrop::Leave => {}
                OnDrop::Kill => end(reader, sink, &client).await,
            }
            return;
        }
    };
    if let Some(metrics) = metrics {
        metrics.exec_ended(match &terminal {
            ExecEvent::Lost(reason) => reason.kind(),
            ExecEvent::Exit(_) | ExecEvent::Session { .. } | ExecEvent::Stdout(_) | ExecEvent::Stderr(_) => "exit",
        });
    }
    reader.deliver(terminal, 0).await;
    drop(reader.events);
    let _ = timeout(GOODBYE, sink.close()).await;
}

/// Ends a command that nobody waits for any more: by its id, if the list shows it there with our arguments, for ids are
/// reused. Best effort: `max_run_after_disconnect` stands behind it.
async fn end<S: Stream>(mut reader: Reader<S>, sink: SplitSink<WebSocketStream<S>, Message>, client: &Client) {
    let named = timeout(NAMED_WITHIN, reader.name()).await;
    let asked = reader.asked.clone();
    let session = reader.session.take();
    drop((reader, sink));
    let Some(id) = session else {
        debug!(?named, "a dropped exec never told its session; it ends by itself");
        return;
    };
    let (client, on) = (client.for_ending(), asked.on.for_ending());
    let arguments = asked.arguments.get(1..).unwrap_or_default().join(" ");
    let ended = async {
        let sessions = client.exec_sessions(&on).await?;
        if sessions.iter().any(|session| session.id == id && session.command.ends_with(&arguments)) {
            client.kill(&on, &id, "SIGTERM", GRACE).await?;
        }
        Ok::<_, super::super::error::Error>(())
    };
    if let Err(error) = ended.await {
        debug!(%error, "a dropped exec could not be ended; it ends by itself");
    }
}

/// Sends standard input and pings until the socket breaks. After the end of input only pings.
async fn write<S: Stream>(
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    mut pieces: mpsc::Receiver<StdinPiece>,
    ping_interval: Duration,
    asking: &AtomicBool,
) {
    let mut pings = interval_at(Instant::now() + ping_interval, ping_interval);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut open = true;
    loop {
        let piece = tokio::select! {
            // A ping between two pieces of a long input, not after all of them.
            biased;
            _ = pings.tick() => {
                if sink.send(Message::Ping(Bytes::new())).await.is_err() {
                    return;
                }
                asking.store(true, Ordering::Relaxed);
                continue;
            }
            piece = pieces.recv(), if open => piece,
        };
        match piece {
            Some(StdinPiece::Data(data)) => {
                for frame in frame::stdin(&data) {
                    if pings.tick().now_or_never().is_some() {
                        if sink.send(Message::Ping(Bytes::new())).await.is_err() {
                            return;
                        }
                        asking.store(true, Ordering::Relaxed);
                    }
                    if sink.send(Message::Binary(frame)).await.is_err() {
                        return;
                    }
                }
            }
            Some(StdinPiece::End) => {
                open = false;
                // Later pieces are refused, not queued for nobody.
                pieces.close();
                if sink.send(Message::Binary(frame::stdin_end())).await.is_err() {
                    return;
                }
            }
            // The consumer is gone and so is this task, in a moment.
            None => open = false,
        }
    }
}

struct Reader<S> {
    stream: SplitStream<WebSocketStream<S>>,
    events: mpsc::Sender<Delivery>,
    unread: Arc<Semaphore>,
    dead_after: Duration,
    session: Option<String>,
    ignored: u64,
    /// A ping went out and nothing came since. While none can go out, because the peer does not take what we send, silence
    /// says nothing: the kernel ends a connection that acknowledges nothing.
    asking: Arc<AtomicBool>,
    asked: Asked,
}

impl<S: Stream> Reader<S> {
    /// Delivers until the end, and returns the terminal event, undelivered.
    async fn read(&mut self) -> ExecEvent {
        let mut exit_text = None;
        loop {
            match self.receive(exit_text.map(|(_, deadline)| deadline)).await {
                Ok(Meaning::Exit(code)) => return ExecEvent::Exit(code),
                // The last word on the code has the frame; the text counts if only the end of the connection follows.
                Ok(Meaning::ExitText(code)) => {
                    exit_text.get_or_insert((code, Instant::now() + AFTER_TEXT_EXIT));
                }
                Ok(Meaning::Stdout(data)) => {
                    let size = data.len();
                    self.deliver(ExecEvent::Stdout(data), size).await;
                }
                Ok(Meaning::Stderr(data)) => {
                    let size = data.len();
                    self.deliver(ExecEvent::Stderr(data), size).await;
                }
                Ok(Meaning::Session(id)) if self.session.is_none() => {
                    self.session = Some(id.clone());
                    self.deliver(ExecEvent::Session { id }, 0).await;
                }
                Ok(Meaning::Session(_) | Meaning::UnknownKind) => self.ignored += 1,
                Ok(Meaning::Nothing) => {}
                Err(reason @ LostReason::Protocol { .. }) => return ExecEvent::Lost(reason),
                Err(reason) => {
                    return exit_text.map_or(ExecEvent::Lost(reason), |(code, _)| ExecEvent::Exit(code));
                }
            }
        }
    }

    /// Reads on, and drops what comes, until the session's id is known or the connection ends.
    async fn name(&mut self) {
        while self.session.is_none() {
            match self.receive(None).await {
                Ok(Meaning::Session(id)) => self.session = Some(id),
                Ok(Meaning::Exit(_)) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }

    /// The next message. Only time spent waiting for the peer counts against it: not time spent on a slow consumer, nor
    /// time in which this process did not run, when nothing could be heard.
    async fn receive(&mut self, deadline: Option<Instant>) -> Result<Meaning, LostReason> {
        let slice = self.dead_after / SLICES;
        let mut silent = 0;
        let next = loop {
            let until = Instant::now() + slice;
            let until = deadline.map_or(until, |deadline| deadline.min(until));
            match timeout_at(until, self.stream.next()).await {
                Ok(next) => break next,
                Err(_) if Instant::now() > until + slice || !self.asking.load(Ordering::Relaxed) => silent = 0,
                Err(_) => silent += 1,
            }
            if silent >= SLICES || deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Err(LostReason::DeadPeer { silent_for: self.dead_after });
            }
        };
        self.asking.store(false, Ordering::Relaxed);
        match next {
            None => Err(LostReason::Closed { code: None, reason: ProviderText::default() }),
            Some(Err(error)) => Err(lost(&error)),
            Some(Ok(message)) => {
                let meaning = meaning(message, self.asked.token.expose_secret());
                // Only what comes from inside is a sign of life: a pong may be a proxy's.
                if matches!(meaning, Ok(Meaning::Stdout(_) | Meaning::Stderr(_) | Meaning::Exit(_))) {
                    self.asked.on.renew();
                }
                meaning
            }
        }
    }

    async fn deliver(&self, event: ExecEvent, size: usize) {
        let share = u32::try_from(size.min(UNREAD_CAP)).unwrap_or(u32::MAX);
        let held = match share {
            0 => None,
            // Fails only when closed, which nobody does.
            _ => Arc::clone(&self.unread).acquire_many_owned(share).await.ok(),
        };
        // Fails only when the consumer is gone, and then this task is being ended.
        let _ = self.events.send(Delivery { event, _held: held }).await;
    }
}

fn meaning(message: Message, secret: &str) -> Result<Meaning, LostReason> {
    match message {
        Message::Binary(data) => frame::binary(&data).map_err(|violation| protocol(violation.0)),
        Message::Text(text) => Ok(frame::text(text.as_str())),
        Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => Ok(Meaning::Nothing),
        Message::Close(frame) => {
            let (code, reason) =
                frame.map_or((None, String::new()), |frame| (Some(u16::from(frame.code)), frame.reason.to_string()));
            Err(LostReason::Closed { code, reason: ProviderText::new(&reason, Some(secret)) })
        }
    }
}

fn lost(error: &tungstenite::Error) -> LostReason {
    let text = ProviderText::new(&error.to_string(), None);
    let broken = matches!(
        error,
        tungstenite::Error::Io(_)
            | tungstenite::Error::ConnectionClosed
            | tungstenite::Error::AlreadyClosed
            // The connection ended without a close frame. That is how networks fail, not how peers lie.
            | tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)
    );
    if broken { LostReason::Reset { error: text } } else { LostReason::Protocol { violation: text } }
}

fn protocol(violation: &str) -> LostReason {
    LostReason::Protocol { violation: ProviderText::new(violation, None) }
}
