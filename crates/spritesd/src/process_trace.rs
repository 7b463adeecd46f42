//! Ground truth: which processes start inside guests, seen from outside and without the guest's help.
//!
//! Every dynamically linked program opens `/etc/ld.so.cache` right after it has replaced the process's image. Each
//! Sprite has a copy of its own, on which the kernel asks us for permission (fanotify) and waits: so the arguments and
//! the environment can be read at leisure, however short the process lives. Starts that carry one of the marks go to
//! the log. A statically linked program is not seen. If this ends, the kernel permits everything.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::fanotify::{EventFFlags, Fanotify, FanotifyResponse, InitFlags, MarkFlags, MaskFlags, Response};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::json;
use tracing::{debug, warn};

use super::log::EventLog;

/// The file of a Sprite's `/etc` that is watched.
pub(crate) const WATCHED: &str = "ld.so.cache";
/// The most of an argument list or an environment that is read.
const LONGEST: u64 = 1 << 20;
/// The most of an argument list that is told.
const LONGEST_TOLD: usize = 4096;

/// Watches the starts of processes.
#[derive(Debug)]
pub(crate) struct ProcessTrace {
    group: Fanotify,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    marks: Vec<String>,
    /// Device and number of a watched file → name and id of the Sprite.
    sprites: HashMap<(u64, u64), (String, String)>,
}

impl ProcessTrace {
    /// Begins to watch; nothing is seen until there are marks and Sprites.
    pub(crate) fn start(log: &Arc<EventLog>) -> io::Result<Arc<Self>> {
        let group = Fanotify::init(
            InitFlags::FAN_CLASS_CONTENT | InitFlags::FAN_CLOEXEC,
            EventFFlags::O_RDONLY | EventFFlags::O_CLOEXEC,
        )?;
        let process_trace = Arc::new(Self { group, state: Arc::default() });
        let (watching, log) = (Arc::downgrade(&process_trace), Arc::clone(log));
        let reader = process_trace.group.as_fd().try_clone_to_owned()?;
        std::thread::Builder::new().name("process_trace".into()).spawn(move || {
            loop {
                // Waits on a descriptor of its own, so that the trace can be dropped meanwhile.
                let mut polled = [PollFd::new(&reader, PollFlags::IN)];
                let second = Timespec { tv_sec: 1, tv_nsec: 0 };
                let ready = poll(&mut polled, Some(&second));
                let Some(process_trace) = watching.upgrade() else {
                    return;
                };
                let looked = match ready {
                    Ok(0) | Err(Errno::INTR) => Ok(()),
                    Ok(_) => process_trace.look(&log),
                    Err(error) => Err(error.into()),
                };
                if let Err(error) = looked {
                    warn!(%error, "starts of processes are not witnessed any more");
                    return;
                }
            }
        })?;
        Ok(process_trace)
    }

    /// Watches a Sprite whose `/etc` lies at `etc`.
    pub(crate) fn watch(&self, name: &str, id: &str, etc: &Path) -> io::Result<()> {
        let file = File::open(etc.join(WATCHED))?;
        let found = file.metadata()?;
        let mut state = self.lock();
        state.sprites.insert((found.dev(), found.ino()), (name.to_owned(), id.to_owned()));
        if !state.marks.is_empty() {
            self.mark(&etc.join(WATCHED))?;
        }
        Ok(())
    }

    /// Replaces the marks; `files` are the watched files of all Sprites.
    pub(crate) fn set_marks<'a>(&self, marks: Vec<String>, etcs: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        let mut state = self.lock();
        state.marks = marks;
        if !state.marks.is_empty() {
            etcs.into_iter().try_for_each(|etc| self.mark(&etc.join(WATCHED)))?;
        }
        Ok(())
    }

    pub(crate) fn marks(&self) -> Vec<String> {
        self.lock().marks.clone()
    }

    fn mark(&self, file: &Path) -> io::Result<()> {
        let root = File::open("/")?;
        Ok(self.group.mark(MarkFlags::FAN_MARK_ADD, MaskFlags::FAN_OPEN_PERM, root, Some(file))?)
    }

    fn look(&self, log: &EventLog) -> io::Result<()> {
        for event in self.group.read_events()? {
            let Some(fd) = event.fd() else { continue };
            // Told before it is permitted: what is not in the log has not run.
            self.tell(event.pid(), fd, log);
            self.group.write_response(FanotifyResponse::new(fd, Response::FAN_ALLOW))?;
        }
        Ok(())
    }

    fn tell(&self, pid: i32, file: impl AsFd, log: &EventLog) {
        let Ok(found) = rustix::fs::fstat(file) else { return };
        let state = self.lock();
        #[allow(clippy::useless_conversion, reason = "the types differ between architectures")]
        let Some((name, id)) = state.sprites.get(&(found.st_dev.into(), found.st_ino.into())) else {
            return;
        };
        let arguments = read(pid, "cmdline");
        let environment = read(pid, "environ");
        for mark in &state.marks {
            if contains(&arguments, mark.as_bytes()) || contains(&environment, mark.as_bytes()) {
                let told = arguments.get(..arguments.len().min(LONGEST_TOLD)).unwrap_or_default();
                let argv: Vec<String> = told
                    .strip_suffix(b"\0")
                    .unwrap_or(told)
                    .split(|byte| *byte == 0)
                    .map(|word| String::from_utf8_lossy(word).into_owned())
                    .collect();
                log.add("start", name, id, json!({ "mark": mark, "argv": argv }));
            }
        }
        debug!(pid, sprite = name, "a process starts");
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read(pid: i32, what: &str) -> Vec<u8> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(format!("/proc/{pid}/{what}")) {
        drop(file.take(LONGEST).read_to_end(&mut bytes));
    }
    bytes
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && text.windows(part.len()).any(|window| window == part)
}
