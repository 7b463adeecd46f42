//! File calls to an instant Sprite: the agent's own operations, done in this process below the Sprite's directory.
//!
//! Paths go in with that directory before them and come out without it. No call may lead out of it: there are no links in it
//! and `..` is taken by its word. Blocking.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use serde_json::{Map, Value};

use crate::errors::FileError;
use crate::guest::protocol::{Answer, Request};
use crate::guest::{Files, failure, temporary};

/// The one user inside, as a guest would see it.
const USER: (&str, u32) = ("sprite", 1000);

/// Serves one request below `root`.
pub(super) fn serve(files: &Files, root: &Path, request: Request, fds: Vec<OwnedFd>) -> (Answer, Option<OwnedFd>) {
    match request {
        Request::Connect { host, port } => {
            // Nothing listens in it, and it reaches nothing.
            let refused = FileError::new("ECONNREFUSED", "connection refused", &format!("{host}:{port}"));
            (Answer::Failed(refused), None)
        }
        Request::Ports => (ports(fds), None),
        Request::Watch { paths, .. } => {
            let path = paths.first().map_or("", String::as_str);
            (Answer::Failed(FileError::new("EINVAL", "files are not watched with --guest instant", path)), None)
        }
        Request::Pause { .. } => (Answer::Done, None),
        Request::Spawn(_) | Request::Signal { .. } | Request::SignalGroup { .. } | Request::OpenTerminal => {
            (Answer::Gone, None)
        }
        request @ (Request::OpenRead { .. }
        | Request::BeginWrite { .. }
        | Request::CommitWrite { .. }
        | Request::AbortWrite { .. }
        | Request::Delete { .. }
        | Request::Rename { .. }) => {
            let (answer, fd) = files.serve(placed(root, request), Vec::new());
            (seen_inside(root, answer), fd)
        }
        request @ (Request::List { .. } | Request::Copy { .. } | Request::Chmod { .. } | Request::Chown { .. }) => {
            let answer = report(files, root, request, fds).unwrap_or_else(Answer::Failed);
            (seen_inside(root, answer), None)
        }
    }
}

/// Does what is told by a list of what it met, and passes that on as it looks from inside.
fn report(files: &Files, root: &Path, request: Request, fds: Vec<OwnedFd>) -> Result<Answer, FileError> {
    let failed = |error: io::Error| failure(&error, "/");
    let output = fds.into_iter().next().ok_or_else(|| failed(Errno::INVAL.into()))?;
    if let Request::Chmod { path, recursive, .. } = &request {
        own(&place(root, path), *recursive).map_err(failed)?;
    }
    if let Request::Chown { path, user, group, .. } = &request {
        for owner in [user, group] {
            may_own(owner.as_deref(), path)?;
        }
    }
    let told = rustix::fs::memfd_create("report", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let mut reading = File::from(told.try_clone().map_err(failed)?);
    let (answer, _) = files.serve(placed(root, request), vec![told]);
    let passed = || {
        let mut text = Vec::new();
        reading.rewind()?;
        reading.read_to_end(&mut text)?;
        if text.is_empty() {
            return Ok(());
        }
        let mut items: Vec<Map<String, Value>> = serde_json::from_slice(&text)?;
        for (name, value) in items.iter_mut().flatten() {
            match (name.as_str(), &value) {
                ("path" | "source" | "dest", Value::String(path)) => *value = inside(root, path).into(),
                ("uid" | "gid", _) => *value = USER.1.into(),
                _ => {}
            }
        }
        File::from(output).write_all(&serde_json::to_vec(&items)?)
    };
    passed().map_err(failed)?;
    Ok(answer)
}

fn ports(fds: Vec<OwnedFd>) -> Answer {
    let written = fds.into_iter().next().map(|output| File::from(output).write_all(b"[]"));
    if matches!(written, Some(Ok(()))) { Answer::Done } else { Answer::Gone }
}

/// Nobody but the one user may own a file, as nobody inside could give it away.
fn may_own(owner: Option<&str>, path: &str) -> Result<(), FileError> {
    let (name, number) = USER;
    match owner.unwrap_or_default() {
        "" => Ok(()),
        owner if owner == name || owner.parse() == Ok(number) => Ok(()),
        owner if matches!(owner, "root" | "nobody") || owner.parse::<u32>().is_ok_and(|number| number != u32::MAX) => {
            Err(failure(&Errno::PERM.into(), path))
        }
        _ => Err(FileError::new("EINVAL", "invalid user or group", path)),
    }
}

/// Gives a Sprite copies of its own of the shared files in a tree: what is shared must not be changed.
fn own(path: &Path, recursive: bool) -> io::Result<()> {
    let mut waiting = vec![path.to_owned()];
    while let Some(path) = waiting.pop() {
        // What cannot be looked at is told by what is to be done with it.
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        if found.is_dir() && recursive {
            let children = std::fs::read_dir(&path).into_iter().flatten().flatten();
            waiting.extend(children.map(|child| child.path()));
        } else if found.is_file() && found.nlink() > 1 {
            let aside = temporary(path.parent().ok_or(Errno::INVAL)?);
            std::fs::copy(&path, &aside)?;
            std::fs::rename(&aside, &path)?;
        }
    }
    Ok(())
}

/// Where a path of a Sprite is on this machine.
pub(super) fn place(root: &Path, path: &str) -> PathBuf {
    let mut below = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => below.push(name),
            Component::ParentDir => drop(below.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    root.join(below)
}

/// How a path of this machine looks from inside.
fn inside(root: &Path, path: &str) -> String {
    let below = Path::new(path).strip_prefix(root).unwrap_or(Path::new(path));
    Path::new("/").join(below).to_string_lossy().into_owned()
}

fn placed(root: &Path, request: Request) -> Request {
    let placed = |path: String| {
        let place = place(root, &path).to_string_lossy().into_owned();
        // Only a directory may be called so.
        if path.ends_with('/') && !place.ends_with('/') { place + "/" } else { place }
    };
    match request {
        Request::OpenRead { path } => Request::OpenRead { path: placed(path) },
        Request::BeginWrite { path, parents } => Request::BeginWrite { path: placed(path), parents },
        Request::List { path, recursive, pattern } => Request::List { path: placed(path), recursive, pattern },
        Request::Delete { path, recursive } => Request::Delete { path: placed(path), recursive },
        Request::Rename { source, dest } => Request::Rename { source: placed(source), dest: placed(dest) },
        Request::Copy { source, dest, recursive, preserve } => {
            Request::Copy { source: placed(source), dest: placed(dest), recursive, preserve }
        }
        Request::Chmod { path, mode, recursive } => Request::Chmod { path: placed(path), mode, recursive },
        // To ourselves: it is checked and told, and nothing changes.
        Request::Chown { path, recursive, .. } => {
            let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            let (user, group) = (Some(user.to_string()), Some(group.to_string()));
            Request::Chown { path: placed(path), user, group, recursive }
        }
        other @ (Request::CommitWrite { .. }
        | Request::AbortWrite { .. }
        | Request::Watch { .. }
        | Request::Connect { .. }
        | Request::Ports
        | Request::Pause { .. }
        | Request::Spawn(_)
        | Request::Signal { .. }
        | Request::SignalGroup { .. }
        | Request::OpenTerminal) => other,
    }
}

fn seen_inside(root: &Path, answer: Answer) -> Answer {
    match answer {
        Answer::Failed(FileError { code, error, path }) => {
            let text = error.strip_prefix(&path).unwrap_or(&error).to_owned();
            let path = inside(root, &path);
            Answer::Failed(FileError { code, error: format!("{path}{text}"), path })
        }
        other @ (Answer::Done
        | Answer::Spawned { .. }
        | Answer::NotSpawned { .. }
        | Answer::Gone
        | Answer::Opened { .. }
        | Answer::Written { .. }
        | Answer::Counted { .. }
        | Answer::Connected { .. }) => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out() {
        let root = Path::new("/data/instant/sprite-1/fs");
        for (path, expected) in [
            ("/workspace/a", "/data/instant/sprite-1/fs/workspace/a"),
            ("/../../../etc/passwd", "/data/instant/sprite-1/fs/etc/passwd"),
            ("/a/../../b/./c", "/data/instant/sprite-1/fs/b/c"),
            ("/", "/data/instant/sprite-1/fs"),
        ] {
            assert_eq!(place(root, path), Path::new(expected), "{path}");
        }
        assert_eq!(inside(root, "/data/instant/sprite-1/fs"), "/");
        assert_eq!(inside(root, "/data/instant/sprite-1/fs/workspace/a"), "/workspace/a");
    }

    #[test]
    fn what_is_shared_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let (root, shared) = (dir.path().join("fs"), dir.path().join("shared"));
        std::fs::create_dir(&root).unwrap();
        std::fs::write(&shared, "of all").unwrap();
        std::fs::hard_link(&shared, root.join("a")).unwrap();
        let before = std::fs::metadata(&shared).unwrap().mode();
        let (mut reader, writer) = io::pipe().unwrap();
        let request = Request::Chmod { path: "/".into(), mode: 0o755, recursive: true };
        let (answer, _) = serve(&Files::default(), &root, request, vec![writer.into()]);
        assert!(matches!(answer, Answer::Counted { count: 2, .. }), "{answer:?}");
        let mut told = String::new();
        reader.read_to_string(&mut told).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!(told, serde_json::json!([{ "path": "/a", "mode": "0755" }, { "path": "/", "mode": "0755" }]));
        assert_eq!(std::fs::metadata(&shared).unwrap().mode(), before);
        assert_eq!(std::fs::metadata(root.join("a")).unwrap().mode() & 0o777, 0o755);
    }
}
