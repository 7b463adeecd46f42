//! How long the other side asks to wait. Pure.

use std::time::Duration;

use jiff::Timestamp;

/// A wait longer than this is a mistake of the other side; we ask again then.
const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(10);

/// How long to wait, from `retry_after_seconds` of the body if that is usable, else from the `Retry-After` header (seconds
/// or an HTTP date). Zero, negative, past and unreadable values are `None`: the caller's own back-off counts then, so a
/// careless server cannot make us spin. More than ten minutes is cut to ten minutes.
pub(super) fn retry_after(body_seconds: Option<f64>, header: Option<&str>, now: Timestamp) -> Option<Duration> {
    let from_body = body_seconds.and_then(positive);
    from_body
        .or_else(|| header.and_then(|text| from_header(text.trim(), now)))
        .map(|wait| wait.min(LONGEST_RETRY_AFTER))
}

fn from_header(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return positive(seconds);
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Duration::try_from(date.duration_since(now)).ok().filter(|wait| !wait.is_zero())
}

fn positive(seconds: f64) -> Option<Duration> {
    if seconds.is_nan() {
        return None;
    }
    // Cut first: a huge number is no error, and fits no Duration.
    let seconds = seconds.min(LONGEST_RETRY_AFTER.as_secs_f64());
    Duration::try_from_secs_f64(seconds).ok().filter(|wait| !wait.is_zero())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::seconds(None, Some("120"), Some(120))]
    #[case::date(None, Some("Wed, 21 Oct 2026 07:28:00 GMT"), Some(60))]
    #[case::past_date(None, Some("Wed, 21 Oct 2015 07:28:00 GMT"), None)]
    #[case::zero(None, Some("0"), None)]
    #[case::negative(None, Some("-5"), None)]
    #[case::absurd(None, Some("999999"), Some(600))]
    #[case::infinite(None, Some("inf"), Some(600))]
    #[case::not_a_number(None, Some("NaN"), None)]
    #[case::words(None, Some("soon"), None)]
    #[case::none(None, None, None)]
    #[case::body_wins(Some(7.0), Some("120"), Some(7))]
    #[case::useless_body(Some(0.0), Some("120"), Some(120))]
    #[case::absurd_body(Some(1e300), None, Some(600))]
    fn waits_are_bounded_and_never_zero(
        #[case] body: Option<f64>,
        #[case] header: Option<&str>,
        #[case] seconds: Option<u64>,
    ) {
        let now = "2026-10-21T07:27:00Z".parse().unwrap();
        assert_eq!(retry_after(body, header, now), seconds.map(Duration::from_secs));
    }

    #[rstest]
    #[case::years_ahead("2036-10-21T07:27:00Z", None)]
    #[case::years_behind("1990-01-01T00:00:00Z", Some(600))]
    #[case::at_the_beginning("-009999-01-02T01:59:59Z", Some(600))]
    #[case::at_the_end("9999-12-30T22:00:00Z", None)]
    fn a_clock_that_is_wrong_makes_no_wait_longer_than_the_longest(#[case] now: &str, #[case] seconds: Option<u64>) {
        let wait = retry_after(None, Some("Wed, 21 Oct 2026 07:28:00 GMT"), now.parse().unwrap());
        assert_eq!(wait, seconds.map(Duration::from_secs));
    }
}
