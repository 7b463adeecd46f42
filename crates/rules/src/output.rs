//! Output: kept under one cap over both streams, without marker and record, redacted, cut to what is stored.
//!
//! The shape of what is kept is the runner's, too. Redaction comes before the cut, so a little of what follows the head and of
//! what comes before the tail is looked at, and never stored. Must not hold more than the cap and that.

mod redacted;
mod stored;

use redact::{LOOKAHEAD, Redactor};
use runner_protocol::{Counts, Meter, Parts, Record, Stdout};

pub use runner_protocol::{Shape, Source};

use self::redacted::Redacted;
pub use self::stored::{Captured, Detail, Encoded, Stored};

/// What is kept of output with this cap, by whether the script is stopped there.
pub const fn shape(cap: u64, stopped_at_cap: bool) -> Shape {
    Shape { cap, lookahead: LOOKAHEAD as u64, head_only: stopped_at_cap }
}

/// How much before what is read of a file redaction looks at.
pub const FILE_BEFORE: u64 = LOOKAHEAD as u64 / 2;
/// What a file operation may say of itself, in bytes.
const FILE_SAYS: u64 = 8 << 10;

/// What is kept of what a file operation sends that reads so many bytes: those, and what stands around them.
pub const fn file_shape(length: u64) -> Shape {
    Shape { cap: length + FILE_BEFORE + LOOKAHEAD as u64 + FILE_SAYS, lookahead: 0, head_only: true }
}

/// Whether there is room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// Everything so far was kept, or what passes the cap is left out.
    Left,
    /// The cap was passed, where the script is stopped.
    Passed,
}

/// Output while it comes in.
#[derive(Debug)]
pub struct Capture {
    shape: Shape,
    /// Takes marker and record off the runner's stdout; nothing for what has neither.
    framing: Option<Stdout>,
    meter: Meter,
    stdout: Stream,
    stderr: Stream,
}

#[derive(Debug, Default)]
struct Stream {
    /// What was sent, as it came.
    bytes: Vec<u8>,
    written: u64,
    /// By the record, where what was sent is what it says.
    counts: Option<Counts>,
}

/// What the guest kept of both streams, as it was sent.
#[derive(Debug, Default)]
pub struct Spool {
    /// Of standard output.
    pub stdout: Vec<u8>,
    /// Of standard error.
    pub stderr: Vec<u8>,
}

impl Capture {
    /// Keeps what this shape says of the Run with this UID, without its marker and record.
    pub fn new(shape: Shape, uid: &str) -> Self {
        Self { framing: Some(Stdout::new(uid)), ..Self::unmarked(shape) }
    }

    /// Of streams without marker and record.
    pub fn unmarked(shape: Shape) -> Self {
        let meter = Meter::new(shape);
        Self { shape, framing: None, meter, stdout: Stream::default(), stderr: Stream::default() }
    }

    /// What a spool holds, taken apart as the guest's record says. Whether all of it is there.
    pub fn of_spool(shape: Shape, spool: Spool, record: Option<&Record>) -> (Self, bool) {
        let Spool { stdout, stderr } = spool;
        let mut capture = Self::unmarked(shape);
        capture.take(Source::Stdout, &stdout);
        capture.take(Source::Stderr, &stderr);
        let whole = record.is_some_and(|record| capture.follow(record));
        (capture, whole)
    }

    /// Bytes received so far: of stdout, of stderr.
    pub const fn received(&self) -> (u64, u64) {
        (self.stdout.written, self.stderr.written)
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
                self.take(source, &output);
            }
            (Source::Stdout | Source::Stderr, _) => self.take(source, chunk),
        }
        let passed = self.shape.head_only && self.meter.written() > self.shape.cap;
        if passed { Room::Passed } else { Room::Left }
    }

    /// Nothing more comes: the record, if it came last. Whether all that the runner kept was received, too.
    pub fn end(&mut self) -> (Option<Record>, bool) {
        let Some(framing) = self.framing.take_if(|framing| framing.started()) else { return (None, false) };
        let (rest, record) = framing.finish();
        self.take(Source::Stdout, &rest);
        let Some(record) = record else { return (None, false) };
        let whole = self.follow(&record);
        (Some(record), whole)
    }

    /// Whether what was received is what the record says. One that keeps more than the cap allows is not followed.
    fn follow(&mut self, record: &Record) -> bool {
        let (Some(out), Some(err)) = (record.stdout, record.stderr) else { return false };
        // The runner sends no more than is stored and looked at.
        self.stdout.written = self.stdout.written.max(out.written);
        self.stderr.written = self.stderr.written.max(err.written);
        let kept = [out.head, out.tail, err.head, err.tail].into_iter().fold(0, u64::saturating_add);
        let fits = |stream: &Stream, counts: &Counts| {
            counts.is_sound() && stream.bytes.len() as u64 == counts.sent.saturating_add(counts.suffix(self.shape))
        };
        let whole = kept <= self.shape.cap && fits(&self.stdout, &out) && fits(&self.stderr, &err);
        if whole {
            (self.stdout.counts, self.stderr.counts) = (Some(out), Some(err));
        }
        whole
    }

    fn take(&mut self, source: Source, bytes: &[u8]) {
        self.meter.take(source, bytes.len());
        let held = self.stdout.bytes.len() + self.stderr.bytes.len();
        let room = usize::try_from(self.shape.most()).unwrap_or(usize::MAX).saturating_sub(held);
        let stream = match source {
            Source::Stdout => &mut self.stdout,
            Source::Stderr => &mut self.stderr,
        };
        stream.written = stream.written.saturating_add(bytes.len() as u64);
        stream.bytes.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
    }

    /// What is to be stored: redacted, then cut at the cap.
    pub fn finish(self, redactor: &Redactor) -> Captured {
        let mut capture = self;
        capture.end();
        let Self { shape, stdout, stderr, framing: _, meter } = capture;
        let (out, err) = (meter.counts(Source::Stdout), meter.counts(Source::Stderr));
        let parts = [stdout.apart(shape, out), stderr.apart(shape, err)];
        let passed = parts.iter().any(|parts| (parts.head.len() + parts.tail.len()) as u64 != parts.written);
        // Its writer may have been stopped in the middle of a token.
        let stopped = passed && shape.head_only;
        Captured::new(parts.map(|parts| Redacted::of(parts, redactor, stopped)), shape.cap, passed)
    }

    /// What a file operation sent: what was read of the file, redacted with what stands around it, and what it said of itself.
    pub fn finish_file(self, redactor: &Redactor) -> (Captured, Vec<u8>) {
        let mut capture = self;
        capture.end();
        let Self { shape, stdout, stderr, .. } = capture;
        let report = runner_protocol::FileReport::parse(&stderr.bytes);
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let read = report.map_or_else(Redacted::default, |report| {
            Redacted::window(&stdout.bytes, size(report.before), size(report.content), redactor)
        });
        (Captured::new([read, Redacted::default()], shape.cap, false), stderr.bytes)
    }
}

impl Stream {
    /// By the record; without it what came first, by what was counted here.
    fn apart(self, shape: Shape, counted: Counts) -> Parts {
        let Self { mut bytes, written, counts } = self;
        if let Some(parts) = counts.and_then(|counts| Parts::of(shape, &counts, bytes.clone())) {
            return parts;
        }
        let head = usize::try_from(counted.head).unwrap_or(usize::MAX).min(bytes.len());
        let mut ahead = bytes.split_off(head);
        ahead.truncate(LOOKAHEAD);
        Parts { head: bytes, ahead, written, ..Parts::default() }
    }
}

#[cfg(test)]
mod tests;
