//! Removes the oldest spools of ended Runs, and guards beyond a number that no session reaches in earnest.
//!
//! What goes is chosen at the launch and removed at the end. Must not choose anything of a Run that the operator names as not
//! terminal: its guard is the only proof that it was started. The operator names whom it knew when it sent the launch, so
//! nothing goes either that came about then or later.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use runner_protocol::{BIN, GUARDS_KEPT, SPOOL, SPOOLS_KEPT, is_plain};

use crate::root::Root;

/// Longer than a launch takes from the operator's look at its Runs to the guest.
const TOO_NEW: Duration = Duration::from_mins(1);

/// Chooses; `kept` names the Runs whose files stay.
pub fn surplus(root: &Root, kept: &[String]) -> Vec<PathBuf> {
    let mut surplus = oldest(&root.spools(), kept, SPOOLS_KEPT, SPOOLS_KEPT);
    // By a tenth at once, so that not every Run after the ten-thousandth looks at all of them.
    surplus.extend(oldest(&root.0, kept, GUARDS_KEPT, GUARDS_KEPT - GUARDS_KEPT / 10));
    surplus
}

/// Removes what was chosen.
pub fn remove(surplus: &[PathBuf]) {
    for path in surplus {
        if fs::remove_dir_all(path).is_err() {
            // A link in place of a guard.
            let _ = fs::remove_file(path);
        }
    }
}

/// Where a folder has more than `most` entries of Runs: the oldest but `leave`.
fn oldest(folder: &Path, kept: &[String], most: usize, leave: usize) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of_runs = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| is_plain(name) && ![BIN, SPOOL, "nonce"].contains(&name))
    });
    let all: Vec<_> = of_runs.map(|entry| entry.path()).collect();
    if all.len() <= most {
        return Vec::new();
    }
    let modified = |path: &Path| fs::symlink_metadata(path).and_then(|data| data.modified()).ok();
    let mut dated: Vec<(Option<SystemTime>, _)> = all.into_iter().map(|path| (modified(&path), path)).collect();
    dated.sort();
    dated.truncate(dated.len() - leave);
    let newest = SystemTime::now().checked_sub(TOO_NEW);
    let may_go = |(at, path): &(Option<SystemTime>, PathBuf)| {
        *at < newest && !path.file_name().is_some_and(|name| kept.iter().any(|uid| name == uid.as_str()))
    };
    dated.into_iter().filter(may_go).map(|(_, path)| path).collect()
}
