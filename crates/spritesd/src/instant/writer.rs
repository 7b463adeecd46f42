//! What a command writes, on its way into its session: in as few frames as it fits.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::exec::frames::{LARGEST_FRAME, Stream, output};
use crate::exec::session::Session;

/// Writes to one session.
pub(super) struct Writer<'a> {
    session: &'a Session,
    frames: VecDeque<Bytes>,
    /// What of standard output is in no frame yet.
    stdout: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(session: &'a Session) -> Self {
        Self { session, frames: VecDeque::new(), stdout: Vec::new() }
    }

    pub(super) fn stdout(&mut self, bytes: &[u8]) {
        self.stdout.extend_from_slice(bytes);
    }

    pub(super) fn stderr(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.frame();
            self.frames.extend(frames(Stream::Stderr, bytes));
        }
    }

    /// Passes everything on, as fast as it is taken. What was not, when this is dropped, comes with the next call.
    pub(super) async fn flush(&mut self) {
        self.frame();
        while let Some(frame) = self.frames.front() {
            self.session.keep(frame.clone()).await;
            self.frames.pop_front();
        }
    }

    /// Says one line on standard error, and nothing else.
    pub(super) async fn say(mut self, line: &str) {
        self.stderr(format!("{line}\n").as_bytes());
        self.flush().await;
    }

    fn frame(&mut self) {
        let stdout = std::mem::take(&mut self.stdout);
        self.frames.extend(frames(Stream::Stdout, &stdout));
    }
}

fn frames(stream: Stream, bytes: &[u8]) -> impl Iterator<Item = Bytes> {
    bytes.chunks(LARGEST_FRAME - 1).map(move |chunk| output(stream, chunk))
}
