//! The runner: starts one Run's script in the guest at most once, ends all of it, and leaves a record of how it ended.
//!
//! One static program, started by the operator for a Run (`so-run`), for its own questions (`so-fence`, `so-sweep`, `so-state`)
//! and to install itself (`so-install`). A Run has two processes of it: the *front* is the exec's own, relays and keeps output;
//! the *supervisor* starts the script and keeps its time. Both are child subreapers, the supervisor below the front, so that
//! whichever is killed, the other ends the script and writes the record. A file operation is done by a process of its own in
//! the script's place. Must not run a program of the guest but the script's bash, and decides nothing by the wall clock.

mod ask;
mod channel;
mod clock;
mod file;
mod front;
mod install;
mod keep_awake;
mod launch;
mod processes;
mod prune;
mod relay;
mod root;
mod signals;
mod supervisor;

use std::{ffi::OsString, process::ExitCode};

use runner_protocol::{EXEC, EXIT_USAGE, FENCE, FILE, INSTALL, RUN, STATE, SUPERVISE, SWEEP};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let Some((word, rest)) = arguments.split_first() else { return ExitCode::from(EXIT_USAGE) };
    if word == EXEC {
        // The one argument that may hold any bytes.
        return ExitCode::from(launch::become_script(rest.first()));
    }
    let words: Option<Vec<&str>> = rest.iter().map(|word| word.to_str()).collect();
    let Some(words) = words else { return ExitCode::from(EXIT_USAGE) };
    let code = match (word.to_str(), words.as_slice()) {
        (Some(RUN), words) => front::run(words),
        (Some(SUPERVISE), words) => supervisor::supervise(words),
        (Some(FILE), []) => file::run(),
        (Some(INSTALL), [hash, nonce, workspace]) => install::install(hash, nonce, workspace),
        (Some(FENCE), [uid]) => ask::fence(uid),
        (Some(SWEEP), [uid]) => ask::sweep(uid),
        (Some(STATE), [uid]) => ask::state(uid),
        _ => EXIT_USAGE,
    };
    ExitCode::from(code)
}
