//! Which bytes of two streams are kept under one cap: the same for the operator and for the guest's spool, so that an
//! adopter stores what the starter would have stored.

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

/// What of a chunk is kept: its first bytes, and behind them those that redaction looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of the head.
    pub head: usize,
    /// Bytes behind the head: a secret that the cut goes through is known by its end.
    pub ahead: usize,
}

/// Counts one Run's output.
#[derive(Debug, Clone)]
pub struct Meter {
    room: u64,
    lookahead: u64,
    passed: bool,
    stdout: Stream,
    stderr: Stream,
}

#[derive(Debug, Clone, Default)]
struct Stream {
    written: u64,
    head: u64,
    ahead: u64,
}

impl Meter {
    /// Keeps at most `cap` bytes of both streams together in order of arrival, and `lookahead` bytes of each behind them.
    pub const fn new(cap: u64, lookahead: u64) -> Self {
        const EMPTY: Stream = Stream { written: 0, head: 0, ahead: 0 };
        Self { room: cap, lookahead, passed: false, stdout: EMPTY, stderr: EMPTY }
    }

    /// Counts a chunk, and says what of it is kept.
    pub fn take(&mut self, source: Source, length: usize) -> Kept {
        let Self { room, lookahead, passed, stdout, stderr } = self;
        let stream = match source {
            Source::Stdout => stdout,
            Source::Stderr => stderr,
        };
        let length = length as u64;
        stream.written = stream.written.saturating_add(length);
        // Once the cap was passed nothing more is kept: what is stored is a head, without gaps.
        let head = if *passed { 0 } else { length.min(*room) };
        let ahead = (length - head).min(lookahead.saturating_sub(stream.ahead));
        *room -= head;
        *passed |= head < length;
        stream.head += head;
        stream.ahead += ahead;
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        Kept { head: size(head), ahead: size(ahead) }
    }

    /// Whether more was written than the cap allows.
    pub const fn passed(&self) -> bool {
        self.passed
    }

    /// How many bytes were written, and how many of them are the head.
    pub const fn counts(&self, source: Source) -> super::Counts {
        let stream = match source {
            Source::Stdout => &self.stdout,
            Source::Stderr => &self.stderr,
        };
        super::Counts { written: stream.written, head: stream.head }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_head_is_the_first_bytes_up_to_the_cap_however_they_are_cut(
            chunks in proptest::collection::vec((any::<bool>(), 0usize..40), 0..20),
            cap in 0u64..200,
            lookahead in 0u64..30,
        ) {
            let mut meter = Meter::new(cap, lookahead);
            let mut bytewise = Meter::new(cap, lookahead);
            let mut all = 0;
            for (stdout, length) in chunks {
                let source = if stdout { Source::Stdout } else { Source::Stderr };
                let kept = meter.take(source, length);
                prop_assert!(kept.head + kept.ahead <= length);
                for _ in 0..length {
                    bytewise.take(source, 1);
                }
                all += length as u64;
            }
            let head: u64 = Source::ALL.map(|source| meter.counts(source).head).iter().sum();
            prop_assert_eq!(head, all.min(cap));
            prop_assert_eq!(meter.passed(), all > cap);
            for source in Source::ALL {
                prop_assert_eq!(meter.counts(source), bytewise.counts(source));
            }
        }
    }
}
