//! The streams of a command in a sandbox: pipes, or a terminal of the guest's own.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer};

use super::stream::{Descriptor, Size};
use crate::guest::protocol::{Answer, Request};
use crate::guest::{Guest, GuestError};

/// The terminal of a command: its master, which carries both directions.
pub(super) struct Terminal {
    master: Descriptor,
    size: Mutex<Size>,
}

impl Terminal {
    pub(super) fn new(master: Descriptor, size: Size) -> Self {
        Self { master, size: Mutex::new(size) }
    }

    pub(super) fn size(&self) -> Size {
        *self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn resize(&self, size: Size) {
        if self.master.resize(size).is_ok() {
            *self.size.lock().unwrap_or_else(PoisonError::into_inner) = size;
        }
    }
}

/// Our ends of a program's streams, and the ends to pass to it.
pub(super) struct Streams {
    pub(super) stdin: Option<Descriptor>,
    pub(super) stdout: Descriptor,
    /// None where everything comes by one stream.
    pub(super) stderr: Option<Descriptor>,
    pub(super) theirs: Vec<OwnedFd>,
}

impl Streams {
    pub(super) fn pipes(stdin: bool) -> io::Result<Self> {
        let (stdout, stdout_end) = io::pipe()?;
        let (stderr, stderr_end) = io::pipe()?;
        let (stdin_end, stdin) = if stdin { Some(io::pipe()?) } else { None }.unzip();
        let mut theirs: Vec<OwnedFd> = stdin_end.map(OwnedFd::from).into_iter().collect();
        theirs.extend([stdout_end.into(), stderr_end.into()]);
        Ok(Self {
            stdin: stdin.map(|writer| Descriptor::new(writer.into())).transpose()?,
            stdout: Descriptor::new(stdout.into())?,
            stderr: Some(Descriptor::new(stderr.into())?),
            theirs,
        })
    }

    /// A terminal of the guest's own, so that its programs find it by name.
    pub(super) async fn terminal(guest: &Guest, size: Size) -> Result<Self, GuestError> {
        let (Answer::Opened { .. }, Some(master)) = guest.ask(Request::OpenTerminal, &[]).await? else {
            return Err(GuestError::Confused);
        };
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let peer = ioctl_tiocgptpeer(&master, flags).map_err(io::Error::from)?;
        let theirs = vec![peer.try_clone()?, peer.try_clone()?, peer];
        let master = Descriptor::new(master)?;
        master.resize(size)?;
        Ok(Self { stdin: Some(master.clone()), stdout: master, stderr: None, theirs })
    }
}
