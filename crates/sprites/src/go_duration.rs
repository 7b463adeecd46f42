//! Durations as Go writes them, for query parameters. Pure.

use std::time::Duration;

/// A duration as Go writes it, rounded up to the millisecond. Never `0`: that means "for ever" on this wire.
pub(super) fn go_duration(duration: Duration) -> String {
    let millis = duration.as_nanos().div_ceil(1_000_000).max(1);
    if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
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

    proptest! {
        #[test]
        fn durations_never_say_for_ever(nanos in 0_u64..) {
            let text = go_duration(Duration::from_nanos(nanos));
            prop_assert!(!text.starts_with('0'));
        }
    }
}
