//! Reading and writing files, as the guest's user and in the guest's view.
//!
//! Nothing here blocks on a guest's trick (a FIFO in place of a file) and nothing of a process is handed out:
//! `/proc` is refused, since opened here its `self` would be the agent.

use std::collections::HashMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use rustix::fs::{Mode, OFlags, PROC_SUPER_MAGIC};
use rustix::io::Errno;

use super::agent_tree;
use super::protocol::{Answer, Request};
use crate::errors::FileError;

/// How the names of files end that are being written.
const TEMPORARY: &str = ".part";
/// What a file of a caller who names no mode gets.
const DEFAULT_MODE: u32 = 0o644;

/// Writes begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct Files {
    tickets: AtomicU64,
    writes: Mutex<HashMap<u64, Write>>,
    passing: RwLock<()>,
}

#[derive(Debug)]
struct Write {
    file: File,
    temporary: PathBuf,
    target: PathBuf,
}

impl Files {
    /// Serves one request about files; any other is refused.
    pub(crate) fn serve(&self, request: Request, fds: Vec<OwnedFd>) -> (Answer, Option<OwnedFd>) {
        let done = |result: io::Result<(Answer, Option<OwnedFd>)>, path: &str| {
            result.unwrap_or_else(|error| (Answer::Failed(failure(&error, path)), None))
        };
        match request {
            Request::OpenRead { path } => done(open(&path), &path),
            Request::BeginWrite { path, parents } => done(self.begin(&path, parents), &path),
            Request::CommitWrite { ticket, mode } => {
                let (result, path) = self.commit(ticket, mode);
                done(result, &path)
            }
            Request::AbortWrite { ticket } => {
                if let Some(write) = self.writes().remove(&ticket) {
                    drop(std::fs::remove_file(write.temporary));
                }
                (Answer::Done, None)
            }
            request @ (Request::List { .. }
            | Request::Delete { .. }
            | Request::Rename { .. }
            | Request::Copy { .. }
            | Request::Chmod { .. }
            | Request::Chown { .. }) => (agent_tree::serve(request, fds.into_iter().next()), None),
            Request::Spawn(_)
            | Request::Signal { .. }
            | Request::SignalGroup { .. }
            | Request::OpenTerminal
            | Request::Watch { .. }
            | Request::Connect { .. }
            | Request::Ports
            | Request::Pause { .. } => (Answer::Gone, None),
        }
    }

    /// Held while a writable descriptor is passed to the daemon, until this process has closed its own: the kernel refuses to
    /// execute a file that is open for writing (ETXTBSY), and a write that was answered must be executable.
    pub(super) fn passing(&self) -> RwLockReadGuard<'_, ()> {
        self.passing.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writes(&self) -> MutexGuard<'_, HashMap<u64, Write>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, path: &str, parents: bool) -> io::Result<(Answer, Option<OwnedFd>)> {
        let target = target_of(Path::new(path))?;
        if path.ends_with('/') {
            return Err(Errno::ISDIR.into());
        }
        let (Some(parent), Some(_)) = (target.parent(), target.file_name()) else {
            return Err(Errno::INVAL.into());
        };
        if parents {
            std::fs::create_dir_all(parent)?;
        }
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let temporary = temporary(parent);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
        let passed = file.try_clone()?.into();
        self.writes().insert(ticket, Write { file, temporary, target });
        Ok((Answer::Opened { ticket, size: 0 }, Some(passed)))
    }

    fn commit(&self, ticket: u64, mode: Option<u32>) -> (io::Result<(Answer, Option<OwnedFd>)>, String) {
        let Some(write) = self.writes().remove(&ticket) else {
            return (Err(Errno::INVAL.into()), String::new());
        };
        drop(self.passing.write().unwrap_or_else(PoisonError::into_inner));
        let path = write.target.to_string_lossy().into_owned();
        let finish = || {
            let kept = std::fs::metadata(&write.target).ok().map(|found| found.mode() & 0o7777);
            // As open(2) has it: a mode is for a file that is made.
            let mode = kept.or(mode).unwrap_or(DEFAULT_MODE);
            write.file.set_permissions(std::fs::Permissions::from_mode(mode))?;
            std::fs::rename(&write.temporary, &write.target)?;
            Ok((Answer::Written { size: write.file.metadata()?.len(), mode }, None))
        };
        let result = finish();
        if result.is_err() {
            drop(std::fs::remove_file(&write.temporary));
        }
        (result, path)
    }
}

/// What a write to `path` replaces: a link is followed to what it names, as a plain write would.
pub(super) fn target_of(path: &Path) -> io::Result<PathBuf> {
    let target = match std::fs::canonicalize(path) {
        Ok(real) => real,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    if target.is_dir() { Err(Errno::ISDIR.into()) } else { Ok(target) }
}

/// A new name for what is not whole yet.
pub(crate) fn temporary(parent: &Path) -> PathBuf {
    parent.join(format!(".{}{TEMPORARY}", uuid::Uuid::new_v4().simple()))
}

/// Whether a file name is one of [`temporary`]'s.
pub(super) fn is_temporary(name: &str) -> bool {
    let middle = name.strip_prefix('.').and_then(|name| name.strip_suffix(TEMPORARY));
    middle.is_some_and(|middle| middle.len() == 32 && middle.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Opens a regular file that is none of `/proc`.
pub(super) fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    if !found.is_file() {
        return Err(Errno::INVAL.into());
    }
    if rustix::fs::fstatfs(&file)?.f_type == PROC_SUPER_MAGIC {
        return Err(Errno::ACCESS.into());
    }
    Ok((file, found))
}

fn open(path: &str) -> io::Result<(Answer, Option<OwnedFd>)> {
    let (file, found) = open_regular(Path::new(path))?;
    Ok((Answer::Opened { ticket: 0, size: found.len() }, Some(file.into())))
}

/// What a client is told about an error.
pub(crate) fn failure(error: &io::Error, path: &str) -> FileError {
    let (code, text) = match Errno::from_io_error(error) {
        Some(Errno::NOENT) => ("ENOENT", "no such file or directory"),
        Some(Errno::EXIST) => ("EEXIST", "file exists"),
        Some(Errno::NOTDIR) => ("ENOTDIR", "not a directory"),
        Some(Errno::ISDIR) => ("EISDIR", "is a directory"),
        Some(Errno::ACCESS) => ("EACCES", "permission denied"),
        Some(Errno::PERM) => ("EPERM", "permission denied"),
        Some(Errno::ROFS) => ("EACCES", "permission denied: read-only file system"),
        Some(Errno::NOTEMPTY) => ("ENOTEMPTY", "directory not empty"),
        Some(Errno::INVAL | Errno::NXIO) => ("EINVAL", "invalid argument"),
        Some(Errno::LOOP) => ("ELOOP", "too many levels of symbolic links"),
        Some(Errno::NAMETOOLONG) => ("ENAMETOOLONG", "file name too long"),
        Some(Errno::TOOBIG) => ("E2BIG", "too many entries"),
        Some(Errno::BUSY) => ("EBUSY", "device or resource busy"),
        Some(Errno::NOSPC | Errno::DQUOT) => ("ENOSPC", "no space left on device"),
        Some(_) | None => ("EIO", "input/output error"),
    };
    FileError::new(code, text, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn a_write_appears_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b.txt").to_string_lossy().into_owned();
        let files = Files::default();
        let begin = |parents| files.serve(Request::BeginWrite { path: path.clone(), parents }, Vec::new());

        assert!(matches!(begin(false).0, Answer::Failed(FileError { code, .. }) if code == "ENOENT"));
        let (Answer::Opened { ticket, .. }, Some(fd)) = begin(true) else { unreachable!() };
        File::from(fd).write_all(b"text").unwrap();
        assert!(!Path::new(&path).exists());
        let (answer, _) = files.serve(Request::CommitWrite { ticket, mode: Some(0o600) }, Vec::new());
        assert!(matches!(answer, Answer::Written { size: 4, mode: 0o600 }));
        assert_eq!(std::fs::read(&path).unwrap(), b"text");

        let (Answer::Opened { ticket, .. }, Some(_)) = begin(true) else { unreachable!() };
        let (answer, _) = files.serve(Request::CommitWrite { ticket, mode: Some(0o644) }, Vec::new());
        assert!(matches!(answer, Answer::Written { size: 0, mode: 0o600 }), "a file that is there keeps its mode");

        let (Answer::Opened { ticket, .. }, Some(_)) = begin(true) else { unreachable!() };
        files.serve(Request::AbortWrite { ticket }, Vec::new());
        assert_eq!(std::fs::read_dir(dir.path().join("a")).unwrap().count(), 1);
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let code = |path: &str| match Files::default().serve(Request::OpenRead { path: path.into() }, Vec::new()).0 {
            Answer::Failed(error) => error.code,
            Answer::Done
            | Answer::Spawned { .. }
            | Answer::NotSpawned { .. }
            | Answer::Gone
            | Answer::Opened { .. }
            | Answer::Written { .. }
            | Answer::Counted { .. }
            | Answer::Connected { .. } => "none".into(),
        };
        assert_eq!(code(&fifo.to_string_lossy()), "EINVAL");
        assert_eq!(code(&dir.path().to_string_lossy()), "EISDIR");
        assert_eq!(code("/proc/self/environ"), "EACCES");
        assert_eq!(code("/nonexistent"), "ENOENT");
    }
}
