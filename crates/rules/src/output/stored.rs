//! Output as it is stored: within the cap, as text or base64, in as much detail as the object has room for. Must not redact.

use base64::{Engine, engine::general_purpose::STANDARD};

use super::redacted::Redacted;
use crate::object_size;

/// Room of the line that stands for what is left out.
const GAP_LINE: usize = 64;

/// Output that is redacted and within its cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captured {
    stdout: Redacted,
    stderr: Redacted,
    /// More was received than the cap allows.
    pub over_cap: bool,
    /// Something was left out at the cap; a mask that is longer than its secret may be why.
    pub truncated: bool,
    /// How many secrets were masked.
    pub redactions: u64,
    is_withheld: bool,
}

/// In how much detail output is stored: the first that the object has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Text; where it is none, its bytes as base64, and text with replacement characters beside them.
    Whole,
    /// The same without the text that is not exact.
    Exact,
    /// Text as base64 where that is shorter, as it is of control characters.
    Shortest,
    /// Cut to so many bytes of both streams together.
    Cut(usize),
}

/// Output as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// Standard output.
    pub stdout: Encoded,
    /// Standard error.
    pub stderr: Encoded,
    /// Something was left out.
    pub truncated: bool,
}

/// One stream as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes as text.
    pub text: Option<String>,
    /// The bytes as base64, where they are no text or that is shorter.
    pub base64: Option<String>,
    /// The text has replacement characters where the bytes are none.
    pub lossy: bool,
    /// How many bytes were received.
    pub bytes: u64,
}

impl Captured {
    /// Both streams, cut to the cap.
    pub(super) fn new([stdout, stderr]: [Redacted; 2], cap: u64, passed: bool) -> Self {
        let (mut stdout, mut stderr) = (stdout, stderr);
        let cap = usize::try_from(cap).unwrap_or(usize::MAX);
        // A mask may be longer than what it stands for.
        let longer = stdout.length().saturating_add(stderr.length()) > cap;
        if longer {
            stdout.cut_at(cap.saturating_sub(stderr.length()).max(cap / 2));
            stderr.cut_at(cap.saturating_sub(stdout.length()));
        }
        let redactions = stdout.hits + stderr.hits;
        Self { stdout, stderr, over_cap: passed, truncated: passed || longer, redactions, is_withheld: false }
    }

    /// Nothing of it is stored.
    pub fn withheld((stdout, stderr): (u64, u64)) -> Self {
        let none = |written| Redacted { written, is_cut: true, ..Redacted::default() };
        let (stdout, stderr) = (none(stdout), none(stderr));
        Self { stdout, stderr, over_cap: false, truncated: true, redactions: 1, is_withheld: true }
    }

    /// Bytes that were received of stdout and stderr.
    pub const fn written(&self) -> (u64, u64) {
        (self.stdout.written, self.stderr.written)
    }

    /// Bytes of both streams that can be stored.
    pub fn length(&self) -> usize {
        self.stdout.length() + self.stderr.length()
    }

    /// In this detail.
    pub fn stored(&self, detail: Detail) -> Stored {
        if self.is_withheld {
            let none = |bytes| Encoded { bytes, ..Encoded::default() };
            return Stored { stdout: none(self.stdout.written), stderr: none(self.stderr.written), truncated: true };
        }
        let Detail::Cut(most) = detail else {
            let [stdout, stderr] = [&self.stdout, &self.stderr].map(|stream| stream.encoded(detail));
            return Stored { stdout, stderr, truncated: self.truncated };
        };
        let (out, err) = (self.stdout.length(), self.stderr.length());
        let first = out.min((most / 2).max(most.saturating_sub(err)));
        let rooms = [first, err.min(most - first)];
        let [stdout, stderr] = [(&self.stdout, rooms[0]), (&self.stderr, rooms[1])].map(|(stream, room)| {
            let mut stream = stream.clone();
            stream.shorten(room);
            stream.encoded(detail)
        });
        Stored { stdout, stderr, truncated: self.truncated || out + err > most }
    }
}

impl Redacted {
    /// The line between head and tail.
    fn gap_line(&self) -> String {
        if self.tail.is_empty() && self.gap == 0 {
            return String::new();
        }
        let newline = if self.head.is_empty() || self.head.ends_with(b"\n") { "" } else { "\n" };
        format!("{newline}[sprite-operator: {} bytes left out]\n", self.gap)
    }

    fn length(&self) -> usize {
        self.head.len() + self.gap_line().len() + self.tail.len()
    }

    /// Cuts the head, then the tail.
    fn cut_at(&mut self, most: usize) {
        let surplus = self.length().saturating_sub(most);
        self.is_cut |= surplus > 0;
        let of_head = surplus.min(self.head.len());
        self.head.truncate(self.head.len() - of_head);
        let surplus = self.length().saturating_sub(most);
        if surplus > 0 {
            self.tail.drain(..surplus.min(self.tail.len()));
        }
    }

    /// Cuts to three quarters of the head and a quarter of the tail that there is room for.
    fn shorten(&mut self, most: usize) {
        if self.length() <= most {
            return;
        }
        let room = most.saturating_sub(GAP_LINE);
        let of_tail = room / 4;
        if self.tail.is_empty() {
            let from = self.head.len().saturating_sub(of_tail);
            let line = self.head.get(from..).and_then(|tail| tail.iter().position(|byte| *byte == b'\n'));
            self.tail = self.head.split_off(line.map_or(from, |at| from + at + 1));
        }
        let drop = self.tail.len().saturating_sub(of_tail);
        self.tail.drain(..drop);
        let keep = room.saturating_sub(self.tail.len()).min(self.head.len());
        let lost = drop + self.head.len() - keep;
        self.head.truncate(keep);
        self.gap = self.gap.saturating_add(lost as u64);
    }

    fn encoded(&self, detail: Detail) -> Encoded {
        let mut head = self.head.clone();
        let line = self.gap_line();
        if self.is_cut || !line.is_empty() {
            drop_split_character(&mut head);
        }
        let bytes = [head.as_slice(), line.as_bytes(), self.tail.as_slice()].concat();
        let written = self.written;
        match (String::from_utf8(bytes), detail) {
            (Ok(text), Detail::Shortest | Detail::Cut(_))
                if object_size::escaped_size(&text) > text.len().div_ceil(3) * 4 =>
            {
                Encoded { text: None, base64: Some(STANDARD.encode(text)), lossy: false, bytes: written }
            }
            (Ok(text), _) => Encoded { text: Some(text), base64: None, lossy: false, bytes: written },
            (Err(error), Detail::Whole) => {
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let base64 = Some(STANDARD.encode(error.as_bytes()));
                Encoded { text: Some(text), base64, lossy: true, bytes: written }
            }
            (Err(error), Detail::Exact | Detail::Shortest | Detail::Cut(_)) => {
                Encoded { text: None, base64: Some(STANDARD.encode(error.as_bytes())), lossy: false, bytes: written }
            }
        }
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
