//! Watches files of a guest, and tells what happens to them, one JSON object a line.
//!
//! Ends when the reader of the lines closes its end. A reader that is slower than the guest makes the kernel drop
//! events; that is told as an error, never kept silent. Links are followed only where the caller named them.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use serde_json::json;

use super::agent_files::{failure, is_temporary};
use super::protocol::Answer;
use crate::errors::FileError;

/// The most directories one watch covers.
const MOST_WATCHES: usize = 8192;
/// Files found in a new directory whose own event may still come.
const MOST_FOUND: usize = 10_000;

/// Watches until the reader is gone. `answer` is told first whether that is possible.
pub(super) fn watch(
    paths: &[String],
    recursive: bool,
    fds: Vec<OwnedFd>,
    answer: impl FnOnce(Answer) -> io::Result<()>,
) -> io::Result<()> {
    let Some(output) = fds.into_iter().next() else {
        return answer(Answer::Gone);
    };
    match Watch::new(paths, recursive, File::from(output)) {
        Ok(mut watch) => {
            answer(Answer::Done)?;
            watch.run()
        }
        Err(error) => answer(Answer::Failed(error)),
    }
}

struct Watch {
    inotify: OwnedFd,
    output: File,
    recursive: bool,
    /// What each watch is on.
    paths: HashMap<i32, PathBuf>,
    /// Told because they lay in a directory that was new; their own event is then not told again.
    found: HashSet<PathBuf>,
    /// The last rename away from a name of a file that was being written.
    placed: Option<u32>,
}

impl Watch {
    fn new(paths: &[String], recursive: bool, output: File) -> Result<Self, FileError> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(|error| failure(&error.into(), paths.first().map_or("", String::as_str)))?;
        let mut watch = Self { inotify, output, recursive, paths: HashMap::new(), found: HashSet::new(), placed: None };
        for path in paths {
            let top = Path::new(path);
            // A link is followed here only: below, a link to a directory is not one.
            let mut added = watch.add(top, WatchFlags::empty());
            if added.is_ok() && recursive && top.is_dir() {
                added = watch.descend(top, &mut |_, _, _| Ok(()));
            }
            added.map_err(|error| failure(&error, path))?;
        }
        Ok(watch)
    }

    fn add(&mut self, path: &Path, more: WatchFlags) -> io::Result<()> {
        if self.paths.len() >= MOST_WATCHES {
            return Err(Errno::TOOBIG.into());
        }
        let events = WatchFlags::CREATE
            | WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVE_SELF;
        let number = inotify::add_watch(&self.inotify, path, events | WatchFlags::EXCL_UNLINK | more)?;
        self.paths.insert(number, path.to_owned());
        Ok(())
    }

    /// Watches every directory below `top`, and tells of everything met.
    fn descend(
        &mut self,
        top: &Path,
        tell: &mut dyn FnMut(&mut Self, &Path, bool) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut waiting = vec![top.to_owned()];
        while let Some(directory) = waiting.pop() {
            // Gone again, or closed to us: nothing to watch.
            for child in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
                let path = child.path();
                let is_dir = child.file_type().is_ok_and(|kind| kind.is_dir());
                // Watched before it is told and before it is read, so that nothing falls in between.
                if is_dir {
                    match self.add(&path, WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW) {
                        Ok(()) => waiting.push(path.clone()),
                        Err(error) if is_limit(&error) => return Err(error),
                        Err(_) => {}
                    }
                }
                tell(self, &path, is_dir)?;
            }
        }
        Ok(())
    }

    fn run(&mut self) -> io::Result<()> {
        let mut buffer = vec![MaybeUninit::uninit(); 16 * 1024];
        loop {
            {
                let mut ready = [
                    PollFd::new(&self.inotify, PollFlags::IN),
                    // Asked for nothing, it still tells that the other end is closed.
                    PollFd::new(&self.output, PollFlags::empty()),
                ];
                match poll(&mut ready, None) {
                    Ok(_) | Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
                if ready.iter().any(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP)) {
                    return Ok(());
                }
            }
            let mut happened = Vec::new();
            {
                let mut reader = Reader::new(&self.inotify, &mut buffer);
                loop {
                    match reader.next() {
                        Ok(event) => {
                            let name = event.file_name().map(|name| name.to_string_lossy().into_owned());
                            happened.push((event.wd(), event.events(), event.cookie(), name));
                        }
                        Err(Errno::AGAIN | Errno::INTR) => break,
                        Err(error) => return Err(error.into()),
                    }
                    if reader.is_buffer_empty() {
                        break;
                    }
                }
            }
            for (number, events, cookie, name) in happened {
                self.event(number, events, cookie, name.as_deref())?;
            }
        }
    }

    fn event(&mut self, number: i32, events: ReadFlags, cookie: u32, name: Option<&str>) -> io::Result<()> {
        if events.contains(ReadFlags::QUEUE_OVERFLOW) {
            return self.complain("too much happened at once; some events were lost");
        }
        if events.contains(ReadFlags::IGNORED) {
            self.paths.remove(&number);
            return Ok(());
        }
        let Some(base) = self.paths.get(&number) else {
            return Ok(());
        };
        // What is not whole yet is nobody's business.
        if name.is_some_and(is_temporary) {
            if events.contains(ReadFlags::MOVED_FROM) {
                self.placed = Some(cookie);
            }
            return Ok(());
        }
        let path = name.map_or_else(|| base.clone(), |name| base.join(name));
        let is_dir = events.contains(ReadFlags::ISDIR);
        let appeared = events.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
        if appeared && self.found.remove(&path) {
            return Ok(());
        }
        if events.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
            self.found.remove(&path);
            // A directory that moved away is somebody else's, with all below it.
            if is_dir && events.contains(ReadFlags::MOVED_FROM) {
                self.forget(&path);
            }
        }
        // Directories below a watched one are told by their parent.
        let is_top = name.is_none();
        let kind = if appeared {
            "create"
        } else if events.contains(ReadFlags::MODIFY) {
            "write"
        } else if events.contains(ReadFlags::DELETE) || (is_top && events.contains(ReadFlags::DELETE_SELF)) {
            "remove"
        } else if events.contains(ReadFlags::MOVED_FROM) || (is_top && events.contains(ReadFlags::MOVE_SELF)) {
            "rename"
        } else if events.contains(ReadFlags::ATTRIB) {
            "chmod"
        } else {
            return Ok(());
        };
        if is_top && self.has_parent(&path) {
            return Ok(());
        }
        self.tell(&path, kind, is_dir)?;
        if events.contains(ReadFlags::MOVED_TO) && self.placed.take_if(|placed| *placed == cookie).is_some() {
            // A file written whole and put in place: also the write it would have been otherwise.
            self.tell(&path, "write", is_dir)?;
        }
        if appeared && is_dir && self.recursive {
            self.enter(&path)?;
        }
        Ok(())
    }

    /// Whether the directory of `path` is watched too, and so tells the same.
    fn has_parent(&self, path: &Path) -> bool {
        path.parent().is_some_and(|parent| self.paths.values().any(|watched| watched == parent))
    }

    /// Watches a directory that has appeared, and tells of what lies in it already.
    fn enter(&mut self, path: &Path) -> io::Result<()> {
        let entered = self.add(path, WatchFlags::ONLYDIR | WatchFlags::DONT_FOLLOW);
        let entered = match entered {
            Ok(()) => self.descend(path, &mut |watch, path, is_dir| {
                if watch.found.len() < MOST_FOUND {
                    watch.found.insert(path.to_owned());
                }
                watch.tell(path, "create", is_dir)
            }),
            // Gone again.
            Err(error) if !is_limit(&error) => Ok(()),
            Err(error) => Err(error),
        };
        match entered {
            Err(error) if is_limit(&error) => self.complain("too many directories to watch them all"),
            other => other,
        }
    }

    fn forget(&mut self, top: &Path) {
        let below: Vec<i32> =
            self.paths.iter().filter(|(_, path)| path.starts_with(top)).map(|(number, _)| *number).collect();
        for number in below {
            self.paths.remove(&number);
            // It may be gone by itself.
            let _ = inotify::remove_watch(&self.inotify, number);
        }
    }

    fn tell(&mut self, path: &Path, event: &str, is_dir: bool) -> io::Result<()> {
        let size = std::fs::symlink_metadata(path).map_or(0, |found| found.len());
        self.line(&json!({
            "type": "event", "path": path.to_string_lossy(), "event": event, "size": size, "isDir": is_dir,
            "timestamp": format!("{:.6}", Timestamp::now()),
        }))
    }

    fn complain(&mut self, message: &str) -> io::Result<()> {
        self.line(&json!({ "type": "error", "message": message }))
    }

    fn line(&mut self, line: &serde_json::Value) -> io::Result<()> {
        self.output.write_all(format!("{line}\n").as_bytes())
    }
}

fn is_limit(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOSPC | Errno::TOOBIG | Errno::NOMEM))
}
