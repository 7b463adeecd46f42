//! Stops and continues every process of the Sprite, where there is no control group to do it.

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Passes over the process list before giving up: each can find children of those it was too late for, and a signal
/// takes a moment to arrive.
const MOST_PASSES: usize = 2000;
const BETWEEN: Duration = Duration::from_millis(1);

/// Processes stopped by us, to be continued by us: what the guest itself has stopped stays stopped.
#[derive(Debug, Default)]
pub(super) struct Paused(BTreeSet<i32>);

impl Paused {
    /// Stops all processes but this one; returns when a look around finds none that runs.
    pub(super) fn pause(&mut self) -> io::Result<()> {
        for _ in 0..MOST_PASSES {
            let mut moving = false;
            for (pid, state) in processes()? {
                if !matches!(state, 'T' | 't' | 'Z' | 'X') {
                    moving = true;
                    self.0.insert(pid);
                    signal(pid, Signal::STOP);
                }
            }
            if !moving {
                return Ok(());
            }
            std::thread::park_timeout(BETWEEN);
        }
        self.resume();
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Continues them.
    pub(super) fn resume(&mut self) {
        for pid in std::mem::take(&mut self.0) {
            signal(pid, Signal::CONT);
        }
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

/// Every process but this one, with the letter of its state.
fn processes() -> io::Result<Vec<(i32, char)>> {
    let own = std::process::id().cast_signed();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()).filter(|pid| *pid != own) else {
            continue;
        };
        // The name in parentheses may hold anything; the state follows the last one.
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
            continue;
        };
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        found.extend(state.map(|state| (pid, state)));
    }
    Ok(found)
}
