//! How a script ends, and who ends it.

use super::*;

#[test]
fn output_past_the_cap_is_stopped_at_once_always_with_the_same_code() {
    for script in ["seq 1 20000", "seq 1 3000; exit 0", "yes", "yes >&2", "trap '' PIPE; yes"] {
        let home = Home::new();
        let ran = home.script(script);
        let record = ran.record.unwrap();
        assert_eq!((ran.code, record.code, record.by), (Some(143), 143, Cause::Overflow), "{script}");
        // By TERM, at once: not after the two seconds that one which ignores it has.
        assert!(record.ran < Duration::from_secs(2), "{script}: {record:?}");
        let counts = [record.stdout.unwrap(), record.stderr.unwrap()];
        assert_eq!(counts.map(|counts| counts.head).iter().sum::<u64>(), 8192, "{script}");
        let source = if script.contains(">&2") { Source::Stderr } else { Source::Stdout };
        assert_eq!(home.spool(source).len(), 8192 + 1024, "{script}: head and what redaction looks at");
        if source == Source::Stdout {
            assert_eq!(home.spool(source), ran.stdout, "what was sent is what was kept");
        }
    }
    let home = Home::new();
    let ran = home.script("trap '' TERM; while :; do seq 1 20000; done");
    assert_eq!((ran.code, ran.by()), (Some(137), Cause::Overflow), "one that ignores TERM is killed");
}

#[test]
fn at_its_timeout_a_script_gets_term_then_kill() {
    let home = Home::new();
    let short = Duration::from_millis(300);
    // It waits without a child: one that the signal meets between fork and exec runs the trap too.
    let script = "trap 'echo bye; exit 5' TERM; mkfifo f; exec 9<>f; echo hi; read -t 61 -u 9";
    let launch = Launch { timeout: Duration::from_secs(1), ..home.launch(script) };
    let ran = home.run(&launch);
    assert_eq!((ran.text().as_str(), ran.code, ran.by()), ("hi\nbye\n", Some(5), Cause::Timeout));
    let home = Home::new();
    let launch =
        Launch { timeout: short, ..home.launch("trap '' TERM; sleep 61 & setsid sleep 62 & sleep 63; sleep 64") };
    let ran = home.run(&launch);
    assert_eq!((ran.code, ran.by(), home.marked()), (Some(137), Cause::Timeout, 0));
    let ran = ran.record.unwrap().ran;
    assert!(ran >= Duration::from_millis(2300), "{ran:?}: its two seconds to clean up");
}

#[test]
fn python_told_to_stop_has_written_what_it_printed() {
    let home = Home::new();
    let script = "python3 -c \"print('x'); import time; time.sleep(61)\"";
    let ran = home.run(&Launch { timeout: Duration::from_millis(800), ..home.launch(script) });
    assert_eq!((ran.text().as_str(), ran.by()), ("x\n", Cause::Timeout));
}

#[test]
fn an_int_signal_ends_all_at_once_and_a_term_signal_asks_first() {
    for (name, code, least) in [("INT", 137, 0), ("TERM", 137, 2), ("HUP", 137, 2)] {
        let home = Home::new();
        let mut child = home
            .begin(&home.launch("trap '' TERM; setsid nohup sleep 65 & (sleep 66 &); echo here; sleep 67; sleep 68"));
        read_until(&mut child, "here\n");
        let begun = Instant::now();
        signal(name, child.id());
        let ran = child.wait_with_output().unwrap();
        assert_eq!(ran.status.code(), Some(code), "{name}");
        assert_eq!(home.marked(), 0, "{name}");
        assert!(begun.elapsed() >= Duration::from_secs(least), "{name}");
        assert!(begun.elapsed() < Duration::from_secs(least + 2), "{name}: {:?}", begun.elapsed());
        let Guard::Ended(record) = home.fence().guard else { panic!("{name}") };
        assert_eq!(record.by, Cause::Stop);
    }
}

/// A code that the script ended with before anybody stopped it stays its own.
#[test]
fn an_end_before_a_stop_is_the_scripts_own() {
    let home = Home::new();
    let launch = Launch { kill_leftovers: false, ..home.launch("sleep 2 & exit 4") };
    let mut child = home.begin(&launch);
    read_until(&mut child, &start_marker(&home.uid));
    until("it ended", || home.guard().join("record").exists() || child.try_wait().unwrap().is_some());
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    child.wait().unwrap();
    let Guard::Ended(record) = home.fence().guard else { panic!() };
    assert_eq!((record.code, record.by), (4, Cause::Script));
}

#[test]
fn signals_keep_their_codes() {
    for (script, code) in [
        ("kill -9 $$", 137),
        ("kill -SEGV $$", 139),
        ("kill -INT $$", 130),
        ("exit 255", 255),
        ("nosuchprogram", 127),
        ("exit 90", 90),
    ] {
        let home = Home::new();
        let ran = home.script(script);
        assert_eq!((ran.code, ran.by()), (Some(code), Cause::Script), "{script}");
    }
}

#[test]
fn a_caller_that_does_not_read_or_goes_blocks_nothing() {
    let home = Home::new();
    let script = "seq 1 500; seq 1 500 >&2; echo done > done";
    let mut child = home.begin(&home.launch(script));
    until("the script ended", || home.path("done").exists());
    // It has not been read from at all.
    let output = child.stdout.take().unwrap();
    drop(output);
    assert!(child.wait().unwrap().success());
    assert_eq!(home.spool(Source::Stderr).len(), 1892);
    let home = Home::new();
    let (argv, input) =
        Launch { cap: 1 << 20, ..home.launch("head -c 600000 /dev/zero; echo ended > done") }.encode().unwrap();
    let mut child = home.spawn(&argv);
    child.stdin.take().unwrap().write_all(&input).unwrap();
    until("the script ended though nobody reads", || home.path("done").exists());
    let ran = Ran::of(&home.uid, &child.wait_with_output().unwrap());
    assert_eq!((ran.stdout.len(), ran.by()), (600_000, Cause::Script), "and who reads late gets all of it");
}

/// Launches of a script, each left to itself a little longer: the steps of a launch follow each other within ten milliseconds.
fn at_many_moments(script: &str) -> impl Iterator<Item = (u64, Home, Child)> + '_ {
    (0..40).map(move |delay| {
        let home = Home::new();
        let child = home.begin(&home.launch(script));
        std::thread::sleep(Duration::from_micros(250 * delay));
        (delay, home, child)
    })
}

#[test]
fn a_term_signal_at_any_moment_leaves_a_record_or_no_guard_and_nothing_running() {
    for (delay, home, mut child) in at_many_moments("sleep 88") {
        signal("TERM", child.id());
        let code = child.wait().unwrap().code();
        assert_eq!(home.marked(), 0, "{delay}, exit {code:?}");
        match home.fence().guard {
            Guard::Never => {}
            Guard::Ended(record) => assert_eq!((record.code, record.by), (143, Cause::Stop), "{delay}"),
            // A signal before it was listened to: nothing was there to be started.
            Guard::Started => panic!("{delay}, exit {code:?}"),
        }
    }
}

#[test]
fn a_front_killed_at_any_moment_leaves_nothing_running_and_no_second_start() {
    for (delay, home, mut child) in at_many_moments("echo x >> count; sleep 89") {
        child.kill().unwrap();
        child.wait().unwrap();
        let fence = home.fence();
        assert_eq!((home.marked(), fence.remaining), (0, 0), "{delay}");
        let started = std::fs::read_to_string(home.path("count")).unwrap_or_default();
        if fence.guard == Guard::Never {
            assert_eq!(started, "", "{delay}: what is said never to have started did not");
        }
        home.script("echo x >> count");
        let after = std::fs::read_to_string(home.path("count")).unwrap_or_default();
        assert_eq!(after, started, "{delay}: not once more");
    }
}

/// decisions O-a.
#[test]
fn past_the_cap_a_script_runs_on_and_head_and_tail_are_kept() {
    let home = Home::new();
    let script = "seq 1 100000; echo last words >&2; exit 3";
    let launch = Launch { stop_at_cap: false, ..home.launch(script) };
    let ran = home.run(&launch);
    assert_eq!((ran.code, ran.by()), (Some(3), Cause::Script));
    let record = ran.record.unwrap();
    let lines: Vec<String> = (1..=100_000).map(|n| format!("{n}\n")).collect();
    let all = lines.concat();
    let shape = Shape { cap: launch.cap, lookahead: launch.lookahead, head_only: false };
    let [out, err] = [record.stdout.unwrap(), record.stderr.unwrap()];
    assert_eq!((out.written, err), (all.len() as u64, Counts { written: 11, head: 0, sent: 11, tail: 11 }));
    assert_eq!(home.spool(Source::Stdout), ran.stdout, "what was sent is what was kept");
    let parts = Parts::of(shape, &out, ran.stdout).unwrap();
    assert_eq!((parts.head.len(), parts.tail.len()), (6144, 2048 - 128 - 11));
    assert!(all.starts_with(std::str::from_utf8(&parts.head).unwrap()) && all.as_bytes().ends_with(&parts.tail));
}
