//! The operator's files in an instant Sprite: the installed runner, and what is kept of output. Blocking.
//!
//! The runner is the one large file that every Sprite has, so all of them share one.

use std::fs::{File, Permissions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use rustix::io::Errno;

use runner_protocol::{BIN, HOME, ROOT, SPOOL, Source, installed, spool};

use super::files::place;
use super::trees::{self, SHARED};
use crate::guest::temporary;

const CHUNK: usize = 64 << 10;

/// Gives the runner that was written at `program` its name, and makes the folders that it makes.
pub(super) fn install(root: &Path, program: &Path, hash: &str, workspace: &str) -> io::Result<()> {
    for folder in [BIN, SPOOL] {
        std::fs::create_dir_all(place(root, &format!("{HOME}/{ROOT}/{folder}")))?;
    }
    std::fs::create_dir_all(place(root, workspace))?;
    let installed = place(root, &installed(hash));
    if installed.is_dir() {
        trees::remove(&installed)?;
    }
    if std::fs::metadata(program)?.nlink() == 1 {
        std::fs::set_permissions(program, Permissions::from_mode(0o755))?;
    }
    std::fs::rename(program, &installed)?;
    share(root, &installed, hash)
}

/// Puts the runner that all share in the place of one with the same bytes. A file system that takes no more names for one
/// file leaves each its own.
fn share(root: &Path, installed: &Path, hash: &str) -> io::Result<()> {
    let shared = root.ancestors().nth(2).ok_or(Errno::INVAL)?.join(SHARED).join(hash);
    match std::fs::hard_link(installed, &shared) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Ok(()) | Err(_) => return Ok(()),
    }
    if !is_same(installed, &shared)? {
        return Ok(());
    }
    let aside = temporary(installed.parent().ok_or(Errno::INVAL)?);
    match std::fs::hard_link(shared, &aside) {
        Ok(()) => std::fs::rename(&aside, installed),
        Err(_) => Ok(()),
    }
}

/// Whether two files have the same bytes and are not one already.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let [first, second] = [one.metadata()?, other.metadata()?];
    if first.ino() == second.ino() || first.len() != second.len() || first.mode() != second.mode() {
        return Ok(false);
    }
    let (mut here, mut there) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut left = first.len();
    while left > 0 {
        let length = CHUNK.min(usize::try_from(left).unwrap_or(CHUNK));
        let (Some(here), Some(there)) = (here.get_mut(..length), there.get_mut(..length)) else { return Ok(false) };
        one.read_exact(here)?;
        other.read_exact(there)?;
        if here != there {
            return Ok(false);
        }
        left -= length as u64;
    }
    Ok(true)
}

/// Keeps what was sent of a Run's streams for an adopter, and removes what is kept of others.
pub(super) fn keep(root: &Path, uid: &str, streams: &[(Source, Vec<u8>); 2], surplus: &[Box<str>]) -> io::Result<()> {
    std::fs::create_dir_all(place(root, &format!("{HOME}/{ROOT}/{SPOOL}/{uid}")))?;
    // A file that is not there is taken for an empty one.
    for (source, bytes) in streams.iter().filter(|(_, bytes)| !bytes.is_empty()) {
        std::fs::write(place(root, &spool(uid, *source)), bytes)?;
    }
    surplus.iter().try_for_each(|other| trees::remove(&place(root, &format!("{HOME}/{ROOT}/{SPOOL}/{other}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_runner_is_on_the_disk_once() {
        let data = tempfile::tempdir().unwrap();
        trees::open(data.path()).unwrap();
        let install = |id: &str, bytes: &[u8]| {
            let directory = data.path().join(id);
            trees::create(&directory).unwrap();
            let root = directory.join(trees::FILES);
            let program = root.join("home/sprite/ab.0001");
            std::fs::write(&program, bytes).unwrap();
            super::install(&root, &program, "ab", "/workspace").unwrap();
            assert!(!program.exists());
            root.join("home/sprite/.sprite-operator/bin/ab")
        };
        let bytes = vec![7; 3 * CHUNK + 1];
        let files = ["sprite-1", "sprite-2"].map(|id| install(id, &bytes));
        let other = install("sprite-3", &[&bytes[1..], b"x"].concat());
        let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
        assert_eq!(inode(&files[0]), inode(&files[1]));
        assert_ne!(inode(&files[0]), inode(&other), "other bytes under the same name stay its own");
        assert_eq!(std::fs::read(&files[1]).unwrap(), bytes);
        assert_eq!(std::fs::metadata(&files[1]).unwrap().mode() & 0o777, 0o755);
        // Again, from where it is.
        install("sprite-1", &bytes);
        assert_eq!(inode(&files[0]), inode(&files[1]));
    }
}
