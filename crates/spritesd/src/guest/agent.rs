//! The first process of a Sprite: starts programs, reaps orphans, delivers signals, touches files.
//!
//! It runs the daemon's own program as the guest's user, inside the guest's view, so a link the guest has made can
//! lead nowhere but into the guest. Code of the guest has the same user id: the agent therefore makes itself
//! undumpable before anything else, which forbids tracing it and reading its memory or descriptors. It ends when
//! the daemon's end of the socket closes, and the kernel ends every process of the Sprite with it.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitId, WaitIdOptions, WaitOptions, getpgid, kill_process, kill_process_group,
    set_dumpable_behavior, umask, wait, waitid,
};
use rustix::pty::{OpenptFlags, openpt, unlockpt};

use super::agent_files::{Files, failure};
use super::agent_pause::Paused;
use super::protocol::{Answer, Envelope, LARGEST_PACKET, Message, Request, Spawn, encode, receive, send};
use super::{agent_net, agent_watch};
use crate::errors::FileError;
use crate::exec::environment::DEFAULT_PATH;

/// Serves the socket at standard input until it closes.
pub(crate) fn run() -> io::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    umask(Mode::from_raw_mode(0o022));

    let agent = Arc::new(Agent {
        socket: io::stdin(),
        children: Mutex::default(),
        started: Condvar::new(),
        files: Files::default(),
        paused: Mutex::default(),
    });
    let reaper = Arc::clone(&agent);
    std::thread::Builder::new().name("reaper".into()).spawn(move || reaper.reap())?;
    agent.send(&Message::Ready, &[])?;

    let mut buffer = vec![0; LARGEST_PACKET];
    while let Some((envelope, fds)) = receive::<Envelope>(&agent.socket, &mut buffer)? {
        let Envelope { id, request } = envelope;
        match request {
            Request::Spawn(spawn) => agent.spawn(id, &spawn, fds)?,
            Request::Signal { pid, signal, group } => {
                let answer = agent.signal(pid, signal, group);
                agent.answer(id, answer, None)?;
            }
            Request::SignalGroup { pid, signal } => agent.answer(id, signal_group(pid, signal), None)?,
            Request::OpenTerminal => {
                let (answer, fd) = open_terminal();
                agent.answer(id, answer, fd.as_ref())?;
            }
            Request::Watch { paths, recursive } => {
                let worker = Arc::clone(&agent);
                agent.aside(id, move || {
                    agent_watch::watch(&paths, recursive, fds, |answer| worker.answer(id, answer, None))
                })?;
            }
            Request::Connect { host, port } => {
                let worker = Arc::clone(&agent);
                agent.aside(id, move || {
                    let (answer, fd) = agent_net::connect(&host, port);
                    worker.answer(id, answer, fd.as_ref())
                })?;
            }
            Request::Ports => {
                let worker = Arc::clone(&agent);
                agent.aside(id, move || worker.answer(id, agent_net::ports(fds), None))?;
            }
            Request::Pause { paused } => {
                let answer = agent.pause(paused);
                agent.answer(id, answer, None)?;
            }
            request @ (Request::OpenRead { .. }
            | Request::BeginWrite { .. }
            | Request::CommitWrite { .. }
            | Request::AbortWrite { .. }
            | Request::List { .. }
            | Request::Delete { .. }
            | Request::Rename { .. }
            | Request::Copy { .. }
            | Request::Chmod { .. }
            | Request::Chown { .. }) => {
                let worker = Arc::clone(&agent);
                agent.aside(id, move || {
                    let passing = matches!(request, Request::BeginWrite { .. }).then(|| worker.files.passing());
                    let (answer, fd) = worker.files.serve(request, fds);
                    let sent = worker.answer(id, answer, fd.as_ref());
                    drop((fd, passing));
                    sent
                })?;
            }
        }
    }
    Ok(())
}

struct Agent {
    /// Standard input. No program inherits it: each gets all three standard streams anew.
    socket: io::Stdin,
    /// Programs started and not reaped. Held while one is started, so its end is never told before its start.
    children: Mutex<HashSet<u32>>,
    /// Wakes the reaper, which cannot wait for children while there are none.
    started: Condvar,
    files: Files,
    paused: Mutex<Paused>,
}

impl Agent {
    fn lock(&self) -> MutexGuard<'_, HashSet<u32>> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, message: &Message, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        send(self.socket.as_fd(), &encode(message)?, fds)
    }

    fn answer(&self, id: u64, answer: Answer, fd: Option<&OwnedFd>) -> io::Result<()> {
        let fds: Vec<BorrowedFd<'_>> = fd.into_iter().map(OwnedFd::as_fd).collect();
        self.send(&Message::Answer { id, answer }, &fds)
    }

    fn pause(&self, paused: bool) -> Answer {
        let mut stopped = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        if !paused {
            stopped.resume();
            return Answer::Done;
        }
        match stopped.pause() {
            Ok(()) => Answer::Done,
            Err(error) => Answer::Failed(failure(&error, "/proc")),
        }
    }

    /// Does what may take long in a thread of its own: a signal must not wait for a disk or a network.
    fn aside(&self, id: u64, work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
        if std::thread::Builder::new().name("aside".into()).spawn(work).is_err() {
            // The guest has used up its processes. That is no reason to end it.
            let error = FileError::new("EAGAIN", "resource temporarily unavailable", "");
            self.answer(id, Answer::Failed(error), None)?;
        }
        Ok(())
    }

    fn spawn(&self, id: u64, spawn: &Spawn, fds: Vec<OwnedFd>) -> io::Result<()> {
        let mut children = self.lock();
        let answer = match start(spawn, fds) {
            Ok((pid, program)) => {
                children.insert(pid);
                Answer::Spawned { pid, program }
            }
            Err((code, text)) => Answer::NotSpawned { text, code },
        };
        self.started.notify_one();
        self.answer(id, answer, None)
    }

    fn signal(&self, pid: u32, signal: i32, group: bool) -> Answer {
        let children = self.lock();
        // Ours and unreaped: the number cannot have passed to another process.
        let target = children.contains(&pid).then(|| i32::try_from(pid).ok().and_then(Pid::from_raw)).flatten();
        let (Some(target), Some(signal)) = (target, Signal::from_named_raw(signal)) else {
            return Answer::Gone;
        };
        // Its leader may have left the group. Who is in it gets the signal once.
        let is_member = getpgid(Some(target)) == Ok(target);
        let sent_to_group = group && kill_process_group(target, signal).is_ok();
        let sent = if sent_to_group && is_member { Ok(()) } else { kill_process(target, signal) };
        if sent.is_ok() { Answer::Done } else { Answer::Gone }
    }

    /// Reaps every process of the Sprite, ours and orphans. Looks first without taking, then takes under the lock:
    /// starting a program that cannot be executed also waits for a child, and must find it.
    fn reap(&self) {
        loop {
            let looked = waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
            let mut children = self.lock();
            if looked.is_err_and(|error| error == Errno::CHILD) && children.is_empty() {
                children = self.started.wait(children).unwrap_or_else(PoisonError::into_inner);
            }
            while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                let Ok(pid) = u32::try_from(pid.as_raw_nonzero().get()) else {
                    continue;
                };
                let code = status.exit_status().or(status.terminating_signal().map(|signal| 128 + signal));
                let code = code.and_then(|code| u8::try_from(code & 0xff).ok()).unwrap_or(255);
                if children.remove(&pid) && self.send(&Message::Exited { pid, code }, &[]).is_err() {
                    return;
                }
            }
        }
    }
}

/// Signals a process group, also when its leader has ended: its number stays taken for as long as it has a member.
fn signal_group(pid: u32, signal: i32) -> Answer {
    // Neither the agent itself nor everything there is.
    let target = i32::try_from(pid).ok().filter(|pid| *pid > 1).and_then(Pid::from_raw);
    match (target, Signal::from_named_raw(signal)) {
        (Some(target), Some(signal)) if kill_process_group(target, signal).is_ok() => Answer::Done,
        _ => Answer::Gone,
    }
}

/// Opens a terminal: a pair of the guest's own instance of the terminal file system, so that the program finds its
/// end by name.
fn open_terminal() -> (Answer, Option<OwnedFd>) {
    let opened = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
        .and_then(|master| unlockpt(&master).map(|()| master));
    match opened {
        Ok(master) => (Answer::Opened { ticket: 0, size: 0 }, Some(master)),
        Err(error) => (Answer::Failed(failure(&error.into(), "/dev/ptmx")), None),
    }
}

/// Starts a program in a process group of its own; on failure what a shell would exit with and say.
fn start(spawn: &Spawn, fds: Vec<OwnedFd>) -> Result<(u32, String), (u8, String)> {
    let mut fds = fds.into_iter();
    let stdin = if spawn.stdin { fds.next().map_or_else(Stdio::null, Stdio::from) } else { Stdio::null() };
    let (Some(stdout), Some(stderr)) = (fds.next(), fds.next()) else {
        return Err((126, "no descriptors for the output".into()));
    };
    let dir = Path::new(&spawn.dir);
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err((126, format!("{}: Not a directory", spawn.dir))),
        Err(error) => {
            return Err((
                if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 },
                format!("{}: {}", spawn.dir, plain(&error)),
            ));
        }
    }
    let program = find(&spawn.program, dir)?;
    let mut command = if spawn.terminal { on_terminal(&program, &spawn.argv) } else { Command::new(&program) };
    let mut arguments = spawn.argv.iter();
    let zeroth = arguments.next();
    command.args(arguments);
    if !spawn.terminal {
        command.process_group(0);
        if let Some(zeroth) = zeroth {
            command.arg0(zeroth);
        }
    }
    command.env_clear().envs(spawn.env.iter().map(|(key, value)| (key, value)));
    command.current_dir(dir).stdin(stdin).stdout(stdout).stderr(stderr);
    match command.spawn() {
        // Dropping the handle neither ends nor waits for the process; the reaper does the waiting.
        Ok(child) => Ok((child.id(), program.to_string_lossy().into_owned())),
        Err(error) => Err((126, format!("{}: {}", program.display(), plain(&error)))),
    }
}

/// A command that makes its standard input its controlling terminal, in a session of its own, and then becomes
/// `program`. It must lead no process group when it starts, or `setsid` would fork and the process id change.
fn on_terminal(program: &Path, argv: &[String]) -> Command {
    let mut command = Command::new("/usr/bin/setsid");
    command.arg("--ctty");
    // setsid gives the program its path as zeroth argument. Where the caller wants another (`-bash`), a shell that
    // reads no startup file sets it.
    if let Some(zeroth) = argv.first().filter(|zeroth| Path::new(zeroth).file_name() != program.file_name()) {
        command.args(["/usr/bin/bash", "--noprofile", "--norc", "-p", "-c", "exec -a \"$0\" \"$@\""]).arg(zeroth);
    }
    command.arg(program);
    command
}

/// Looks a program up as a shell does: a path as it is, a bare name on the default PATH.
fn find(name: &str, dir: &Path) -> Result<PathBuf, (u8, String)> {
    let candidates: Vec<PathBuf> = if name.contains('/') {
        vec![dir.join(name)]
    } else {
        DEFAULT_PATH.split(':').map(|place| Path::new(place).join(name)).collect()
    };
    let mut denied = false;
    for candidate in candidates {
        match std::fs::metadata(&candidate) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => {
                return Ok(candidate);
            }
            Ok(_) => denied = true,
            Err(error) => denied |= error.kind() == io::ErrorKind::PermissionDenied,
        }
    }
    match (denied, name.contains('/')) {
        (true, _) => Err((126, format!("{name}: Permission denied"))),
        (false, true) => Err((127, format!("{name}: No such file or directory"))),
        (false, false) => Err((127, format!("{name}: command not found"))),
    }
}

/// The system's words for an error, without Rust's number after them.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}
