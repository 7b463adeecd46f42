//! Whether lines are an unbroken chain, and where it breaks first.
//!
//! What it proves: against an [`Anchor`] kept elsewhere, every record up to it is there, once, unchanged, in order. Beyond the
//! anchor, a tail that was cut off cannot be seen.

use std::collections::HashSet;
use std::fmt;

use super::{Entry, GENESIS, HASH, Head, Record, canonical, hash};

/// What is known from elsewhere about a chain: the record of this sequence has this hash.
pub type Anchor = Head;

/// An unbroken chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many records.
    pub records: usize,
    /// How many processes wrote it.
    pub segments: usize,
    /// Sequence of the first record; 0 of an empty chain.
    pub first: i64,
    /// Where it ends.
    pub head: Head,
}

/// The first break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Break {
    /// The line, counted from 1; one more than there are lines when something is missing at the end.
    pub line: usize,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// No record: not JSON, or with fields that no record has, or without those that every record has.
    Form,
    /// The last line has no newline: writing was cut off.
    CutOff,
    /// Its bytes are not the canonical form of what they say.
    NotCanonical,
    /// Its hash is not that of what it says.
    Hash,
    /// Its sequence is not one more than the one before.
    Sequence {
        /// What was due.
        expected: i64,
        /// What stands there.
        found: i64,
    },
    /// It is not tied to the record before.
    Previous,
    /// The first record is no beginning of a segment, or continues from elsewhere than it says.
    Segment,
    /// An id that stood before.
    Duplicate(String),
    /// The anchored record has another hash.
    AnchorDiffers,
    /// The anchored record is not there.
    AnchorMissing(i64),
}

impl fmt::Display for Break {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.fault {
            Fault::Form => f.write_str("this is no audit record"),
            Fault::CutOff => f.write_str("the last line is cut off: it has no newline"),
            Fault::NotCanonical => f.write_str("the record was rewritten: its bytes are not in canonical form"),
            Fault::Hash => f.write_str("the record was changed: its hash does not fit"),
            Fault::Sequence { expected, found } if found > expected => {
                write!(f, "records {expected} to {} are missing", found - 1)
            }
            Fault::Sequence { expected, found } => {
                write!(f, "record {found} stands where {expected} is due: it was inserted, moved or repeated")
            }
            Fault::Previous => f.write_str("the record is not tied to the one before: one of them was replaced"),
            Fault::Segment => f.write_str("the chain does not begin where its first record says"),
            Fault::Duplicate(id) => write!(f, "{id} was recorded before"),
            Fault::AnchorDiffers => f.write_str("the anchor knows another record of this sequence"),
            Fault::AnchorMissing(sequence) => write!(f, "the anchor knows record {sequence}, which is missing"),
        }
    }
}

/// Reads a chain from its beginning, or from the beginning of a segment, and names its first break.
pub fn verify(text: &str, anchor: Option<&Anchor>) -> Result<Verified, Break> {
    let mut chain: Option<Chain> = None;
    let mut seen = HashSet::new();
    let mut lines = 0;
    for line in text.split_inclusive('\n') {
        lines += 1;
        let at = |fault| Break { line: lines, fault };
        let line = line.strip_suffix('\n').ok_or(at(Fault::CutOff))?;
        let (record, own) = read(line).map_err(at)?;
        let chain = match &mut chain {
            Some(chain) => chain,
            None => chain.insert(Chain::begin(&record).map_err(at)?),
        };
        chain.follow(&record, own, &mut seen, anchor).map_err(at)?;
    }
    let verified = chain.map_or_else(Verified::default, |chain| chain.verified);
    let missing = anchor.filter(|anchor| anchor.sequence > verified.head.sequence || anchor.sequence < verified.first);
    match missing {
        Some(anchor) if anchor.sequence > 0 => {
            Err(Break { line: lines + 1, fault: Fault::AnchorMissing(anchor.sequence) })
        }
        Some(_) | None => Ok(verified),
    }
}

struct Chain {
    verified: Verified,
}

impl Chain {
    /// The first record: the first there ever was, or one that says what it continues from.
    fn begin(record: &Record) -> Result<Self, Fault> {
        let Entry::Segment { continues, .. } = &record.entry else { return Err(Fault::Segment) };
        let before = record.sequence.checked_sub(1).filter(|before| *before >= 0);
        let fits = before == Some(*continues) && (*continues == 0) == (record.previous == GENESIS);
        if !fits {
            return Err(Fault::Segment);
        }
        let head = Head { sequence: *continues, hash: record.previous.clone() };
        Ok(Self { verified: Verified { records: 0, segments: 0, first: record.sequence, head } })
    }

    fn follow(
        &mut self,
        record: &Record,
        own: String,
        seen: &mut HashSet<String>,
        anchor: Option<&Anchor>,
    ) -> Result<(), Fault> {
        let Verified { records, segments, first: _, head } = &mut self.verified;
        let expected = head.sequence.saturating_add(1);
        if record.sequence != expected {
            return Err(Fault::Sequence { expected, found: record.sequence });
        }
        if record.previous != head.hash {
            return Err(Fault::Previous);
        }
        match &record.entry {
            Entry::Segment { continues, .. } if *continues != head.sequence => return Err(Fault::Segment),
            Entry::Segment { .. } => *segments += 1,
            Entry::Event(event) => {
                if !seen.insert(event.id.clone()) {
                    return Err(Fault::Duplicate(event.id.clone()));
                }
            }
        }
        if anchor.is_some_and(|anchor| anchor.sequence == record.sequence && anchor.hash != own) {
            return Err(Fault::AnchorDiffers);
        }
        *records += 1;
        *head = Head { sequence: record.sequence, hash: own };
        Ok(())
    }
}

/// A line: the record, and its hash, which fits.
pub(super) fn read(line: &str) -> Result<(Record, String), Fault> {
    let mut fields: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).map_err(|_| Fault::Form)?;
    // A repeated key, another order, another spelling of a number: all of it shows here.
    if canonical(&fields).map_err(|_| Fault::Form)? != line {
        return Err(Fault::NotCanonical);
    }
    let Some(serde_json::Value::String(own)) = fields.remove(HASH) else { return Err(Fault::Form) };
    let body = canonical(&fields).map_err(|_| Fault::Form)?;
    let record: Record = serde_json::from_value(serde_json::Value::Object(fields)).map_err(|_| Fault::Form)?;
    if hash(body.as_bytes()) == own { Ok((record, own)) } else { Err(Fault::Hash) }
}
