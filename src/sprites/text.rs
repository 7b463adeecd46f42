//! Small notations of the wire: foreign text made harmless, Go durations, Retry-After. Pure.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

/// How much of a foreign text is kept, in characters.
const KEPT: usize = 200;

/// A wait longer than this is a mistake of the other side; we ask again then.
pub(super) const LONGEST_RETRY_AFTER: Duration = Duration::from_mins(10);

/// Text written by the Sprites API or something that answers in its place: at most 200 characters, one line, nothing that
/// a terminal or a log reader obeys. For operators; never for a status that tenants read.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct ProviderText(String);

impl ProviderText {
    /// Cuts and escapes; `secret`, if given, is removed wherever it stands.
    pub(super) fn new(text: &str, secret: Option<&str>) -> Self {
        let text = text.trim();
        match secret.filter(|secret| !secret.is_empty() && text.contains(secret)) {
            Some(secret) => Self(harmless(&text.replace(secret, "[redacted]"))),
            None => Self(harmless(text)),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProviderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ProviderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

fn harmless(text: &str) -> String {
    let mut kept = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == KEPT {
            kept.push('…');
            break;
        }
        if character.is_control() || steers_display(character) {
            kept.extend(character.escape_default());
        } else {
            kept.push(character);
        }
    }
    kept
}

/// Invisible characters that turn or hide what a reader sees.
fn steers_display(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// A duration as Go writes it, rounded up to the millisecond. Never `0`: that means "for ever" on this wire.
pub(super) fn go_duration(duration: Duration) -> String {
    let millis = duration.as_nanos().div_ceil(1_000_000).max(1);
    if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
}

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
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(Duration::from_mins(1), "60s")]
    #[case(Duration::from_hours(1), "3600s")]
    #[case(Duration::from_millis(1500), "1500ms")]
    #[case(Duration::from_micros(1), "1ms")]
    #[case::never_for_ever(Duration::ZERO, "1ms")]
    fn durations_are_written_as_go_reads_them(#[case] duration: Duration, #[case] text: &str) {
        assert_eq!(go_duration(duration), text);
    }

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

    #[test]
    fn the_secret_is_removed_before_the_cut() {
        let text = format!("{}tok-12345 and tok-12345", "x".repeat(195));
        let kept = ProviderText::new(&text, Some("tok-12345"));
        assert!(!kept.as_str().contains("tok-1"));
    }

    proptest! {
        #[test]
        fn foreign_text_is_one_short_harmless_line(text in any::<String>()) {
            let kept = ProviderText::new(&text, None);
            // The longest escape of one character is ten characters (`\u{e0001}`).
            prop_assert!(kept.as_str().chars().count() <= KEPT * 10 + 1);
            prop_assert!(!kept.as_str().chars().any(|c| c.is_control() || steers_display(c)));
        }

        #[test]
        fn durations_never_say_for_ever(nanos in 0_u64..) {
            let text = go_duration(Duration::from_nanos(nanos));
            prop_assert!(!text.starts_with('0'));
        }
    }
}
