//! The event log tests read: what was asked of which Sprite, in order. In memory, bounded, oldest dropped first.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;
use serde_json::{Value, json};

/// All lines together stay below this.
const MOST_BYTES: usize = 32 << 20;

/// The log.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    lines: Mutex<Lines>,
}

#[derive(Debug, Default)]
struct Lines {
    kept: VecDeque<String>,
    bytes: usize,
    dropped: u64,
}

impl EventLog {
    /// Adds an event; `detail` is an object whose fields join it.
    pub(crate) fn add(&self, event: &str, sprite: &str, id: &str, detail: Value) {
        let mut line = json!({ "at": format!("{:.6}", Timestamp::now()), "sprite": sprite, "id": id, "event": event });
        if let (Value::Object(line), Value::Object(detail)) = (&mut line, detail) {
            line.extend(detail);
        }
        let line = format!("{line}\n");
        let mut all = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        all.bytes += line.len();
        all.kept.push_back(line);
        while all.bytes > MOST_BYTES {
            let Some(oldest) = all.kept.pop_front() else {
                break;
            };
            all.bytes -= oldest.len();
            all.dropped += 1;
        }
    }

    /// The whole log as NDJSON. If older events were dropped, the first line says how many.
    pub(crate) fn ndjson(&self) -> String {
        let all = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let dropped = (all.dropped > 0).then(|| {
            let line = json!({ "at": format!("{:.6}", Timestamp::now()), "event": "dropped", "count": all.dropped });
            format!("{line}\n")
        });
        dropped.iter().map(String::as_str).chain(all.kept.iter().map(String::as_str)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_survive() {
        let log = EventLog::default();
        let filler = "x".repeat(MOST_BYTES / 4);
        for n in 0..6 {
            log.add("test", "one", "sprite-1", json!({ "n": n, "filler": filler }));
        }
        let text = log.ndjson();
        let dropped: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!((dropped["event"].as_str(), dropped["count"].as_u64()), (Some("dropped"), Some(3)));
        let first: Value = serde_json::from_str(text.lines().nth(1).unwrap()).unwrap();
        let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert!(text.len() <= MOST_BYTES + 200);
        assert_eq!((first["n"].as_u64(), last["n"].as_u64()), (Some(3), Some(5)));
        assert_eq!((last["event"].as_str(), last["sprite"].as_str()), (Some("test"), Some("one")));
    }
}
