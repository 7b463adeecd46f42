//! Processes that a test starts: their lines are read, they are ended by pid, also when the test fails.

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
};

/// A running process with what it said on stderr.
pub struct Process {
    child: Child,
    said: Arc<Mutex<String>>,
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("--- what it said:\n{}", self.said());
        }
    }
}

impl Process {
    /// A program that is killed when the thread that starts it ends: also when the whole test process is killed.
    pub fn command(program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    }

    /// Starts a program; its first lines of stdout are given back.
    pub fn start(command: &mut Command, lines: usize) -> (Self, Vec<String>) {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let said = Arc::new(Mutex::new(String::new()));
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let heard = Arc::clone(&said);
        std::thread::spawn(move || {
            let mut line = String::new();
            while stderr.read_line(&mut line).is_ok_and(|n| n > 0) {
                heard.lock().unwrap().push_str(&line);
                line.clear();
            }
        });
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let process = Self { child, said };
        let mut first = Vec::new();
        for _ in 0..lines {
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            assert!(!line.is_empty(), "it ended at once: {}", process.said());
            first.push(line.trim_end().to_owned());
        }
        std::thread::spawn(move || stdout.read_to_end(&mut Vec::new()));
        (process, first)
    }

    /// What it said on stderr so far.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL, and waits.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// A signal by name, without waiting.
    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    /// Waits until it ends by itself; the exit code.
    pub fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Asks it to end, and waits; the exit code.
    pub fn terminate(&mut self) -> Option<i32> {
        self.signal("TERM");
        self.wait()
    }
}

/// The highest that resident memory ever was, in KiB.
pub fn peak_resident(pid: u32) -> u64 {
    in_status(pid, "VmHWM")
}

/// Resident memory in KiB, from /proc.
pub fn resident(pid: u32) -> u64 {
    in_status(pid, "VmRSS")
}

fn in_status(pid: u32, field: &str) -> u64 {
    let status = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
