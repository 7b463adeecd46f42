//! The files of instant Sprites on the disk of this machine: one directory each, with `fs`, which is the Sprite's `/`, and its
//! checkpoints. No guest writes here, so there are no links to be led astray by. Blocking.
//!
//! A file that has several names is a runner, which all Sprites share (see `home`): it is never copied, and must not be changed.

use std::fs::Permissions;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Where the files of all are, below the data directory.
pub(crate) const ROOT: &str = "instant";
/// What a Sprite's own `/` is called.
pub(super) const FILES: &str = "fs";
/// What all Sprites share; no Sprite has such an id.
pub(super) const SHARED: &str = "shared";

const CHECKPOINTS: &str = "checkpoints";
/// What a new Sprite finds, and its mode.
const BEGINNING: [(&str, u32); 3] = [("home/sprite", 0o755), ("workspace", 0o755), ("tmp", 0o1777)];

/// Opens or makes the place, and lets go of shared files that no Sprite has any more.
pub(crate) fn open(root: &Path) -> io::Result<()> {
    let shared = root.join(SHARED);
    std::fs::create_dir_all(&shared)?;
    std::fs::set_permissions(root, Permissions::from_mode(0o700))?;
    for entry in std::fs::read_dir(shared)? {
        let entry = entry?;
        if entry.metadata()?.nlink() == 1 {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes what belongs to none of these and completes what a crash has left half done.
pub(crate) fn recover(root: &Path, ids: &[String]) -> io::Result<()> {
    for entry in std::fs::read_dir(root)? {
        let (directory, id) = { entry.map(|entry| (entry.path(), entry.file_name()))? };
        if id == SHARED {
            continue;
        }
        if !ids.iter().any(|known| id == known.as_str()) {
            remove(&directory)?;
            continue;
        }
        let (files, old) = (directory.join(FILES), directory.join("old"));
        if !files.exists() && old.exists() {
            std::fs::rename(&old, &files)?;
        }
        for left in [old, directory.join("new"), directory.join("part")] {
            remove(&left)?;
        }
    }
    Ok(())
}

/// Makes the files of a new Sprite.
pub(crate) fn create(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory.join(CHECKPOINTS))?;
    for (name, mode) in BEGINNING {
        let path = directory.join(FILES).join(name);
        std::fs::create_dir_all(&path)?;
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Removes all of a Sprite.
pub(crate) fn remove(directory: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Copies the files as they are now.
pub(crate) fn snapshot(directory: &Path, checkpoint: &str) -> io::Result<()> {
    let part = directory.join("part");
    remove(&part)?;
    copy(&directory.join(FILES), &part)?;
    std::fs::rename(part, directory.join(CHECKPOINTS).join(checkpoint))
}

/// Puts a copy in the place of the files.
pub(crate) fn restore(directory: &Path, checkpoint: &str) -> io::Result<()> {
    let (files, old, new) = (directory.join(FILES), directory.join("old"), directory.join("new"));
    remove(&new)?;
    copy(&directory.join(CHECKPOINTS).join(checkpoint), &new)?;
    std::fs::rename(&files, &old)?;
    std::fs::rename(new, files)?;
    remove(&old)
}

/// Removes a copy.
pub(crate) fn forget(directory: &Path, checkpoint: &str) -> io::Result<()> {
    remove(&directory.join(CHECKPOINTS).join(checkpoint))
}

/// Copies a tree to where nothing is; shared files stay shared.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mut waiting: Vec<(PathBuf, PathBuf)> = vec![(from.to_owned(), to.to_owned())];
    while let Some((from, to)) = waiting.pop() {
        let found = std::fs::symlink_metadata(&from)?;
        if found.is_dir() {
            std::fs::create_dir(&to)?;
            std::fs::set_permissions(&to, found.permissions())?;
            for child in std::fs::read_dir(&from)? {
                let name = child?.file_name();
                waiting.push((from.join(&name), to.join(&name)));
            }
        } else if found.nlink() > 1 {
            std::fs::hard_link(&from, &to)?;
        } else if found.is_file() {
            std::fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(directory: &Path, name: &str) -> Option<String> {
        std::fs::read_to_string(directory.join(FILES).join(name)).ok()
    }

    #[test]
    fn a_copy_is_not_touched_by_later_writes_and_comes_back() {
        let data = tempfile::tempdir().unwrap();
        let directory = data.path().join("sprite-1");
        create(&directory).unwrap();
        let (file, shared) = (directory.join("fs/workspace/a"), directory.join("fs/home/sprite/shared"));
        std::fs::write(&file, "first").unwrap();
        std::fs::write(&shared, "of all").unwrap();
        std::fs::hard_link(&shared, data.path().join("other")).unwrap();
        snapshot(&directory, "v1").unwrap();
        std::fs::write(&file, "second").unwrap();
        std::fs::write(directory.join("fs/tmp/b"), "new").unwrap();
        restore(&directory, "v1").unwrap();
        assert_eq!((read(&directory, "workspace/a").as_deref(), read(&directory, "tmp/b")), (Some("first"), None));
        assert_eq!(std::fs::metadata(&shared).unwrap().nlink(), 3, "not copied");
        assert_eq!(std::fs::metadata(directory.join("fs/tmp")).unwrap().mode() & 0o7777, 0o1777);
        forget(&directory, "v1").unwrap();
        remove(&directory).unwrap();
        remove(&directory).unwrap();
        assert!(!directory.exists());
    }

    #[test]
    fn what_a_crash_left_is_completed_or_removed() {
        let root = tempfile::tempdir().unwrap();
        open(root.path()).unwrap();
        let [one, two] = ["sprite-1", "sprite-2"].map(|id| root.path().join(id));
        create(&one).unwrap();
        create(&two).unwrap();
        std::fs::write(one.join("fs/workspace/a"), "kept").unwrap();
        std::fs::write(root.path().join("shared/unused"), "").unwrap();
        // Died in the middle of a restore, before the new files had their name.
        std::fs::rename(one.join("fs"), one.join("old")).unwrap();
        std::fs::create_dir(one.join("new")).unwrap();
        open(root.path()).unwrap();
        recover(root.path(), &["sprite-1".into()]).unwrap();
        assert_eq!(read(&one, "workspace/a").as_deref(), Some("kept"));
        let mut left: Vec<_> = std::fs::read_dir(&one).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["checkpoints", "fs"]);
        assert!(!two.exists() && !root.path().join("shared/unused").exists());
    }
}
