//! Output: kept under one cap over both streams, stripped of the start marker, encoded for status.
//!
//! A chunk is tested against the cap before it is kept. Must not hold more than the cap.

use base64::{Engine, engine::general_purpose::STANDARD};

use super::fit;

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
        if !self.passed {
            let fitting = rest.get(..room.min(rest.len())).unwrap_or_default();
            stream.kept.extend_from_slice(fitting);
            self.passed = fitting.len() < rest.len();
        }
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

    /// What is to be stored.
    pub fn finish(self) -> Captured {
        let truncated = self.passed;
        Captured { stdout: encode(self.stdout, truncated), stderr: encode(self.stderr, truncated), truncated }
    }
}

/// Output as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    /// Standard output.
    pub stdout: Encoded,
    /// Standard error.
    pub stderr: Encoded,
    /// Something was cut off at the cap.
    pub truncated: bool,
}

/// One stream as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes, where they are text and base64 is not shorter.
    pub text: Option<String>,
    /// The bytes as base64 else.
    pub base64: Option<String>,
    /// How many bytes were received.
    pub bytes: u64,
}

fn encode(stream: Stream, truncated: bool) -> Encoded {
    let Stream { mut kept, received } = stream;
    if truncated {
        drop_split_character(&mut kept);
    }
    match String::from_utf8(kept) {
        Ok(text) if fit::escaped_size(&text) <= text.len().div_ceil(3) * 4 => {
            Encoded { text: Some(text), base64: None, bytes: received }
        }
        Ok(text) => Encoded { text: None, base64: Some(STANDARD.encode(text)), bytes: received },
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
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    const MARKER: &str = "so-started u\n";

    fn captured(cap: u64, chunks: &[(Source, &[u8])]) -> (Captured, bool) {
        let mut capture = Capture::new(cap, MARKER);
        for (source, chunk) in chunks {
            capture.push(*source, chunk);
        }
        let started = capture.started();
        (capture.finish(), started)
    }

    #[test]
    fn the_marker_is_stripped_however_it_is_split() {
        for split in 0..=MARKER.len() {
            let (a, b) = MARKER.split_at(split);
            let rest = format!("{b}hello");
            let (out, started) = captured(100, &[(Source::Stdout, a.as_bytes()), (Source::Stdout, rest.as_bytes())]);
            assert!(started, "split at {split}");
            assert_eq!(out.stdout, Encoded { text: Some("hello".into()), base64: None, bytes: 5 });
        }
    }

    #[test]
    fn what_does_not_begin_with_the_marker_is_not_the_commands() {
        let (out, started) = captured(100, &[(Source::Stdout, b"so-startle"), (Source::Stdout, MARKER.as_bytes())]);
        assert!(!started);
        assert_eq!(out.stdout.text.as_deref(), Some(""));
    }

    #[rstest]
    #[case(65_536, false)]
    #[case(65_537, true)]
    fn the_cap_is_exact(#[case] bytes: usize, #[case] truncated: bool) {
        let text = "a".repeat(bytes);
        let (out, _) = captured(65_536, &[(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, text.as_bytes())]);
        assert_eq!(out.truncated, truncated);
        assert_eq!(out.stdout.bytes, bytes as u64);
        assert_eq!(out.stdout.text.unwrap().len(), 65_536);
    }

    #[test]
    fn both_streams_share_one_cap_and_the_head_has_no_gaps() {
        let (out, _) = captured(
            8,
            &[
                (Source::Stdout, MARKER.as_bytes()),
                (Source::Stderr, b"12345"),
                (Source::Stdout, b"abcdef"),
                (Source::Stderr, b"6"),
            ],
        );
        assert_eq!(out.stderr, Encoded { text: Some("12345".into()), base64: None, bytes: 6 });
        assert_eq!(out.stdout, Encoded { text: Some("abc".into()), base64: None, bytes: 6 });
        assert!(out.truncated);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        for cap in 9..13 {
            let (out, _) =
                captured(cap, &[(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, "aaaaaaaaa€€".as_bytes())]);
            assert!(out.stdout.text.is_some(), "cap {cap}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_and_text_that_escapes_longer_are_base64() {
        let (out, _) = captured(100, &[(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, b"\0\x01\xffok")]);
        assert_eq!(out.stdout.base64.as_deref(), Some("AAH/b2s="));
        let (out, _) = captured(100, &[(Source::Stdout, MARKER.as_bytes()), (Source::Stdout, &[1; 30])]);
        assert_eq!(out.stdout.base64.map(|b| b.len()), Some(40));
    }

    proptest! {
        #[test]
        fn never_more_than_the_cap_is_held(cap in 0u64..64, chunks in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..40)), 0..12)) {
            let mut capture = Capture::new(cap, MARKER);
            capture.push(Source::Stdout, MARKER.as_bytes());
            let mut total = 0;
            for (out, chunk) in &chunks {
                total += chunk.len() as u64;
                capture.push(if *out { Source::Stdout } else { Source::Stderr }, chunk);
                prop_assert!((capture.stdout.kept.len() + capture.stderr.kept.len()) as u64 <= cap);
            }
            let out = capture.finish();
            prop_assert_eq!(out.stdout.bytes + out.stderr.bytes, total);
            prop_assert_eq!(out.truncated, total > cap);
        }
    }
}
