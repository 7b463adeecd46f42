//! Operations on trees of files, as the guest's user and in the guest's view: list, delete, chmod, chown; rename and
//! copy are beside it.
//!
//! No tree is walked by recursion, so no depth a guest makes overflows a stack. Links met on the way are never
//! followed; a link named by the caller is, except by delete and rename, which are about the link itself.

use std::fs::{File, Metadata, Permissions};
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Gid, Uid, chownat};
use rustix::io::Errno;
use serde::Serialize;

use super::agent_copy::{copy, rename};
use super::agent_files::failure;
use super::agent_pattern::fits;
use super::protocol::{Answer, Request};
use crate::errors::FileError;

/// The most entries one listing gives; a longer one is refused.
const MOST_ENTRIES: usize = 50_000;
/// How many of the things an operation changed are named in its answer; all are counted.
const MOST_NAMED: usize = 10_000;

/// Serves one request about a tree; any other is refused.
pub(super) fn serve(request: Request, output: Option<OwnedFd>) -> Answer {
    let output = output.map(File::from);
    let done =
        |result: io::Result<Answer>, path: &str| result.unwrap_or_else(|error| Answer::Failed(failure(&error, path)));
    match request {
        Request::List { path, recursive, pattern } => {
            done(list(Path::new(&path), recursive, pattern.as_deref(), output), &path)
        }
        Request::Delete { path, recursive } => done(delete(Path::new(&path), recursive), &path),
        Request::Rename { source, dest } => {
            let result = rename(Path::new(&source), Path::new(&dest));
            done(result, blamed(&source, &dest))
        }
        Request::Copy { source, dest, recursive, preserve } => {
            let result = copy(Path::new(&source), Path::new(&dest), recursive, preserve, output);
            done(result, blamed(&source, &dest))
        }
        Request::Chmod { path, mode, recursive } => done(chmod(Path::new(&path), mode, recursive, output), &path),
        Request::Chown { path, user, group, recursive } => {
            let owner = id(user.as_deref(), "/etc/passwd").zip(id(group.as_deref(), "/etc/group"));
            match owner {
                Some((user, group)) => done(chown(Path::new(&path), user, group, recursive, output), &path),
                None => Answer::Failed(FileError::new("EINVAL", "invalid user or group", &path)),
            }
        }
        Request::Spawn(_)
        | Request::Signal { .. }
        | Request::SignalGroup { .. }
        | Request::OpenTerminal
        | Request::OpenRead { .. }
        | Request::BeginWrite { .. }
        | Request::CommitWrite { .. }
        | Request::AbortWrite { .. }
        | Request::Watch { .. }
        | Request::Connect { .. }
        | Request::Ports
        | Request::Pause { .. } => Answer::Gone,
    }
}

/// The path an error is about, of two.
fn blamed<'a>(source: &'a str, dest: &'a str) -> &'a str {
    if Path::new(source).symlink_metadata().is_ok() { dest } else { source }
}

/// What was done, counted in full and named in part.
pub(super) struct Report<T> {
    named: Vec<T>,
    count: u64,
    pub(super) bytes: u64,
}

impl<T: Serialize> Report<T> {
    pub(super) fn new() -> Self {
        Self { named: Vec::new(), count: 0, bytes: 0 }
    }

    pub(super) fn add(&mut self, one: T) {
        self.count += 1;
        if self.named.len() < MOST_NAMED {
            self.named.push(one);
        }
    }

    pub(super) fn write(self, output: Option<File>) -> io::Result<Answer> {
        let output = output.ok_or(Errno::INVAL)?;
        let mut output = io::BufWriter::new(output);
        serde_json::to_writer(&mut output, &self.named)?;
        output.flush()?;
        Ok(Answer::Counted { count: self.count, bytes: self.bytes })
    }
}

/// One line of a listing.
#[derive(Serialize)]
struct Entry {
    name: String,
    path: String,
    r#type: &'static str,
    size: u64,
    mode: String,
    #[serde(rename = "modTime")]
    modified: String,
    #[serde(rename = "isDir")]
    is_dir: bool,
}

impl Entry {
    fn new(path: &Path, found: &Metadata) -> Self {
        let kind = found.file_type();
        let modified = found.modified().ok().and_then(|time| Timestamp::try_from(time).ok()).unwrap_or_default();
        Self {
            name: path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            path: path.to_string_lossy().into_owned(),
            r#type: if kind.is_symlink() {
                "symlink"
            } else if kind.is_dir() {
                "directory"
            } else {
                "file"
            },
            size: found.len(),
            mode: octal(found.mode()),
            modified: format!("{modified:.6}"),
            is_dir: found.is_dir(),
        }
    }
}

fn octal(mode: u32) -> String {
    format!("{:04o}", mode & 0o7777)
}

/// Whether an error is about one entry that is gone or closed, and not about the listing.
fn is_passed_over(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

fn list(path: &Path, recursive: bool, pattern: Option<&str>, output: Option<File>) -> io::Result<Answer> {
    let found = std::fs::metadata(path)?;
    let mut entries = Vec::new();
    let mut waiting = if found.is_dir() { vec![path.to_owned()] } else { Vec::new() };
    if !found.is_dir() {
        entries.push(Entry::new(path, &std::fs::symlink_metadata(path)?));
    }
    while let Some(directory) = waiting.pop() {
        let children = match std::fs::read_dir(&directory) {
            Ok(children) => children,
            // A subdirectory the user may not read, or that vanished, does not spoil the listing of the rest. One that
            // is too deep to be named does: what is below would be missing without a word.
            Err(error) if directory != path && is_passed_over(&error) => continue,
            Err(error) => return Err(error),
        };
        for child in children {
            let child = child?.path();
            let found = match std::fs::symlink_metadata(&child) {
                Ok(found) => found,
                Err(error) if is_passed_over(&error) => continue,
                Err(error) => return Err(error),
            };
            let entry = Entry::new(&child, &found);
            let below = child.strip_prefix(path).unwrap_or(&child).to_string_lossy();
            let wanted = pattern.is_none_or(|pattern| fits(pattern, &entry.name) || fits(pattern, &below));
            if wanted {
                entries.push(entry);
            }
            if recursive && found.is_dir() {
                waiting.push(child);
            }
            if entries.len() > MOST_ENTRIES || waiting.len() > MOST_ENTRIES {
                return Err(Errno::TOOBIG.into());
            }
        }
    }
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let count = entries.len() as u64;
    Report { named: entries, count, bytes: 0 }.write(output)
}

/// Visits everything below and including `top`, contents before their directory. Where a directory cannot be read,
/// `open` may make it readable.
fn walk(
    top: &Path,
    mut open: impl FnMut(&Path) -> io::Result<()>,
    mut visit: impl FnMut(&Path, &Metadata) -> io::Result<()>,
) -> io::Result<()> {
    let mut waiting = vec![(top.to_owned(), None)];
    while let Some((path, entered)) = waiting.pop() {
        if let Some(found) = entered {
            visit(&path, &found)?;
            continue;
        }
        let found = match std::fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound && path != top => continue,
            Err(error) => return Err(error),
        };
        if !found.is_dir() {
            visit(&path, &found)?;
            continue;
        }
        let children = match std::fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                open(&path)?;
                std::fs::read_dir(&path)?
            }
            other => other?,
        };
        waiting.push((path, Some(found)));
        for child in children {
            waiting.push((child?.path(), None));
        }
    }
    Ok(())
}

fn refuse(_: &Path) -> io::Result<()> {
    Err(Errno::ACCESS.into())
}

pub(super) fn delete(path: &Path, recursive: bool) -> io::Result<Answer> {
    let found = std::fs::symlink_metadata(path)?;
    if !found.is_dir() {
        std::fs::remove_file(path)?;
    } else if recursive {
        walk(
            path,
            refuse,
            |path, found| {
                if found.is_dir() { std::fs::remove_dir(path) } else { std::fs::remove_file(path) }
            },
        )?;
    } else {
        std::fs::remove_dir(path)?;
    }
    Ok(Answer::Done)
}

#[derive(Serialize)]
struct WithMode {
    path: String,
    mode: String,
}

fn chmod(path: &Path, mode: u32, recursive: bool, output: Option<File>) -> io::Result<Answer> {
    let set = |path: &Path| std::fs::set_permissions(path, Permissions::from_mode(mode));
    let mut report = Report::new();
    let mut one = |path: &Path| {
        set(path)?;
        report.add(WithMode { path: path.to_string_lossy().into(), mode: octal(mode) });
        Ok(())
    };
    if recursive && std::fs::metadata(path)?.is_dir() {
        // Contents first: afterwards they might be out of reach.
        walk(&std::fs::canonicalize(path)?, set, |path, found| if found.is_symlink() { Ok(()) } else { one(path) })?;
    } else {
        one(path)?;
    }
    report.write(output)
}

#[derive(Serialize)]
struct WithOwner {
    path: String,
    uid: u32,
    gid: u32,
}

fn chown(path: &Path, user: Owner, group: Owner, recursive: bool, output: Option<File>) -> io::Result<Answer> {
    let mut report = Report::new();
    let mut one = |path: &Path, flags: AtFlags| {
        let changed = chownat(CWD, path, user.map(Uid::from_raw), group.map(Gid::from_raw), flags);
        // An id that does not exist in the guest is one it may not give.
        changed.map_err(|error| if error == Errno::INVAL { Errno::PERM } else { error })?;
        let found = std::fs::symlink_metadata(path)?;
        report.add(WithOwner { path: path.to_string_lossy().into(), uid: found.uid(), gid: found.gid() });
        Ok(())
    };
    if recursive && std::fs::metadata(path)?.is_dir() {
        walk(&std::fs::canonicalize(path)?, refuse, |path, _| one(path, AtFlags::SYMLINK_NOFOLLOW))?;
    } else {
        one(path, AtFlags::empty())?;
    }
    report.write(output)
}

/// A user or group to set; none leaves it.
type Owner = Option<u32>;

/// Looks up a number or a name in a file like `/etc/passwd`; none when there is no such name.
fn id(wanted: Option<&str>, file: &str) -> Option<Owner> {
    let Some(wanted) = wanted.filter(|wanted| !wanted.is_empty()) else {
        return Some(None);
    };
    if let Ok(number) = wanted.parse::<u32>() {
        // The largest number means "leave it" to the kernel.
        return (number != u32::MAX).then_some(Some(number));
    }
    let known = std::fs::read_to_string(file).ok()?;
    known.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != wanted {
            return None;
        }
        fields.nth(1)?.parse().ok().map(Some)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    fn ask(request: Request) -> (Answer, Vec<serde_json::Value>) {
        let (mut reader, writer) = io::pipe().unwrap();
        let answer = serve(request, Some(writer.into()));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        (answer, serde_json::from_str(&text).unwrap_or_default())
    }

    #[test]
    fn a_listing_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        std::fs::write(dir.path().join("d/f"), "12").unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("root")).unwrap();
        let path = dir.path().to_string_lossy().into_owned();
        let (answer, entries) = ask(Request::List { path: path.clone(), recursive: true, pattern: None });
        assert!(matches!(answer, Answer::Counted { count: 3, .. }));
        let seen: Vec<_> = entries.iter().map(|e| (e["name"].as_str().unwrap(), e["type"].as_str().unwrap())).collect();
        assert_eq!(seen, [("d", "directory"), ("f", "file"), ("root", "symlink")]);
        for (pattern, names) in [("f", vec!["f"]), ("d/*", vec!["f"]), ("*o*", vec!["root"]), ("x", vec![])] {
            let request = Request::List { path: path.clone(), recursive: true, pattern: Some(pattern.into()) };
            let seen = ask(request).1;
            assert_eq!(seen.iter().map(|e| e["name"].as_str().unwrap()).collect::<Vec<_>>(), names, "{pattern}");
        }
    }

    #[test]
    fn a_deep_tree_is_removed_without_a_deep_stack() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        let deep = (0..1500).fold(top.clone(), |path, _| path.join("d"));
        std::fs::create_dir_all(&deep).unwrap();
        let work = move || delete(&top, true).map(|_| top.exists());
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(work).unwrap();
        assert!(!thread.join().unwrap().unwrap());
    }

    #[test]
    fn modes_of_a_tree_are_set_where_they_bar_the_way() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("top");
        std::fs::create_dir_all(top.join("d")).unwrap();
        std::fs::write(top.join("d/f"), "").unwrap();
        let set = |mode| ask(Request::Chmod { path: top.to_string_lossy().into(), mode, recursive: true });
        for mode in [0o000, 0o700] {
            let (answer, affected) = set(mode);
            assert!(matches!(answer, Answer::Counted { count: 3, .. }), "{answer:?}");
            assert_eq!(affected[2]["path"], top.to_string_lossy().as_ref());
        }
        assert_eq!(std::fs::metadata(top.join("d/f")).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn owners_by_number_and_name() {
        assert_eq!(id(None, "/etc/passwd"), Some(None));
        assert_eq!(id(Some("7"), "/etc/passwd"), Some(Some(7)));
        assert_eq!(id(Some("root"), "/etc/passwd"), Some(Some(0)));
        assert_eq!(id(Some("root"), "/etc/group"), Some(Some(0)));
        assert_eq!(id(Some("no-such-name"), "/etc/passwd"), None);
        assert_eq!(id(Some("4294967295"), "/etc/passwd"), None);
    }
}
