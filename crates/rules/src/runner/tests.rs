//! The runner in a real bash, in a home of its own.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
};

use rstest::rstest;

use super::*;

/// A home with a Run's UID of its own: a sweep kills all on this machine that carries its mark.
struct Home(tempfile::TempDir, String);

impl Home {
    fn new() -> Self {
        let home = Self(tempfile::tempdir().unwrap(), uuid::Uuid::new_v4().to_string());
        std::fs::create_dir(home.root()).unwrap();
        std::fs::write(home.root().join("nonce"), "n0nce\n").unwrap();
        home
    }

    fn root(&self) -> PathBuf {
        self.0.path().join(".sprite-operator")
    }

    fn guard(&self) -> PathBuf {
        self.root().join(&self.1)
    }

    fn spawn(&self, argv: &[String]) -> Child {
        Command::new(&argv[0])
            .args(&argv[1..])
            .env_clear()
            .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("USER", "sprite")])
            .env("HOME", self.0.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn exec(&self, argv: &[String], input: &[u8]) -> Output {
        let mut child = self.spawn(argv);
        // A runner that refuses early closes its stdin: a broken pipe is fine then.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap()
    }

    fn run(&self, launch: &Launch<'_>) -> Output {
        let (argv, input) = launch.encode().unwrap();
        self.exec(&argv, &input)
    }
}

fn launch<'a>(uid: &'a str, directory: &'a Path, script: &'a str) -> Launch<'a> {
    Launch {
        uid,
        nonce: "n0nce",
        backstop: Duration::from_secs(20),
        spool: 8192,
        environment: &[],
        directory: directory.to_str().unwrap(),
        script,
        stdin: b"",
        kill_leftovers: true,
    }
}

/// Prints how many processes carry a Run's mark, and touches none.
fn count_marked(uid: &str) -> Vec<String> {
    let mut argv = bash(r#"grep -lzxF "SO_RUN=$1" /proc/[0-9]*/environ 2>/dev/null | wc -l"#, "so-count");
    argv.push(uid.to_owned());
    argv
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_script_gets_its_exact_bytes_stdin_directory_and_variables() {
    let home = Home::new();
    let directory = home.0.path().join("work/deep");
    let environment = [("GREETING".to_owned(), "two\nlines".to_owned())];
    let mut launch = launch(&home.1, &directory, "pwd; printf '%s|' \"$GREETING\"; cat; echo err >&2; exit 3");
    launch.stdin = b"\0binary\xff stdin";
    launch.environment = &environment;
    let output = home.run(&launch);
    let expected =
        [start_marker(&home.1).as_bytes(), directory.to_str().unwrap().as_bytes(), b"\ntwo\nlines|\0binary\xff stdin"]
            .concat();
    assert_eq!(output.stdout, expected);
    assert_eq!(text(&output.stderr), "err\n");
    assert_eq!(output.status.code(), Some(3));
    let record = std::fs::read_to_string(home.guard().join("exit")).unwrap();
    assert!(matches!(Guard::parse(&format!("record {record}")), Some(Guard::Record { code: 3, .. })), "{record}");
    assert_eq!(std::fs::read(home.guard().join("stderr")).unwrap(), b"err\n");
}

#[test]
fn a_second_launch_meets_the_guard_and_starts_nothing() {
    let home = Home::new();
    let count = home.0.path().join("count");
    let script = format!("echo x >> {}", count.display());
    let launch = launch(&home.1, home.0.path(), &script);
    assert_eq!(home.run(&launch).status.code(), Some(0));
    let again = home.run(&launch);
    assert_eq!(again.status.code(), Some(i32::from(EXIT_GUARD_EXISTS)));
    assert!(again.stdout.is_empty());
    assert_eq!(std::fs::read_to_string(count).unwrap(), "x\n");
}

#[test]
fn another_instance_starts_nothing() {
    let home = Home::new();
    let mut launch = launch(&home.1, home.0.path(), "echo started");
    launch.nonce = "other";
    let output = home.run(&launch);
    assert_eq!(output.status.code(), Some(i32::from(EXIT_WRONG_INSTANCE)));
    assert!(output.stdout.is_empty() && !home.guard().exists());
}

#[test]
fn the_runner_is_sent_without_its_comments() {
    assert!(SOURCE.lines().any(|line| line.trim_start().starts_with('#')));
    assert!(RUNNER.lines().all(|line| !line.is_empty() && !line.starts_with(['#', ' '])), "{}", *RUNNER);
}

#[test]
fn a_launch_cut_short_at_any_byte_starts_nothing() {
    let home = Home::new();
    let (argv, input) = launch(&home.1, home.0.path(), "echo started").encode().unwrap();
    let head = RUNNER.len();
    for cut in [0, 10, head - 1, head, head + 3, input.len() - 12, input.len() - 1] {
        let output = home.exec(&argv, &input[..cut]);
        assert_ne!(output.status.code(), Some(0), "cut at {cut}");
        assert!(output.stdout.is_empty() && !home.guard().exists(), "cut at {cut}");
    }
}

#[test]
fn an_adopters_fence_keeps_the_script_from_starting_for_ever() {
    let home = Home::new();
    let fenced = home.exec(&fence(&home.1), b"");
    assert_eq!(Guard::parse(&text(&fenced.stdout)), Some(Guard::Never));
    let output = home.run(&launch(&home.1, home.0.path(), "echo started"));
    assert_eq!(output.status.code(), Some(i32::from(EXIT_GUARD_EXISTS)));
    assert!(output.stdout.is_empty());
    let again = home.exec(&fence(&home.1), b"");
    assert_eq!(Guard::parse(&text(&again.stdout)), Some(Guard::Never), "the fence is repeatable");
}

#[test]
fn a_fence_finds_the_record_of_what_ran() {
    let home = Home::new();
    home.run(&launch(&home.1, home.0.path(), "exit 7"));
    let fenced = home.exec(&fence(&home.1), b"");
    assert!(matches!(Guard::parse(&text(&fenced.stdout)), Some(Guard::Record { code: 7, .. })));
    std::fs::remove_file(home.guard().join("exit")).unwrap();
    let fenced = home.exec(&fence(&home.1), b"");
    assert_eq!(Guard::parse(&text(&fenced.stdout)), Some(Guard::Started));
}

#[test]
fn the_spool_is_capped_while_the_caller_gets_everything() {
    let home = Home::new();
    let output = home.run(&launch(&home.1, home.0.path(), "head -c 100000 /dev/zero"));
    assert_eq!(output.stdout.len(), 100_000 + start_marker(&home.1).len());
    assert_eq!(std::fs::metadata(home.guard().join("stdout")).unwrap().len(), 8192 + 1024);
}

#[test]
fn the_backstop_ends_the_script_and_all_it_started() {
    let home = Home::new();
    let mut launch = launch(&home.1, home.0.path(), "sleep 61 & setsid sleep 62 & sleep 63");
    launch.backstop = Duration::from_secs(1);
    let output = home.run(&launch);
    assert_eq!(output.status.code(), Some(137));
    assert!(home.guard().join("timeout").exists());
    let left = home.exec(&count_marked(&home.1), b"");
    assert_eq!(text(&left.stdout).trim(), "0");
}

#[test]
fn a_term_signal_sweeps_and_leaves_a_record() {
    let home = Home::new();
    let ready = home.0.path().join("ready");
    std::fs::write(&ready, "").unwrap();
    let script = "setsid sleep 64 & echo here; sleep 65";
    let (argv, input) = launch(&home.1, home.0.path(), script).encode().unwrap();
    let mut child = home.spawn(&argv);
    child.stdin.take().unwrap().write_all(&input).unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"here\n") {
        let mut byte = [0];
        std::io::Read::read_exact(&mut stdout, &mut byte).unwrap();
        seen.push(byte[0]);
    }
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(137));
    let left = home.exec(&count_marked(&home.1), b"");
    assert_eq!(text(&left.stdout).trim(), "0");
    let fenced = home.exec(&fence(&home.1), b"");
    assert!(matches!(Guard::parse(&text(&fenced.stdout)), Some(Guard::Record { code: 137, .. })));
}

#[test]
fn a_background_child_that_holds_the_pipes_delays_the_end_by_a_second_at_most() {
    let home = Home::new();
    let mut launch = launch(&home.1, home.0.path(), "sleep 6 & echo done");
    launch.kill_leftovers = false;
    let begun = std::time::Instant::now();
    let output = home.run(&launch);
    assert_eq!(text(&output.stdout), format!("{}done\n", start_marker(&home.1)));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn signals_keep_their_codes() {
    for (script, code) in
        [("kill -9 $$", 137), ("kill -SEGV $$", 139), ("kill -INT $$", 130), ("exit 255", 255), ("nosuchprogram", 127)]
    {
        let home = Home::new();
        assert_eq!(home.run(&launch(&home.1, home.0.path(), script)).status.code(), Some(code), "{script}");
    }
}

#[test]
fn the_lockdown_writes_the_nonce_that_the_runner_wants() {
    let home = Home::new();
    let mut argv = lockdown("fresh");
    // The workspace of the machine that runs the tests is left alone.
    argv[4] = argv[4].replace("/workspace", "\"$HOME/workspace\"");
    let output = home.exec(&argv, b"");
    assert_eq!(text(&output.stdout), lockdown_answer("fresh"));
    assert_eq!(std::fs::read_to_string(home.root().join("nonce")).unwrap(), "fresh\n");
}

#[test]
fn a_record_without_its_newline_says_only_that_it_started() {
    assert_eq!(Guard::parse("record 0 1.0 2.0"), Some(Guard::Started));
    assert_eq!(Guard::parse("record 0 1.5 2.0\n"), Some(Guard::Record { code: 0, ran: Duration::from_millis(500) }));
    assert_eq!(Guard::parse("record 300 1.0 2.0\n"), None);
    assert_eq!(Guard::parse("record 0 9.0 2.0\n"), Some(Guard::Record { code: 0, ran: Duration::ZERO }));
    assert_eq!(Guard::parse(""), None);
    assert_eq!(Guard::parse("never\n"), Some(Guard::Never));
    assert_eq!(Guard::parse("started\n"), Some(Guard::Started));
    for answer in ["record 0 1.0\n", "record 0 1.0 2.0 3.0\n", "record 0 -inf 2.0\n", "record 0 1.0 nan\n", "never"] {
        assert_eq!(Guard::parse(answer), None, "{answer}");
    }
    assert_eq!(Guard::parse("record never\n"), Some(Guard::Never));
}

#[test]
fn nothing_of_a_users_stands_in_an_argument() {
    let mut launch = launch("u-1", Path::new("/workspace"), "a secret command");
    let environment = [("TOKEN".to_owned(), "sensitive".to_owned())];
    launch.environment = &environment;
    launch.stdin = b"private";
    let (argv, _) = launch.encode().unwrap();
    let joined = argv.join(" ");
    for word in ["secret", "sensitive", "private", "TOKEN"] {
        assert!(!joined.contains(word));
    }
    assert!(joined.len() < 512, "handshakes fail near 4 KB");
    launch.script = "a\0b";
    assert_eq!(launch.encode().unwrap_err(), LaunchError::Nul);
}

#[rstest]
#[case::letters_digits_and_hyphens("0-aZ", true)]
#[case::nothing("", false)]
#[case::a_path("a/b", false)]
#[case::an_underscore("a_b", false)]
#[case::two_words("a b", false)]
fn a_mark_is_of_letters_digits_and_hyphens(#[case] mark: &str, #[case] plain: bool) {
    let expected = if plain { None } else { Some(LaunchError::Mark) };
    assert_eq!(launch(mark, Path::new("/workspace"), "true").encode().err(), expected);
    let nonce = Launch { nonce: mark, ..launch("u-1", Path::new("/workspace"), "true") };
    assert_eq!(nonce.encode().err(), expected);
}

#[test]
fn a_nul_is_refused_wherever_it_would_end_a_field() {
    let variable = |name: &str, value: &str| [(name.to_owned(), value.to_owned())];
    let (name, value) = (variable("A\0", "b"), variable("A", "b\0"));
    let plain = launch("u-1", Path::new("/workspace"), "true");
    assert!(plain.encode().is_ok());
    for launch in [
        Launch { script: "a\0b", ..plain.clone() },
        Launch { directory: "/workspace\0", ..plain.clone() },
        Launch { environment: &name, ..plain.clone() },
        Launch { environment: &value, ..plain.clone() },
    ] {
        assert_eq!(launch.encode().err(), Some(LaunchError::Nul));
    }
    let stdin = Launch { stdin: b"\0", ..plain };
    assert!(stdin.encode().is_ok(), "stdin comes last and is not cut at anything");
}

#[test]
fn a_backstop_below_a_second_is_a_second() {
    let seconds = |backstop| {
        let launch = Launch { backstop, ..launch("u-1", Path::new("/workspace"), "true") };
        launch.encode().unwrap().0[9].clone()
    };
    assert_eq!([Duration::ZERO, Duration::from_millis(2900)].map(seconds), ["1", "2"]);
}

#[test]
fn a_term_signal_at_any_moment_leaves_a_record_or_no_guard_and_nothing_running() {
    // The moments of a launch follow each other within some ten milliseconds.
    for delay in 0..40 {
        let home = Home::new();
        let (argv, input) = launch(&home.1, home.0.path(), "sleep 66").encode().unwrap();
        let mut child = home.spawn(&argv);
        child.stdin.take().unwrap().write_all(&input).unwrap();
        let pause = format!("sleep {:.3}; kill -TERM {}", f64::from(delay) / 1000.0, child.id());
        assert!(Command::new("bash").args(["-c", &pause]).status().unwrap().success());
        let code = child.wait().unwrap().code();
        let left = home.exec(&count_marked(&home.1), b"");
        assert_eq!(text(&left.stdout).trim(), "0", "after {delay} ms, exit {code:?}");
        let fenced = home.exec(&fence(&home.1), b"");
        let guard = Guard::parse(&text(&fenced.stdout));
        let good = matches!(guard, Some(Guard::Never | Guard::Record { code: 137, .. }));
        assert!(good, "after {delay} ms, exit {code:?}: {guard:?}");
    }
}

#[test]
fn a_script_that_kills_its_runner_is_swept_by_its_mark() {
    let home = Home::new();
    let (argv, input) = launch(&home.1, home.0.path(), "kill -9 $PPID; sleep 67").encode().unwrap();
    let mut child = home.spawn(&argv);
    child.stdin.take().unwrap().write_all(&input).unwrap();
    child.wait().unwrap();
    let swept = home.exec(&sweep(&home.1), b"");
    assert_eq!(text(&swept.stdout).trim(), "0");
    let left = home.exec(&count_marked(&home.1), b"");
    assert_eq!(text(&left.stdout).trim(), "0");
}

#[rstest]
#[case("record 0 2.0 1.0\n", Duration::ZERO)]
#[case("record 0 0 1e300\n", Duration::MAX)]
fn a_span_that_cannot_be_is_none_or_the_longest(#[case] answer: &str, #[case] ran: Duration) {
    assert_eq!(Guard::parse(answer), Some(Guard::Record { code: 0, ran }));
}
