//! The loop round every call: wait for the turn, attempt, tell the limiter and the metrics, and again if that is safe.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::{Instrument, Span, debug, debug_span, field};

use super::call::CallKind;
use super::client::Client;
use super::error::{Error, ExecError, HeldReason, LimitReason};
use super::limiter::{Held, Lane, Permit, Verdict};
use super::retry::{self, Retry};

/// An error that has a cause on the wire.
pub(super) trait Failure: From<Error> {
    fn cause(&self) -> &Error;
}

impl Failure for Error {
    fn cause(&self) -> &Error {
        self
    }
}

impl From<Error> for ExecError {
    /// Of what went wrong before anything was sent.
    fn from(error: Error) -> Self {
        if error.may_have_happened() { Self::Unknown(error) } else { Self::NotStarted(error) }
    }
}

impl Failure for ExecError {
    fn cause(&self) -> &Error {
        self.error()
    }
}

impl Client {
    /// Attempts a call until it succeeds, fails for good, or its time is over. `timeout` is that of one attempt.
    pub(super) async fn attempts<T, E, F>(
        &self,
        kind: CallKind,
        timeout: Duration,
        one: impl FnMut(Duration) -> F,
    ) -> Result<T, E>
    where
        E: Failure,
        F: Future<Output = Result<T, E>>,
    {
        let span = debug_span!("sprites_call", call = kind.as_str(), attempts = field::Empty, outcome = field::Empty);
        self.attempts_in(kind, timeout, one).instrument(span).await
    }

    async fn attempts_in<T, E, F>(
        &self,
        kind: CallKind,
        timeout: Duration,
        mut one: impl FnMut(Duration) -> F,
    ) -> Result<T, E>
    where
        E: Failure,
        F: Future<Output = Result<T, E>>,
    {
        let whole = self.whole(timeout);
        let deadline = after(whole);
        let last_begin = after(self.begins_within(whole));
        let mut attempt = 1;
        let mut last = None;
        loop {
            let permit = match self.turn(kind, last_begin).await {
                Ok(permit) => permit,
                // What the service said says more than that we wait.
                Err(held) => return Err(last.unwrap_or_else(|| E::from(held))),
            };
            let began = Instant::now();
            let result = one(timeout.min(deadline.saturating_duration_since(began))).await;
            self.account(kind, attempt, result.as_ref().map(|_| ()).map_err(Failure::cause), began.elapsed(), permit);
            let error = match result {
                Ok(success) => return Ok(success),
                Err(error) => error,
            };
            let again = retry::again(kind, error.cause(), attempt, rand::random());
            match again.filter(|_| self.retries()) {
                Some(Retry::After(pause)) if Instant::now() + pause < last_begin => sleep(pause).await,
                Some(Retry::Immediately) => {}
                Some(Retry::After(_)) | None => return Err(error),
            }
            if let Some(metrics) = &self.config().metrics {
                metrics.retried(kind, error.cause());
            }
            debug!(attempt, error = %error.cause(), "trying again");
            last = Some(error);
            attempt += 1;
        }
    }

    /// Waits for the call's turn.
    async fn turn(&self, kind: CallKind, deadline: Instant) -> Result<Permit, Error> {
        let priority = self.priority(kind);
        let lane = if kind == CallKind::Create { Lane::Create } else { Lane::Shared(priority) };
        let began = Instant::now();
        let entered = self.limiter().enter(lane, deadline).await;
        let metrics = self.config().metrics.as_ref();
        if let Some(metrics) = metrics {
            metrics.waited(priority, began.elapsed());
            metrics.load(self.limiter().counts());
        }
        entered.map_err(|held| {
            let now = Instant::now();
            let (reason, word, retry_after) = match held {
                Held::Full => (HeldReason::Full, "full", None),
                Held::Paused(until) => (HeldReason::Paused, "paused", Some(until.saturating_duration_since(now))),
                Held::Late => (HeldReason::Late, "late", None),
            };
            if let Some(metrics) = metrics {
                metrics.held(priority, word);
            }
            Error::Held { reason, retry_after: retry_after.filter(|wait| !wait.is_zero()) }
        })
    }

    fn account(&self, kind: CallKind, attempt: u32, outcome: Result<(), &Error>, took: Duration, permit: Permit) {
        permit.leave(verdict(kind, outcome));
        if let Some(metrics) = &self.config().metrics {
            metrics.called(kind, outcome, took);
            metrics.load(self.limiter().counts());
        }
        let span = Span::current();
        span.record("attempts", attempt);
        span.record("outcome", outcome.map_or_else(Error::kind, |()| "ok"));
    }
}

/// A moment so long from now; a year at most, for what is meant as "without end" must not overflow.
fn after(span: Duration) -> Instant {
    const YEAR: Duration = Duration::from_hours(365 * 24);
    Instant::now() + span.min(YEAR)
}

/// What an outcome says about the account as a whole.
fn verdict(kind: CallKind, outcome: Result<(), &Error>) -> Verdict {
    let Err(error) = outcome else { return Verdict::Fine };
    match error {
        Error::RateLimited { reason: LimitReason::CreationRate | LimitReason::Other, retry_after, .. } => {
            Verdict::Refused(*retry_after)
        }
        // What a Sprite answers from inside is its own business: it must not pause the others.
        Error::Unknown { retry_after: Some(wait), .. } if kind.is_of_the_account() => Verdict::Refused(Some(*wait)),
        // "Full" says how many Sprites there may be, not how many calls.
        Error::RateLimited { reason: LimitReason::Capacity, .. }
        | Error::Absent { .. }
        | Error::Denied { .. }
        | Error::Busy { .. }
        | Error::Invalid { status: Some(_), .. }
        | Error::File { .. } => Verdict::Fine,
        Error::Invalid { status: None, .. }
        | Error::Unknown { .. }
        | Error::Protocol { .. }
        | Error::Timeout { .. }
        | Error::Held { .. }
        | Error::NotAwake { .. }
        | Error::Replaced { .. }
        | Error::Token(_)
        | Error::Ended => Verdict::Silent,
    }
}
