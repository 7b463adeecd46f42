//! Output: kept under one cap over both streams, stripped of the start marker, redacted, encoded for status.
//!
//! A chunk is tested against the cap before it is kept. Redaction comes before the cut, so a little of what follows the cap
//! is looked at, too, and never stored. Must not hold more than the cap and that.

use base64::{Engine, engine::general_purpose::STANDARD};

use redact::{LOOKAHEAD, Redactor};

use super::object_size;

/// Which stream a chunk came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Whether there is room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Everything so far was kept.
    Left,
    /// The cap was passed; the head is kept.
    Passed,
}

/// Output while it comes in.
#[derive(Debug)]
pub struct Capture {
    cap: u64,
    marker: Vec<u8>,
    /// How many bytes of the marker were seen; nothing once something else came first.
    matched: Option<usize>,
    stdout: Stream,
    stderr: Stream,
    passed: bool,
}

#[derive(Debug, Default)]
struct Stream {
    kept: Vec<u8>,
    /// What came after the cap was passed, up to [`LOOKAHEAD`] bytes: a secret that the cut goes through is known by its end.
    ahead: Vec<u8>,
    received: u64,
}

impl Capture {
    /// Keeps at most `cap` bytes of both streams together, after the start marker.
    pub fn new(cap: u64, marker: impl Into<Vec<u8>>) -> Self {
        Self {
            cap,
            marker: marker.into(),
            matched: Some(0),
            stdout: Stream::default(),
            stderr: Stream::default(),
            passed: false,
        }
    }

    /// Bytes received so far: of stdout, of stderr.
    pub const fn received(&self) -> (u64, u64) {
        (self.stdout.received, self.stderr.received)
    }

    /// Whether the whole marker was seen: only then an exit code is the command's.
    pub fn started(&self) -> bool {
        self.matched == Some(self.marker.len())
    }

    /// Takes a chunk.
    pub fn push(&mut self, source: Source, chunk: &[u8]) -> Room {
        let rest = match source {
            Source::Stdout => self.strip_marker(chunk),
            Source::Stderr => chunk,
        };
        let held = self.stdout.kept.len() + self.stderr.kept.len();
        let room = usize::try_from(self.cap).unwrap_or(usize::MAX).saturating_sub(held);
        let stream = match source {
            Source::Stdout => &mut self.stdout,
            Source::Stderr => &mut self.stderr,
        };
        stream.received = stream.received.saturating_add(rest.len() as u64);
        // Once the cap was passed nothing more is kept: what is stored is a head, without gaps.
        let room = if self.passed { 0 } else { room.min(rest.len()) };
        let (fitting, over) = rest.split_at(room);
        stream.kept.extend_from_slice(fitting);
        stream.look_ahead(over);
        self.passed |= !over.is_empty();
        if self.passed { Room::Passed } else { Room::Left }
    }

    fn strip_marker<'a>(&mut self, chunk: &'a [u8]) -> &'a [u8] {
        let Some(matched) = self.matched else {
            // Something else came first: this is not the runner's output.
            return &[];
        };
        let wanted = self.marker.get(matched..).unwrap_or_default();
        let (head, rest) = chunk.split_at(wanted.len().min(chunk.len()));
        if wanted.starts_with(head) {
            self.matched = Some(matched + head.len());
            rest
        } else {
            self.matched = None;
            &[]
        }
    }

    /// What is to be stored: redacted, then cut at the cap.
    pub fn finish(self, redactor: &Redactor) -> Captured {
        let Self { cap, stdout, stderr, passed, marker: _, matched: _ } = self;
        let (mut stdout, mut stderr) = (Redacted::of(stdout, redactor, passed), Redacted::of(stderr, redactor, passed));
        let cap = usize::try_from(cap).unwrap_or(usize::MAX);
        // A mask may be longer than what it stands for.
        let longer = stdout.bytes.len().saturating_add(stderr.bytes.len()) > cap;
        if longer {
            stdout.cut_at(cap.saturating_sub(stderr.bytes.len()).max(cap / 2));
            stderr.cut_at(cap.saturating_sub(stdout.bytes.len()));
        }
        let truncated = passed || longer;
        let redacted = stdout.masked || stderr.masked;
        let over_cap = passed;
        Captured { stdout: stdout.encode(), stderr: stderr.encode(), over_cap, truncated, redacted }
    }
}

impl Stream {
    fn look_ahead(&mut self, bytes: &[u8]) {
        let room = LOOKAHEAD.saturating_sub(self.ahead.len());
        self.ahead.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
    }
}

/// A stream without its recognisable secrets.
struct Redacted {
    bytes: Vec<u8>,
    received: u64,
    masked: bool,
    /// It does not go on to where the stream ended.
    cut: bool,
}

impl Redacted {
    fn of(stream: Stream, redactor: &Redactor, passed: bool) -> Self {
        let Stream { kept: mut bytes, ahead, received } = stream;
        let kept = bytes.len();
        bytes.extend_from_slice(&ahead);
        let more = (bytes.len() as u64) < received;
        let (mut bytes, hits) = redactor.redact_bytes(&bytes, more);
        let cut = (kept as u64) < received;
        if passed {
            bytes.truncate(kept);
        }
        Self { bytes, received, masked: hits.total() > 0, cut }
    }

    fn cut_at(&mut self, len: usize) {
        self.cut |= self.bytes.len() > len;
        self.bytes.truncate(len);
    }

    fn encode(self) -> Encoded {
        encode(self.bytes, self.received, self.cut)
    }
}

/// Output as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Standard output.
    pub stdout: Encoded,
    /// Standard error.
    pub stderr: Encoded,
    /// More was received than the cap allows.
    pub over_cap: bool,
    /// Something was cut off at the cap; a mask that is longer than its secret may be why.
    pub truncated: bool,
    /// Something was masked.
    pub redacted: bool,
}

impl Captured {
    /// Nothing of it is stored.
    pub fn withheld((stdout, stderr): (u64, u64)) -> Self {
        let none = |bytes| Encoded { text: None, base64: None, bytes };
        Self { stdout: none(stdout), stderr: none(stderr), over_cap: false, truncated: true, redacted: true }
    }
}

impl Captured {
    /// The same in less room: text whose JSON is longer than base64 of it, such as control characters, as base64.
    #[must_use]
    pub fn compact(self) -> Self {
        Self { stdout: self.stdout.compact(), stderr: self.stderr.compact(), ..self }
    }
}

/// One stream as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes, where they are text.
    pub text: Option<String>,
    /// The bytes as base64 else.
    pub base64: Option<String>,
    /// How many bytes were received.
    pub bytes: u64,
}

impl Encoded {
    fn compact(self) -> Self {
        match self.text {
            Some(text) if object_size::escaped_size(&text) > text.len().div_ceil(3) * 4 => {
                Self { text: None, base64: Some(STANDARD.encode(text)), ..self }
            }
            text => Self { text, ..self },
        }
    }
}

fn encode(mut kept: Vec<u8>, received: u64, cut: bool) -> Encoded {
    if cut {
        drop_split_character(&mut kept);
    }
    match String::from_utf8(kept) {
        Ok(text) => Encoded { text: Some(text), base64: None, bytes: received },
        Err(error) => Encoded { text: None, base64: Some(STANDARD.encode(error.as_bytes())), bytes: received },
    }
}

/// A cut may fall into a character: text stays text without its last piece.
fn drop_split_character(kept: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(kept)
        && error.error_len().is_none()
    {
        kept.truncate(error.valid_up_to());
    }
}

#[cfg(test)]
mod tests;
