//! What is started, and what is not.

use super::*;

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
    let written = Counts::whole(expected.len() as u64);
    assert_eq!((record.stdout, record.stderr), (Some(written), Some(Counts::whole(4))));
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

/// The supervisor of a front, by another program than the runner.
fn child_of(pid: u32) -> u32 {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    list.split_ascii_whitespace().next().unwrap().parse().unwrap()
}
