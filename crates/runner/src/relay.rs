//! One stream of the script: read, counted, kept in its spool and passed on. A caller that does not read blocks nothing.

use std::{
    fs::File,
    io::Write as _,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use rustix::{
    fs::{OFlags, fcntl_getfl, fcntl_setfl},
    io::Errno,
};

use runner_protocol::{Capture, Source};

/// How much waits for a caller that does not read.
const BACKLOG: usize = 1 << 20;
const CHUNK: usize = 64 << 10;

/// What goes to the caller.
pub struct Sink<'a> {
    to: Option<BorrowedFd<'a>>,
    waiting: Vec<u8>,
    written: usize,
    /// More waited than is kept: what the caller gets is a head, without gaps.
    is_cut: bool,
}

impl<'a> Sink<'a> {
    /// Does not block from here on.
    pub fn new(to: BorrowedFd<'a>) -> Self {
        if let Ok(flags) = fcntl_getfl(to) {
            let _ = fcntl_setfl(to, flags | OFlags::NONBLOCK);
        }
        Self { to: Some(to), waiting: Vec::new(), written: 0, is_cut: false }
    }

    /// Takes as much as there is room for: what a caller does not read, it finds in the spool.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.to.is_none() || self.is_cut {
            return;
        }
        let room = BACKLOG.saturating_sub(self.waiting.len() - self.written);
        self.waiting.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        self.is_cut = room < bytes.len();
        self.flush();
    }

    /// Takes all of it: the last line.
    pub fn push_last(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        self.flush();
    }

    /// Passes on what the caller takes.
    pub fn flush(&mut self) {
        while let Some(to) = self.waits() {
            match rustix::io::write(to, self.waiting.get(self.written..).unwrap_or_default()) {
                Ok(written) => self.written += written,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // It closed.
                Err(_) => self.to = None,
            }
        }
        self.waiting.clear();
        self.written = 0;
    }

    /// Where something waits to go.
    pub fn waits(&self) -> Option<BorrowedFd<'a>> {
        self.to.filter(|_| self.written < self.waiting.len())
    }
}

/// One stream.
pub struct Relay<'a> {
    source: Source,
    /// Until its end.
    pub from: Option<OwnedFd>,
    /// To the caller.
    pub sink: Sink<'a>,
    spool: Option<File>,
}

impl<'a> Relay<'a> {
    /// From the script's pipe to the caller.
    pub fn new(source: Source, from: OwnedFd, to: BorrowedFd<'a>, spool: File) -> Self {
        Self { source, from: Some(from), sink: Sink::new(to), spool: Some(spool) }
    }

    /// Reads once.
    pub fn read(&mut self, capture: &mut Capture, buffer: &mut Vec<u8>) {
        let Some(from) = self.from.as_ref() else { return };
        buffer.resize(CHUNK, 0);
        let read = match rustix::io::read(from.as_fd(), buffer.as_mut_slice()) {
            Ok(0) => None,
            Ok(read) => Some(read),
            Err(Errno::INTR | Errno::AGAIN) => return,
            Err(_) => None,
        };
        let Some(read) = read else {
            self.from = None;
            return;
        };
        let chunk = buffer.get(..read).unwrap_or_default();
        let now = capture.take(self.source, chunk);
        self.keep(chunk.get(..now).unwrap_or_default());
    }

    /// Keeps what belongs behind everything that was read, and passes it on.
    pub fn end(&mut self, rest: &[u8]) {
        self.keep(rest);
    }

    fn keep(&mut self, bytes: &[u8]) {
        // A full disk cuts the spool short; the record tells how much there was.
        if self.spool.as_mut().is_some_and(|spool| spool.write_all(bytes).is_err()) {
            self.spool = None;
        }
        self.sink.push(bytes);
    }
}
