//! What the operator asks about a Run.

use super::*;

#[test]
fn a_fence_keeps_a_script_from_starting_for_ever() {
    let home = Home::new();
    assert_eq!(home.fence(), Fence { remaining: 0, guard: Guard::Never });
    let ran = home.script("echo started");
    assert_eq!((ran.code, ran.started), (Some(i32::from(EXIT_GUARD_EXISTS)), false));
    assert_eq!(home.fence().guard, Guard::Never, "the fence is repeatable");
    assert_eq!(State::parse(&home.uid, &home.ask(STATE).stdout), Some(State::Over));
}

#[test]
fn records_of_the_shell_runner_of_older_operators_are_read() {
    let home = Home::new();
    std::fs::create_dir(home.guard()).unwrap();
    assert_eq!(home.fence().guard, Guard::Started);
    std::fs::write(home.guard().join("exit"), "7 1.0 3.5\n").unwrap();
    let Guard::Ended(record) = home.fence().guard else { panic!() };
    assert_eq!((record.code, record.ran), (7, Duration::from_millis(2500)));
    std::fs::write(home.guard().join("exit"), "never\n").unwrap();
    assert_eq!(home.fence().guard, Guard::Never);
}

#[test]
fn how_long_it_has_been_running_is_told() {
    let home = Home::new();
    assert_eq!(State::parse(&home.uid, &home.ask(STATE).stdout), Some(State::Absent));
    let mut child = home.begin(&home.launch("echo here; sleep 60"));
    read_until(&mut child, "here\n");
    let begun = Instant::now();
    let ran = || match State::parse(&home.uid, &home.ask(STATE).stdout) {
        Some(State::Running(ran)) => ran,
        other => panic!("{other:?}"),
    };
    let first = ran();
    until("it has been running longer", || ran() >= first + Duration::from_millis(200));
    assert!(begun.elapsed() >= Duration::from_millis(200), "no longer than the time that passed");
    signal("INT", child.id());
    child.wait().unwrap();
    assert_eq!(State::parse(&home.uid, &home.ask(STATE).stdout), Some(State::Over));
}

/// What code in the session removes is no proof that nothing ran.
#[test]
fn a_guard_that_was_removed_is_no_proof_that_nothing_was_started() {
    let home = Home::new();
    let mut child = home.begin(&home.launch("rm -rf ~/.sprite-operator; echo here; sleep 60"));
    read_until(&mut child, "here\n");
    for _ in 0..2 {
        assert_eq!(home.fence(), Fence { remaining: 0, guard: Guard::Started }, "its supervisor was there");
    }
    child.wait().unwrap();
    let home = Home::new();
    home.script("rm -rf ~/.sprite-operator/$SO_RUN");
    for _ in 0..2 {
        assert_eq!(home.fence().guard, Guard::Started, "its spool is there");
    }
}
