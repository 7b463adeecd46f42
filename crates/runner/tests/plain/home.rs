//! A home for one Run, its launches, and what is seen of them.

use std::{
    io::{Read as _, Write as _},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use runner_protocol::*;

/// A home with a Run's UID of its own: a sweep ends all on this machine that carries its mark.
pub struct Home {
    pub folder: tempfile::TempDir,
    pub uid: String,
}

impl Home {
    pub fn new() -> Self {
        let home = Self { folder: tempfile::tempdir().unwrap(), uid: uuid::Uuid::new_v4().to_string() };
        std::fs::create_dir(home.root()).unwrap();
        std::fs::write(home.root().join("nonce"), "n0nce\n").unwrap();
        home
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn root(&self) -> PathBuf {
        self.path(ROOT)
    }

    pub fn guard(&self) -> PathBuf {
        self.root().join(&self.uid)
    }

    pub fn spool(&self, source: Source) -> Vec<u8> {
        std::fs::read(self.root().join(SPOOL).join(&self.uid).join(source.as_str())).unwrap()
    }

    pub fn spawn<S: AsRef<std::ffi::OsStr>>(&self, argv: &[S]) -> Child {
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
    pub fn begin(&self, launch: &Launch<'_>) -> Child {
        let (argv, input) = launch.encode().unwrap();
        let mut child = self.spawn(&argv);
        // A runner that refuses early closes its stdin: a broken pipe is fine then.
        let _ = child.stdin.take().unwrap().write_all(&input);
        child
    }

    pub fn run(&self, launch: &Launch<'_>) -> Ran {
        Ran::of(&self.uid, &self.begin(launch).wait_with_output().unwrap())
    }

    /// Runs a script that needs nothing special.
    pub fn script(&self, script: &str) -> Ran {
        self.run(&self.launch(script))
    }

    pub fn launch<'a>(&'a self, script: &'a str) -> Launch<'a> {
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
            task: Task::Script(script),
            stdin: b"",
        }
    }

    pub fn ask(&self, word: &str) -> Output {
        self.spawn(&[RUNNER, word, &self.uid]).wait_with_output().unwrap()
    }

    pub fn fence(&self) -> Fence {
        let output = self.ask(FENCE);
        Fence::parse(&self.uid, &output.stdout).unwrap_or_else(|| panic!("{output:?}"))
    }

    /// A script in which `NAP` is a sleep that no other process of this machine has.
    pub fn napping(&self, script: &str) -> String {
        script.replace("NAP", &format!("sleep {}", self.nap()))
    }

    /// How many such sleeps there are, whatever their environment.
    pub fn naps(&self) -> usize {
        let count = format!("pgrep -fxc 'sleep {}'", self.nap());
        let output = Command::new("bash").args(["-c", &count]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
    }

    fn nap(&self) -> u32 {
        let digits = self.uid.bytes().fold(0u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
        10_000_000 + digits % 80_000_000
    }

    /// How many processes carry the mark; the supervisor ends a moment after the front.
    pub fn marked(&self) -> usize {
        let begun = Instant::now();
        loop {
            let marked = self.marked_now();
            if marked == 0 || begun.elapsed() > Duration::from_millis(500) {
                return marked;
            }
        }
    }

    fn marked_now(&self) -> usize {
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

pub const RUNNER: &str = env!("CARGO_BIN_EXE_sprite-runner");

/// What a launch came to.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub started: bool,
    pub stdout: Vec<u8>,
    pub stderr: String,
    pub record: Option<Record>,
}

impl Ran {
    pub fn of(uid: &str, output: &Output) -> Self {
        let mut stdout = Stdout::new(uid);
        let mut text = stdout.push(&output.stdout);
        let started = stdout.started();
        let (rest, record) = stdout.finish();
        text.extend(rest);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        Self { code: output.status.code(), started, stdout: text, stderr, record }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    pub fn by(&self) -> Cause {
        self.record.unwrap_or_else(|| panic!("no record: {self:?}")).by
    }
}

/// Polls until the condition holds.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads from a running launch until its output ends so.
pub fn read_until(child: &mut Child, end: &str) -> Vec<u8> {
    let stdout = child.stdout.as_mut().unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(end.as_bytes()) {
        let mut byte = [0];
        stdout.read_exact(&mut byte).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&seen)));
        seen.push(byte[0]);
    }
    seen
}

pub fn signal(name: &str, pid: u32) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}
