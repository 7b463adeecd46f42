//! What a service is doing, what an event makes of that, and when it is started again. Pure.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::journal::object;

/// The pause before the first restart; each further one in a row doubles it.
const SHORTEST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Who has run for so long is not in a row of crashes.
const STEADY: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Phase {
    #[default]
    Stopped,
    Starting,
    Running,
    Stopping,
    /// Ended by itself or not started; it is started again later.
    Failed,
}

impl Phase {
    /// The word on the wire.
    fn word(self) -> &'static str {
        match self {
            Self::Stopped => "stopped",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Failed => "failed",
        }
    }
}

/// What is known of a service's process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) pid: Option<u32>,
    pub(crate) started_at: Option<Timestamp>,
    error: Option<String>,
    restarts: u64,
    next_restart_at: Option<Timestamp>,
    /// Failures without a steady run between them.
    row: u32,
}

/// What happens to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Event {
    /// It is about to be started.
    Starting,
    Started(u32),
    /// It could not be started; why.
    Refused(String),
    /// Its process ended without being asked to.
    Ended {
        code: u8,
        ran: Duration,
    },
    Stopping,
    Stopped,
    /// The sandbox is gone.
    Lost,
}

impl State {
    /// The state after an event, and after which pause the service is to be started again, if it is.
    pub(crate) fn after(&self, event: Event, now: Timestamp) -> (Self, Option<Duration>) {
        let state = match event {
            Event::Starting => Self { phase: Phase::Starting, next_restart_at: None, ..self.clone() },
            Event::Started(pid) => Self {
                phase: Phase::Running,
                pid: Some(pid),
                started_at: Some(now),
                error: None,
                // The first start after a failure is a restart.
                restarts: self.restarts + u64::from(self.row > 0),
                ..self.clone()
            },
            Event::Stopping => Self { phase: Phase::Stopping, next_restart_at: None, ..self.clone() },
            Event::Stopped | Event::Lost => Self::default(),
            Event::Refused(why) => return self.failed(why, false, now),
            Event::Ended { code, ran } => return self.failed(format!("exited with code {code}"), ran >= STEADY, now),
        };
        (state, None)
    }

    fn failed(&self, why: String, steady: bool, now: Timestamp) -> (Self, Option<Duration>) {
        let row = if steady { 1 } else { self.row.saturating_add(1) };
        let doublings = (row - 1).min(16);
        let pause = SHORTEST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE);
        let state = Self {
            phase: Phase::Failed,
            pid: None,
            error: Some(why),
            next_restart_at: now.checked_add(pause).ok(),
            row,
            ..self.clone()
        };
        (state, Some(pause))
    }

    /// As clients see it.
    pub(crate) fn describe(&self, name: &str) -> Value {
        let time = |time: Timestamp| Value::from(format!("{time:.6}"));
        let fields = [
            ("name", Some(name.into())),
            ("status", Some(self.phase.word().into())),
            ("pid", self.pid.map(Value::from)),
            ("started_at", self.started_at.map(time)),
            ("error", self.error.clone().map(Value::from)),
            ("restart_count", (self.restarts > 0).then(|| self.restarts.into())),
            ("next_restart_at", self.next_restart_at.map(time)),
        ];
        object(fields.into_iter().filter_map(|(field, value)| Some((field, value?))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn after(state: &State, event: Event) -> (State, Option<Duration>) {
        state.after(event, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn pauses_grow_up_to_a_bound_and_a_steady_run_begins_anew() {
        let mut state = State::default();
        let mut pauses = Vec::new();
        let short = Duration::from_secs(1);
        for n in 0..40 {
            (state, _) = after(&state, Event::Starting);
            (state, _) = after(&state, Event::Started(7));
            assert_eq!(state.describe("a")["restart_count"].as_u64().unwrap_or(0), n);
            let pause;
            (state, pause) = after(&state, Event::Ended { code: 1, ran: short });
            pauses.push(pause.unwrap());
        }
        assert_eq!(pauses[..4], [500, 1000, 2000, 4000].map(Duration::from_millis));
        assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE) && pauses[39] == LONGEST_PAUSE);
        let (state, pause) = after(&state, Event::Ended { code: 0, ran: STEADY });
        assert_eq!(pause, Some(SHORTEST_PAUSE));
        assert_eq!(after(&state, Event::Refused("no".into())).1, Some(SHORTEST_PAUSE * 2));
    }

    #[test]
    fn what_is_told() {
        let (state, _) = after(&State::default(), Event::Started(7));
        let seen = state.describe("a");
        assert_eq!(
            seen,
            json!({ "name": "a", "status": "running", "pid": 7, "started_at": "1970-01-01T00:00:00.000000Z" })
        );
        let (state, _) = after(&state, Event::Ended { code: 3, ran: Duration::ZERO });
        let seen = state.describe("a");
        assert_eq!((&seen["status"], &seen["error"]), (&json!("failed"), &json!("exited with code 3")));
        assert!(seen.get("pid").is_none() && seen["next_restart_at"].is_string());
        let (state, _) = after(&state, Event::Stopping);
        assert_eq!(after(&state, Event::Stopped), (State::default(), None));
        assert_eq!(State::default().describe("a"), json!({ "name": "a", "status": "stopped" }));
    }
}
