//! Installs this very file: checks it, gives it its name, and writes the nonce of the instance.
//!
//! Removes whatever is in the place of one of the operator's files: code in the session may have put it there.

use std::{
    fs::{self, File, Permissions},
    io::{self, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use sha2::{Digest as _, Sha256};

use runner_protocol::{BIN, EXIT_DISK, EXIT_USAGE, SPOOL, answer, is_plain};

use crate::{
    processes::OWN_EXE,
    root::{Root, folder, own_folder},
};

/// How many runners stay: those of Runs that an older operator started may be asked yet.
const KEPT: usize = 4;

/// Installs, and prints hash and nonce.
pub fn install(hash: &str, nonce: &str, workspace: &str) -> u8 {
    if !is_plain(hash) || !is_plain(nonce) {
        return EXIT_USAGE;
    }
    match try_install(hash, nonce, workspace) {
        Ok(()) => {
            let line = answer::installed(hash, nonce);
            let written = rustix::io::write(rustix::stdio::stdout(), line.as_bytes());
            if written == Ok(line.len()) { 0 } else { EXIT_DISK }
        }
        Err(error) => {
            let _ = rustix::io::write(rustix::stdio::stderr(), format!("not installed: {error}\n").as_bytes());
            EXIT_DISK
        }
    }
}

fn try_install(hash: &str, nonce: &str, workspace: &str) -> io::Result<()> {
    if own_hash()? != hash {
        return Err(io::Error::other("this file is not the one that was sent"));
    }
    let own = fs::read_link(OWN_EXE)?;
    let root = Root::new().0;
    let bin = root.join(BIN);
    for own in [&root, &bin, &root.join(SPOOL)] {
        own_folder(own)?;
    }
    fs::set_permissions(&own, Permissions::from_mode(0o755))?;
    let installed = bin.join(hash);
    out_of_the_way(&installed)?;
    fs::rename(&own, &installed)?;
    clean(&bin, hash);
    folder(Path::new(workspace))?;
    write_nonce(&root, nonce)
}

/// Moves a folder that stands where a file belongs aside, whatever is in it and whatever it permits.
fn out_of_the_way(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path).is_ok_and(|data| data.is_dir()) {
        return Ok(());
    }
    let aside = path.with_file_name(format!(".gone.{}", std::process::id()));
    fs::rename(path, &aside)?;
    // What cannot be removed is out of the way all the same.
    let _ = fs::remove_dir_all(&aside);
    Ok(())
}

fn write_nonce(root: &Path, nonce: &str) -> io::Result<()> {
    let (new, name) = (root.join(format!("nonce.{}", std::process::id())), root.join("nonce"));
    let mut file = File::create_new(&new)?;
    file.write_all(format!("{nonce}\n").as_bytes())?;
    file.sync_all()?;
    out_of_the_way(&name)?;
    fs::rename(&new, &name)?;
    File::open(root)?.sync_all()
}

/// Removes all but the newest runners, and all but the newest copies that were never installed: one may be about to be.
fn clean(bin: &Path, hash: &str) {
    let mut files: Vec<_> = fs::read_dir(bin)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name() != hash)
        .map(|entry| (entry.metadata().and_then(|data| data.modified()).ok(), entry.path()))
        .collect();
    files.sort();
    files.reverse();
    let (installed, copies): (Vec<_>, Vec<_>) = files.into_iter().partition(|(_, path)| path.extension().is_none());
    for (_, path) in installed.into_iter().skip(KEPT - 1).chain(copies.into_iter().skip(KEPT)) {
        let _ = fs::remove_file(path);
    }
}

fn own_hash() -> io::Result<String> {
    let mut file = File::open(OWN_EXE)?;
    let (mut hasher, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hasher.update(buffer.get(..read).unwrap_or_default());
    }
    Ok(hasher.finalize().iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")))
}
