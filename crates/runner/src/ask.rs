//! What the operator asks about a Run: keep it from starting, end what is left, say how it stands. One line each.

use std::{os::fd::BorrowedFd, time::Duration};

use runner_protocol::{EXIT_DISK, EXIT_USAGE, Fence, Guard, State, answer, is_plain};

use crate::{
    clock, processes,
    root::{Root, own_folder},
};

/// How long a supervisor whose front was killed has to end its script and write the record.
const SUPERVISOR_ENDS: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(5);

/// Fences, ends what is left, and prints the guard: final, since nothing can start any more.
pub fn fence(uid: &str) -> u8 {
    if !is_plain(uid) {
        return EXIT_USAGE;
    }
    let root = Root::new();
    let began = has_begun(&root, uid);
    // The guard of a Run that began may have been removed: a missing one is then no proof that it never started.
    let fenced =
        own_folder(&root.0).is_ok() && if began { root.stand_in(uid).is_ok() } else { root.fence(uid).is_ok() };
    if !fenced {
        return EXIT_DISK;
    }
    let remaining = end(&root, uid);
    match root.read_guard(uid) {
        Some(guard) => say(&Fence { remaining, guard }.line(uid)),
        None => EXIT_DISK,
    }
}

/// Ends what is left of a Run, and prints how many processes remain.
pub fn sweep(uid: &str) -> u8 {
    if !is_plain(uid) {
        return EXIT_USAGE;
    }
    say(&answer::swept(uid, end(&Root::new(), uid)))
}

/// Prints how a Run stands.
pub fn state(uid: &str) -> u8 {
    if !is_plain(uid) {
        return EXIT_USAGE;
    }
    let root = Root::new();
    let state = match (root.read_guard(uid), root.started(uid)) {
        // Its guard was removed; how long it has been running is not known any more.
        (None, _) if has_begun(&root, uid) => State::Running(Duration::ZERO),
        (None, _) => State::Absent,
        (Some(Guard::Started), Some(at)) => State::Running(clock::now().saturating_sub(at)),
        (Some(Guard::Started), None) => State::Running(Duration::ZERO),
        (Some(Guard::Never | Guard::Ended(_)), _) => State::Over,
    };
    say(&state.line(uid))
}

/// Whether a Run was started, by what does not depend on its guard: its supervisor is alive, or there is a spool of it.
fn has_begun(root: &Root, uid: &str) -> bool {
    processes::is_supervised(uid) || std::fs::symlink_metadata(root.spools().join(uid)).is_ok()
}

/// Ends all that carries the mark: a supervisor that is about to end everything itself is given time for that and its record.
fn end(root: &Root, uid: &str) -> usize {
    let until = clock::now() + SUPERVISOR_ENDS;
    while root.read_guard(uid) == Some(Guard::Started) && processes::is_supervised(uid) && clock::now() < until {
        clock::pause(PAUSE);
    }
    let ended = processes::end(|| processes::marked(uid), |_, _| {});
    usize::try_from(ended.remaining).unwrap_or(usize::MAX)
}

fn say(line: &str) -> u8 {
    let stdout: BorrowedFd<'_> = rustix::stdio::stdout();
    if rustix::io::write(stdout, line.as_bytes()) == Ok(line.len()) { 0 } else { EXIT_DISK }
}
