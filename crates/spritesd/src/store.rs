//! What survives of a Sprite besides the files its guest writes: one directory each, with `meta.json` and what is
//! shown to the guest read-only.
//!
//! A Sprite exists exactly when `sprites/<name>/meta.json` does. It is made complete beside and renamed into place,
//! and renamed away before it is taken apart, so that a crash at any point leaves all of it or nothing.
//! Blocking; knows nothing of running guests.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tracing::warn;

use super::checkpoints::Checkpoint;
use super::guest::etc::write_etc;
use super::policy::NetworkPolicy;
use super::services::definition::All;
use super::settings::GuestKind;

/// The first host user a guest may run as. One a Sprite: files, limits and IPC of two never meet.
pub(crate) const FIRST_USER: u32 = 700_000;

/// What a Sprite's directory holds: the guest's `/etc`, its policy to read, logs of services, the socket of its API.
const PARTS: [&str; 4] = ["etc", "policy", "logs", "run"];
/// What it holds where there is no guest to be shown anything.
const PARTS_ALONE: [&str; 1] = ["logs"];

/// What is known of one Sprite besides its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Meta {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) labels: Vec<String>,
    pub(crate) url_settings: UrlSettings,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
    pub(crate) last_running_at: Option<Timestamp>,
    pub(crate) network: NetworkPolicy,
    /// Other policies, kept as they were set.
    #[serde(default)]
    pub(crate) privileges: Option<Value>,
    #[serde(default)]
    pub(crate) resources: Option<Value>,
    /// Copies of its files, the oldest first.
    pub(crate) checkpoints: Vec<Checkpoint>,
    /// The copy its files were last made from or copied to.
    pub(crate) checkpoint: String,
    pub(crate) next_checkpoint: u64,
    /// Programs that run whenever it does.
    #[serde(default)]
    pub(crate) services: All,
    /// Host user of the guest; none when the server is no superuser.
    pub(crate) user: Option<u32>,
}

/// Who may call the Sprite's URL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UrlSettings {
    pub(crate) auth: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) private_access: Option<String>,
}

impl Default for UrlSettings {
    fn default() -> Self {
        Self { auth: "sprite".into(), private_access: None }
    }
}

/// The data directory of one server, locked against a second one.
#[derive(Debug)]
pub(crate) struct Store {
    root: PathBuf,
    /// Holds the lock; released by the kernel even after a kill.
    lock: File,
    /// Instant ones see nothing, and are made by the thousand: nothing is written for them to see, nor synced. So what is kept
    /// outlives the process and not the machine.
    guest: GuestKind,
}

impl Drop for Store {
    /// Closing the file is not enough: a program that is just being started has a copy of it for a moment.
    fn drop(&mut self) {
        self.release();
    }
}

impl Store {
    /// Opens or makes the directory and clears what a crash has left half done.
    pub(crate) fn open(root: &Path, guest: GuestKind) -> io::Result<Self> {
        std::fs::create_dir_all(root)?;
        let root = root.canonicalize()?;
        let lock = File::create(root.join("lock"))?;
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another server uses this data directory"));
        }
        for part in ["incoming", "trash"] {
            clear(&root.join(part))?;
        }
        std::fs::create_dir_all(root.join("sprites"))?;
        Ok(Self { root, lock, guest })
    }

    /// The directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Every Sprite there is, and whether that is all: one that cannot be read is left alone and named in the log.
    pub(crate) fn load(&self) -> io::Result<(Vec<Meta>, bool)> {
        let (mut all, mut complete) = (Vec::new(), true);
        for entry in std::fs::read_dir(self.root.join("sprites"))? {
            let directory = entry?.path();
            match read_meta(&directory) {
                Ok(meta) => all.push(meta),
                Err(error) => {
                    warn!(directory = %directory.display(), %error, "not a Sprite");
                    complete = false;
                }
            }
        }
        Ok((all, complete))
    }

    /// Lets another server have the directory; nothing may be changed after this.
    pub(crate) fn release(&self) {
        let _ = rustix::fs::flock(&self.lock, rustix::fs::FlockOperation::Unlock);
    }

    /// The directory of a Sprite.
    pub(crate) fn directory(&self, name: &str) -> PathBuf {
        self.root.join("sprites").join(name)
    }

    /// Makes a Sprite durable, with empty files.
    pub(crate) fn create(&self, meta: &Meta) -> io::Result<()> {
        let incoming = self.root.join("incoming").join(&meta.id);
        let made = self.assemble(meta, &incoming);
        if made.is_err() {
            drop(std::fs::remove_dir_all(&incoming));
        }
        made
    }

    fn assemble(&self, meta: &Meta, incoming: &Path) -> io::Result<()> {
        std::fs::create_dir_all(incoming)?;
        let parts: &[&str] = if self.is_instant() { &PARTS_ALONE } else { &PARTS };
        for part in parts {
            std::fs::create_dir(incoming.join(part))?;
        }
        if !self.is_instant() {
            write_etc(&incoming.join("etc"), &meta.name)?;
        }
        self.write(incoming, meta)?;
        std::fs::rename(incoming, self.directory(&meta.name))?;
        self.sync(&self.root.join("sprites"))
    }

    fn is_instant(&self) -> bool {
        self.guest == GuestKind::Instant
    }

    /// Replaces what is known of a Sprite, durably.
    pub(crate) fn save(&self, meta: &Meta) -> io::Result<()> {
        self.write(&self.directory(&meta.name), meta)
    }

    fn write(&self, directory: &Path, meta: &Meta) -> io::Result<()> {
        if !self.is_instant() {
            write_policy(directory, meta)?;
        }
        let temporary = directory.join("meta.json.new");
        let mut file = File::create(&temporary)?;
        file.write_all(&serde_json::to_vec_pretty(meta)?)?;
        if !self.is_instant() {
            file.sync_all()?;
        }
        std::fs::rename(&temporary, directory.join("meta.json"))?;
        self.sync(directory)
    }

    fn sync(&self, directory: &Path) -> io::Result<()> {
        if self.is_instant() { Ok(()) } else { File::open(directory)?.sync_all() }
    }

    /// Makes a Sprite not exist, durably; its files go after that.
    pub(crate) fn discard(&self, meta: &Meta) -> io::Result<()> {
        let trash = self.root.join("trash").join(&meta.id);
        std::fs::rename(self.directory(&meta.name), &trash)?;
        self.sync(&self.root.join("sprites"))?;
        std::fs::remove_dir_all(&trash)
    }
}

/// The lowest host user that no Sprite has; none when this server cannot give guests a user of their own.
pub(crate) fn free_user(taken: impl FnOnce() -> BTreeSet<u32>) -> Option<u32> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let taken = taken();
    (FIRST_USER..u32::MAX).find(|user| !taken.contains(user))
}

fn read_meta(directory: &Path) -> io::Result<Meta> {
    Ok(serde_json::from_slice(&std::fs::read(directory.join("meta.json"))?)?)
}

/// What the guest sees of its policy; `meta.json` is what counts.
fn write_policy(directory: &Path, meta: &Meta) -> io::Result<()> {
    let (file, temporary) = (directory.join("policy/network.json"), directory.join("policy/.network.json.new"));
    let text = serde_json::to_vec_pretty(&meta.network)?;
    if std::fs::read(&file).is_ok_and(|known| known == text) {
        return Ok(());
    }
    std::fs::write(&temporary, text)?;
    std::fs::rename(temporary, file)
}

fn clear(directory: &Path) -> io::Result<()> {
    if directory.exists() {
        std::fs::remove_dir_all(directory)?;
    }
    std::fs::create_dir_all(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(name: &str) -> Meta {
        Meta {
            id: format!("sprite-{name}"),
            name: name.into(),
            labels: vec!["a=b".into()],
            url_settings: UrlSettings::default(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            last_running_at: None,
            network: NetworkPolicy::default(),
            privileges: None,
            resources: None,
            checkpoints: Vec::new(),
            checkpoint: String::new(),
            next_checkpoint: 1,
            services: All::new(),
            user: None,
        }
    }

    #[test]
    fn what_is_saved_is_loaded_and_what_is_discarded_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), GuestKind::Bubblewrap).unwrap();
        let mut one = meta("one");
        store.create(&one).unwrap();
        store.create(&meta("two")).unwrap();
        one.labels.clear();
        store.save(&one).unwrap();
        drop(store);

        let store = Store::open(dir.path(), GuestKind::Bubblewrap).unwrap();
        let (mut all, _) = store.load().unwrap();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(all, [one.clone(), meta("two")]);
        store.discard(&one).unwrap();
        assert_eq!(store.load().unwrap(), (vec![meta("two")], true));
        assert_eq!(std::fs::read_dir(dir.path().join("trash")).unwrap().count(), 0);
    }

    #[test]
    fn a_crash_between_the_steps_leaves_all_or_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), GuestKind::Bubblewrap).unwrap();
        store.create(&meta("kept")).unwrap();
        drop(store);
        // Died while creating, while saving, and while deleting.
        std::fs::create_dir_all(dir.path().join("incoming/sprite-half/etc")).unwrap();
        std::fs::write(dir.path().join("sprites/kept/meta.json.new"), "{").unwrap();
        std::fs::create_dir_all(dir.path().join("trash/sprite-gone/etc")).unwrap();
        let store = Store::open(dir.path(), GuestKind::Bubblewrap).unwrap();
        assert_eq!(store.load().unwrap(), (vec![meta("kept")], true));
        assert_eq!(std::fs::read_dir(dir.path().join("incoming")).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(dir.path().join("trash")).unwrap().count(), 0);
    }

    #[test]
    fn one_server_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let first = Store::open(dir.path(), GuestKind::Bubblewrap).unwrap();
        assert_eq!(Store::open(dir.path(), GuestKind::Bubblewrap).unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        drop(first);
        Store::open(dir.path(), GuestKind::Bubblewrap).unwrap();
    }
}
