//! The supervisor: starts the script, keeps its time, and ends it with all that it started.
//!
//! Words: `so-supervise UID TIMEOUT_MS LEFTOVERS KIND`; its environment and working directory are the script's, its stdin the channel to
//! the front. Must not hold an end of the script's pipes: the front would never see theirs.

use std::{
    ffi::OsString,
    fs::File,
    io::{Read as _, Seek as _},
    os::{fd::OwnedFd, unix::ffi::OsStringExt as _},
    process::Stdio,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    process::{Pid, Signal, kill_process, kill_process_group},
};

use runner_protocol::{Cause, EXIT_CANNOT_START, EXIT_USAGE, Record, is_plain};

use crate::{
    channel::{self, Message},
    clock::{self, Timer},
    keep_awake, launch,
    processes::{self, Ended},
    root::Root,
    signals::{Signals, Wish},
};

/// How long a script has between TERM and KILL.
pub const GRACE: Duration = Duration::from_secs(2);
/// A script that runs longer than this keeps the Sprite awake by a task.
const LONG: Duration = Duration::from_secs(10);
/// How much longer than the script that task may stand.
const TASK_AFTER: Duration = Duration::from_mins(1);
/// The code of a script that was told to end by TERM.
const TERMINATED: u8 = 143;
/// The code of one that was killed.
pub const KILLED: u8 = 137;
/// The word that stands for [`runner_protocol::Arguments::kill_leftovers`].
pub const KILL_LEFTOVERS: &str = "kill-leftovers";
/// The word that stands for [`runner_protocol::Arguments::is_file`].
pub const IS_FILE: &str = "file";

/// Supervises, until the record is written.
pub fn supervise(words: &[&str]) -> u8 {
    let [uid, timeout, leftovers, kind] = words else { return EXIT_USAGE };
    let (true, Ok(timeout)) = (is_plain(uid), timeout.parse().map(Duration::from_millis)) else { return EXIT_USAGE };
    let Ok(front) = take_channel() else { return EXIT_USAGE };
    let started = begin(&front, *kind == IS_FILE);
    let (script, signals, timer) = match started {
        Ok(started) => started,
        Err(error) => {
            channel::send(&front, &Message::Failed(error.to_string()));
            return EXIT_CANNOT_START;
        }
    };
    let began = clock::now();
    channel::send(&front, &Message::Started(began));
    let kill_leftovers = *leftovers == KILL_LEFTOVERS;
    let supervisor =
        Supervisor { uid, front, signals, timer, script, began, timeout, kill_leftovers, cause: None, code: None };
    supervisor.run();
    0
}

/// The channel is stdin; the script gets another one.
fn take_channel() -> std::io::Result<OwnedFd> {
    let channel = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    Ok(channel)
}

fn begin(front: &OwnedFd, is_file: bool) -> std::io::Result<(Pid, Signals, Timer)> {
    let signals = Signals::block()?;
    // A signal to the front's group is not for the supervisor.
    rustix::process::setsid()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let timer = Timer::new()?;
    let no_begin = || std::io::Error::other("the front said nothing");
    let Some((Message::Begin, descriptors)) = channel::receive(front) else { return Err(no_begin()) };
    let [stdin, stdout, stderr, script]: [OwnedFd; channel::DESCRIPTORS] =
        descriptors.try_into().map_err(|_| no_begin())?;
    let mut script = File::from(script);
    script.rewind()?;
    let script = if is_file {
        launch::start_file(script, [stdout, stderr].map(Stdio::from))?
    } else {
        let mut text = Vec::new();
        script.read_to_end(&mut text)?;
        launch::start(&OsString::from_vec(text), [stdin, stdout, stderr].map(Stdio::from))?
    };
    Ok((script, signals, timer))
}

struct Supervisor<'a> {
    uid: &'a str,
    front: OwnedFd,
    signals: Signals,
    timer: Timer,
    script: Pid,
    began: Duration,
    timeout: Duration,
    kill_leftovers: bool,
    /// Why it is being ended; nothing while it runs on.
    cause: Option<Cause>,
    /// How the script ended.
    code: Option<(u8, Duration)>,
}

impl Supervisor<'_> {
    fn run(mut self) {
        let (ends, is_long) = (self.began + self.timeout, self.timeout > LONG);
        let mut task = false;
        let mut grace_ends = None;
        loop {
            let next = grace_ends.unwrap_or(if is_long && !task { self.began + LONG } else { ends });
            self.timer.fire_at(next);
            let mut ready = [
                PollFd::new(&self.signals, PollFlags::IN),
                PollFd::new(&self.front, PollFlags::IN),
                PollFd::new(&self.timer, PollFlags::IN),
            ];
            let _ = poll(&mut ready, None);
            let [signal, said, _] = ready.map(|ready| !ready.revents().is_empty());
            // What ended by itself ended before anything that is heard now could end it.
            if signal {
                // Only the end of a child counts: a signal to this process may come from the script.
                while let Some(wish) = self.signals.next() {
                    if wish == Wish::Child {
                        self.reap();
                    }
                }
            }
            self.reap();
            if self.code.is_some() {
                break;
            }
            let mut stop = None;
            if said {
                match channel::receive(&self.front) {
                    Some((Message::Stop(cause), _)) => stop = Some(cause),
                    Some((Message::End, _)) => {
                        self.cause.get_or_insert(Cause::Stop);
                        break;
                    }
                    // Nothing else is said by a front that lives.
                    Some(_) | None => {
                        self.cause.get_or_insert(Cause::RunnerKilled);
                        break;
                    }
                }
            }
            let now = clock::now();
            if grace_ends.is_some_and(|moment| now >= moment) {
                break;
            }
            if is_long && !task && now >= self.began + LONG {
                task = true;
                keep_awake::begin(self.uid, ends.saturating_sub(now) + TASK_AFTER);
            }
            if now >= ends {
                stop.get_or_insert(Cause::Timeout);
            }
            if let Some(cause) = stop.filter(|_| self.cause.is_none()) {
                self.cause = Some(cause);
                grace_ends = Some(now + GRACE);
                // Its group, and itself: it may not have become a leader yet.
                let _ = kill_process_group(self.script, Signal::TERM);
                let _ = kill_process(self.script, Signal::TERM);
            }
        }
        let uid = self.uid;
        self.finish();
        if task {
            keep_awake::end(uid);
        }
    }

    fn reap(&mut self) {
        while let Some((pid, code)) = processes::reap() {
            if pid == self.script {
                self.code.get_or_insert((code, clock::now()));
            }
        }
    }

    /// Ends what is left, and sees the record written.
    fn finish(mut self) {
        let stopped = self.cause.is_some();
        let ended = if stopped || self.kill_leftovers {
            let (script, mut code) = (self.script, self.code);
            let ended = processes::end(processes::descendants, |pid, status| {
                if pid == script {
                    code.get_or_insert((status, clock::now()));
                }
            });
            self.code = code;
            ended
        } else {
            let remaining = u32::try_from(processes::descendants().len()).unwrap_or(u32::MAX);
            Ended { found: 0, remaining }
        };
        let (code, at) = self.code.unwrap_or((KILLED, clock::now()));
        let by = self.cause.unwrap_or(Cause::Script);
        // What passed its cap has one code, whether TERM or its own end was quicker; unless it had to be killed.
        let code = if by == Cause::Overflow && code != KILLED { TERMINATED } else { code };
        let record = Record {
            code,
            by,
            ran: at.saturating_sub(self.began),
            ended: ended.found.saturating_sub(ended.remaining),
            remaining: ended.remaining,
            stdout: None,
            stderr: None,
        };
        channel::send(&self.front, &Message::Ended(record));
        // The front writes the record, with its counts. If it was killed, it is written here.
        loop {
            match channel::receive(&self.front) {
                Some((Message::Recorded, _)) => return,
                Some(_) => {}
                None => break,
            }
        }
        let _ = Root::new().write_record(self.uid, &record);
    }
}

/// What a script is recorded with whose output passed its cap, whatever code it ended with by itself.
pub fn overflowed(record: Record) -> Record {
    Record { by: Cause::Overflow, code: if record.code == KILLED { KILLED } else { TERMINATED }, ..record }
}
