//! Reads exactly what a launch brings, unless it is cut short, does not come in time, or is asked to stop first. Must not read a byte of the script's stdin.

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
};

use runner_protocol::{Arguments, Input};

use crate::{
    clock,
    signals::{Signals, Wish},
};

/// How long a launch may take to come through: the operator has given the Run up by then.
const WITHIN: std::time::Duration = std::time::Duration::from_secs(15);

/// Reads; nothing when it is not whole, or somebody wants it to stop.
pub fn read(arguments: &Arguments, signals: &Signals) -> Option<Input> {
    let mut bytes = vec![0; arguments.input_bytes()];
    let mut filled = 0;
    let until = clock::now() + WITHIN;
    loop {
        let left = until.checked_sub(clock::now())?;
        if is_stopped(signals) {
            return None;
        }
        let rest = bytes.get_mut(filled..).filter(|rest| !rest.is_empty());
        let Some(rest) = rest else { return Input::parse(arguments, &bytes) };
        let stdin = rustix::stdio::stdin();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(signals, PollFlags::IN)];
        let _ = poll(&mut ready, Some(&clock::timespec(left)));
        let [readable, _] = ready.map(|ready| !ready.revents().is_empty());
        if !readable {
            continue;
        }
        match rustix::io::read(stdin, rest) {
            Ok(0) => return None,
            Ok(read) => filled += read,
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return None,
        }
    }
}

fn is_stopped(signals: &Signals) -> bool {
    std::iter::from_fn(|| signals.next()).any(|wish| wish != Wish::Child)
}
