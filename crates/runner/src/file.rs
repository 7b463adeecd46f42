//! Does one file operation below the workspace: write, read or edit.
//!
//! A file is replaced whole, by a rename in its opened folder, or not at all. Must not open anything but regular files, and
//! nothing out of the workspace.

mod path;

use std::{
    fmt,
    fs::File,
    io::{Read as _, Write as _},
    os::{fd::OwnedFd, unix::fs::FileExt as _},
};

use memchr::memmem;
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, fchmod, fstat, openat, renameat, statat, unlinkat},
    io::Errno,
};

use runner_protocol::{EXIT_FILE_ERROR, EXIT_FILE_ESCAPE, EXIT_USAGE, FileOperation, FileReport, MARK_VARIABLE};

use self::path::Place;
use crate::signals;

/// The longest file that is edited, in bytes: it is held in memory twice.
const EDIT_MAX: u64 = 16 << 20;
/// Permissions of a file that is made.
const DEFAULT_MODE: u32 = 0o644;

/// Why an operation failed.
#[derive(Debug)]
pub enum Failure {
    /// A link leads out of the workspace.
    Escape,
    /// The system says so.
    System(Errno),
    /// In other words.
    Because(String),
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        Self::System(error)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Errno::from_io_error(&error).map_or_else(|| Self::Because(error.to_string()), Self::System)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Escape => f.write_str("a symbolic link leads out of the workspace"),
            Self::System(error) => {
                let text = std::io::Error::from(*error).to_string();
                f.write_str(text.split(" (os error").next().unwrap_or(&text))
            }
            Self::Because(why) => f.write_str(why),
        }
    }
}

/// Does what its stdin says: the workspace, a NUL, the operation.
pub fn run() -> u8 {
    let _ = rustix::process::setsid();
    signals::unblock();
    let mut bytes = Vec::new();
    if std::io::stdin().read_to_end(&mut bytes).is_err() {
        return EXIT_USAGE;
    }
    let root = bytes.iter().position(|byte| *byte == 0).and_then(|end| bytes.split_at_checked(end));
    let parsed =
        root.and_then(|(root, rest)| Some((std::str::from_utf8(root).ok()?, FileOperation::parse(rest.get(1..)?)?)));
    let Some((root, operation)) = parsed else { return EXIT_USAGE };
    match perform(root, &operation) {
        Ok(report) => {
            let _ = std::io::stderr().write_all(report.line().as_bytes());
            0
        }
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{}: {failure}", operation.path());
            if matches!(failure, Failure::Escape) { EXIT_FILE_ESCAPE } else { EXIT_FILE_ERROR }
        }
    }
}

fn perform(root: &str, operation: &FileOperation) -> Result<FileReport, Failure> {
    let makes_parents = matches!(operation, FileOperation::Write { .. });
    let place = path::resolve(root, operation.path(), makes_parents)?;
    match operation {
        FileOperation::Write { mode, content, .. } => write(&place, mode.unwrap_or(DEFAULT_MODE), content),
        FileOperation::Read { offset, length, before, ahead, .. } => {
            let (file, size) = open(&place)?;
            let start = (*offset).min(size);
            let (before, content) = ((*before).min(start), (*length).min(size - start));
            let ahead = (*ahead).min(size - start - content);
            let mut bytes = vec![0; usize::try_from(before + content + ahead).map_err(|_| Errno::FBIG)?];
            let read = read_at(&file, &mut bytes, start - before)?;
            bytes.truncate(read);
            std::io::stdout().write_all(&bytes)?;
            std::io::stdout().flush()?;
            // It may have become shorter meanwhile.
            let before = before.min(read as u64);
            Ok(FileReport { size, before, content: content.min(read as u64 - before) })
        }
        FileOperation::Edit { old, new, all, .. } => {
            let (file, size) = open(&place)?;
            if size > EDIT_MAX {
                return Err(Failure::Because(format!("the file has {size} bytes: at most {EDIT_MAX} can be edited")));
            }
            let mut text = Vec::new();
            file.take(EDIT_MAX).read_to_end(&mut text)?;
            write(&place, DEFAULT_MODE, &replaced(&text, old, new, *all)?)
        }
    }
}

/// Text with one part replaced, or all of its kind.
fn replaced(text: &[u8], old: &[u8], new: &[u8], all: bool) -> Result<Vec<u8>, Failure> {
    let found: Vec<usize> = memmem::find_iter(text, old).collect();
    match found.len() {
        0 => return Err(Failure::Because("oldText does not occur in the file".to_owned())),
        1 => {}
        _ if all => {}
        times => {
            let why = format!("oldText occurs {times} times: write more of its surroundings, or set replaceAll");
            return Err(Failure::Because(why));
        }
    }
    let mut edited = Vec::with_capacity(text.len());
    let mut from = 0;
    for at in found {
        edited.extend_from_slice(text.get(from..at).unwrap_or_default());
        edited.extend_from_slice(new);
        from = at + old.len();
    }
    edited.extend_from_slice(text.get(from..).unwrap_or_default());
    Ok(edited)
}

/// Opens a regular file for reading, without waiting for anything.
fn open(place: &Place) -> Result<(File, u64), Failure> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = path::open_beneath(&place.folder, &place.name, flags)?;
    let data = fstat(&file)?;
    regular(FileType::from_raw_mode(data.st_mode))?;
    Ok((File::from(file), u64::try_from(data.st_size).unwrap_or_default()))
}

fn regular(kind: FileType) -> Result<(), Failure> {
    match kind {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Symlink => Err(Errno::LOOP.into()),
        FileType::Fifo | FileType::Socket | FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
            Err(Failure::Because("not a regular file".to_owned()))
        }
    }
}

fn read_at(file: &File, bytes: &mut [u8], from: u64) -> Result<usize, Failure> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, from.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}

/// Replaces a file: whole, or not at all. One that is there keeps its permissions.
fn write(place: &Place, mode: u32, content: &[u8]) -> Result<FileReport, Failure> {
    let Place { folder, name } = place;
    let mode = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(data) => {
            regular(FileType::from_raw_mode(data.st_mode))?;
            data.st_mode & 0o7777
        }
        Err(Errno::NOENT) => mode,
        Err(error) => return Err(error.into()),
    };
    // Of this Run alone. Whatever stands there is in nobody's use.
    let temporary = format!(".{}.so-tmp", std::env::var(MARK_VARIABLE).unwrap_or_default());
    let file = create(folder, &temporary)?;
    let written = fill(file, mode, content).and_then(|()| Ok(renameat(folder, &temporary, folder, name)?));
    if let Err(failure) = written {
        let _ = unlinkat(folder, &temporary, AtFlags::empty());
        return Err(failure);
    }
    // The new name must outlive a loss of power, too.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(folder) = openat(folder, ".", flags, Mode::empty()) {
        let _ = rustix::fs::fsync(folder);
    }
    Ok(FileReport { size: content.len() as u64, before: 0, content: 0 })
}

fn create(folder: &OwnedFd, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || openat(folder, name, flags, Mode::from_raw_mode(0o600));
    match create() {
        Err(Errno::EXIST) => {
            unlinkat(folder, name, AtFlags::empty())?;
            create()
        }
        created => created,
    }
}

fn fill(file: OwnedFd, mode: u32, content: &[u8]) -> Result<(), Failure> {
    let mut file = File::from(file);
    file.write_all(content)?;
    fchmod(&file, Mode::from_raw_mode(mode))?;
    file.sync_all()?;
    Ok(())
}
