//! The runner as plain processes of this machine, in a home of its own.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests; a pause is part of what some of them do"
)]

use std::{
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use runner_protocol::*;

/// A home with a Run's UID of its own: a sweep ends all on this machine that carries its mark.
struct Home {
    folder: tempfile::TempDir,
    uid: String,
}

impl Home {
    fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap(), uid: uuid::Uuid::new_v4().to_string() };
        std::fs::create_dir(home.root()).unwrap();
        std::fs::write(home.root().join("nonce"), "n0nce\n").unwrap();
        home
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn root(&self) -> PathBuf {
        self.path(ROOT)
    }

    fn guard(&self) -> PathBuf {
        self.root().join(&self.uid)
    }

    fn spool(&self, source: Source) -> Vec<u8> {
        std::fs::read(self.root().join(SPOOL).join(&self.uid).join(source.as_str())).unwrap()
    }

    fn spawn<S: AsRef<std::ffi::OsStr>>(&self, argv: &[S]) -> Child {
        Command::new(&argv[0])
            .args(&argv[1..])
            .env_clear()
            .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("USER", "sprite")])
            .env("HOME", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Starts a launch, with all of its input.
    fn begin(&self, launch: &Launch<'_>) -> Child {
        let (argv, input) = launch.encode().unwrap();
        let mut child = self.spawn(&argv);
        // A runner that refuses early closes its stdin: a broken pipe is fine then.
        let _ = child.stdin.take().unwrap().write_all(&input);
        child
    }

    fn run(&self, launch: &Launch<'_>) -> Ran {
        Ran::of(&self.uid, &self.begin(launch).wait_with_output().unwrap())
    }

    /// Runs a script that needs nothing special.
    fn script(&self, script: &str) -> Ran {
        self.run(&self.launch(script))
    }

    fn launch<'a>(&'a self, script: &'a str) -> Launch<'a> {
        Launch {
            runner: RUNNER,
            uid: &self.uid,
            nonce: "n0nce",
            timeout: Duration::from_secs(20),
            cap: 8192,
            lookahead: 1024,
            kill_leftovers: true,
            stop_at_cap: true,
            live: &[],
            environment: &[],
            directory: self.folder.path().to_str().unwrap(),
            script,
            stdin: b"",
        }
    }

    fn ask(&self, word: &str) -> Output {
        self.spawn(&[RUNNER, word, &self.uid]).wait_with_output().unwrap()
    }

    fn fence(&self) -> Fence {
        let output = self.ask(FENCE);
        Fence::parse(&self.uid, &output.stdout).unwrap_or_else(|| panic!("{output:?}"))
    }

    /// How many processes carry the mark, by another program than the runner.
    fn marked(&self) -> usize {
        let count = format!("grep -lzxF SO_RUN={} /proc/[0-9]*/environ 2>/dev/null | wc -l", self.uid);
        let output = Command::new("bash").args(["-c", &count]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.ask(SWEEP);
    }
}

const RUNNER: &str = env!("CARGO_BIN_EXE_sprite-runner");

/// What a launch came to.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    started: bool,
    stdout: Vec<u8>,
    stderr: String,
    record: Option<Record>,
}

impl Ran {
    fn of(uid: &str, output: &Output) -> Self {
        let mut stdout = Stdout::new(uid);
        let mut text = stdout.push(&output.stdout);
        let started = stdout.started();
        let (rest, record) = stdout.finish();
        text.extend(rest);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { code: output.status.code(), started, stdout: text, stderr, record }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    fn by(&self) -> Cause {
        self.record.unwrap_or_else(|| panic!("no record: {self:?}")).by
    }
}

/// Waits until something is so.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads from a running launch until its output ends so.
fn read_until(child: &mut Child, end: &str) -> Vec<u8> {
    let stdout = child.stdout.as_mut().unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&seen)));
        seen.push(byte[0]);
    }
    seen
}

fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

/// The supervisor of a front, by another program than the runner.
fn child_of(pid: u32) -> u32 {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_ascii_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn the_script_gets_its_exact_bytes_stdin_directory_and_variables() {
    let home = Home::new();
    let directory = home.path("work/deep");
    let environment = [("GREETING".to_owned(), "two\nlines".to_owned())];
    let script = "pwd; printf '%s|' \"$GREETING\"; cat; echo err >&2; exit 3";
    let launch = Launch {
        stdin: b"\0binary\xff stdin",
        environment: &environment,
        directory: directory.to_str().unwrap(),
        ..home.launch(script)
    };
    let ran = home.run(&launch);
    let expected = [directory.to_str().unwrap().as_bytes(), b"\ntwo\nlines|\0binary\xff stdin"].concat();
    assert_eq!(ran.stdout, expected);
    assert_eq!((ran.code, ran.stderr.as_str(), ran.started), (Some(3), "err\n", true));
    let record = ran.record.unwrap();
    assert_eq!((record.code, record.by, record.ended, record.remaining), (3, Cause::Script, 0, 0));
    let written = Counts { written: expected.len() as u64, head: expected.len() as u64 };
    assert_eq!((record.stdout, record.stderr), (Some(written), Some(Counts { written: 4, head: 4 })));
    assert_eq!(home.fence(), Fence { remaining: 0, guard: Guard::Ended(record) }, "the guard holds the same record");
    assert_eq!((home.spool(Source::Stdout), home.spool(Source::Stderr)), (expected, b"err\n".to_vec()));
}

/// found O6: nothing of the runner's own settings reaches the script.
#[test]
fn a_script_has_the_settings_of_a_plain_exec() {
    let home = Home::new();
    let script = "umask; ulimit -a; trap; grep -E '^(SigBlk|SigCgt|NoNewPrivs|Seccomp):' /proc/self/status; \
                  while read -r name set; do [[ $name != SigIgn: ]] || echo $((16#$set & 16#7fffffff)); done </proc/self/status; ls /proc/self/fd; \
                  nice; pwd; touch made; stat -c %a made; env | grep -vE '^(_|SHLVL|PWD|OLDPWD|SO_RUN|LANG|PYTHONUNBUFFERED)=' | sort; \
                  cat /proc/self/oom_score_adj; bash -c 'kill -PIPE $$'; echo $?; tty";
    let ran = home.script(script);
    std::fs::remove_file(home.path("made")).unwrap();
    let plain = Command::new("bash")
        .args(["--noprofile", "--norc", "-c", script, "bash"])
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("USER", "sprite")])
        .env("HOME", home.folder.path())
        .current_dir(home.folder.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(ran.text(), String::from_utf8_lossy(&plain.stdout));
    let second = Home { folder: tempfile::tempdir_in(home.folder.path()).unwrap(), uid: format!("{}x", home.uid) };
    std::fs::create_dir(second.root()).unwrap();
    std::fs::write(second.root().join("nonce"), "n0nce\n").unwrap();
    let ran = second.script("echo $LANG $PYTHONUNBUFFERED $SO_RUN; ps -o sid= $$; echo $$");
    let text = ran.text();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    assert_eq!(words[..3], ["C.UTF-8", "1", second.uid.as_str()]);
    assert_eq!(words[3], words[4], "in a session of its own");
    let environment = [("PYTHONUNBUFFERED".to_owned(), String::new()), ("LANG".to_owned(), "C".to_owned())];
    let third = Home::new();
    let ran = third.run(&Launch { environment: &environment, ..third.launch("echo \"$LANG,$PYTHONUNBUFFERED,\"") });
    assert_eq!(ran.text(), "C,,\n", "a Run's own variables come last");
}

#[test]
fn a_second_launch_meets_the_guard_and_starts_nothing() {
    let home = Home::new();
    let launch = home.launch("echo x >> count");
    assert_eq!(home.run(&launch).code, Some(0));
    let again = home.run(&launch);
    assert_eq!((again.code, again.started), (Some(i32::from(EXIT_GUARD_EXISTS)), false));
    assert_eq!(std::fs::read_to_string(home.path("count")).unwrap(), "x\n");
}

#[test]
fn of_many_launches_at_once_one_starts() {
    let home = Home::new();
    let launch = home.launch("echo x >> count");
    let children: Vec<Child> = (0..8).map(|_| home.begin(&launch)).collect();
    let codes: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap().status.code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(std::fs::read_to_string(home.path("count")).unwrap(), "x\n");
}

#[test]
fn another_instance_starts_nothing() {
    let home = Home::new();
    let other = home.run(&Launch { nonce: "other", ..home.launch("echo started") });
    assert_eq!((other.code, other.started), (Some(i32::from(EXIT_WRONG_INSTANCE)), false));
    std::fs::remove_file(home.root().join("nonce")).unwrap();
    assert!(Command::new("mkfifo").arg(home.root().join("nonce")).status().unwrap().success());
    assert_eq!(home.script("echo started").code, Some(i32::from(EXIT_WRONG_INSTANCE)), "a FIFO is not waited for");
    assert!(!home.guard().exists());
}

#[test]
fn a_launch_cut_short_at_any_byte_starts_nothing() {
    let home = Home::new();
    let live = ["other".to_owned()];
    let environment = [("A".to_owned(), "b".to_owned())];
    let (argv, input) =
        Launch { live: &live, environment: &environment, ..home.launch("echo started") }.encode().unwrap();
    for cut in 0..input.len() {
        let mut child = home.spawn(&argv);
        child.stdin.take().unwrap().write_all(&input[..cut]).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(i32::from(EXIT_INPUT_CUT)), "cut at {cut}");
        assert!(output.stdout.is_empty() && !home.guard().exists(), "cut at {cut}");
    }
}

#[test]
fn a_script_that_cannot_be_started_as_asked_says_why_and_never_started() {
    let home = Home::new();
    std::fs::write(home.path("file"), "").unwrap();
    let directory = home.path("file/below");
    let ran = home.run(&Launch { directory: directory.to_str().unwrap(), ..home.launch("echo x") });
    assert_eq!((ran.code, ran.started), (Some(i32::from(EXIT_CANNOT_START)), false));
    assert!(ran.stderr.starts_with("cwd: Not a directory"), "{}", ran.stderr);
    assert_eq!(home.fence().guard, Guard::Never);
    let home = Home::new();
    let environment: Vec<_> = (0..200).map(|number| (format!("V{number}"), "x".repeat(32 << 10))).collect();
    let ran = home.run(&Launch { environment: &environment, ..home.launch("echo x") });
    assert_eq!((ran.code, ran.started), (Some(i32::from(EXIT_CANNOT_START)), false));
    assert!(ran.stderr.contains("Argument list too long"), "{}", ran.stderr);
    assert_eq!(home.fence().guard, Guard::Never);
}

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
fn output_past_the_cap_is_stopped_at_once_always_with_the_same_code() {
    for script in ["seq 1 20000", "seq 1 3000; exit 0", "yes", "yes >&2", "trap '' PIPE; yes"] {
        let home = Home::new();
        let begun = Instant::now();
        let ran = home.script(script);
        let record = ran.record.unwrap();
        assert_eq!((ran.code, record.code, record.by), (Some(143), 143, Cause::Overflow), "{script}");
        assert!(begun.elapsed() < Duration::from_secs(2), "{script}: {:?}", begun.elapsed());
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
    let launch = Launch { timeout: short, ..home.launch("trap 'echo bye; exit 5' TERM; echo hi; sleep 61 & wait") };
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
fn nothing_outlives_a_script_whatever_it_did_to_get_away() {
    for (name, script) in [
        ("daemons", "setsid nohup sleep 71 >/dev/null 2>&1 & (setsid sleep 72 &) ; exit 3"),
        ("another environment", "env -i setsid sleep 73 & env -i bash -c 'sleep 74 & sleep 75' & exit 3"),
        ("double forks", "( ( (setsid env -i sleep 76 &) & ) & ) ; exit 3"),
        ("deaf to TERM", "bash -c \"trap '' TERM HUP INT; while :; do sleep 77; done\" & exit 3"),
    ] {
        let home = Home::new();
        let ran = home.script(script);
        let record = ran.record.unwrap_or_else(|| panic!("{name}: {ran:?}"));
        assert_eq!((ran.code, record.by, record.remaining), (Some(3), Cause::Script, 0), "{name}");
        assert!(record.ended > 0, "{name}: {record:?}");
        let left = Command::new("bash").args(["-c", "pgrep -fx 'sleep 7[1-7]'"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&left.stdout), "", "{name}");
    }
}

#[test]
fn a_fork_bomb_is_outrun() {
    let home = Home::new();
    // Bounded by its own limit of processes, so that this machine lives on.
    let script = "f() { [[ $1 -gt 0 ]] && { setsid env -i PATH=$PATH bash -c \"$(declare -f f); f $(($1 - 1))\" & \
                  setsid env -i PATH=$PATH bash -c \"$(declare -f f); f $(($1 - 1))\" & }; sleep 78; }; f 6 & sleep 0.3; echo away";
    let ran = home.script(script);
    assert_eq!((ran.text().as_str(), ran.code), ("away\n", Some(0)));
    let record = ran.record.unwrap();
    assert!(record.ended > 3 && record.remaining == 0, "{record:?}");
    let left = Command::new("bash").args(["-c", "pgrep -fx 'sleep 78'"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
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
fn a_script_that_kills_a_part_of_the_runner_is_ended_by_the_other() {
    for (name, script) in [
        ("the supervisor", "kill -9 $PPID; setsid env -i sleep 81 & sleep 82"),
        ("the front", "kill -9 $(ps -o ppid= $PPID); setsid env -i sleep 83 & sleep 84"),
    ] {
        let home = Home::new();
        let begun = Instant::now();
        let mut child = home.begin(&home.launch(script));
        child.wait().unwrap();
        let Guard::Ended(record) = home.fence().guard else { panic!("{name}: {:?}", home.fence()) };
        assert_eq!((record.by, record.code), (Cause::RunnerKilled, 137), "{name}");
        let left = Command::new("bash").args(["-c", "pgrep -fx 'sleep 8[1-4]'"]).output().unwrap();
        assert_eq!((String::from_utf8_lossy(&left.stdout).as_ref(), home.marked()), ("", 0), "{name}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{name}: {:?}", begun.elapsed());
    }
}

#[test]
fn a_script_that_kills_both_parts_is_found_by_its_mark() {
    let home = Home::new();
    let script = "p=$PPID; kill -9 $(ps -o ppid= $p) $p; sleep 85";
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

#[test]
fn a_term_signal_at_any_moment_leaves_a_record_or_no_guard_and_nothing_running() {
    for delay in 0..40 {
        let home = Home::new();
        let (argv, input) = home.launch("sleep 88").encode().unwrap();
        let mut child = home.spawn(&argv);
        child.stdin.take().unwrap().write_all(&input).unwrap();
        std::thread::sleep(Duration::from_micros(250 * delay));
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
    for delay in 0..40 {
        let home = Home::new();
        let (argv, input) = home.launch("echo x >> count; sleep 89").encode().unwrap();
        let mut child = home.spawn(&argv);
        child.stdin.take().unwrap().write_all(&input).unwrap();
        std::thread::sleep(Duration::from_micros(250 * delay));
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

#[test]
fn how_long_it_has_been_running_is_told() {
    let home = Home::new();
    assert_eq!(State::parse(&home.uid, &home.ask(STATE).stdout), Some(State::Absent));
    let mut child = home.begin(&home.launch("echo here; sleep 0.6"));
    read_until(&mut child, "here\n");
    std::thread::sleep(Duration::from_millis(200));
    let Some(State::Running(ran)) = State::parse(&home.uid, &home.ask(STATE).stdout) else { panic!() };
    assert!((Duration::from_millis(190)..Duration::from_secs(5)).contains(&ran), "{ran:?}");
    child.wait().unwrap();
    assert_eq!(State::parse(&home.uid, &home.ask(STATE).stdout), Some(State::Over));
}

#[test]
fn old_spools_go_and_guards_stay() {
    let home = Home::new();
    let other = |number: usize| format!("00000000-0000-4000-8000-{number:012}");
    for number in 0..30 {
        std::fs::create_dir_all(home.root().join(SPOOL).join(other(number))).unwrap();
        std::fs::create_dir(home.root().join(other(number))).unwrap();
        let ago = std::time::SystemTime::now() - Duration::from_secs(1000 - number as u64);
        std::fs::File::open(home.root().join(SPOOL).join(other(number))).unwrap().set_modified(ago).unwrap();
    }
    let live = [other(1), other(3)];
    home.run(&Launch { live: &live, ..home.launch("true") });
    let spools: Vec<_> = (0..30).filter(|n| home.root().join(SPOOL).join(other(*n)).exists()).collect();
    assert_eq!(spools, [vec![1, 3], (11..30).collect()].concat(), "the last twenty, and those of living Runs");
    assert!((0..30).all(|n| home.root().join(other(n)).exists()), "guards are the proof of at most once");
}

#[test]
fn guards_beyond_ten_thousand_go_but_not_those_of_living_runs() {
    let home = Home::new();
    let other = |number: usize| format!("00000000-0000-4000-8000-{number:012}");
    for number in 0..GUARDS_KEPT + 5 {
        std::fs::create_dir(home.root().join(other(number))).unwrap();
    }
    let old = std::time::SystemTime::UNIX_EPOCH;
    std::fs::File::open(home.root().join(other(7))).unwrap().set_modified(old).unwrap();
    std::fs::File::open(home.root().join(other(8))).unwrap().set_modified(old).unwrap();
    let live = [other(7)];
    home.run(&Launch { live: &live, ..home.launch("true") });
    assert!(home.root().join(other(7)).exists() && !home.root().join(other(8)).exists());
    assert!(home.guard().exists() && home.root().join("nonce").exists());
    let left = std::fs::read_dir(home.root()).unwrap().count();
    assert!((GUARDS_KEPT / 10 * 9..GUARDS_KEPT).contains(&left), "{left}");
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    String::from_utf8(output.stdout).unwrap().split(' ').next().unwrap().to_owned()
}

#[test]
fn it_installs_itself_in_place_of_whatever_stands_there() {
    let home = Home::new();
    std::fs::remove_dir_all(home.root()).unwrap();
    let hash = sha256(Path::new(RUNNER));
    let workspace = home.path("workspace");
    let installed = home.root().join(BIN).join(&hash);
    let in_the_way: [fn(&Path); 5] = [
        |_| (),
        |path| std::fs::create_dir_all(path.join("full")).unwrap(),
        |path| std::os::unix::fs::symlink("/bin/true", path).unwrap(),
        |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        |path| std::fs::write(path, "another").unwrap(),
    ];
    for (number, plant) in in_the_way.iter().enumerate() {
        for place in [&installed, &home.root().join("nonce")] {
            std::fs::create_dir_all(home.root().join(BIN)).unwrap();
            let _ = std::fs::remove_file(place);
            plant(place);
        }
        let copy = home.root().join(BIN).join(format!("{hash}.{number}"));
        std::fs::copy(RUNNER, &copy).unwrap();
        let copy = copy.to_str().unwrap();
        let output =
            home.spawn(&[copy, INSTALL, &hash, "fresh", workspace.to_str().unwrap()]).wait_with_output().unwrap();
        assert_eq!(output.stdout, answer::installed(&hash, "fresh").as_bytes(), "{number}: {output:?}");
        assert_eq!((sha256(&installed), workspace.is_dir()), (hash.clone(), true), "{number}");
        assert_eq!(std::fs::read_to_string(home.root().join("nonce")).unwrap(), "fresh\n", "{number}");
        assert!(!Path::new(copy).exists());
    }
    std::fs::remove_dir_all(home.root()).unwrap();
    std::fs::write(home.root(), "a file in place of the folder").unwrap();
    let copy = home.path("copy");
    std::fs::copy(RUNNER, &copy).unwrap();
    let copy = copy.to_str().unwrap();
    let wrong = home.spawn(&[copy, INSTALL, "0000", "fresh", "/"]).wait_with_output().unwrap();
    assert!(!wrong.status.success() && wrong.stdout.is_empty(), "not what was sent");
    let output = home.spawn(&[copy, INSTALL, &hash, "again", workspace.to_str().unwrap()]).wait_with_output().unwrap();
    assert_eq!(output.stdout, answer::installed(&hash, "again").as_bytes(), "{output:?}");
}

#[test]
fn other_words_are_refused() {
    let home = Home::new();
    for argv in [
        vec![],
        vec!["so-run"],
        vec!["so-fence", "../x"],
        vec!["so-state", "a b"],
        vec!["hello"],
        vec!["so-supervise", "u"],
    ] {
        let argv: Vec<&str> = [RUNNER].into_iter().chain(argv).collect();
        let output = home.spawn(&argv).wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(i32::from(EXIT_USAGE)), true), "{argv:?}");
    }
}

#[test]
fn a_supervisor_knows_its_place() {
    let home = Home::new();
    let mut child = home.begin(&home.launch("readlink /proc/self/fd/1; readlink /proc/self/fd/2; echo here; sleep 90"));
    let seen = String::from_utf8(read_until(&mut child, "here\n")).unwrap();
    let supervisor = child_of(child.id());
    // A signal that a script sends to its parent is no stop.
    signal("TERM", supervisor);
    signal("INT", supervisor);
    assert!(child.try_wait().unwrap().is_none());
    let fds = std::fs::read_dir(format!("/proc/{supervisor}/fd")).unwrap().flatten();
    let held: Vec<String> =
        fds.map(|fd| std::fs::read_link(fd.path()).unwrap().to_string_lossy().into_owned()).collect();
    let pipes: Vec<&str> = seen.lines().filter(|line| line.starts_with("pipe:")).collect();
    assert_eq!(pipes.len(), 2, "{seen}");
    assert!(
        pipes.iter().all(|pipe| !held.iter().any(|held| held == pipe)),
        "it holds {held:?}, of the script {pipes:?}"
    );
    signal("INT", child.id());
    child.wait().unwrap();
}
