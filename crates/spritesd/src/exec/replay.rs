//! The last output of a session: what an attaching client sees first, and all the buffering there is. Pure.
//!
//! It is bounded. While somebody watches, output that the slowest watcher has not taken is kept and the reader has
//! to wait (so the program blocks on its pipe); while nobody does, the oldest goes.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;

/// How much output is kept, frame headers and bookkeeping included.
pub(crate) const CAPACITY: usize = 1 << 20;
/// What a kept frame costs besides its bytes, so that tiny frames are bounded too.
const OVERHEAD: usize = 64;

/// Kept frames, and how far each watcher has got.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    frames: VecDeque<Bytes>,
    /// The number of the first kept frame.
    first: u64,
    size: usize,
    watchers: HashMap<u64, u64>,
    next_watcher: u64,
}

impl Replay {
    /// Keeps a frame, or gives it back when a watcher still needs the space.
    pub(crate) fn push(&mut self, frame: Bytes) -> Result<(), Bytes> {
        let cost = frame.len() + OVERHEAD;
        let needed = self.watchers.values().min().copied().unwrap_or(u64::MAX);
        while self.size + cost > CAPACITY && self.first < needed {
            let Some(oldest) = self.frames.pop_front() else {
                break;
            };
            self.size -= oldest.len() + OVERHEAD;
            self.first += 1;
        }
        if self.size + cost > CAPACITY && !self.frames.is_empty() {
            return Err(frame);
        }
        self.size += cost;
        self.frames.push_back(frame);
        Ok(())
    }

    /// Starts to watch, from the oldest kept frame.
    pub(crate) fn watch(&mut self) -> u64 {
        let watcher = self.next_watcher;
        self.next_watcher += 1;
        self.watchers.insert(watcher, self.first);
        watcher
    }

    /// Stops to watch; true when nobody does any more.
    pub(crate) fn leave(&mut self, watcher: u64) -> bool {
        self.watchers.remove(&watcher).is_some() && self.watchers.is_empty()
    }

    /// The next frame for a watcher.
    pub(crate) fn next(&mut self, watcher: u64) -> Option<Bytes> {
        let position = self.watchers.get_mut(&watcher)?;
        let index = usize::try_from(position.checked_sub(self.first)?).ok()?;
        let frame = self.frames.get(index)?.clone();
        *position += 1;
        Some(frame)
    }

    /// Whether anybody watches.
    pub(crate) fn is_watched(&self) -> bool {
        !self.watchers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BIG: usize = 30 * 1024;

    fn fill(replay: &mut Replay) -> usize {
        let mut pushed = 0;
        while pushed < 1000 && replay.push(Bytes::from(vec![0; BIG])).is_ok() {
            pushed += 1;
        }
        pushed
    }

    #[test]
    fn a_slow_watcher_stops_the_reader_and_loses_nothing() {
        let mut replay = Replay::default();
        let watcher = replay.watch();
        let pushed = fill(&mut replay);
        assert_eq!(pushed, CAPACITY / (BIG + OVERHEAD));
        assert!(replay.next(watcher).is_some());
        assert_eq!(fill(&mut replay), 1);
    }

    #[test]
    fn nobody_watching_never_stops_the_reader() {
        let mut replay = Replay::default();
        assert_eq!(fill(&mut replay), 1000);
        assert!(replay.size <= CAPACITY);
        let watcher = replay.watch();
        assert_eq!(std::iter::from_fn(|| replay.next(watcher)).count(), CAPACITY / (BIG + OVERHEAD));
    }

    #[test]
    fn leaving_frees_the_space() {
        let mut replay = Replay::default();
        let (a, b) = (replay.watch(), replay.watch());
        fill(&mut replay);
        assert!(!replay.leave(a));
        assert!(replay.push(Bytes::from(vec![0; BIG])).is_err());
        assert!(replay.leave(b));
        assert!(replay.push(Bytes::from(vec![0; BIG])).is_ok());
        assert!(!replay.leave(b));
    }

    proptest! {
        #[test]
        fn a_watcher_sees_every_frame_once_in_order(steps in prop::collection::vec(any::<bool>(), 1..300)) {
            let mut replay = Replay::default();
            let watcher = replay.watch();
            let (mut sent, mut seen) = (0u32, 0u32);
            for push in steps {
                if push {
                    let mut frame = vec![0; BIG];
                    frame[..4].copy_from_slice(&sent.to_le_bytes());
                    if replay.push(frame.into()).is_ok() { sent += 1; }
                } else if let Some(frame) = replay.next(watcher) {
                    prop_assert_eq!(frame[..4].to_vec(), seen.to_le_bytes().to_vec());
                    seen += 1;
                }
            }
            prop_assert!(replay.size <= CAPACITY);
        }
    }
}
