//! The tree at `/` of a guest, in the files of its Sprite: what it holds at first, and the places for mounts, which
//! must be there at each start whatever the guest has made of them.
//!
//! Nobody else changes the tree meanwhile: no sandbox of the Sprite runs. Links that the guest left are never
//! followed: this may run as the superuser.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::{MetadataExt as _, lchown, symlink};
use std::path::{Component, Path};

use super::etc::COPIED;
use super::layers::{directories, inside, links};

/// Where something is mounted.
const DIRECTORIES: [&str; 7] = ["proc", "dev", "run", "tmp", "home/sprite", "workspace", ".sprite"];
/// Files of `/etc` that are the server's: it writes the first, watches the second, and the third, which is empty,
/// would have the first process load what the guest likes.
pub(super) const FIXED_ETC: [&str; 3] = ["resolv.conf", "ld.so.cache", "ld.so.preload"];
/// What else is there, empty.
const EMPTY: [&str; 8] = ["media", "mnt", "opt", "root", "srv", "var/cache", "var/lib", "var/log"];

/// Makes the tree at `root` if it is not there, with the files of `etc` as `/etc`, and clears the places of mounts.
pub(super) fn prepare(root: &Path, etc: &Path, user: Option<u32>) -> io::Result<()> {
    let tree = Tree { user };
    if root.symlink_metadata().is_err() {
        let part = root.with_extension("part");
        if part.symlink_metadata().is_ok() {
            std::fs::remove_dir_all(&part)?;
        }
        tree.fill(&part, etc)?;
        std::fs::rename(part, root)?;
    }
    for place in DIRECTORIES {
        tree.directory(root, Path::new(place))?;
    }
    for place in directories() {
        tree.directory(root, Path::new(place))?;
    }
    FIXED_ETC.iter().try_for_each(|name| tree.file(root, &Path::new("etc").join(name)))
}

struct Tree {
    /// Who owns what is made; none is who makes it.
    user: Option<u32>,
}

impl Tree {
    fn fill(&self, root: &Path, etc: &Path) -> io::Result<()> {
        std::fs::create_dir(root)?;
        self.own(root)?;
        for place in EMPTY {
            self.directory(root, Path::new(place))?;
        }
        let usual = [("/var/tmp", "/tmp"), ("/var/run", "/run")].map(|(path, target)| (path, target.into()));
        for (path, target) in links().into_iter().chain(usual) {
            let link = inside(root, path);
            symlink(target, &link)?;
            self.own(&link)?;
        }
        self.copy(etc, &root.join("etc"))?;
        COPIED.iter().try_for_each(|path| {
            if let Some(parent) = Path::new(path).parent() {
                self.directory(root, parent)?;
            }
            self.copy(Path::new(path), &inside(root, path))
        })
    }

    /// Copies what everybody may read of a tree of the host's into what the guest has not touched yet.
    fn copy(&self, from: &Path, to: &Path) -> io::Result<()> {
        let Ok(found) = from.symlink_metadata() else {
            return Ok(());
        };
        if found.is_symlink() {
            symlink(std::fs::read_link(from)?, to)?;
        } else if found.is_dir() && has_mode(&found, 0o005) {
            if !to.exists() {
                std::fs::create_dir(to)?;
            }
            for entry in std::fs::read_dir(from)? {
                let entry = entry?;
                self.copy(&entry.path(), &to.join(entry.file_name()))?;
            }
        } else if found.is_file() && has_mode(&found, 0o004) {
            std::fs::copy(from, to)?;
        } else {
            return Ok(());
        }
        self.own(to)
    }

    /// Has a directory at a path, and real ones on the way to it.
    fn directory(&self, root: &Path, path: &Path) -> io::Result<()> {
        let mut place = root.to_owned();
        for part in path.components() {
            let Component::Normal(part) = part else { continue };
            place.push(part);
            match place.symlink_metadata() {
                Ok(found) if found.is_dir() => continue,
                // A place that something is mounted at has nothing of the guest's to lose but a link or a file.
                Ok(_) => std::fs::remove_file(&place)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            std::fs::create_dir(&place)?;
            self.own(&place)?;
        }
        Ok(())
    }

    /// Has a file at a path, and real directories on the way to it.
    fn file(&self, root: &Path, path: &Path) -> io::Result<()> {
        if let Some(parent) = path.parent() {
            self.directory(root, parent)?;
        }
        let place = root.join(path);
        match place.symlink_metadata() {
            Ok(found) if found.is_file() => return Ok(()),
            Ok(found) if found.is_dir() => std::fs::remove_dir_all(&place)?,
            Ok(_) => std::fs::remove_file(&place)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        std::fs::File::create_new(&place)?;
        self.own(&place)
    }

    fn own(&self, path: &Path) -> io::Result<()> {
        self.user.map_or(Ok(()), |user| lchown(path, Some(user), Some(user)))
    }
}

fn has_mode(found: &Metadata, mode: u32) -> bool {
    found.mode() & mode == mode
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_a_guest_left_at_the_places_of_mounts_gives_way_and_no_link_is_followed() {
        let lab = tempfile::tempdir().unwrap();
        let (root, etc, host) = (lab.path().join("root"), lab.path().join("etc"), lab.path().join("host"));
        std::fs::create_dir_all(&etc).unwrap();
        std::fs::write(etc.join("hostname"), "one\n").unwrap();
        std::fs::create_dir(&host).unwrap();
        prepare(&root, &etc, None).unwrap();
        assert_eq!(std::fs::read_to_string(root.join("etc/hostname")).unwrap(), "one\n");
        std::fs::write(root.join("opt/kept"), "kept").unwrap();
        for (place, target) in [("home", &host), ("etc", &host), (".sprite", &host), ("proc", &lab.path().into())] {
            std::fs::remove_dir_all(root.join(place)).unwrap();
            symlink(target, root.join(place)).unwrap();
        }
        std::fs::remove_dir(root.join("workspace")).unwrap();
        std::fs::write(root.join("workspace"), "a file").unwrap();
        prepare(&root, &etc, None).unwrap();
        assert_eq!(std::fs::read_dir(&host).unwrap().count(), 0);
        assert_eq!(std::fs::read_to_string(root.join("opt/kept")).unwrap(), "kept");
        std::fs::remove_file(root.join("etc/resolv.conf")).unwrap();
        std::fs::create_dir(root.join("etc/resolv.conf")).unwrap();
        std::fs::write(root.join("etc/resolv.conf/x"), "").unwrap();
        prepare(&root, &etc, None).unwrap();
        let real = |path: &str| root.join(path).symlink_metadata().unwrap();
        assert!(["home/sprite", "workspace", ".sprite", "proc"].iter().all(|path| real(path).is_dir()));
        assert!(FIXED_ETC.iter().all(|name| real(&format!("etc/{name}")).is_file()));
    }

    #[test]
    fn secrets_of_the_host_are_not_copied() {
        let lab = tempfile::tempdir().unwrap();
        let from = lab.path().join("from");
        std::fs::create_dir_all(from.join("private")).unwrap();
        std::fs::write(from.join("private/key"), "secret").unwrap();
        std::fs::write(from.join("open"), "open").unwrap();
        std::fs::write(from.join("closed"), "secret").unwrap();
        let close = |path: &str, mode| {
            std::fs::set_permissions(from.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        close("private", 0o710);
        close("closed", 0o640);
        close("open", 0o644);
        close("", 0o755);
        Tree { user: None }.copy(&from, &lab.path().join("to")).unwrap();
        let names: Vec<_> =
            std::fs::read_dir(lab.path().join("to")).unwrap().map(|one| one.unwrap().file_name()).collect();
        assert_eq!(names, ["open"]);
    }
}
