//! The tables of what an execution showed.

use rstest::rstest;
use sprites::{LimitReason, ProviderText};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

fn never(word: &str) -> NotSent {
    NotSent::Never(word.to_owned())
}

#[rstest]
#[case("a new proof", None, 0, true, 15, Next::Send(SECOND * 5))]
#[case("an old one, with time for an answer", None, 3, true, 15, Next::Send(SECOND * 2))]
#[case("one that is good for less than an answer may take", None, 4, true, 15, Next::ProveAgain)]
#[case("too short for an answer", None, 5, true, 15, Next::ProveAgain)]
#[case("too old", None, 60, true, 15, Next::ProveAgain)]
#[case("no Lease now", None, 1, false, 15, Next::Wait)]
#[case("no Lease in time", None, 1, false, 0, Next::Not(never("the operator is about to lose its Lease")))]
#[case("its time to start is over", None, 1, true, 0, Next::Not(never("it could not be sent in time")))]
#[case("a stop", Some(Stop::Cancel), 1, true, 15, Next::Not(NotSent::Stopped(Stop::Cancel)))]
#[case(
    "a stop says most, whatever else is wrong",
    Some(Stop::KillSwitch),
    9,
    false,
    0,
    Next::Not(NotSent::Stopped(Stop::KillSwitch))
)]
fn an_exec_is_sent_with_a_fresh_proof_and_a_lease_and_in_time_or_never(
    #[case] name: &str,
    #[case] stop: Option<Stop>,
    #[case] age: u32,
    #[case] has_lease: bool,
    #[case] left: u32,
    #[case] expected: Next,
) {
    assert_eq!(next(stop, SECOND * age, has_lease, SECOND * left), expected, "{name}");
}

fn said() -> ProviderText {
    ProviderText::new("said", None)
}

fn limited(reason: LimitReason) -> Error {
    Error::RateLimited { retry_after: None, reason, message: said() }
}

fn unknown(sent: bool) -> Error {
    Error::Unknown { status: None, sent, retry_after: None, message: said(), source: None }
}

fn gateway(status: u16) -> Error {
    Error::Unknown { status: Some(status), sent: true, retry_after: None, message: said(), source: None }
}

fn again(millis: u64) -> Refusal {
    Refusal::Again(Duration::from_millis(millis))
}

fn refused(kind: &str) -> Refusal {
    Refusal::Never(format!("the platform refused the exec ({kind})"))
}

fn unreachable(kind: &str) -> Refusal {
    Refusal::Never(format!("the platform could not be reached ({kind})"))
}

/// What may have begun is never tried again; what was not sent is, twice.
#[rstest]
#[case("not connected", ExecError::NotStarted(unknown(false)), 0, again(500))]
#[case("twice", ExecError::NotStarted(unknown(false)), 1, again(1000))]
#[case("three times", ExecError::NotStarted(unknown(false)), 2, unreachable("unknown"))]
#[case("a token that was rotated", ExecError::NotStarted(Error::Denied { status: 401, message: said() }), 9, again(2000))]
#[case("the same at the handshake", ExecError::Refused(Error::Denied { status: 401, message: said() }), 0, again(2000))]
#[case("429", ExecError::Refused(limited(LimitReason::Other)), 0, again(500))]
#[case("429 for ever", ExecError::Refused(limited(LimitReason::CreationRate)), 2, unreachable("rate_limited"))]
#[case("the account is full", ExecError::Refused(limited(LimitReason::Capacity)), 0, refused("capacity"))]
#[case("no such Sprite", ExecError::Refused(Error::Absent { message: said() }), 0, refused("absent"))]
#[case("a bad request: perhaps there is no runner", ExecError::Refused(Error::Invalid { status: Some(400), message: said() }), 0, Refusal::NoRunner)]
#[case("no answer", ExecError::Unknown(Error::Timeout { after: SECOND, sent: true }), 0, Refusal::Unknown)]
#[case("a gateway's answer", ExecError::Refused(gateway(502)), 0, Refusal::Unknown)]
#[case("a gateway's answer, late", ExecError::Refused(gateway(504)), 2, Refusal::Unknown)]
fn an_exec_that_was_refused_is_tried_again_only_when_nothing_can_have_begun(
    #[case] name: &str,
    #[case] error: ExecError,
    #[case] tried: usize,
    #[case] expected: Refusal,
) {
    assert_eq!(after_refusal(&error, tried), expected, "{name}");
}

/// A command that was to end at second 100.
#[rstest]
#[case("lost early", RecoveryWindow::Short, 10, 115)]
#[case("lost at its end", RecoveryWindow::Short, 100, 25)]
#[case("long ago", RecoveryWindow::Short, 500, 0)]
#[case("adopted early", RecoveryWindow::AfterOutage, 10, 180)]
#[case("adopted at its end", RecoveryWindow::AfterOutage, 100, 90)]
#[case("adopted once more: what others waited counts", RecoveryWindow::AfterOutage, 160, 30)]
#[case("adopted after a long outage: one try", RecoveryWindow::AfterOutage, 9_000, 20)]
fn an_end_is_looked_for_within_the_bound_of_a_run_and_after_an_outage_a_minute_more(
    #[case] name: &str,
    #[case] window: RecoveryWindow,
    #[case] now: i64,
    #[case] seconds: u32,
) {
    assert_eq!(recovery_deadline(window, at(100), at(now)), SECOND * seconds, "{name}");
    assert!(recovery_deadline(window, Timestamp::MAX, at(now)) > SECOND * 1_000_000, "{name}: no overflow");
}
