//! Moves output from a program's pipes or terminal into its session, and decides when there is no more.
//!
//! The end is the end of the process, not of the pipes: a background child may hold those for ever. After the
//! process has ended, everything that was in the pipes is taken; then stragglers get until 250 ms pass without a
//! byte, one second at most.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::frames::{LARGEST_FRAME, Stream, output};
use super::session::Session;
use super::stream::Descriptor;

/// How long after the last byte of a background child the session ends.
const STRAGGLER_IDLE: Duration = Duration::from_millis(250);
/// How long stragglers are listened to in all.
const STRAGGLER_TOTAL: Duration = Duration::from_secs(1);
/// The most a pipe can hold (the kernel's bound for users): what lies beyond was written after the end.
const LARGEST_PIPE: usize = 1 << 20;
const CHUNK: usize = LARGEST_FRAME - 1;

/// One stream until its end.
struct Source {
    /// None on a terminal, whose bytes go out as they are.
    stream: Option<Stream>,
    from: Option<Descriptor>,
    buffer: Vec<u8>,
}

impl Source {
    fn new(stream: Option<Stream>, from: Option<Descriptor>) -> Self {
        Self { stream, from, buffer: vec![0; CHUNK] }
    }

    /// Waits for output; never returns once the stream has ended.
    async fn ready(&mut self) -> io::Result<usize> {
        match self.from.as_ref() {
            Some(from) => from.read(&mut self.buffer).await,
            None => std::future::pending().await,
        }
    }

    async fn keep(&mut self, session: &Session, read: io::Result<usize>) {
        match read {
            Ok(0) | Err(_) => self.from = None,
            Ok(length) => {
                if let Some(data) = self.buffer.get(..length) {
                    let frame = match self.stream {
                        Some(stream) => output(stream, data),
                        None => Bytes::copy_from_slice(data),
                    };
                    session.keep(frame).await;
                }
            }
        }
    }

    /// Takes what lies in the stream, without waiting.
    async fn drain(&mut self, session: &Session) {
        let mut taken = 0;
        while taken < LARGEST_PIPE {
            let Some(from) = self.from.as_ref() else {
                return;
            };
            let read = from.read_now(&mut self.buffer);
            match &read {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Ok(_) | Err(_) => {}
            }
            taken += read.as_ref().copied().unwrap_or(0);
            self.keep(session, read).await;
        }
    }
}

/// Runs until the session has its last frame.
pub(super) async fn pump(session: Arc<Session>, stdout: Descriptor, stderr: Option<Descriptor>) {
    let is_terminal = session.terminal().is_some();
    let mut stdout = Source::new((!is_terminal).then_some(Stream::Stdout), Some(stdout));
    let mut stderr = Source::new(Some(Stream::Stderr), stderr);
    let end = {
        let ended = session.wait();
        tokio::pin!(ended);
        loop {
            tokio::select! {
                end = &mut ended => break end,
                read = stdout.ready() => stdout.keep(&session, read).await,
                read = stderr.ready() => stderr.keep(&session, read).await,
            }
        }
    };
    stdout.drain(&session).await;
    stderr.drain(&session).await;
    let stragglers = async {
        while stdout.from.is_some() || stderr.from.is_some() {
            tokio::select! {
                read = stdout.ready() => stdout.keep(&session, read).await,
                read = stderr.ready() => stderr.keep(&session, read).await,
                () = tokio::time::sleep(STRAGGLER_IDLE) => return,
            }
        }
    };
    drop(tokio::time::timeout(STRAGGLER_TOTAL, stragglers).await);
    session.finish(end);
}
