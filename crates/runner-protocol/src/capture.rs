//! Which bytes of a Run's two streams are kept under one cap. The runner captures by it, and the operator takes what it was sent,
//! or what the guest's spool holds, apart by the counts in the record: so an adopter stores what the starter would have stored.
//!
//! Past the cap either only the head is kept (`Kill`), or head and tail (`Truncate`): the first three quarters in order of
//! arrival over both streams, and the last bytes of each stream in the rest. Must not hold more than the tails and what
//! redaction looks at before them.

use std::collections::VecDeque;

/// Which stream a chunk came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Source {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stdout, Self::Stderr];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// What is kept of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of both streams together that are stored.
    pub cap: u64,
    /// Bytes of each stream behind its head that redaction looks at: a secret that the cut goes through is known by its end.
    pub lookahead: u64,
    /// Whether nothing past the cap is wanted, since the script is stopped there.
    pub head_only: bool,
}

/// Room of the line that stands for what was left out, in bytes of each stream's tail.
pub const GAP_LINE: u64 = 64;

impl Shape {
    /// Bytes of the head, over both streams.
    pub const fn head(self) -> u64 {
        self.cap - self.tail()
    }

    /// Bytes of both tails together; none where the lines that say what was left out would take most of them.
    pub const fn tail(self) -> u64 {
        let quarter = self.cap / 4;
        if self.head_only || quarter < 4 * GAP_LINE { 0 } else { quarter }
    }

    /// Bytes of each stream before its tail that redaction looks at.
    pub const fn lookbehind(self) -> u64 {
        if self.tail() == 0 { 0 } else { self.lookahead / 2 }
    }

    /// The most that is sent of both streams together.
    pub const fn most(self) -> u64 {
        self.cap.saturating_add(self.lookahead.saturating_mul(3))
    }

    /// How many bytes of each stream are its tail: what one leaves free the other uses.
    fn tails(self, [one, other]: [&Counts; 2]) -> [u64; 2] {
        let available = [one, other].map(|counts| counts.written - counts.head);
        let written = one.written.saturating_add(other.written);
        if written <= self.cap {
            return available;
        }
        let room = self.tail().saturating_sub(2 * GAP_LINE);
        let [a, b] = available;
        let first = a.min((room / 2).max(room.saturating_sub(b)));
        [first, b.min(room - first)]
    }
}

/// Bytes of one stream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// How many the script wrote.
    pub written: u64,
    /// How many of them are the head that is stored.
    pub head: u64,
    /// How many were sent as they came: the head, and what redaction looks at behind it.
    pub sent: u64,
    /// How many of the last are the tail that is stored.
    pub tail: u64,
}

impl Counts {
    /// Of a stream that is whole.
    pub const fn whole(written: u64) -> Self {
        Self { written, head: written, sent: written, tail: 0 }
    }

    /// How many bytes follow those that were sent as they came: the tail, and what redaction looks at before it.
    pub fn suffix(&self, shape: Shape) -> u64 {
        let tail = if self.tail == 0 { 0 } else { self.tail.saturating_add(shape.lookbehind()) };
        tail.min(self.written.saturating_sub(self.sent))
    }

    /// How many bytes are left out between head and tail.
    pub const fn gap(&self) -> u64 {
        self.written.saturating_sub(self.head).saturating_sub(self.tail)
    }

    /// Whether they can be those of one stream.
    pub fn is_sound(&self) -> bool {
        self.head <= self.sent
            && self.sent <= self.written
            && self.head.checked_add(self.tail).is_some_and(|kept| kept <= self.written)
    }
}

/// The beginning of each stream, while it comes in: its head, and what redaction looks at behind it.
#[derive(Debug, Clone)]
pub struct Meter {
    room: u64,
    lookahead: u64,
    /// Something did not go into the head.
    closed: bool,
    counts: [Counts; 2],
}

impl Meter {
    /// Of streams of this shape.
    pub const fn new(shape: Shape) -> Self {
        const EMPTY: Counts = Counts { written: 0, head: 0, sent: 0, tail: 0 };
        Self { room: shape.head(), lookahead: shape.lookahead, closed: false, counts: [EMPTY; 2] }
    }

    /// Counts a chunk, and says how many of its first bytes are of the head, and how many are sent.
    pub fn take(&mut self, source: Source, length: usize) -> (usize, usize) {
        let Self { room, lookahead, closed, counts: [stdout, stderr] } = self;
        let counts = match source {
            Source::Stdout => stdout,
            Source::Stderr => stderr,
        };
        let length = length as u64;
        counts.written = counts.written.saturating_add(length);
        // Once something did not go into the head nothing more does: it is without gaps.
        let head = if *closed { 0 } else { length.min(*room) };
        *room -= head;
        *closed |= head < length;
        let ahead = (length - head).min(lookahead.saturating_sub(counts.sent - counts.head));
        counts.head += head;
        counts.sent += head + ahead;
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        (size(head), size(head + ahead))
    }

    /// Bytes of both streams.
    pub fn written(&self) -> u64 {
        self.counts.iter().map(|counts| counts.written).sum()
    }

    /// Of one stream.
    pub const fn counts(&self, source: Source) -> Counts {
        let [stdout, stderr] = self.counts;
        match source {
            Source::Stdout => stdout,
            Source::Stderr => stderr,
        }
    }
}

/// Captures one Run's output.
#[derive(Debug, Clone)]
pub struct Capture {
    shape: Shape,
    meter: Meter,
    /// The last bytes of each stream behind its head.
    rings: [VecDeque<u8>; 2],
}

impl Capture {
    /// Of streams of this shape.
    pub const fn new(shape: Shape) -> Self {
        Self { shape, meter: Meter::new(shape), rings: [VecDeque::new(), VecDeque::new()] }
    }

    /// Takes a chunk, and says how many of its first bytes are sent now.
    pub fn take(&mut self, source: Source, chunk: &[u8]) -> usize {
        let (head, sent) = self.meter.take(source, chunk.len());
        let most = usize::try_from(self.shape.tail() + self.shape.lookbehind()).unwrap_or(usize::MAX);
        let behind = chunk.get(head..).unwrap_or_default();
        let last = behind.get(behind.len().saturating_sub(most)..).unwrap_or_default();
        let [stdout, stderr] = &mut self.rings;
        let ring = match source {
            Source::Stdout => stdout,
            Source::Stderr => stderr,
        };
        let surplus = (ring.len() + last.len()).saturating_sub(most);
        ring.drain(..surplus.min(ring.len()));
        ring.extend(last);
        sent
    }

    /// Whether more was written than is stored.
    pub fn passed(&self) -> bool {
        self.meter.written() > self.shape.cap
    }

    /// Nothing more comes: the counts of each stream, and what of it is to be sent yet.
    pub fn finish(&self) -> [(Counts, Vec<u8>); 2] {
        let [stdout, stderr] = Source::ALL.map(|source| self.meter.counts(source));
        let [out_tail, err_tail] = self.shape.tails([&stdout, &stderr]);
        let [out_ring, err_ring] = &self.rings;
        let end = |counts: Counts, tail: u64, ring: &VecDeque<u8>| {
            let counts = Counts { tail, ..counts };
            let suffix = usize::try_from(counts.suffix(self.shape)).unwrap_or(usize::MAX).min(ring.len());
            (counts, ring.range(ring.len() - suffix..).copied().collect())
        };
        [end(stdout, out_tail, out_ring), end(stderr, err_tail, err_ring)]
    }
}

/// What was kept of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts {
    /// The head; all of a stream that is whole.
    pub head: Vec<u8>,
    /// What follows it, for redaction.
    pub ahead: Vec<u8>,
    /// How many bytes are left out between head and tail; without a tail, none.
    pub gap: u64,
    /// What comes before the tail, for redaction.
    pub behind: Vec<u8>,
    /// The tail.
    pub tail: Vec<u8>,
    /// How many bytes were written.
    pub written: u64,
}

impl Parts {
    /// Takes apart what was sent of a stream, or what its spool holds; nothing where that is not what the counts say.
    pub fn of(shape: Shape, counts: &Counts, mut bytes: Vec<u8>) -> Option<Self> {
        let size = |bytes: u64| usize::try_from(bytes).ok();
        let (head, sent) = (size(counts.head)?, size(counts.sent)?);
        let suffix = size(counts.suffix(shape))?;
        if !counts.is_sound() || bytes.len() != sent.checked_add(suffix)? {
            return None;
        }
        let (written, gap) = (counts.written, counts.gap());
        // Nothing is missing between what was sent as it came and what was sent at the end.
        let contiguous = bytes.len() as u64 == counts.written;
        if gap == 0 && contiguous {
            return Some(Self { head: bytes, written, ..Self::default() });
        }
        let from = bytes.len() - size(counts.tail)?.min(bytes.len() - head);
        let tail = bytes.get(from..)?.to_vec();
        let (lookahead, lookbehind) = (size(shape.lookahead)?, size(shape.lookbehind())?);
        // Where everything was sent, one is behind the other.
        let (behind_from, ahead_to) = if contiguous { (head, bytes.len()) } else { (sent, sent) };
        let behind = bytes.get(behind_from.max(from.saturating_sub(lookbehind))..from)?.to_vec();
        let ahead = bytes.get(head..ahead_to.min(head.saturating_add(lookahead)))?.to_vec();
        bytes.truncate(head);
        if tail.is_empty() {
            return Some(Self { head: bytes, ahead, written, ..Self::default() });
        }
        Some(Self { head: bytes, ahead, gap, behind, tail, written })
    }
}

#[cfg(test)]
mod tests;
