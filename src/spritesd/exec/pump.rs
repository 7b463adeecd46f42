//! Moves output from a program's pipes into its session, and decides when there is no more.
//!
//! The end is the end of the process, not of the pipes: a background child may hold those for ever. After the
//! process has ended, everything that was in the pipes is taken; then stragglers get until 250 ms pass without a
//! byte, one second at most.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use super::frames::{LARGEST_FRAME, Stream, output};
use super::session::Session;

/// How long after the last byte of a background child the session ends.
const STRAGGLER_IDLE: Duration = Duration::from_millis(250);
/// How long stragglers are listened to in all.
const STRAGGLER_TOTAL: Duration = Duration::from_secs(1);
/// The most a pipe can hold (the kernel's bound for users): what lies beyond was written after the end.
const LARGEST_PIPE: usize = 1 << 20;
const CHUNK: usize = LARGEST_FRAME - 1;

/// One stream: the pipe until its end.
struct Source {
    stream: Stream,
    pipe: Option<Receiver>,
    buffer: Vec<u8>,
}

impl Source {
    fn new(stream: Stream, pipe: Receiver) -> Self {
        Self { stream, pipe: Some(pipe), buffer: vec![0; CHUNK] }
    }

    /// Waits for output; never returns once the pipe has ended.
    async fn ready(&mut self) -> io::Result<usize> {
        match self.pipe.as_mut() {
            Some(pipe) => pipe.read(&mut self.buffer).await,
            None => std::future::pending().await,
        }
    }

    async fn keep(&mut self, session: &Session, read: io::Result<usize>) {
        match read {
            Ok(0) | Err(_) => self.pipe = None,
            Ok(length) => {
                if let Some(data) = self.buffer.get(..length) {
                    session.keep(output(self.stream, data)).await;
                }
            }
        }
    }

    /// Takes what lies in the pipe, without waiting. Asks the kernel itself, not the runtime's idea of readiness.
    async fn drain(&mut self, session: &Session) {
        let mut taken = 0;
        while taken < LARGEST_PIPE {
            let Some(pipe) = self.pipe.as_ref() else {
                return;
            };
            let read = rustix::io::read(pipe, &mut self.buffer[..]);
            match read {
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Ok(_) | Err(_) => {}
            }
            taken += read.unwrap_or(0);
            self.keep(session, read.map_err(io::Error::from)).await;
        }
    }
}

/// Runs until the session has its last frame.
pub(super) async fn pump(session: Arc<Session>, stdout: Receiver, stderr: Receiver) {
    let mut stdout = Source::new(Stream::Stdout, stdout);
    let mut stderr = Source::new(Stream::Stderr, stderr);
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
        while stdout.pipe.is_some() || stderr.pipe.is_some() {
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
