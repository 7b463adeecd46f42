//! The tables of what an execution showed.

use api::reasons::{RunPhase, RunReason};
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
#[case("a new proof", None, 0, true, Ok(5))]
#[case("as old as it may be", None, 5, true, Ok(0))]
#[case("a little too old", None, 6, true, Err(never("the proof of lockdown had become too old")))]
#[case("no Lease", None, 1, false, Err(never("the operator is about to lose its Lease")))]
#[case("a stop", Some(Stop::Cancel), 1, true, Err(NotSent::Stopped(Stop::Cancel)))]
#[case(
    "a stop says most, whatever else is wrong",
    Some(Stop::KillSwitch),
    9,
    false,
    Err(NotSent::Stopped(Stop::KillSwitch))
)]
fn an_exec_is_sent_with_a_fresh_proof_and_a_lease_or_never(
    #[case] name: &str,
    #[case] stop: Option<Stop>,
    #[case] age: u32,
    #[case] has_lease: bool,
    #[case] expected: Result<u32, NotSent>,
) {
    assert_eq!(may_send(stop, SECOND * age, has_lease), expected.map(|seconds| SECOND * seconds), "{name}");
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
#[case("no token", ExecError::NotStarted(Error::Denied { status: 401, message: said() }), 2, unreachable("denied"))]
#[case("429", ExecError::Refused(limited(LimitReason::Other)), 0, again(500))]
#[case("429 for ever", ExecError::Refused(limited(LimitReason::CreationRate)), 2, unreachable("rate_limited"))]
#[case("the account is full", ExecError::Refused(limited(LimitReason::Capacity)), 0, refused("capacity"))]
#[case("no such Sprite", ExecError::Refused(Error::Absent { message: said() }), 0, refused("absent"))]
#[case("a bad request", ExecError::Refused(Error::Invalid { status: Some(400), message: said() }), 0, refused("invalid"))]
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

#[rstest]
#[case("its own end", Some(0), None, false)]
#[case("its own failure", Some(127), None, false)]
#[case("a signal: its runner may be dead", Some(137), None, true)]
#[case("the least of them", Some(128), None, true)]
#[case("told to stop, and it ended by itself", Some(0), Some(Stop::Cancel), true)]
#[case("the connection is lost: adoption looks", None, None, false)]
#[case("lost after a stop: adoption kills", None, Some(Stop::Timeout), false)]
fn what_may_have_left_something_is_swept(
    #[case] name: &str,
    #[case] exit: Option<u8>,
    #[case] stop: Option<Stop>,
    #[case] expected: bool,
) {
    assert_eq!(needs_sweep(exit, stop), expected, "{name}");
}

/// A command that was to end at second 100.
#[rstest]
#[case("lost early", RecoveryWindow::Short, 10, 115)]
#[case("lost at its end", RecoveryWindow::Short, 100, 25)]
#[case("long ago", RecoveryWindow::Short, 500, 0)]
#[case("adopted early", RecoveryWindow::AfterOutage, 10, 120)]
#[case("adopted at its end: at least a minute", RecoveryWindow::AfterOutage, 100, 60)]
#[case("adopted after a long outage", RecoveryWindow::AfterOutage, 9_000, 60)]
fn an_end_is_looked_for_within_the_bound_of_a_run_and_after_an_outage_for_a_minute(
    #[case] name: &str,
    #[case] window: RecoveryWindow,
    #[case] now: i64,
    #[case] seconds: u32,
) {
    assert_eq!(recovery_deadline(window, at(100), at(now)), SECOND * seconds, "{name}");
    assert!(recovery_deadline(window, Timestamp::MAX, at(now)) > SECOND * 1_000_000, "{name}: no overflow");
}

/// A command of 30 s that ended by itself and left its record; each row says what is otherwise.
fn seen(guard: &Guard) -> Recovered<'_> {
    Recovered {
        guard,
        end: ExecEnd::Gone,
        stopped: None,
        asked: None,
        seen_started: false,
        over_cap: Some(false),
        timeout: SECOND * 30,
    }
}

fn record(code: u8, seconds: u32) -> Guard {
    Guard::Record { code, ran: SECOND * seconds }
}

type Change = fn(&mut Recovered<'_>);

#[rstest]
#[case("ended well", record(0, 1), |_: &mut Recovered<'_>| (), RunReason::Completed, Evidence::GuestRecord, false)]
#[case("the frame came, too", record(3, 1), |seen: &mut Recovered<'_>| seen.end = ExecEnd::Exit(3), RunReason::NonZeroExit, Evidence::ExitFrame, false)]
#[case("the frame says otherwise", record(0, 1), |seen: &mut Recovered<'_>| seen.end = ExecEnd::Exit(3), RunReason::Completed, Evidence::GuestRecord, false)]
#[case("its output cannot be read", record(0, 1), |seen: &mut Recovered<'_>| seen.over_cap = None, RunReason::Completed, Evidence::GuestRecord, true)]
#[case("too much output", record(0, 1), |seen: &mut Recovered<'_>| seen.over_cap = Some(true), RunReason::OutputLimitExceeded, Evidence::GuestRecord, false)]
#[case("killed for its time", record(143, 30), |seen: &mut Recovered<'_>| seen.end = ExecEnd::Killed, RunReason::Timeout, Evidence::GuestRecord, false)]
#[case("killed by the guest's backstop", record(137, 35), |_: &mut Recovered<'_>| (), RunReason::Timeout, Evidence::GuestRecord, false)]
#[case("killed by nobody of us", record(137, 1), |_: &mut Recovered<'_>| (), RunReason::Killed, Evidence::GuestRecord, false)]
#[case("cancelled, and the kill was sent", record(143, 1), |seen: &mut Recovered<'_>| seen.asked = Some(Stop::Cancel), RunReason::CancelRequested, Evidence::GuestRecord, false)]
#[case("cancelled after it had ended", record(0, 1), |seen: &mut Recovered<'_>| seen.asked = Some(Stop::Cancel), RunReason::Completed, Evidence::GuestRecord, false)]
#[case("stopped before the connection was lost", record(137, 1), |seen: &mut Recovered<'_>| seen.stopped = Some(Stop::KillSwitch), RunReason::KillSwitch, Evidence::GuestRecord, false)]
#[case("it had ended when it was stopped", record(0, 1), |seen: &mut Recovered<'_>| seen.stopped = Some(Stop::KillSwitch), RunReason::Completed, Evidence::GuestRecord, false)]
#[case("it had ended when its time seemed to be over: the connection had died", record(0, 4), |seen: &mut Recovered<'_>| { seen.stopped = Some(Stop::Timeout); seen.end = ExecEnd::Killed; }, RunReason::Completed, Evidence::GuestRecord, false)]
#[case("it failed by itself before", record(3, 4), |seen: &mut Recovered<'_>| seen.stopped = Some(Stop::Timeout), RunReason::NonZeroExit, Evidence::GuestRecord, false)]
#[case("the first stop counts", record(143, 1), |seen: &mut Recovered<'_>| { seen.stopped = Some(Stop::Timeout); seen.asked = Some(Stop::Cancel); }, RunReason::Timeout, Evidence::GuestRecord, false)]
#[case("no record", Guard::Started, |_: &mut Recovered<'_>| (), RunReason::OutcomeUnknown, Evidence::None, true)]
#[case("no record, though a kill was confirmed", Guard::Started, |seen: &mut Recovered<'_>| seen.end = ExecEnd::Killed, RunReason::OutcomeUnknown, Evidence::None, true)]
#[case("fenced", Guard::Never, |seen: &mut Recovered<'_>| seen.over_cap = None, RunReason::NotStarted, Evidence::None, true)]
#[case("fenced after a cancel", Guard::Never, |seen: &mut Recovered<'_>| { seen.asked = Some(Stop::Cancel); seen.over_cap = None; }, RunReason::CancelRequested, Evidence::None, true)]
#[case("fenced, though it was seen to start", Guard::Never, |seen: &mut Recovered<'_>| seen.seen_started = true, RunReason::OutcomeUnknown, Evidence::None, true)]
fn what_became_of_a_command_is_told_by_its_guard(
    #[case] name: &str,
    #[case] guard: Guard,
    #[case] change: Change,
    #[case] reason: RunReason,
    #[case] evidence: Evidence,
    #[case] incomplete: bool,
) {
    let mut seen = seen(&guard);
    change(&mut seen);
    let (outcome, missing) = recovered(&seen);
    assert_eq!((outcome.reason, outcome.evidence, missing), (reason, evidence, incomplete), "{name}");
    // What cannot be known is never called a success, and what never started never an end.
    if guard == Guard::Started || (guard == Guard::Never && seen.seen_started) {
        assert_eq!(outcome.phase, RunPhase::Unknown, "{name}");
    }
    assert_eq!(outcome.never_started, guard == Guard::Never && !seen.seen_started, "{name}");
}
