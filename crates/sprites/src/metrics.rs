//! What the client counts: calls by kind and outcome, how long they took, who waits, how execs ended. Labels are closed
//! vocabularies: no name of a Sprite, a host or a command is ever one.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, Opts, Registry};

use super::call::{CallKind, Priority};
use super::error::Error;

/// The client's metrics. Cheap to clone; clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    calls: HistogramVec,
    retries: IntCounterVec,
    held: IntCounterVec,
    waits: HistogramVec,
    waiting: IntGauge,
    in_flight: IntGauge,
    token_rejected: IntGauge,
    exec_ends: IntCounterVec,
}

impl Metrics {
    /// Registers every metric; their names begin with `sprites_`, after the registry's own prefix.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let seconds = |name: &str, help: &str| {
            HistogramOpts::new(name, help)
                .buckets(vec![0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0])
        };
        let metrics = Self {
            calls: HistogramVec::new(
                seconds(
                    "sprites_call_duration_seconds",
                    "One attempt of a call of the Sprites API, by kind and outcome.",
                ),
                &["call", "outcome"],
            )?,
            retries: IntCounterVec::new(
                Opts::new("sprites_retries_total", "Attempts after the first, by kind and the outcome before."),
                &["call", "after"],
            )?,
            held: IntCounterVec::new(
                Opts::new("sprites_held_total", "Calls the limiter did not let go, by priority and reason."),
                &["priority", "reason"],
            )?,
            waits: HistogramVec::new(
                seconds("sprites_wait_duration_seconds", "How long calls waited for their turn, by priority."),
                &["priority"],
            )?,
            waiting: IntGauge::new("sprites_waiting", "Calls that wait for their turn.")?,
            in_flight: IntGauge::new("sprites_in_flight", "Calls that were let go and are not over.")?,
            token_rejected: IntGauge::new(
                "sprites_token_rejected",
                "1 while the Sprites API rejects the token (401), or its file holds none that can be sent.",
            )?,
            exec_ends: IntCounterVec::new(
                Opts::new("sprites_exec_ends_total", "Execs by how they ended: exit, or how the connection was lost."),
                &["end"],
            )?,
        };
        registry.register(Box::new(metrics.calls.clone()))?;
        registry.register(Box::new(metrics.retries.clone()))?;
        registry.register(Box::new(metrics.held.clone()))?;
        registry.register(Box::new(metrics.waits.clone()))?;
        registry.register(Box::new(metrics.waiting.clone()))?;
        registry.register(Box::new(metrics.in_flight.clone()))?;
        registry.register(Box::new(metrics.token_rejected.clone()))?;
        registry.register(Box::new(metrics.exec_ends.clone()))?;
        metrics.begin();
        Ok(metrics)
    }

    /// Series that most alerts and graphs begin with, at zero; those of rarer outcomes come with the first of their kind.
    fn begin(&self) {
        for kind in CallKind::ALL {
            drop(self.calls.with_label_values(&[kind.as_str(), "ok"]));
            drop(self.calls.with_label_values(&[kind.as_str(), "unknown"]));
            drop(self.retries.with_label_values(&[kind.as_str(), "unknown"]));
        }
        for priority in Priority::ALL {
            drop(self.waits.with_label_values(&[priority.as_str()]));
            for reason in ["full", "paused", "late"] {
                drop(self.held.with_label_values(&[priority.as_str(), reason]));
            }
        }
        for end in ["exit", "dropped"] {
            drop(self.exec_ends.with_label_values(&[end]));
        }
    }

    pub(super) fn called(&self, kind: CallKind, outcome: Result<(), &Error>, took: Duration) {
        if let Some(accepted) = outcome.map_or_else(Error::accepts_token, |()| Some(true)) {
            self.token_rejected.set(i64::from(!accepted));
        }
        let outcome = outcome.map_or_else(Error::kind, |()| "ok");
        self.calls.with_label_values(&[kind.as_str(), outcome]).observe(took.as_secs_f64());
    }

    /// Whether the last call that tells was rejected for its token, or had none to send.
    pub fn is_token_rejected(&self) -> bool {
        self.token_rejected.get() == 1
    }

    pub(super) fn retried(&self, kind: CallKind, after: &Error) {
        self.retries.with_label_values(&[kind.as_str(), after.kind()]).inc();
    }

    pub(super) fn waited(&self, priority: Priority, took: Duration) {
        self.waits.with_label_values(&[priority.as_str()]).observe(took.as_secs_f64());
    }

    pub(super) fn held(&self, priority: Priority, reason: &'static str) {
        self.held.with_label_values(&[priority.as_str(), reason]).inc();
    }

    pub(super) fn load(&self, (waiting, under_way): (usize, usize)) {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.in_flight.set(i64::try_from(under_way).unwrap_or(i64::MAX));
    }

    pub(super) fn exec_ended(&self, end: &'static str) {
        self.exec_ends.with_label_values(&[end]).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::LimitReason;
    use super::super::sanitize::ProviderText;
    use super::super::token::TokenError;
    use super::*;

    #[test]
    fn only_what_tells_of_the_token_moves_its_gauge() {
        let message = || ProviderText::new("said", None);
        let denied = |status| Error::Denied { status, message: message() };
        let limited = |reason| Error::RateLimited { retry_after: None, reason, message: message() };
        let invalid = |status| Error::Invalid { status: Some(status), message: message() };
        let unknown =
            || Error::Unknown { status: Some(502), sent: true, retry_after: None, message: message(), source: None };
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let mut steps: Vec<(Result<(), Error>, bool)> = Vec::new();
        for accepted in
            [Error::Absent { message: message() }, limited(LimitReason::Capacity), Error::Busy { message: message() }]
        {
            // A rejected token stays rejected through answers that anybody on the way may give.
            steps.extend([
                (Err(denied(401)), true),
                (Err(unknown()), true),
                (Err(denied(403)), true),
                (Err(invalid(400)), true),
            ]);
            steps.extend([(Err(limited(LimitReason::Other)), true), (Err(accepted), false), (Err(unknown()), false)]);
        }
        steps.extend([(Err(Error::Token(TokenError::Empty)), true), (Ok(()), false)]);
        for (outcome, rejected) in steps {
            metrics.called(CallKind::Get, outcome.as_ref().copied(), Duration::ZERO);
            assert_eq!(metrics.is_token_rejected(), rejected, "{outcome:?}");
        }
    }
}
