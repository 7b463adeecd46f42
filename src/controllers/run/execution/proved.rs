//! What a start rests on: which instance was seen awake, and when the reads of the proof began. Must not read anything.

use std::time::Duration;

use sprites::Awake;
use tokio::time::Instant;

/// A proof that was read just now. It grows old.
#[derive(Debug, Clone)]
pub struct Proved {
    /// When the reads of the proof began.
    pub at: Instant,
    /// The instance that they showed awake.
    pub on: Awake,
}

impl Proved {
    /// How old it is.
    pub fn age(&self) -> Duration {
        self.at.elapsed()
    }
}
