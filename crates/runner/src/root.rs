//! The operator's files in the guest: nonce, guards, spools. Nothing here is followed through a link or waited for.
//!
//! `~/.sprite-operator/nonce`; `~/.sprite-operator/UID/` is the guard of a Run, with `started` and `record`, or a link `never`
//! in its place; `~/.sprite-operator/spool/UID/` holds `stdout` and `stderr`.

use std::{
    fs::{DirBuilder, File, Permissions},
    io::{Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    fs::{CWD, FileType, Mode, OFlags, fstat, openat},
    io::Errno,
};

use runner_protocol::{Guard, HOME, MARK_VARIABLE, ROOT, Record, SPOOL, Source};

/// Longest of the operator's files that is read.
const SMALL: u64 = 1024;
/// What the record says of a command that never started.
const NEVER: &str = "never\n";
/// What the link in place of a guard says.
const LINK: &str = "never";

/// Where the operator's files are.
#[derive(Debug, Clone)]
pub struct Root(pub PathBuf);

impl Root {
    /// Below the home of the user that this runs as.
    pub fn new() -> Self {
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from(HOME), PathBuf::from);
        Self(home.join(ROOT))
    }

    /// The guard of a Run.
    pub fn guard(&self, uid: &str) -> PathBuf {
        self.0.join(uid)
    }

    /// Where all spools are.
    pub fn spools(&self) -> PathBuf {
        self.0.join(SPOOL)
    }

    /// The nonce of this instance.
    pub fn nonce(&self) -> Option<String> {
        read_small(&self.0.join("nonce")).map(|text| text.trim_end().to_owned())
    }

    /// Makes the guard: atomic, so of two launches one starts.
    pub fn make_guard(&self, uid: &str) -> std::io::Result<()> {
        DirBuilder::new().mode(0o700).create(self.guard(uid))?;
        // The only proof that the Run was started must outlive a loss of power.
        File::open(&self.0)?.sync_all()
    }

    /// A fresh spool of a stream.
    pub fn spool(&self, uid: &str, source: Source) -> std::io::Result<File> {
        let directory = self.spools().join(uid);
        DirBuilder::new().mode(0o700).recursive(true).create(&directory)?;
        create(&directory.join(source.as_str()))
    }

    /// Says when a Run's script was started, in the guest's boot time.
    pub fn write_started(&self, uid: &str, at: Duration) -> std::io::Result<()> {
        create(&self.guard(uid).join("started"))?.write_all(format!("{}\n", at.as_millis()).as_bytes())
    }

    /// When a Run's script was started.
    pub fn started(&self, uid: &str) -> Option<Duration> {
        let text = read_small(&self.guard(uid).join("started"))?;
        text.strip_suffix('\n')?.parse().ok().map(Duration::from_millis)
    }

    /// Writes the record, unless there is one: the first counts.
    pub fn write_record(&self, uid: &str, record: &Record) -> std::io::Result<()> {
        create(&self.guard(uid).join("record"))?.write_all(format!("{record}\n").as_bytes())
    }

    /// Says that a Run with a guard never started.
    pub fn write_never(&self, uid: &str) -> std::io::Result<()> {
        create(&self.guard(uid).join("record"))?.write_all(NEVER.as_bytes())
    }

    /// Puts a link in place of the guard, so that the Run cannot start any more, unless something stands there.
    pub fn fence(&self, uid: &str) -> Result<(), Errno> {
        match rustix::fs::symlinkat(LINK, CWD, self.guard(uid)) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Puts a guard without a record where the one of a Run that began is missing, and leaves any other as it is.
    pub fn stand_in(&self, uid: &str) -> std::io::Result<()> {
        match self.make_guard(uid) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Reads the guard; `None` when there is none, or something else is in its place.
    pub fn read_guard(&self, uid: &str) -> Option<Guard> {
        let guard = self.guard(uid);
        let kind = std::fs::symlink_metadata(&guard).ok()?.file_type();
        if kind.is_symlink() {
            return std::fs::read_link(&guard).is_ok_and(|to| to.as_os_str() == LINK).then_some(Guard::Never);
        }
        if !kind.is_dir() {
            return None;
        }
        // `exit` is the record of the shell runner of older operators.
        let text = read_small(&guard.join("record")).or_else(|| read_small(&guard.join("exit")));
        Some(match text.as_deref() {
            Some(NEVER) => Guard::Never,
            Some(text) => Record::parse(text).map_or(Guard::Started, Guard::Ended),
            None => Guard::Started,
        })
    }
}

/// Creates one of the operator's files; fails if something is there.
fn create(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path, flags, Mode::from_raw_mode(0o600))?))
}

/// Makes one of the operator's folders, writable, replacing anything else that code in the session may have put there.
pub fn own_folder(path: &Path) -> std::io::Result<()> {
    folder(path)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
}

/// Makes a folder, replacing anything else.
pub fn folder(path: &Path) -> std::io::Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => return Ok(()),
        Ok(_) => std::fs::remove_file(path)?,
        Err(_) => {}
    }
    std::fs::create_dir_all(path)
}

/// A small regular file as text. A FIFO or device in its place is not waited for.
pub fn read_small(path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty()).ok()?;
    if FileType::from_raw_mode(fstat(&file).ok()?.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut text = String::new();
    File::from(file).take(SMALL).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The mark of a Run in the environment of its processes.
pub fn mark(uid: &str) -> String {
    format!("{MARK_VARIABLE}={uid}")
}
