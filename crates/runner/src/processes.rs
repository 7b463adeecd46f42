//! Finds and ends processes: descendants, and what carries a Run's mark.
//!
//! Ending is: stop every one of them until a walk finds no new one, then kill. What is stopped forks no more, so that no fork
//! bomb outruns it. Must not touch this process itself.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait};

use runner_protocol::{RUN, SUPERVISE};

use crate::{clock, root};

/// This program, whatever became of its file.
pub const OWN_EXE: &str = "/proc/self/exe";
/// How long it may take until all are gone. What another user owns, or the kernel holds, is left.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);

/// What ending came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ended {
    /// How many living processes there were at first.
    pub found: u32,
    /// How many are left.
    pub remaining: u32,
}

/// The process of a child.
pub fn pid_of(child: &std::process::Child) -> std::io::Result<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or_else(|| std::io::Error::other("no process"))
}

/// A child that ended, and its code: 128+n for signal n.
pub fn reap() -> Option<(Pid, u8)> {
    let (pid, status) = wait(WaitOptions::NOHANG).ok().flatten()?;
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
        (None, Some(signal)) => 128u8.saturating_add(u8::try_from(signal).unwrap_or(127)),
        (None, None) => return None,
    };
    Some((pid, code))
}

/// All living descendants of this process.
pub fn descendants() -> Vec<Pid> {
    below(vec![rustix::process::getpid()])
}

/// All living processes of a Run, wherever they hang, and what hangs below them; not this one.
pub fn marked(uid: &str) -> Vec<Pid> {
    let mark = root::mark(uid);
    let is_marked = |pid: Pid| {
        is_runner(pid, &[RUN, SUPERVISE], uid)
            || read(pid, "environ").split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    let own = rustix::process::getpid();
    let roots: Vec<Pid> = all().into_iter().filter(|pid| *pid != own && is_marked(*pid)).collect();
    let mut found = roots.clone();
    found.extend(below(roots));
    let found: HashSet<Pid> = found.into_iter().filter(|pid| *pid != own && is_alive(*pid)).collect();
    found.into_iter().collect()
}

/// Whether the supervisor of a Run is alive.
pub fn is_supervised(uid: &str) -> bool {
    all().into_iter().any(|pid| is_runner(pid, &[SUPERVISE], uid) && is_alive(pid))
}

/// Whether a process is this program, started for this Run with one of these words.
fn is_runner(pid: Pid, words: &[&str], uid: &str) -> bool {
    let arguments = read(pid, "cmdline");
    let mut arguments = arguments.split(|byte| *byte == 0).skip(1);
    arguments.next().is_some_and(|word| words.iter().any(|own| own.as_bytes() == word))
        && arguments.next() == Some(uid.as_bytes())
}

fn read(pid: Pid, file: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{}/{file}", pid.as_raw_nonzero())).unwrap_or_default()
}

/// Ends every process that `find` returns, until it returns none; calls `reaped` for each child that ended.
pub fn end(find: impl Fn() -> Vec<Pid>, mut reaped: impl FnMut(Pid, u8)) -> Ended {
    let until = clock::now() + PATIENCE;
    let mut first: Option<usize> = None;
    loop {
        let mut stopped = HashSet::new();
        // Twice: what a dying parent had comes to this process after its own children were read.
        let mut walks_without_new = 0;
        while walks_without_new < 2 && clock::now() < until {
            let found = find();
            let new: Vec<Pid> = found.into_iter().filter(|pid| stopped.insert(*pid)).collect();
            walks_without_new = if new.is_empty() { walks_without_new + 1 } else { 0 };
            for pid in new {
                let _ = kill_process(pid, Signal::STOP);
            }
        }
        let found = *first.get_or_insert(stopped.len());
        for pid in &stopped {
            let _ = kill_process(*pid, Signal::KILL);
        }
        while let Some((pid, code)) = reap() {
            reaped(pid, code);
        }
        let remaining = if stopped.is_empty() { 0 } else { find().len() };
        if remaining == 0 || clock::now() >= until {
            let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
            return Ended { found: count(found), remaining: count(remaining) };
        }
        clock::pause(PAUSE);
    }
}

/// All living processes below these.
fn below(mut parents: Vec<Pid>) -> Vec<Pid> {
    let mut table = None;
    let mut found = HashSet::new();
    while let Some(parent) = parents.pop() {
        for child in children(parent, &mut table) {
            if found.insert(child) {
                parents.push(child);
            }
        }
    }
    found.into_iter().filter(|pid| is_alive(*pid)).collect()
}

/// The children of a process, by its `children` files; by the parents of all processes where the kernel has no such files.
fn children(parent: Pid, table: &mut Option<HashMap<i32, Vec<Pid>>>) -> Vec<Pid> {
    if !has_children_files() {
        let table = table.get_or_insert_with(by_parent);
        return table.get(&parent.as_raw_nonzero().get()).cloned().unwrap_or_default();
    }
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", parent.as_raw_nonzero())) else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    let mut found = Vec::new();
    for list in lists {
        found.extend(list.split_ascii_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)));
    }
    found
}

fn has_children_files() -> bool {
    std::path::Path::new("/proc/thread-self/children").exists()
}

fn by_parent() -> HashMap<i32, Vec<Pid>> {
    let mut table: HashMap<i32, Vec<Pid>> = HashMap::new();
    for pid in all() {
        if let Some((_, parent)) = stat(pid) {
            table.entry(parent).or_default().push(pid);
        }
    }
    table
}

fn all() -> Vec<Pid> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Whether it runs, or could again: what is dead and not yet reaped does not.
fn is_alive(pid: Pid) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X' | 'x'))
}

/// State and parent of a process.
fn stat(pid: Pid) -> Option<(char, i32)> {
    let text = String::from_utf8_lossy(&read(pid, "stat")).into_owned();
    // The name before may hold anything, parentheses and blanks too.
    let (_, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_ascii_whitespace();
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}
