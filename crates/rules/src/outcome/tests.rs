use super::*;
use rstest::rstest;

fn seen(exit: Option<u8>, started: bool, stop: Option<Stop>, overtime: bool) -> ExecSeen {
    ExecSeen { exit, started, stop, overtime }
}

#[rstest]
#[case(seen(Some(0), true, None, false), RunPhase::Succeeded, RunReason::Completed)]
#[case(seen(Some(3), true, None, false), RunPhase::Failed, RunReason::NonZeroExit)]
#[case(seen(Some(139), true, None, false), RunPhase::Failed, RunReason::NonZeroExit)]
#[case(seen(Some(137), true, None, false), RunPhase::Failed, RunReason::Killed)]
#[case(seen(Some(137), true, None, true), RunPhase::Failed, RunReason::Timeout)]
#[case(seen(Some(137), true, Some(Stop::Timeout), true), RunPhase::Failed, RunReason::Timeout)]
#[case(seen(Some(0), true, Some(Stop::Timeout), true), RunPhase::Succeeded, RunReason::Completed)]
#[case(seen(Some(3), true, Some(Stop::Cancel), false), RunPhase::Failed, RunReason::NonZeroExit)]
#[case(seen(Some(128), true, Some(Stop::KillSwitch), false), RunPhase::Failed, RunReason::NonZeroExit)]
#[case(seen(Some(143), true, Some(Stop::Timeout), true), RunPhase::Failed, RunReason::Timeout)]
#[case(seen(Some(0), true, Some(Stop::OutputLimit), false), RunPhase::Failed, RunReason::OutputLimitExceeded)]
#[case(seen(Some(137), true, Some(Stop::OutputLimit), false), RunPhase::Failed, RunReason::OutputLimitExceeded)]
#[case(seen(Some(137), true, Some(Stop::Cancel), false), RunPhase::Cancelled, RunReason::CancelRequested)]
#[case(seen(Some(137), true, Some(Stop::KillSwitch), false), RunPhase::Cancelled, RunReason::KillSwitch)]
#[case(seen(Some(137), true, Some(Stop::Suspended), false), RunPhase::Cancelled, RunReason::Suspended)]
#[case(seen(Some(137), true, Some(Stop::PolicySuspended), false), RunPhase::Cancelled, RunReason::PolicySuspended)]
#[case(seen(Some(137), true, Some(Stop::Deleted), false), RunPhase::Cancelled, RunReason::Deleted)]
#[case(seen(Some(137), true, Some(Stop::SessionDeleted), false), RunPhase::Failed, RunReason::SessionDeleted)]
#[case(seen(Some(90), false, None, false), RunPhase::Failed, RunReason::NotStarted)]
#[case(seen(Some(92), false, None, false), RunPhase::Failed, RunReason::SandboxBroken)]
#[case(seen(Some(93), false, None, false), RunPhase::Failed, RunReason::NotStarted)]
#[case(seen(Some(90), true, None, false), RunPhase::Failed, RunReason::NonZeroExit)]
#[case(seen(Some(93), false, Some(Stop::Cancel), false), RunPhase::Cancelled, RunReason::CancelRequested)]
#[case(seen(Some(93), false, Some(Stop::Timeout), false), RunPhase::Failed, RunReason::NotStarted)]
fn an_exit_frame_gives_one_outcome(#[case] seen: ExecSeen, #[case] phase: RunPhase, #[case] reason: RunReason) {
    let Verdict::Final(outcome) = after_exec(seen) else { panic!("{seen:?} was not final") };
    assert_eq!((outcome.phase, outcome.reason), (phase, reason));
    assert_eq!(outcome.exit_code.is_some(), seen.started, "an exit code counts as the command's only after the marker");
}

#[rstest]
#[case(seen(None, true, None, false))]
#[case(seen(None, false, None, false))]
#[case(seen(None, true, Some(Stop::Timeout), true))]
#[case(seen(Some(91), false, None, false))]
#[case(seen(Some(0), false, None, false))]
#[case(seen(Some(137), false, Some(Stop::Cancel), false))]
fn without_an_exit_of_the_command_itself_the_guest_is_asked(#[case] seen: ExecSeen) {
    assert_eq!(after_exec(seen), Verdict::Adopt);
}

#[test]
fn an_adopter_never_guesses() {
    let timeout = Duration::from_secs(10);
    let record = |code, ran| Guard::Record { code, ran: Duration::from_secs(ran) };
    let cases = [
        (Guard::Never, None, RunReason::NotStarted, Evidence::None),
        (Guard::Never, Some(Stop::Cancel), RunReason::CancelRequested, Evidence::None),
        (Guard::Never, Some(Stop::Timeout), RunReason::NotStarted, Evidence::None),
        (Guard::Started, None, RunReason::OutcomeUnknown, Evidence::None),
        (Guard::Started, Some(Stop::Timeout), RunReason::OutcomeUnknown, Evidence::None),
        (record(0, 1), None, RunReason::Completed, Evidence::GuestRecord),
        (record(5, 1), None, RunReason::NonZeroExit, Evidence::GuestRecord),
        (record(137, 11), None, RunReason::Timeout, Evidence::GuestRecord),
        (record(137, 1), None, RunReason::Killed, Evidence::GuestRecord),
        (record(137, 1), Some(Stop::Cancel), RunReason::CancelRequested, Evidence::GuestRecord),
    ];
    for (guard, stop, reason, evidence) in cases {
        let outcome = after_fence(&guard, stop, timeout);
        assert_eq!((outcome.reason, outcome.evidence), (reason, evidence), "{guard:?} {stop:?}");
    }
}

/// Every word stands in at least one phase, and every phase has one: the table of the contract, both ways.
#[test]
fn the_table_of_outcomes_is_closed() {
    let of = |phase| RunReason::ALL.iter().filter(|reason| phases(**reason).contains(&phase)).count();
    let counts: Vec<_> = RunPhase::ALL.iter().map(|phase| (*phase, of(*phase))).collect();
    assert_eq!(
        counts,
        [
            (RunPhase::Pending, 1),
            (RunPhase::Running, 1),
            (RunPhase::Succeeded, 1),
            (RunPhase::Failed, 9),
            (RunPhase::Unknown, 1),
            (RunPhase::Cancelled, 7),
            (RunPhase::Denied, 25),
        ]
    );
    let cancelled = RunReason::ALL.iter().filter(|reason| phases(**reason).contains(&RunPhase::Cancelled));
    let words: Vec<_> = cancelled.map(|reason| reason.as_str()).collect();
    assert_eq!(
        words,
        ["CancelRequested", "KillSwitch", "Suspended", "Held", "TenantDisabled", "PolicySuspended", "Deleted"]
    );
}

#[rstest]
#[case(RunPhase::Pending, None, None, false)]
#[case(RunPhase::Running, Some(true), None, false)]
#[case(RunPhase::Succeeded, Some(true), Some(true), true)]
#[case(RunPhase::Failed, Some(true), Some(false), true)]
#[case(RunPhase::Unknown, Some(true), None, true)]
#[case(RunPhase::Cancelled, Some(true), Some(false), true)]
#[case(RunPhase::Denied, Some(false), Some(false), true)]
fn conditions_tell_one_story(
    #[case] phase: RunPhase,
    #[case] admitted: Option<bool>,
    #[case] succeeded: Option<bool>,
    #[case] finished: bool,
) {
    assert_eq!(story(phase, true), ConditionStatuses { admitted, succeeded, finished });
    // What was never admitted does not become so by ending.
    let before = story(phase, false).admitted;
    assert_eq!(before, if phase.is_terminal() { Some(false) } else { admitted });
}

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

/// What holds for every outcome, whatever happened.
fn sound(outcome: &Outcome) {
    let Outcome { phase, reason, message, exit_code, evidence, never_started } = outcome;
    assert!(phases(*reason).contains(phase), "{outcome:?}");
    assert!(phase.is_terminal() && *phase != RunPhase::Denied && !message.is_empty(), "{outcome:?}");
    // No exit code without evidence, and no evidence without one.
    assert_eq!(exit_code.is_some(), *evidence != Evidence::None, "{outcome:?}");
    assert!(exit_code.is_none() || !never_started, "{outcome:?}");
    assert_eq!(*phase == RunPhase::Succeeded, *exit_code == Some(0) && *reason == RunReason::Completed, "{outcome:?}");
    assert!(*phase != RunPhase::Unknown || (exit_code.is_none() && !never_started), "{outcome:?}");
    assert!(*reason != RunReason::NotStarted || *never_started, "a NotStarted Run is not charged: {outcome:?}");
}

/// All that an exec can show, each code by each stop.
#[test]
fn whatever_an_exec_shows_has_one_sound_outcome() {
    let (mut finals, mut adoptions) = (0, 0);
    for exit in std::iter::once(None).chain((0..=u8::MAX).map(Some)) {
        for stop in STOPS {
            for (started, overtime) in [(false, false), (false, true), (true, false), (true, true)] {
                let seen = seen(exit, started, stop, overtime);
                match after_exec(seen) {
                    Verdict::Final(outcome) => {
                        finals += 1;
                        sound(&outcome);
                        assert_eq!(outcome.exit_code, exit.filter(|_| started), "{seen:?}");
                        assert_eq!(outcome.never_started, !started, "{seen:?}");
                        assert_ne!(outcome.phase, RunPhase::Unknown, "{seen:?}");
                        let own = outcome.phase == RunPhase::Succeeded;
                        assert!(!own || exit == Some(0), "{seen:?}");
                        // The outcome names our stop only if the stop ended the command.
                        let killed = stop == Some(Stop::OutputLimit) || exit.is_some_and(|code| code > 128);
                        if let (true, true, Some(stop)) = (started, killed, stop) {
                            assert_eq!((outcome.phase, outcome.reason), stop.outcome(), "{seen:?}");
                        }
                    }
                    Verdict::Adopt => {
                        adoptions += 1;
                        // Only with an exit of the command itself, or of a runner that says why, is it not asked.
                        let said = matches!(
                            exit,
                            Some(runner::EXIT_WRONG_INSTANCE | runner::EXIT_DISK | runner::EXIT_INPUT_CUT)
                        );
                        assert!(exit.is_none() || (!started && !said), "{seen:?}");
                    }
                }
            }
        }
    }
    // 256 codes after the marker and three codes of the runner before it, by stops and time.
    assert_eq!((finals, adoptions), ((256 + 3) * 22, 257 * 44 - (256 + 3) * 22));
}

/// All that an adopter can find, by guard, record, stop and time.
#[test]
fn whatever_an_adopter_finds_has_one_sound_outcome() {
    let timeout = Duration::from_secs(10);
    for stop in STOPS {
        let never = after_fence(&Guard::Never, stop, timeout);
        sound(&never);
        assert!(never.never_started && never.evidence == Evidence::None, "{stop:?}");
        let started = after_fence(&Guard::Started, stop, timeout);
        sound(&started);
        assert_eq!((started.phase, started.evidence), (RunPhase::Unknown, Evidence::None), "{stop:?}");
        for code in 0..=u8::MAX {
            for (ran, overtime) in [(0, false), (9_999, false), (10_000, true), (60_000, true)] {
                let guard = Guard::Record { code, ran: Duration::from_millis(ran) };
                let outcome = after_fence(&guard, stop, timeout);
                sound(&outcome);
                assert_eq!((outcome.exit_code, outcome.evidence), (Some(code), Evidence::GuestRecord));
                // The same end as an exit frame would have shown; only the evidence differs.
                let Verdict::Final(by_frame) = after_exec(seen(Some(code), true, stop, overtime)) else { panic!() };
                assert_eq!(outcome, Outcome { evidence: Evidence::GuestRecord, ..by_frame }, "{code} {stop:?} {ran}");
            }
        }
    }
}

#[test]
fn a_stop_before_the_start_is_said_to_be_one() {
    for stop in STOPS.into_iter().flatten() {
        let outcome = Outcome::stopped_before_start(stop);
        sound(&outcome);
        assert!(outcome.never_started);
        assert!(!outcome.message.contains("killed"), "{stop:?}: {}", outcome.message);
    }
}

#[test]
fn every_stop_says_what_stopped_it() {
    let says = [
        (Stop::Timeout, "timeout"),
        (Stop::OutputLimit, "limits.output"),
        (Stop::Cancel, "cancel"),
        (Stop::KillSwitch, "switch"),
        (Stop::Suspended, "session was suspended"),
        (Stop::PolicySuspended, "policy was suspended"),
        (Stop::Held, "hold on the session"),
        (Stop::TenantDisabled, "namespace"),
        (Stop::Deleted, "Run was deleted"),
        (Stop::SessionDeleted, "session was deleted"),
    ];
    for (stop, word) in says {
        let Verdict::Final(outcome) = after_exec(seen(Some(137), true, Some(stop), true)) else { panic!("{stop:?}") };
        assert!(outcome.message.contains(word), "{stop:?}: {}", outcome.message);
    }
    assert_eq!(says.len(), STOPS.into_iter().flatten().count());
}
