//! Removes the oldest spools of ended Runs, and guards beyond a number that no session reaches in earnest.
//!
//! Must not remove anything of a Run that the operator names as not terminal: its guard is the only proof that it was started.

use std::{fs, path::Path, time::SystemTime};

use runner_protocol::{BIN, GUARDS_KEPT, SPOOL, SPOOLS_KEPT, is_plain};

use crate::root::Root;

/// Prunes; `kept` names the Runs whose files stay.
pub fn prune(root: &Root, kept: &[String]) {
    oldest(&root.spools(), kept, SPOOLS_KEPT, SPOOLS_KEPT);
    // By a tenth at once, so that not every Run after the ten-thousandth looks at all of them.
    oldest(&root.0, kept, GUARDS_KEPT, GUARDS_KEPT - GUARDS_KEPT / 10);
}

/// Where a folder has more than `most` entries of Runs, removes the oldest but `leave`.
fn oldest(folder: &Path, kept: &[String], most: usize, leave: usize) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let of_runs = entries.filter(|entry| {
        let name = entry.file_name();
        name.to_str().is_some_and(|name| is_plain(name) && ![BIN, SPOOL, "nonce"].contains(&name))
    });
    let all: Vec<_> = of_runs.map(|entry| entry.path()).collect();
    if all.len() <= most {
        return;
    }
    let modified = |path: &Path| fs::symlink_metadata(path).and_then(|data| data.modified()).ok();
    let mut dated: Vec<(Option<SystemTime>, _)> = all.into_iter().map(|path| (modified(&path), path)).collect();
    dated.sort();
    let surplus = dated.len() - leave;
    for (_, path) in dated.into_iter().take(surplus) {
        let is_kept = path.file_name().is_some_and(|name| kept.iter().any(|uid| name == uid.as_str()));
        if !is_kept && fs::remove_dir_all(&path).is_err() {
            // A link in place of a guard.
            let _ = fs::remove_file(&path);
        }
    }
}
