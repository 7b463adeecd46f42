//! From a path below the workspace to its opened folder and last name, through links that stay inside.
//!
//! One component at a time, each opened beneath the one before, so that nothing that is moved meanwhile leads out. Must not
//! follow a link that it has not read itself.

use std::{collections::VecDeque, os::fd::OwnedFd};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, mkdirat, open, openat2, readlinkat},
    io::Errno,
};

use super::Failure;

/// As many links as Linux follows.
const LINKS_MAX: usize = 40;
/// How often an open is tried again that something was moved under.
const TRIES: usize = 16;
/// Permissions of a folder that is made.
const FOLDER_MODE: u32 = 0o755;

/// Where a file is, or shall be.
#[derive(Debug)]
pub struct Place {
    /// Its folder.
    pub folder: OwnedFd,
    /// Its name; no link when it was looked at.
    pub name: Vec<u8>,
}

/// Resolves an absolute path below `root`. Folders that are missing are made where `make` says so.
pub fn resolve(root: &str, path: &str, make: bool) -> Result<Place, Failure> {
    // Absolute, as the operator checked.
    let Some(below) = path.strip_prefix(root).filter(|rest| rest.starts_with('/')) else { return Err(Failure::Escape) };
    let mut rest: VecDeque<Vec<u8>> = components(below.as_bytes()).collect();
    let mut folders = vec![open_root(root)?];
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        let Some(folder) = folders.last() else { return Err(Failure::Escape) };
        if name == b".." {
            folders.pop();
            if folders.is_empty() {
                return Err(Failure::Escape);
            }
            continue;
        }
        match readlinkat(folder, &name, Vec::new()) {
            Ok(text) => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let text = text.as_bytes();
                let target = if text.starts_with(b"/") {
                    folders.truncate(1);
                    let inside = text.strip_prefix(root.as_bytes());
                    inside.filter(|rest| rest.is_empty() || rest.starts_with(b"/")).ok_or(Failure::Escape)?
                } else {
                    text
                };
                for name in components(target).collect::<Vec<_>>().into_iter().rev() {
                    rest.push_front(name);
                }
                continue;
            }
            // No link, or not there.
            Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        if rest.is_empty() {
            let folder = folders.pop().ok_or(Failure::Escape)?;
            return Ok(Place { folder, name });
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = match open_beneath(folder, &name, flags) {
            Err(Failure::System(Errno::NOENT)) if make => {
                match mkdirat(folder, &name, Mode::from_raw_mode(FOLDER_MODE)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                open_beneath(folder, &name, flags)?
            }
            opened => opened?,
        };
        folders.push(next);
    }
    // What the path leads to has no name of its own: a folder.
    Err(Errno::ISDIR.into())
}

fn components(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|name| !name.is_empty() && *name != b".").map(<[u8]>::to_vec)
}

fn open_root(root: &str) -> Result<OwnedFd, Failure> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match open(root, flags, Mode::empty()) {
        // A link in its place leads somewhere else.
        Err(Errno::LOOP | Errno::NOTDIR) => Err(Failure::Escape),
        opened => Ok(opened?),
    }
}

/// Opens one name of a folder, and nothing that lies elsewhere.
pub fn open_beneath(folder: &OwnedFd, name: &[u8], flags: OFlags) -> Result<OwnedFd, Failure> {
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        match openat2(folder, name, flags, Mode::empty(), inside) {
            Err(Errno::AGAIN | Errno::INTR) if tries < TRIES => tries += 1,
            Err(Errno::XDEV) => return Err(Failure::Escape),
            Err(Errno::NOSYS) => {
                return Err(Failure::Because(
                    "the Sprite's kernel has no openat2, which file operations need".to_owned(),
                ));
            }
            opened => return Ok(opened?),
        }
    }
}
