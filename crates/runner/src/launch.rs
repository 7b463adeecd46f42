//! Starts the script: this program again, in a new session, which then becomes bash, or does a file operation itself. Must not pass settings of the runner on.

use std::{
    ffi::OsString,
    fs::File,
    os::unix::process::CommandExt as _,
    process::{Command, Stdio},
};

use runner_protocol::{EXEC, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_USAGE, FILE};

use crate::{processes, signals};

/// Starts the script: this program again, which then becomes bash. Returns its process.
pub fn start(script: &OsString, streams: [Stdio; 3]) -> std::io::Result<rustix::process::Pid> {
    let [stdin, stdout, stderr] = streams;
    let child =
        Command::new(processes::OWN_EXE).arg(EXEC).arg(script).stdin(stdin).stdout(stdout).stderr(stderr).spawn()?;
    processes::pid_of(&child)
}

/// Starts what does a file operation: this program again, which reads it as its stdin. Returns its process.
pub fn start_file(operation: File, streams: [Stdio; 2]) -> std::io::Result<rustix::process::Pid> {
    let [stdout, stderr] = streams;
    let mut command = Command::new(processes::OWN_EXE);
    let child = command.arg(FILE).stdin(Stdio::from(operation)).stdout(stdout).stderr(stderr).spawn()?;
    processes::pid_of(&child)
}

/// Becomes the script: in a session of its own, so that one signal reaches its group. As an argument of bash, so that its
/// messages name no file of the operator.
pub fn become_script(script: Option<&OsString>) -> u8 {
    let Some(script) = script else { return EXIT_USAGE };
    let _ = rustix::process::setsid();
    signals::unblock();
    let error = Command::new("bash").args(["--noprofile", "--norc", "-c"]).arg(script).arg("bash").exec();
    let text = format!("bash cannot be started: {error}\n");
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    if error.kind() == std::io::ErrorKind::NotFound { EXIT_NOT_FOUND } else { EXIT_NOT_EXECUTABLE }
}
