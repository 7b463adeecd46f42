//! Scripts that try to outlive their end, or to end the runner first.

use super::*;

#[test]
fn nothing_outlives_a_script_whatever_it_did_to_get_away() {
    for (name, script) in [
        ("daemons", "setsid nohup NAP >/dev/null 2>&1 & (setsid NAP &) ; exit 3"),
        ("another environment", "env -i setsid NAP & env -i bash -c 'NAP & NAP' & exit 3"),
        ("double forks", "( ( (setsid env -i NAP &) & ) & ) ; exit 3"),
        ("deaf to TERM", "bash -c \"trap '' TERM HUP INT; while :; do NAP; done\" & exit 3"),
    ] {
        let home = Home::new();
        let ran = home.script(&home.napping(script));
        let record = ran.record.unwrap_or_else(|| panic!("{name}: {ran:?}"));
        assert_eq!((ran.code, record.by, record.remaining), (Some(3), Cause::Script, 0), "{name}");
        assert!(record.ended > 0, "{name}: {record:?}");
        assert_eq!(home.naps(), 0, "{name}");
    }
}

#[test]
fn a_fork_bomb_is_outrun() {
    let home = Home::new();
    // Bounded by its own limit of processes, so that this machine lives on.
    let script = "f() { [[ $1 -gt 0 ]] && { setsid env -i PATH=$PATH bash -c \"$(declare -f f); f $(($1 - 1))\" & \
                  setsid env -i PATH=$PATH bash -c \"$(declare -f f); f $(($1 - 1))\" & }; NAP; }; f 6 & sleep 0.3; echo away";
    let ran = home.script(&home.napping(script));
    assert_eq!((ran.text().as_str(), ran.code), ("away\n", Some(0)));
    let record = ran.record.unwrap();
    assert!(record.ended > 3 && record.remaining == 0, "{record:?}");
    assert_eq!(home.naps(), 0);
}

#[test]
fn what_is_kept_by_policy_goes_on_and_is_counted() {
    let home = Home::new();
    let launch = Launch { kill_leftovers: false, ..home.launch("sleep 30 & setsid sleep 31 & echo done") };
    let begun = Instant::now();
    let ran = home.run(&launch);
    assert_eq!((ran.text().as_str(), ran.code), ("done\n", Some(0)));
    assert_eq!((ran.record.unwrap().ended, ran.record.unwrap().remaining), (0, 2));
    assert!(begun.elapsed() < Duration::from_secs(3), "who holds the pipes delays the end by a second: {begun:?}");
    assert_eq!(home.marked(), 2);
    assert_eq!(answer::parse_swept(&home.uid, &home.ask(SWEEP).stdout), Some(0));
    assert_eq!(home.marked(), 0);
}

#[test]
fn a_script_that_kills_a_part_of_the_runner_is_ended_by_the_other() {
    for (name, script) in [
        ("the supervisor", "kill -9 $PPID; setsid env -i NAP & NAP"),
        ("the front", "kill -9 $(ps -o ppid= $PPID); setsid env -i NAP & NAP"),
    ] {
        let home = Home::new();
        let begun = Instant::now();
        let script = home.napping(script);
        let mut child = home.begin(&home.launch(&script));
        child.wait().unwrap();
        let Guard::Ended(record) = home.fence().guard else { panic!("{name}: {:?}", home.fence()) };
        assert_eq!((record.by, record.code), (Cause::RunnerKilled, 137), "{name}");
        assert_eq!((home.naps(), home.marked()), (0, 0), "{name}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{name}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_script_that_kills_both_parts_is_found_by_its_mark() {
    let home = Home::new();
    // Stopped first: it would see the front go, and write the record before it is killed itself.
    let script = "p=$PPID; kill -STOP $p; kill -9 $(ps -o ppid= $p) $p; sleep 85";
    home.begin(&home.launch(script)).wait().unwrap();
    assert_eq!(home.fence(), Fence { remaining: 0, guard: Guard::Started }, "nothing is left, and nothing is known");
    assert_eq!(home.marked(), 0);
}

#[test]
fn a_supervisor_that_was_stopped_is_stood_in_for() {
    let home = Home::new();
    let launch = Launch { timeout: Duration::from_millis(100), ..home.launch("kill -STOP $PPID; echo here; sleep 86") };
    let begun = Instant::now();
    let ran = home.run(&launch);
    assert_eq!((ran.text().as_str(), ran.code, ran.by()), ("here\n", Some(137), Cause::Backstop));
    assert!(begun.elapsed() < Duration::from_secs(9), "{:?}", begun.elapsed());
    let home = Home::new();
    let mut child = home.begin(&home.launch("kill -STOP $PPID; echo here; sleep 87"));
    read_until(&mut child, "here\n");
    signal("TERM", child.id());
    let ran = child.wait_with_output().unwrap();
    assert_eq!((ran.status.code(), home.marked()), (Some(137), 0));
    let Guard::Ended(record) = home.fence().guard else { panic!() };
    assert_eq!(record.by, Cause::Stop, "the stop is on record, although the front ended it");
}

#[test]
fn words_of_a_script_find_neither_front_nor_supervisor() {
    let home = Home::new();
    let ran = home.script("pkill -f 'a word of this script'; echo $?");
    assert_eq!(ran.code, Some(143), "bash itself carries them: {ran:?}");
    assert_eq!(ran.by(), Cause::Script, "and nobody else does");
}
