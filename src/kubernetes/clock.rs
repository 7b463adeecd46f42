//! The API server's clock, by the `Date` of its answers: deadlines and stamps are compared in it, since objects carry its times.
//!
//! `Date` has steps of a second (RFC 9110, 6.6.1), so each answer gives a bound: the server's clock was less than a second past
//! it. The least bound of a window comes closest. A local clock that is right within a step is left as it is. Must not step back
//! and forth with each answer.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use k8s_openapi::jiff::{SignedDuration, Timestamp, fmt::rfc2822};
use kube::{Client, client::Body};
use tokio::time::timeout;

/// Between two looks.
pub const INTERVAL: Duration = Duration::from_secs(10);
/// How long an answer may take: what took longer says too little.
const ANSWERED_WITHIN: Duration = Duration::from_secs(2);
/// How many answers are considered.
const WINDOW: usize = 6;
/// Within this the two clocks are the same.
const STEP: SignedDuration = SignedDuration::from_secs(2);
/// Beyond this the log has a warning.
const TOLD: SignedDuration = SignedDuration::from_secs(30);

/// The clock.
#[derive(Debug, Default)]
pub struct Clock {
    offset_ms: AtomicI64,
    bounds: Mutex<VecDeque<SignedDuration>>,
}

impl Clock {
    /// The API server's time, as far as it is known.
    pub fn now(&self) -> Timestamp {
        let offset = SignedDuration::from_millis(self.offset_ms.load(Ordering::Relaxed));
        let local = Timestamp::now();
        local.checked_add(offset).unwrap_or(local)
    }

    /// What an answer says that was received then. Returns by how much the local clock is wrong now.
    fn heard(&self, date: Timestamp, received: Timestamp) -> SignedDuration {
        let mut bounds = self.bounds.lock().unwrap_or_else(PoisonError::into_inner);
        bounds.push_back(date.duration_since(received).saturating_add(SignedDuration::from_secs(1)));
        if bounds.len() > WINDOW {
            bounds.pop_front();
        }
        let least = bounds.iter().min().copied().unwrap_or_default();
        let offset = if least.abs() <= STEP { SignedDuration::ZERO } else { least };
        let millis = i64::try_from(offset.as_millis()).unwrap_or_default();
        self.offset_ms.store(millis, Ordering::Relaxed);
        offset
    }

    /// Looks once.
    pub async fn look(&self, client: &Client) {
        let Some((date, received)) = read(client).await else { return };
        let before = SignedDuration::from_millis(self.offset_ms.load(Ordering::Relaxed));
        let offset = self.heard(date, received);
        if (offset.abs() > TOLD) != (before.abs() > TOLD) {
            if offset.abs() > TOLD {
                let seconds = offset.as_secs();
                tracing::warn!(
                    seconds,
                    "the clock here differs from the API server's, which is used; set this one right"
                );
            } else {
                tracing::info!("the clock here agrees with the API server's again");
            }
        }
    }
}

/// The `Date` of an answer, and when that was received.
async fn read(client: &Client) -> Option<(Timestamp, Timestamp)> {
    let request = http::Request::get("/version").body(Body::empty()).ok()?;
    let answer = timeout(ANSWERED_WITHIN, client.send(request)).await.ok()?.ok()?;
    let received = Timestamp::now();
    let date = answer.headers().get(http::header::DATE)?.to_str().ok()?;
    let date = rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(date).ok()?;
    Some((date, received))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_000_000_000 + millis).unwrap()
    }

    /// Answers of a server whose clock is ahead by so many milliseconds, at moments of the local clock.
    fn after(ahead: i64, moments: &[i64]) -> SignedDuration {
        let clock = Clock::default();
        let mut offset = SignedDuration::ZERO;
        for moment in moments {
            let server = at(moment + ahead);
            let date = Timestamp::from_second(server.as_second()).unwrap();
            offset = clock.heard(date, at(*moment));
        }
        let told = clock.now().duration_since(Timestamp::now()).as_secs();
        assert!((told - offset.as_secs()).abs() <= 1, "{told} {offset:?}");
        offset
    }

    #[rstest]
    #[case::right(0, 0)]
    #[case::right_within_a_step(900, 0)]
    #[case::an_hour_behind(3_600_000, 3_600_000)]
    #[case::an_hour_ahead(-3_600_000, -3_600_000)]
    #[case::ten_seconds(10_000, 10_000)]
    fn the_servers_clock_is_known_within_a_second(#[case] ahead: i64, #[case] expected: i64) {
        let offset = after(ahead, &[0, 10_130, 20_420, 30_870, 40_990, 50_555]);
        let millis = i64::try_from(offset.as_millis()).unwrap();
        assert!((millis - expected).abs() <= 1_000, "{millis} for {ahead}");
    }

    #[test]
    fn a_clock_that_was_set_right_is_believed_after_a_window() {
        let clock = Clock::default();
        for n in 0..10 {
            clock.heard(at(3_600_000 + n * 10_000), at(n * 10_000));
        }
        let mut offset = SignedDuration::MAX;
        for n in 10..10 + i64::try_from(WINDOW).unwrap() {
            offset = clock.heard(at(n * 10_000), at(n * 10_000));
        }
        assert_eq!(offset, SignedDuration::ZERO);
    }
}
