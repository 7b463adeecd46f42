//! The tables of outcomes.

use rstest::rstest;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const STOPS: [Option<Stop>; 11] = [
    None,
    Some(Stop::Timeout),
    Some(Stop::OutputLimit),
    Some(Stop::Cancel),
    Some(Stop::KillSwitch),
    Some(Stop::Suspended),
    Some(Stop::PolicySuspended),
    Some(Stop::Held),
    Some(Stop::TenantDisabled),
    Some(Stop::Deleted),
    Some(Stop::SessionDeleted),
];

fn record(code: u8, by: Cause, seconds: u32) -> Record {
    Record { code, by, ran: SECOND * seconds, ended: 0, remaining: 0, stdout: None, stderr: None }
}

/// A command of 30 s that ended in band, after a second.
fn in_band(record: Record) -> Seen<'static> {
    let took = Some(record.ran);
    Seen { exit: Some(record.code), started: true, took, line: Some(record), timeout: SECOND * 30, ..Seen::default() }
}

fn adopted(guard: &Guard) -> Seen<'_> {
    Seen { guard: Some(guard), timeout: SECOND * 30, ..Seen::default() }
}

fn outcome(seen: &Seen<'_>) -> Outcome {
    let Verdict::Final(outcome) = judge(seen) else { panic!("not final: {seen:?}") };
    sound(&outcome);
    outcome
}

/// What holds for every outcome, whatever happened.
fn sound(outcome: &Outcome) {
    let Outcome { phase, reason, message, exit_code, evidence, never_started } = outcome;
    assert!(super::super::phases(*reason).contains(phase), "{outcome:?}");
    assert!(phase.is_terminal() && *phase != RunPhase::Denied && !message.is_empty(), "{outcome:?}");
    // No exit code without evidence, and no evidence without one.
    assert_eq!(exit_code.is_some(), *evidence != Evidence::None, "{outcome:?}");
    assert!(exit_code.is_none() || !never_started, "{outcome:?}");
    assert_eq!(*phase == RunPhase::Succeeded, *exit_code == Some(0) && *reason == RunReason::Completed, "{outcome:?}");
    assert!(*phase != RunPhase::Unknown || (exit_code.is_none() && !never_started), "{outcome:?}");
    assert!(*reason != RunReason::NotStarted || *never_started, "a NotStarted Run is not charged: {outcome:?}");
}

type Change = fn(&mut Seen<'_>);

/// The same record means the same, whether it came in band or was found at the guard: with a crash and without.
#[rstest]
#[case("ended well", record(0, Cause::Script, 1), None, RunReason::Completed)]
#[case("failed by itself", record(3, Cause::Script, 1), None, RunReason::NonZeroExit)]
#[case("by a signal of its own", record(139, Cause::Script, 1), None, RunReason::NonZeroExit)]
#[case("killed, and not by us", record(137, Cause::Script, 1), None, RunReason::Killed)]
#[case("its own end, though a stop was sent", record(0, Cause::Script, 1), Some(Stop::Timeout), RunReason::Completed)]
#[case(
    "its own failure, though a stop was sent",
    record(3, Cause::Script, 1),
    Some(Stop::Cancel),
    RunReason::NonZeroExit
)]
#[case(
    "its own 143, though a stop was sent",
    record(143, Cause::Script, 1),
    Some(Stop::KillSwitch),
    RunReason::NonZeroExit
)]
#[case("its timeout, killed", record(137, Cause::Timeout, 30), None, RunReason::Timeout)]
#[case("its timeout, and it cleaned up", record(0, Cause::Timeout, 30), None, RunReason::Timeout)]
#[case(
    "its timeout, and the operator's timer, too",
    record(143, Cause::Timeout, 30),
    Some(Stop::Timeout),
    RunReason::Timeout
)]
#[case("its timeout came before the cancel", record(143, Cause::Timeout, 30), Some(Stop::Cancel), RunReason::Timeout)]
#[case("the backstop", record(137, Cause::Backstop, 37), None, RunReason::Timeout)]
#[case("too much output", record(143, Cause::Overflow, 1), None, RunReason::OutputLimitExceeded)]
#[case(
    "too much output before a stop",
    record(143, Cause::Overflow, 1),
    Some(Stop::Cancel),
    RunReason::OutputLimitExceeded
)]
#[case("cancelled", record(143, Cause::Stop, 1), Some(Stop::Cancel), RunReason::CancelRequested)]
#[case(
    "cancelled, and it ended with 0 on TERM",
    record(0, Cause::Stop, 1),
    Some(Stop::Cancel),
    RunReason::CancelRequested
)]
#[case("the switch", record(137, Cause::Stop, 1), Some(Stop::KillSwitch), RunReason::KillSwitch)]
#[case("suspended", record(137, Cause::Stop, 1), Some(Stop::Suspended), RunReason::Suspended)]
#[case("held", record(137, Cause::Stop, 1), Some(Stop::Held), RunReason::Held)]
#[case("its policy suspended", record(137, Cause::Stop, 1), Some(Stop::PolicySuspended), RunReason::PolicySuspended)]
#[case("its namespace opted out", record(137, Cause::Stop, 1), Some(Stop::TenantDisabled), RunReason::TenantDisabled)]
#[case("deleted", record(137, Cause::Stop, 1), Some(Stop::Deleted), RunReason::Deleted)]
#[case("its session deleted", record(137, Cause::Stop, 1), Some(Stop::SessionDeleted), RunReason::SessionDeleted)]
#[case("stopped by nobody of us", record(143, Cause::Stop, 1), None, RunReason::Killed)]
#[case("stopped at its time by an older runner", record(137, Cause::Stop, 30), None, RunReason::Timeout)]
#[case("a part of the runner killed", record(137, Cause::RunnerKilled, 1), None, RunReason::Killed)]
#[case(
    "the front killed after a stop",
    record(137, Cause::RunnerKilled, 1),
    Some(Stop::KillSwitch),
    RunReason::KillSwitch
)]
fn a_record_says_how_it_ended_wherever_it_was_found(
    #[case] name: &str,
    #[case] record: Record,
    #[case] stop: Option<Stop>,
    #[case] reason: RunReason,
) {
    let starter = outcome(&Seen { stop, ..in_band(record) });
    assert_eq!(
        (starter.reason, starter.evidence, starter.exit_code),
        (reason, Evidence::ExitFrame, Some(record.code)),
        "{name}"
    );
    let guard = Guard::Ended(record);
    let adopter = outcome(&Seen { stop, ..adopted(&guard) });
    assert_eq!(Outcome { evidence: Evidence::ExitFrame, ..adopter.clone() }, starter, "{name}");
    assert_eq!(adopter.evidence, Evidence::GuestRecord, "{name}");
    let with_frame = outcome(&Seen { stop, exit: Some(record.code), ..adopted(&guard) });
    assert_eq!(with_frame, starter, "{name}: the frame came, the line did not");
    // The message names a stop that did not end the command.
    let told = starter.message.contains("a stop was requested");
    assert_eq!(told, stop.is_some() && record.by == Cause::Script, "{name}: {}", starter.message);
}

#[rstest]
#[case("no line", |seen: &mut Seen<'_>| seen.line = None)]
#[case("no frame", |seen: &mut Seen<'_>| seen.exit = None)]
#[case("no marker", |seen: &mut Seen<'_>| seen.started = false)]
#[case("another code in the frame", |seen: &mut Seen<'_>| seen.exit = Some(1))]
#[case("it says to have run longer than there was time", |seen: &mut Seen<'_>| seen.took = Some(Duration::ZERO))]
#[case("nothing at all", |seen: &mut Seen<'_>| *seen = Seen { timeout: seen.timeout, ..Seen::default() })]
fn without_a_frame_and_a_line_that_agree_the_guest_is_asked(#[case] name: &str, #[case] change: Change) {
    let mut seen = in_band(record(0, Cause::Script, 2));
    change(&mut seen);
    assert_eq!(judge(&seen), Verdict::AskGuest, "{name}");
}

#[test]
fn clocks_may_differ_by_a_second_and_no_more() {
    let ran = |millis| Record { ran: Duration::from_millis(millis), ..record(0, Cause::Script, 0) };
    let seen = |millis| Seen { took: Some(SECOND), ..in_band(ran(millis)) };
    assert_eq!(outcome(&seen(2000)).reason, RunReason::Completed);
    assert_eq!(judge(&seen(2001)), Verdict::AskGuest);
    let guard = Guard::Ended(ran(2001));
    let forged = outcome(&Seen { took: Some(SECOND), started: true, exit: Some(0), ..adopted(&guard) });
    assert_eq!(forged.reason, RunReason::OutcomeUnknown, "nor at the guard");
}

#[rstest]
#[case("fenced", None, None, RunReason::NotStarted, "it had not started when")]
#[case("cancelled before", None, Some(Stop::Cancel), RunReason::CancelRequested, "nothing was started")]
#[case("what never ran has no timeout", None, Some(Stop::Timeout), RunReason::NotStarted, "never started")]
#[case("nor output", None, Some(Stop::OutputLimit), RunReason::NotStarted, "never started")]
#[case("another instance", Some(90), None, RunReason::NotStarted, "locked down again")]
#[case("a refusing disk", Some(92), None, RunReason::NotStarted, "locked down again")]
#[case("cut input", Some(93), None, RunReason::NotStarted, "cut short")]
#[case("cut because it was cancelled", Some(93), Some(Stop::Cancel), RunReason::CancelRequested, "nothing was started")]
#[case("cwd", Some(94), None, RunReason::NotStarted, "cwd: Not a directory")]
#[case("no runner", Some(127), None, RunReason::NotStarted, "the runner is missing")]
#[case("something else in its place", Some(126), None, RunReason::NotStarted, "the runner is missing")]
fn what_provably_never_started_says_so_and_why(
    #[case] name: &str,
    #[case] exit: Option<u8>,
    #[case] stop: Option<Stop>,
    #[case] reason: RunReason,
    #[case] message: &str,
) {
    let seen = Seen { exit, stop, refusal: Some("cwd: Not a directory"), ..adopted(&Guard::Never) };
    assert_eq!(judge(&Seen { guard: None, ..seen }), Verdict::AskGuest, "{name}: only its guard proves it");
    let outcome = outcome(&seen);
    assert_eq!((outcome.reason, outcome.never_started), (reason, true), "{name}");
    assert!(outcome.message.contains(message), "{name}: {}", outcome.message);
}

/// found K4: a script may end with any code, and its output may be lost.
#[test]
fn a_code_of_the_runners_own_says_nothing_without_the_guard() {
    for exit in 0..=u8::MAX {
        let guard = Guard::Ended(record(exit, Cause::Script, 1));
        let ran = Seen { exit: Some(exit), ..adopted(&guard) };
        assert_eq!(judge(&Seen { guard: None, ..ran }), Verdict::AskGuest);
        let told = outcome(&ran);
        assert_eq!((told.exit_code, told.never_started), (Some(exit), false));
        let started = Seen { exit: Some(exit), ..adopted(&Guard::Started) };
        assert_eq!(outcome(&started).phase, RunPhase::Unknown);
    }
}

#[rstest]
#[case(Some(90), false, Some(LostLockdown::Nonce))]
#[case(Some(92), false, Some(LostLockdown::Disk))]
#[case(Some(127), false, Some(LostLockdown::Runner))]
#[case(Some(126), false, Some(LostLockdown::Runner))]
#[case(Some(0), false, Some(LostLockdown::Runner))]
#[case(Some(95), false, Some(LostLockdown::Runner))]
#[case(Some(91), false, None)]
#[case(Some(93), false, None)]
#[case(Some(94), false, None)]
#[case(Some(143), false, None)]
#[case(Some(90), true, None)]
#[case(Some(127), true, None)]
#[case(None, false, None)]
fn a_lockdown_is_lost_where_the_runner_says_so_or_is_not_there(
    #[case] exit: Option<u8>,
    #[case] started: bool,
    #[case] lost: Option<LostLockdown>,
) {
    assert_eq!(lost_lockdown(exit, started), lost);
}

#[rstest]
#[case(0, 0, "the command exited 0")]
#[case(1, 0, "the command exited 0; 1 background process was ended (policy: lifecycle.processesAfterRun)")]
#[case(2, 0, "the command exited 0; 2 background processes were ended (policy: lifecycle.processesAfterRun)")]
#[case(0, 3, "the command exited 0; 3 background processes were left running")]
fn leftovers_are_told(#[case] ended: u32, #[case] remaining: u32, #[case] message: &str) {
    let record = Record { ended, remaining, ..record(0, Cause::Script, 1) };
    assert_eq!(outcome(&in_band(record)).message, message);
}

#[test]
fn an_end_after_a_stop_is_confirmed_whatever_the_record_says() {
    let own = in_band(record(0, Cause::Script, 1));
    assert!(!needs_sweep(&own));
    assert!(needs_sweep(&Seen { stop: Some(Stop::Cancel), ..own }));
}

/// All that can be seen, by code, cause, stop, frame, marker and line.
#[test]
fn whatever_is_seen_has_one_sound_outcome_or_is_asked_for() {
    let mut finals = 0;
    for code in [0, 1, 90, 91, 92, 93, 94, 126, 127, 128, 129, 137, 143, 192, 193, 255] {
        for by in Cause::ALL {
            let record = record(code, by, 1);
            let guards = [None, Some(Guard::Never), Some(Guard::Started), Some(Guard::Ended(record))];
            for (stop, guard) in STOPS.iter().flat_map(|stop| guards.iter().map(move |guard| (*stop, guard))) {
                for bits in 0..16 {
                    let seen = Seen {
                        exit: (bits & 1 != 0).then_some(code),
                        started: bits & 2 != 0,
                        line: (bits & 4 != 0).then_some(record),
                        took: (bits & 8 != 0).then_some(SECOND),
                        guard: guard.as_ref(),
                        stop,
                        refusal: None,
                        timeout: SECOND * 30,
                    };
                    let believed = seen.line.is_some() && seen.started && seen.exit.is_some();
                    match judge(&seen) {
                        Verdict::AskGuest => assert!(guard.is_none() && !believed, "{seen:?}"),
                        Verdict::Final(outcome) => {
                            finals += 1;
                            sound(&outcome);
                            // What started is never said not to have.
                            assert!(
                                !outcome.never_started || (!seen.started && *guard == Some(Guard::Never)),
                                "{seen:?}"
                            );
                            let known = believed || matches!(guard, Some(Guard::Ended(_)));
                            assert_eq!(outcome.exit_code, known.then_some(code), "{seen:?}");
                        }
                    }
                }
            }
        }
    }
    assert!(finals > 10_000);
}
