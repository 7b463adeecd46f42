use super::*;
use rstest::rstest;

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
#[case(RunPhase::Denied, Some(true), Some(false), true)]
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
