//! Durations as clients spell them: Go's (`1m30s`, `1.5s`, `500ms`) or a bare number of seconds. Pure.

use std::time::Duration;

/// Longer than any wait that makes sense; keeps sums with `Instant` from overflowing.
const LONGEST: f64 = 10.0 * 365.0 * 86_400.0;

/// Parses a duration; `None` when it is none, negative or absurd.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || !b.is_ascii()) {
        return None;
    }
    let total = if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        text.parse::<f64>().ok()?
    } else {
        go_seconds(text)?
    };
    (total.is_finite() && (0.0..=LONGEST).contains(&total)).then(|| Duration::from_secs_f64(total))
}

fn go_seconds(mut rest: &str) -> Option<f64> {
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !(c.is_ascii_digit() || c == '.'))?;
        let (number, tail) = rest.split_at_checked(digits)?;
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(unit_end)?;
        let scale = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * scale;
        rest = tail;
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("0", Some(0))]
    #[case("0s", Some(0))]
    #[case("10s", Some(10_000))]
    #[case("5.0s", Some(5_000))]
    #[case("1m30s", Some(90_000))]
    #[case("1h", Some(3_600_000))]
    #[case("250ms", Some(250))]
    #[case("7", Some(7_000))]
    #[case("1.5", Some(1_500))]
    #[case("", None)]
    #[case("s", None)]
    #[case("-1s", None)]
    #[case("1d", None)]
    #[case("1s1", None)]
    #[case("1e9", None)]
    #[case("nan", None)]
    #[case("inf", None)]
    #[case("999999999999h", None)]
    fn durations(#[case] text: &str, #[case] milliseconds: Option<u64>) {
        assert_eq!(parse(text), milliseconds.map(Duration::from_millis));
    }

    proptest! {
        #[test]
        fn never_panics(text in ".*") {
            let _ = parse(&text);
        }

        #[test]
        fn go_spelling_round_trips(h in 0u64..100, m in 0u64..60, s in 0u64..60) {
            prop_assert_eq!(parse(&format!("{h}h{m}m{s}s")), Some(Duration::from_secs(h * 3600 + m * 60 + s)));
        }
    }
}
