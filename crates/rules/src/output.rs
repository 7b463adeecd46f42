//! Output: kept under one cap over both streams, without marker and record, redacted, encoded for status.
//!
//! A chunk is tested against the cap before it is kept. Redaction comes before the cut, so a little of what follows the cap
//! is looked at, too, and never stored. Must not hold more than the cap and that.

use base64::{Engine, engine::general_purpose::STANDARD};

use redact::{LOOKAHEAD, MASK, Redactor};
use runner_protocol::{Counts, Kept, Meter, Record, Stdout};

use super::object_size;

pub use runner_protocol::Source;

/// The longest and the shortest head of a token that is looked for.
const LONGEST_HEAD: usize = 256;
const SHORTEST_HEAD: usize = 4;
/// The longest rest of a token of one length that is tried.
const LONGEST_EXACT: usize = 24;

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
    /// Takes marker and record off the runner's stdout; nothing for what has neither.
    framing: Option<Stdout>,
    meter: Meter,
    stdout: Stream,
    stderr: Stream,
}

#[derive(Debug, Default)]
struct Stream {
    kept: Vec<u8>,
    /// What came after the cap was passed, up to [`LOOKAHEAD`] bytes: a secret that the cut goes through is known by its end.
    ahead: Vec<u8>,
    received: u64,
}

/// What the guest kept of both streams: heads, and behind them what redaction looks at.
#[derive(Debug, Default)]
pub struct Spool {
    /// Of standard output.
    pub stdout: Vec<u8>,
    /// Of standard error.
    pub stderr: Vec<u8>,
}

impl Capture {
    /// Keeps at most `cap` bytes of both streams together of the Run with this UID, without its marker and record.
    pub fn new(cap: u64, uid: &str) -> Self {
        Self { framing: Some(Stdout::new(uid)), ..Self::unmarked(cap) }
    }

    /// Of streams without marker and record.
    pub fn unmarked(cap: u64) -> Self {
        let meter = Meter::new(cap, LOOKAHEAD as u64);
        Self { cap, framing: None, meter, stdout: Stream::default(), stderr: Stream::default() }
    }

    /// What a spool holds, cut where the guest's record says that the heads end. Whether all of it is there.
    pub fn of_spool(cap: u64, spool: Spool, record: Option<&Record>) -> (Self, bool) {
        let counts = record.and_then(|record| Some((record.stdout?, record.stderr?)));
        let Spool { stdout, stderr } = spool;
        let mut capture = Self::unmarked(cap);
        match counts {
            // A record that keeps more than the cap allows is not to be followed.
            Some((out, err)) if out.head.saturating_add(err.head) <= cap => {
                let whole =
                    [(&stdout, out), (&stderr, err)].iter().all(|(bytes, counts)| bytes.len() as u64 >= counts.head);
                capture.stdout = Stream::cut(stdout, out);
                capture.stderr = Stream::cut(stderr, err);
                (capture, whole)
            }
            Some(_) | None => {
                capture.take(Source::Stdout, &stdout);
                capture.take(Source::Stderr, &stderr);
                (capture, false)
            }
        }
    }

    /// Bytes received so far: of stdout, of stderr.
    pub const fn received(&self) -> (u64, u64) {
        (self.stdout.received, self.stderr.received)
    }

    /// Whether the whole marker was seen: only then an exit code is the command's.
    pub fn started(&self) -> bool {
        self.framing.as_ref().is_none_or(Stdout::started)
    }

    /// Takes a chunk.
    pub fn push(&mut self, source: Source, chunk: &[u8]) -> Room {
        match (source, &mut self.framing) {
            (Source::Stdout, Some(framing)) => {
                let output = framing.push(chunk);
                self.take(source, &output)
            }
            (Source::Stdout | Source::Stderr, _) => self.take(source, chunk),
        }
    }

    /// Nothing more comes: the record, if it came last. Whether all that the runner kept was received, too.
    pub fn end(&mut self) -> (Option<Record>, bool) {
        let Some(framing) = self.framing.take_if(|framing| framing.started()) else { return (None, false) };
        let (rest, record) = framing.finish();
        self.take(Source::Stdout, &rest);
        let Some(record) = record else { return (None, false) };
        let mut whole = true;
        for (source, counts) in [(Source::Stdout, record.stdout), (Source::Stderr, record.stderr)] {
            let head = self.meter.counts(source).head;
            whole &= counts.is_some_and(|counts| counts.head == head);
            if let Some(counts) = counts {
                let stream = self.stream(source);
                // The runner sends no more than is stored and looked at.
                stream.received = stream.received.max(counts.written);
            }
        }
        (Some(record), whole)
    }

    const fn stream(&mut self, source: Source) -> &mut Stream {
        match source {
            Source::Stdout => &mut self.stdout,
            Source::Stderr => &mut self.stderr,
        }
    }

    fn take(&mut self, source: Source, bytes: &[u8]) -> Room {
        let Kept { head, ahead } = self.meter.take(source, bytes.len());
        let stream = self.stream(source);
        stream.received = stream.received.saturating_add(bytes.len() as u64);
        let (kept, rest) = bytes.split_at(head.min(bytes.len()));
        stream.kept.extend_from_slice(kept);
        stream.ahead.extend_from_slice(rest.get(..ahead).unwrap_or_default());
        if self.meter.passed() { Room::Passed } else { Room::Left }
    }

    /// What is to be stored: redacted, then cut at the cap.
    pub fn finish(self, redactor: &Redactor) -> Captured {
        let mut capture = self;
        capture.end();
        let Self { cap, stdout, stderr, framing: _, meter: _ } = capture;
        let passed = [&stdout, &stderr].iter().any(|stream| stream.kept.len() as u64 != stream.received);
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
    /// What a spool holds of a stream, cut at the end of its head.
    fn cut(mut bytes: Vec<u8>, counts: Counts) -> Self {
        let head = usize::try_from(counts.head).unwrap_or(usize::MAX).min(bytes.len());
        let mut ahead = bytes.split_off(head);
        ahead.truncate(LOOKAHEAD);
        Self { kept: bytes, ahead, received: counts.written }
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
        let mut masked = hits.total() > 0;
        if passed {
            // What the cut goes through was written to its end, unless it reaches to the end of everything.
            let open = bytes.get(kept..).is_none_or(|ahead| !ahead.iter().any(u8::is_ascii_whitespace));
            bytes.truncate(kept);
            if let Some(start) = token_head(&bytes, redactor).filter(|_| open) {
                bytes.truncate(start);
                bytes.extend_from_slice(MASK.as_bytes());
                masked = true;
            }
        }
        Self { bytes, received, masked, cut }
    }

    fn cut_at(&mut self, len: usize) {
        self.cut |= self.bytes.len() > len;
        self.bytes.truncate(len);
    }

    fn encode(self) -> Encoded {
        encode(self.bytes, self.received, self.cut)
    }
}

/// Where a last word begins that would be masked if it went on: a writer that was stopped at the cap may have been in the middle
/// of a token, and what it did not write any more nobody has seen.
fn token_head(bytes: &[u8], redactor: &Redactor) -> Option<usize> {
    let from = bytes.len().saturating_sub(LONGEST_HEAD);
    let tail = bytes.get(from..)?;
    let start = tail.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    let word = tail.get(start..).filter(|word| word.len() >= SHORTEST_HEAD)?;
    // Of one letter: by itself it is masked as nothing.
    let goes_on = |letter: u8, length: usize| {
        let rest = vec![letter; length];
        let (redacted, hits) = redactor.redact_bytes(&[word, &rest].concat(), false);
        hits.total() > 0 && !redacted.ends_with(&rest)
    };
    // Some have one length, some any.
    let lengths = || (1..=LONGEST_EXACT).chain([LONGEST_HEAD]);
    [b'a', b'A'].into_iter().any(|letter| lengths().any(|length| goes_on(letter, length))).then_some(from + start)
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
