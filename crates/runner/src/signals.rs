//! Signals as something to be read. What a process starts inherits what it blocks, so the script unblocks first.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use nix::sys::{
    signal::{SigSet, Signal},
    signalfd::{SfdFlags, SignalFd},
};

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wish {
    /// TERM or HUP: stop, with time to clean up.
    Stop,
    /// INT or QUIT: end now.
    End,
    /// A child ended.
    Child,
}

/// The blocked signals.
pub struct Signals(SignalFd);

impl Signals {
    /// Blocks them from here on.
    pub fn block() -> io::Result<Self> {
        let mut mask = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGCHLD] {
            mask.add(signal);
        }
        mask.thread_block()?;
        Ok(Self(SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?))
    }

    /// The next one, if there is one.
    pub fn next(&self) -> Option<Wish> {
        let info = self.0.read_signal().ok().flatten()?;
        let number = i32::try_from(info.ssi_signo).unwrap_or_default();
        Some(match Signal::try_from(number) {
            Ok(Signal::SIGCHLD) => Wish::Child,
            Ok(Signal::SIGINT | Signal::SIGQUIT) => Wish::End,
            Ok(_) | Err(_) => Wish::Stop,
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Blocks nothing any more: for what this process becomes.
pub fn unblock() {
    let _ = SigSet::empty().thread_set_mask();
}
