//! A descriptor of a guest's program as the runtime sees it: one end of a pipe, or the master of a terminal.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Rows and columns of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) rows: u16,
    pub(crate) cols: u16,
}

impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, cols: 80 }
    }
}

/// A descriptor that never blocks a thread. Cheap to clone; closed with the last clone.
#[derive(Debug, Clone)]
pub(super) struct Descriptor(Arc<AsyncFd<OwnedFd>>);

impl Descriptor {
    pub(super) fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        #[expect(deprecated, reason = "sound for an owned descriptor; what replaces it is unsafe to call")]
        let fd = AsyncFd::new(fd)?;
        Ok(Self(Arc::new(fd)))
    }

    /// Reads what there is, waiting for it; zero at the end.
    pub(super) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.async_io(Interest::READABLE, |fd| ended(rustix::io::read(fd, &mut *buffer))).await
    }

    /// Reads without waiting. Asks the kernel itself, not the runtime's idea of readiness.
    pub(super) fn read_now(&self, buffer: &mut [u8]) -> io::Result<usize> {
        ended(rustix::io::read(self.0.get_ref(), buffer))
    }

    /// Writes everything, waiting for space.
    pub(super) async fn write_all(&self, mut data: &[u8]) -> io::Result<()> {
        while !data.is_empty() {
            let written = self.0.async_io(Interest::WRITABLE, |fd| Ok(rustix::io::write(fd, data)?)).await?;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            data = data.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    /// Sets the size of a terminal; its foreground programs are told by the kernel.
    pub(super) fn resize(&self, Size { rows, cols }: Size) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: cols, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(self.0.get_ref().as_fd(), size)?)
    }
}

/// A terminal ends with an error: nobody holds its other side any more.
fn ended(read: Result<usize, Errno>) -> io::Result<usize> {
    match read {
        Err(Errno::IO) => Ok(0),
        other => Ok(other?),
    }
}
