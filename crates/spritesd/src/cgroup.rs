//! Control groups: one a guest, to freeze it and to bound its memory and processes. Version 1 or 2, whichever this
//! machine lets us make; none where it does not. Removed by the holder at the latest.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// How long a group may take to freeze or to empty.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a guest may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) memory: u64,
    pub(crate) processes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Freezer,
    Pids,
    Memory,
    /// Version 2: all in one.
    Unified,
}

/// The groups of one server.
#[derive(Debug)]
pub(crate) struct Groups {
    parents: Vec<(Kind, PathBuf)>,
}

/// The groups of one guest.
#[derive(Debug)]
pub(crate) struct Group {
    members: Vec<(Kind, PathBuf)>,
}

impl Groups {
    /// No groups: nothing is bounded by them.
    pub(crate) fn none() -> Self {
        Self { parents: Vec::new() }
    }

    /// Takes what the machine has below `root` (usually `/sys/fs/cgroup`).
    pub(crate) fn new(root: &Path) -> Self {
        let name = format!("spritesd-{}", uuid::Uuid::new_v4().simple());
        let mut parents = Vec::new();
        if root.join("cgroup.controllers").exists() {
            let parent = root.join(&name);
            // Without these two a group could only freeze, and limits that are not there must not be claimed.
            let enabled = std::fs::write(root.join("cgroup.subtree_control"), "+pids +memory")
                .and_then(|()| std::fs::create_dir(&parent))
                .and_then(|()| std::fs::write(parent.join("cgroup.subtree_control"), "+pids +memory"));
            match enabled {
                Ok(()) => parents.push((Kind::Unified, parent)),
                Err(_) => drop(std::fs::remove_dir(&parent)),
            }
        } else {
            for (kind, part) in [(Kind::Freezer, "freezer"), (Kind::Pids, "pids"), (Kind::Memory, "memory")] {
                let parent = root.join(part).join(&name);
                if root.join(part).join("tasks").exists() && std::fs::create_dir(&parent).is_ok() {
                    parents.push((kind, parent));
                }
            }
        }
        Self { parents }
    }

    /// The directories the holder is to remove.
    pub(crate) fn parents(&self) -> Vec<PathBuf> {
        self.parents.iter().map(|(_, parent)| parent.clone()).collect()
    }

    /// What bounds a guest, for people.
    pub(crate) fn describe(&self) -> String {
        let mut text = String::new();
        for (kind, _) in &self.parents {
            let part = match kind {
                Kind::Freezer => "freezer (cgroup v1)",
                Kind::Pids => "processes (cgroup v1)",
                Kind::Memory => "memory (cgroup v1)",
                Kind::Unified => "freezer, processes, memory (cgroup v2)",
            };
            let _ = write!(text, "{}{part}", if text.is_empty() { "" } else { ", " });
        }
        if text.is_empty() { "rlimits only".into() } else { text }
    }

    /// Makes the groups of a guest.
    pub(crate) fn group(&self, id: &str, bounds: Bounds) -> io::Result<Group> {
        let mut group = Group { members: Vec::new() };
        for (kind, parent) in &self.parents {
            let directory = parent.join(id);
            match std::fs::create_dir(&directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let set = |file: &str, value: u64| std::fs::write(directory.join(file), value.to_string());
            match kind {
                Kind::Freezer => {}
                Kind::Pids => set("pids.max", bounds.processes)?,
                Kind::Memory => {
                    set("memory.limit_in_bytes", bounds.memory)?;
                    // Absent where swap is not accounted.
                    let _ = set("memory.memsw.limit_in_bytes", bounds.memory);
                }
                Kind::Unified => {
                    set("pids.max", bounds.processes)?;
                    set("memory.max", bounds.memory)?;
                    let _ = set("memory.swap.max", 0);
                }
            }
            group.members.push((*kind, directory));
        }
        Ok(group)
    }
}

impl Group {
    /// Files a process writes its id into to join.
    pub(crate) fn joining(&self) -> Vec<PathBuf> {
        self.members.iter().map(|(_, directory)| directory.join("cgroup.procs")).collect()
    }

    /// Stops or continues every process in it; false when there is no freezer.
    pub(crate) async fn freeze(&self, frozen: bool) -> io::Result<bool> {
        for (kind, directory) in &self.members {
            let (file, value, proof, wanted) = match kind {
                Kind::Freezer => {
                    let word = if frozen { "FROZEN" } else { "THAWED" };
                    ("freezer.state", word, "freezer.state", word)
                }
                Kind::Unified => {
                    let (value, wanted) = if frozen { ("1", "frozen 1") } else { ("0", "frozen 0") };
                    ("cgroup.freeze", value, "cgroup.events", wanted)
                }
                Kind::Pids | Kind::Memory => continue,
            };
            let begun = Instant::now();
            loop {
                // Version 1 may need the wish again while processes are forking.
                std::fs::write(directory.join(file), value)?;
                if std::fs::read_to_string(directory.join(proof))?.contains(wanted) {
                    return Ok(true);
                }
                if begun.elapsed() > PATIENCE {
                    return Err(io::Error::new(io::ErrorKind::TimedOut, "the guest does not freeze"));
                }
                sleep(Duration::from_millis(1)).await;
            }
        }
        Ok(false)
    }

    /// Removes it once its last process is gone.
    pub(crate) async fn remove(&self) -> io::Result<()> {
        let begun = Instant::now();
        for (_, directory) in &self.members {
            loop {
                match std::fs::remove_dir(directory) {
                    Ok(()) => break,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => break,
                    Err(error) if begun.elapsed() > PATIENCE => return Err(error),
                    Err(_) => sleep(Duration::from_millis(1)).await,
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_control_groups_has_rlimits_only() {
        let empty = tempfile::tempdir().unwrap();
        let groups = Groups::new(empty.path());
        assert_eq!((groups.describe().as_str(), groups.parents().len()), ("rlimits only", 0));
        let group = groups.group("one", Bounds { memory: 1, processes: 1 }).unwrap();
        assert!(group.joining().is_empty());
    }

    #[tokio::test]
    async fn a_group_freezes_what_is_in_it_and_the_holder_removes_it() {
        let groups = Groups::new(Path::new("/sys/fs/cgroup"));
        let mut holder = crate::namespace_holder::NamespaceHolder::start(false, &groups.parents()).await.unwrap();
        let group = groups.group("one", Bounds { memory: 64 << 20, processes: 8 }).unwrap();
        let mut child = tokio::process::Command::new("sleep").arg("600").kill_on_drop(true).spawn().unwrap();
        let pid = child.id().unwrap();
        for file in group.joining() {
            std::fs::write(file, pid.to_string()).unwrap();
        }
        assert!(group.freeze(true).await.unwrap());
        drop(child.start_kill());
        // Frozen under version 1 it cannot die; the holder thaws it.
        holder.stop().await;
        child.wait().await.unwrap();
        assert!(groups.parents().iter().all(|parent| !parent.exists()), "{:?}", groups.parents());
    }
}
