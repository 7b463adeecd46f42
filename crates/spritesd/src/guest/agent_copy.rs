//! Copying files and trees, as the guest's user and in the guest's view; and renaming, which between file systems is
//! a copy.
//!
//! A file appears whole or not at all. No tree is walked by recursion, and no link met on the way is followed.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use serde::Serialize;

use super::agent_files::{open_regular, target_of, temporary};
use super::agent_tree::{Report, delete};
use super::protocol::Answer;

/// Renames; between file systems by a copy that appears whole, then a removal.
pub(super) fn rename(source: &Path, dest: &Path) -> io::Result<Answer> {
    match std::fs::rename(source, dest) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {}
        other => return other.map(|()| Answer::Done),
    }
    let aside = temporary(dest.parent().ok_or(Errno::INVAL)?);
    let found = std::fs::symlink_metadata(source)?;
    let mut report = Report::new();
    let moved = copy_tree(source, &aside, &found, true, &mut report).and_then(|()| std::fs::rename(&aside, dest));
    if let Err(error) = moved {
        // There may be nothing to remove yet; the error to tell is the first.
        drop(delete(&aside, true));
        return Err(error);
    }
    delete(source, true)
}

/// One thing copied.
#[derive(Serialize)]
struct Copied {
    source: String,
    dest: String,
}

/// Copies a file or, if `recursive`, a tree; with `preserve`, modes and times go along.
pub(super) fn copy(
    source: &Path,
    dest: &Path,
    recursive: bool,
    preserve: bool,
    output: Option<File>,
) -> io::Result<Answer> {
    let found = std::fs::metadata(source)?;
    if found.is_dir() {
        if !recursive {
            return Err(Errno::ISDIR.into());
        }
        // Into itself it would never end.
        let real = std::fs::canonicalize(source)?;
        let parent = dest.parent().map_or_else(|| Ok(dest.to_owned()), std::fs::canonicalize)?;
        let target = std::fs::canonicalize(dest).unwrap_or_else(|_| parent.join(dest.file_name().unwrap_or_default()));
        if target.starts_with(real) {
            return Err(Errno::INVAL.into());
        }
    }
    let mut report = Report::new();
    copy_tree(source, dest, &found, preserve, &mut report)?;
    report.write(output)
}

fn copy_tree(
    source: &Path,
    dest: &Path,
    found: &Metadata,
    preserve: bool,
    report: &mut Report<Copied>,
) -> io::Result<()> {
    let mut waiting = vec![(source.to_owned(), dest.to_owned(), found.clone())];
    // Directories get their mode last, or a read-only one could not be filled.
    let mut made: Vec<(PathBuf, Metadata)> = Vec::new();
    while let Some((source, dest, found)) = waiting.pop() {
        let kind = found.file_type();
        if kind.is_dir() {
            match DirBuilder::new().mode(0o700).create(&dest) {
                Ok(()) => made.push((dest.clone(), found)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dest.is_dir() => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(Errno::NOTDIR.into()),
                Err(error) => return Err(error),
            }
            for child in std::fs::read_dir(&source)? {
                let child = child?;
                let found = std::fs::symlink_metadata(child.path())?;
                waiting.push((child.path(), dest.join(child.file_name()), found));
            }
        } else if kind.is_symlink() {
            let aside = temporary(dest.parent().ok_or(Errno::INVAL)?);
            std::os::unix::fs::symlink(std::fs::read_link(&source)?, &aside)?;
            put(&aside, &dest)?;
        } else if kind.is_file() {
            report.bytes += copy_file(&source, &dest, preserve)?;
        } else {
            let node = if kind.is_fifo() {
                FileType::Fifo
            } else if kind.is_socket() {
                FileType::Socket
            } else {
                return Err(Errno::INVAL.into());
            };
            mknodat(CWD, &dest, node, Mode::from_raw_mode(found.mode() & 0o777), 0)?;
        }
        report.add(Copied { source: source.to_string_lossy().into(), dest: dest.to_string_lossy().into() });
    }
    for (path, found) in made.iter().rev() {
        if preserve && let Ok(modified) = found.modified() {
            File::open(path)?.set_modified(modified)?;
        }
        let mask = if preserve { 0o7777 } else { 0o755 };
        std::fs::set_permissions(path, Permissions::from_mode(found.mode() & mask))?;
    }
    Ok(())
}

/// Copies the contents of a regular file; the copy appears whole. Gives the number of bytes.
fn copy_file(source: &Path, dest: &Path, preserve: bool) -> io::Result<u64> {
    let (mut input, found) = open_regular(source)?;
    let target = target_of(dest)?;
    let replaced = std::fs::metadata(&target).ok();
    if replaced.as_ref().is_some_and(|old| (old.dev(), old.ino()) == (found.dev(), found.ino())) {
        return Err(Errno::INVAL.into());
    }
    let aside = temporary(target.parent().ok_or(Errno::INVAL)?);
    let fill = || {
        let mut output = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        let bytes = io::copy(&mut input, &mut output)?;
        let mode = match replaced {
            _ if preserve => found.mode() & 0o7777,
            Some(old) => old.mode() & 0o7777,
            None => found.mode() & 0o755,
        };
        output.set_permissions(Permissions::from_mode(mode))?;
        if preserve {
            output.set_modified(found.modified()?)?;
        }
        Ok(bytes)
    };
    let bytes = fill().and_then(|bytes| std::fs::rename(&aside, &target).map(|()| bytes));
    if bytes.is_err() {
        drop(std::fs::remove_file(&aside));
    }
    bytes
}

/// Gives what was made aside its name, or removes it.
fn put(aside: &Path, dest: &Path) -> io::Result<()> {
    let put = std::fs::rename(aside, dest);
    if put.is_err() {
        drop(std::fs::remove_file(aside));
    }
    put
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_into_itself_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let source = dir.path().join("d");
        std::fs::create_dir(&source).unwrap();
        std::os::unix::fs::symlink(&source, dir.path().join("link")).unwrap();
        for dest in [source.join("x"), source.clone(), dir.path().join("link/x")] {
            let result = copy(&source, &dest, true, false, None);
            assert!(result.is_err_and(|error| error.raw_os_error() == Some(Errno::INVAL.raw_os_error())), "{dest:?}");
        }
        assert_eq!(std::fs::read_dir(&source).unwrap().count(), 0);
    }
}
