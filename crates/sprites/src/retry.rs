//! Whether a call that failed is made once more, and after which pause. PURE. A call that may have changed something is
//! never repeated: that is its caller's decision.

use std::time::Duration;

use super::call::CallKind;
use super::error::{Error, LimitReason};

/// Attempts in all, the first included.
pub(super) const ATTEMPTS: u32 = 3;
/// Attempts in all while the service says "too many": each waits for the shared pause before.
pub(super) const LIMITED_ATTEMPTS: u32 = 6;

/// When to try again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Retry {
    /// After this pause.
    After(Duration),
    /// When the limiter lets it.
    Immediately,
}

/// `attempt` counts from 1; `jitter` is between 0 and 1.
pub(super) fn again(kind: CallKind, error: &Error, attempt: u32, jitter: f64) -> Option<Retry> {
    match error {
        // Refused before anything was done, whatever was asked for.
        Error::RateLimited { reason: LimitReason::CreationRate | LimitReason::Other, .. } => {
            (attempt < LIMITED_ATTEMPTS).then_some(Retry::Immediately)
        }
        // The connection was never made.
        Error::Unknown { sent: false, .. } | Error::Timeout { sent: false, .. } => pause(attempt, 500, jitter),
        Error::Unknown { retry_after: Some(_), .. } if kind.only_reads() && kind.is_of_the_account() => {
            (attempt < LIMITED_ATTEMPTS).then_some(Retry::Immediately)
        }
        // A broken connection, or a proxy's word that something behind it is not there just now.
        Error::Unknown { status: None | Some(408 | 421 | 425 | 502 | 503 | 504), .. } if kind.only_reads() => {
            pause(attempt, 200, jitter)
        }
        // Half a body, or a page of something in between.
        Error::Protocol { .. } if kind.only_reads() => pause(attempt, 200, jitter),
        // A full account is not helped by waiting alone; a timeout took all the time there was.
        Error::RateLimited { reason: LimitReason::Capacity, .. }
        | Error::Unknown { .. }
        | Error::Timeout { sent: true, .. }
        | Error::Absent { .. }
        | Error::Denied { .. }
        | Error::Busy { .. }
        | Error::Invalid { .. }
        | Error::File { .. }
        | Error::Protocol { .. }
        | Error::Held { .. }
        | Error::NotAwake { .. }
        | Error::Replaced { .. }
        | Error::Token(_)
        | Error::Ended => None,
    }
}

/// Doubled with each attempt, plus up to a half at random: callers that failed together do not come back together.
fn pause(attempt: u32, first_millis: u64, jitter: f64) -> Option<Retry> {
    let millis = first_millis << attempt.saturating_sub(1).min(10);
    let pause = Duration::from_millis(millis).mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 2.0);
    (attempt < ATTEMPTS).then_some(Retry::After(pause))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::sanitize::ProviderText;
    use super::*;

    fn unknown(status: Option<u16>, sent: bool, retry_after: Option<u64>) -> Error {
        let retry_after = retry_after.map(Duration::from_secs);
        Error::Unknown { status, sent, retry_after, message: ProviderText::default(), source: None }
    }

    fn limited(reason: LimitReason) -> Error {
        Error::RateLimited { retry_after: None, reason, message: ProviderText::default() }
    }

    fn timeout(sent: bool) -> Error {
        Error::Timeout { after: Duration::from_secs(1), sent }
    }

    const AFTER: Option<&str> = Some("after");
    const TURN: Option<&str> = Some("turn");

    #[rstest]
    #[case::never_connected_read(CallKind::Get, unknown(None, false, None), AFTER)]
    #[case::never_connected_exec(CallKind::ExecStart, unknown(None, false, None), AFTER)]
    #[case::never_connected_create(CallKind::Create, timeout(false), AFTER)]
    #[case::broken_read(CallKind::PolicyGet, unknown(None, true, None), AFTER)]
    #[case::broken_exec(CallKind::ExecStart, unknown(None, true, None), None)]
    #[case::broken_create(CallKind::Create, unknown(None, true, None), None)]
    #[case::broken_delete(CallKind::Delete, unknown(None, true, None), None)]
    #[case::broken_policy(CallKind::PolicySet, unknown(None, true, None), None)]
    #[case::broken_kill(CallKind::Kill, unknown(None, true, None), None)]
    #[case::broken_attach(CallKind::ExecAttach, unknown(None, true, None), AFTER)]
    #[case::gateway_read(CallKind::List, unknown(Some(502), true, None), AFTER)]
    #[case::gateway_exec(CallKind::ExecStart, unknown(Some(502), true, None), None)]
    #[case::a_500_is_no_gateway(CallKind::Get, unknown(Some(500), true, None), None)]
    #[case::overload_read(CallKind::Get, unknown(Some(503), true, Some(1)), TURN)]
    #[case::overload_exec(CallKind::ExecStart, unknown(Some(503), true, Some(1)), None)]
    #[case::timed_out_read(CallKind::Get, timeout(true), None)]
    #[case::limited_read(CallKind::Get, limited(LimitReason::Other), TURN)]
    #[case::limited_exec(CallKind::ExecStart, limited(LimitReason::Other), TURN)]
    #[case::limited_create(CallKind::Create, limited(LimitReason::CreationRate), TURN)]
    #[case::full(CallKind::Create, limited(LimitReason::Capacity), None)]
    #[case::full_exec(CallKind::ExecStart, limited(LimitReason::Capacity), None)]
    #[case::violation_read(CallKind::Get, Error::Protocol { what: "x" }, AFTER)]
    #[case::violation_create(CallKind::Create, Error::Protocol { what: "x" }, None)]
    fn only_what_did_nothing_is_done_again(
        #[case] kind: CallKind,
        #[case] error: Error,
        #[case] expected: Option<&str>,
    ) {
        let word = again(kind, &error, 1, 0.5).map(|again| match again {
            Retry::After(_) => "after",
            Retry::Immediately => "turn",
        });
        assert_eq!(word, expected);
    }

    #[test]
    fn pauses_double_and_end() {
        let error = unknown(None, false, None);
        let pauses: Vec<_> = (1..=4).map(|attempt| again(CallKind::Get, &error, attempt, 0.0)).collect();
        let millis = |millis| Some(Retry::After(Duration::from_millis(millis)));
        assert_eq!(pauses, [millis(500), millis(1000), None, None]);
        assert_eq!(again(CallKind::Get, &error, 1, 1.0), millis(750));
        assert_eq!(again(CallKind::Get, &limited(LimitReason::Other), LIMITED_ATTEMPTS, 0.0), None);
    }
}
