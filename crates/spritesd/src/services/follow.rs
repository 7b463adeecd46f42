//! What somebody who follows a service gets: what is known, what happens, and a last event.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use super::journal::{event, shown_path};
use crate::lifecycle::Awake;

/// A follower. Keeps the Sprite awake; holds no more events than the service does.
pub(crate) struct Follow {
    _awake: Awake,
    name: String,
    known: VecDeque<Value>,
    events: broadcast::Receiver<Value>,
    until: Until,
}

/// When it is over.
enum Until {
    /// So long after some work is done.
    Work(JoinHandle<()>, Duration),
    Time(Instant),
    /// After so many more events, which have happened already.
    Count(usize),
    Over,
}

enum Next {
    Event(Result<Value, RecvError>),
    Turn(Until),
}

impl Follow {
    pub(super) fn new(
        awake: Awake,
        name: &str,
        known: Vec<Value>,
        events: broadcast::Receiver<Value>,
        work: Option<JoinHandle<()>>,
        duration: Duration,
    ) -> Self {
        let until = match work {
            Some(work) => Until::Work(work, duration),
            None if duration.is_zero() => Until::Count(0),
            None => Until::Time(Instant::now() + duration),
        };
        Self { _awake: awake, name: name.to_owned(), known: known.into(), events, until }
    }

    /// The next event; none after the last.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        if let Some(known) = self.known.pop_front() {
            return Some(known);
        }
        loop {
            let next = match &mut self.until {
                Until::Over => return None,
                Until::Count(0) => return Some(self.complete()),
                Until::Count(left) => {
                    *left -= 1;
                    Next::Event(self.events.recv().await)
                }
                Until::Time(at) => {
                    let at = *at;
                    tokio::select! {
                        biased;
                        () = sleep_until(at) => Next::Turn(Until::Count(self.events.len())),
                        event = self.events.recv() => Next::Event(event),
                    }
                }
                Until::Work(work, duration) => {
                    let duration = *duration;
                    tokio::select! {
                        biased;
                        _ = work => Next::Turn(Until::Time(Instant::now() + duration)),
                        event = self.events.recv() => Next::Event(event),
                    }
                }
            };
            match next {
                Next::Turn(until) => self.until = until,
                Next::Event(Ok(event)) => return Some(event),
                Next::Event(Err(RecvError::Lagged(missed))) => {
                    if let Until::Count(left) = &mut self.until {
                        *left = self.events.len();
                    }
                    let text = format!("{missed} events were left out: they came faster than they were read");
                    return Some(event("error", [("data", text.into())]));
                }
                Next::Event(Err(RecvError::Closed)) => return Some(self.complete()),
            }
        }
    }

    fn complete(&mut self) -> Value {
        self.until = Until::Over;
        let path = shown_path(&self.name);
        // One file has both streams.
        let files = json!({ "combined": path, "stdout": path, "stderr": path });
        event("complete", [("log_files", files)])
    }
}
