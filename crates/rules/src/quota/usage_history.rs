//! The book of one user: charges of Runs that no longer exist, by minute and drive, and the Runs that are being folded into it.
//!
//! It is bounded, whatever is charged: a full book tells less apart (minutes first, then drives) and never forgets a charge.

use std::collections::{BTreeMap, BTreeSet};

use super::DAY;

/// A minute, in milliseconds.
const MINUTE: i64 = 60_000;
/// Most buckets: the schema's `maxItems`.
pub const MAX_BUCKETS: usize = 10_000;
/// Most bytes of all buckets when encoded: far below what etcd takes.
pub const MAX_BYTES: usize = 900_000;
/// Most Runs being folded: the schema's `maxItems`.
pub const MAX_FOLDING: usize = 1000;
/// What an encoded bucket takes beside its drive.
const BUCKET_BYTES: usize = 80;
/// A byte that is escaped when encoded takes so many.
const ESCAPED: usize = 6;
/// How coarse minutes may become before drives do, in minutes.
const STEPS: [i64; 5] = [2, 5, 15, 60, 240];

/// Charges of one minute and drive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    /// The minute, counted from the Unix epoch. Its charges are taken to be of the minute's end.
    pub minute: i64,
    /// The drive; empty: any of several, so it counts for each.
    pub drive: String,
    /// How many.
    pub count: u64,
}

impl Bucket {
    /// When the last of its charges can leave, in milliseconds: 24 hours after the end of its minute.
    pub fn expires_at(&self) -> i64 {
        self.minute.saturating_add(1).saturating_mul(MINUTE).saturating_add(DAY)
    }

    /// Whether it counts for this drive.
    pub fn concerns(&self, drive: &str) -> bool {
        self.drive.is_empty() || self.drive == drive
    }
}

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UsageHistory {
    buckets: BTreeMap<(i64, String), u64>,
    folding: BTreeSet<String>,
    /// Of all buckets, encoded.
    bytes: usize,
}

impl UsageHistory {
    /// From what is stored. Buckets of the same minute and drive add up; what passes the bounds is told apart less, too.
    pub fn new(buckets: impl IntoIterator<Item = Bucket>, folding: impl IntoIterator<Item = String>) -> Self {
        let mut history = Self { folding: folding.into_iter().collect(), ..Self::default() };
        for Bucket { minute, drive, count } in buckets {
            history.add(minute, drive, count);
        }
        history.bound();
        history
    }

    /// The buckets, oldest first.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> + '_ {
        let bucket = |((minute, drive), count): (&(i64, String), &u64)| Bucket {
            minute: *minute,
            drive: drive.clone(),
            count: *count,
        };
        self.buckets.iter().map(bucket)
    }

    /// Runs whose charge is in the buckets, and which are not known to be gone.
    pub fn folding(&self) -> impl Iterator<Item = &String> {
        self.folding.iter()
    }

    /// Takes a Run's charge over, once: a Run in `folding` is in the buckets already. `false` when the book can take no more
    /// Runs until some of them are gone.
    #[must_use]
    pub fn fold(&mut self, run: &str, at: i64, drive: &str, now: i64) -> bool {
        self.forget_old(now);
        if self.folding.contains(run) || at.saturating_add(DAY) <= now {
            return true;
        }
        if self.folding.len() >= MAX_FOLDING {
            return false;
        }
        self.folding.insert(run.to_owned());
        self.add(at.div_euclid(MINUTE), drive.to_owned(), 1);
        self.bound();
        true
    }

    /// These Runs are gone for certain.
    pub fn prune<'a>(&mut self, gone: impl IntoIterator<Item = &'a str>) {
        for run in gone {
            self.folding.remove(run);
        }
    }

    /// Drops what is older than a day. For good: a clock that is set a day ahead and back again has forgotten.
    pub fn forget_old(&mut self, now: i64) {
        // The oldest come first.
        while let Some(oldest) = self.buckets.first_entry() {
            let (minute, drive) = oldest.key();
            if (Bucket { minute: *minute, drive: String::new(), count: 0 }).expires_at() > now {
                return;
            }
            self.bytes = self.bytes.saturating_sub(encoded(drive));
            oldest.remove();
        }
    }

    /// Whether nothing is left to remember.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty() && self.folding.is_empty()
    }

    fn add(&mut self, minute: i64, drive: String, count: u64) {
        let size = encoded(&drive);
        let of = self.buckets.entry((minute, drive)).or_insert_with(|| {
            self.bytes = self.bytes.saturating_add(size);
            0
        });
        *of = of.saturating_add(count);
    }

    fn is_within_bounds(&self) -> bool {
        self.buckets.len() <= MAX_BUCKETS && self.bytes <= MAX_BYTES
    }

    /// Tells less apart until it fits: a charge may count longer then, or for more drives, and never for less.
    fn bound(&mut self) {
        for step in STEPS {
            if self.is_within_bounds() {
                return;
            }
            // The last minute of its step.
            self.merge(|minute, drive| (minute.div_euclid(step).saturating_mul(step).saturating_add(step - 1), drive));
        }
        if !self.is_within_bounds() {
            self.merge(|minute, _| (minute, String::new()));
        }
    }

    fn merge(&mut self, into: impl Fn(i64, String) -> (i64, String)) {
        self.bytes = 0;
        for ((minute, drive), count) in std::mem::take(&mut self.buckets) {
            let (minute, drive) = into(minute, drive);
            self.add(minute, drive, count);
        }
    }
}

/// The bytes of a bucket of this drive, as the API server encodes it: it escapes what HTML would read, too.
fn encoded(drive: &str) -> usize {
    let escaped = |byte: u8| byte < b' ' || matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'&' | 0x7f | 0xe2);
    drive.bytes().fold(BUCKET_BYTES, |sum, byte| sum.saturating_add(if escaped(byte) { ESCAPED } else { 1 }))
}
