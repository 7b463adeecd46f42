//! Doing things in another network namespace: from threads that are made for it and end after it, because a
//! namespace belongs to a thread and those of the runtime must never leave the host's.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::tools::{ToolError, command};

/// How long a tool may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A network namespace that is not this process's own. Lasts at least as long as this does.
#[derive(Debug, Clone)]
pub(super) struct Namespace {
    file: Arc<File>,
}

impl Namespace {
    /// Opens one by a path like `/proc/PID/ns/net`. Refuses the one this process lives in: nothing here may ever
    /// change the host's network.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let (own, other) = (std::fs::metadata("/proc/self/ns/net")?, file.metadata()?);
        if (own.dev(), own.ino()) == (other.dev(), other.ino()) {
            return Err(io::Error::other("the network namespace is the server's own"));
        }
        Ok(Self { file: Arc::new(file) })
    }

    /// Does `work` inside.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (file, (reply, answer)) = (Arc::clone(&self.file), oneshot::channel());
        std::thread::Builder::new().name("namespace".into()).spawn(move || {
            let entered = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
            // Whoever asked may have gone.
            drop(reply.send(entered.map_err(io::Error::from).and_then(|()| work())));
        })?;
        answer.await.map_err(io::Error::other)?
    }

    /// Runs a tool inside with `input` on its standard input. When this returns, the tool has ended.
    pub(super) async fn feed(
        &self,
        (tool, arguments): (&'static str, &[&str]),
        input: String,
    ) -> Result<(), ToolError> {
        let io = |error| ToolError::io(tool, error);
        let (runtime, command) = (Handle::current(), command(tool, arguments));
        let started = self.run(move || {
            let _inside = runtime.enter();
            tokio::process::Command::from(command).kill_on_drop(true).spawn()
        });
        let mut child = started.await.map_err(io)?;
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let write = async {
            match stdin {
                Some(mut stdin) => stdin.write_all(input.as_bytes()).await,
                None => Ok(()),
            }
        };
        let mut said = Vec::new();
        let read = async {
            match stderr {
                Some(mut stderr) => stderr.read_to_end(&mut said).await,
                None => Ok(0),
            }
        };
        let Ok((written, read, status)) = timeout(PATIENCE, async { tokio::join!(write, read, child.wait()) }).await
        else {
            // It must not do its work after it was given up.
            drop(child.kill().await);
            return Err(ToolError::TimedOut(tool));
        };
        read.map_err(io)?;
        if !status.map_err(io)?.success() {
            return Err(ToolError::failed(tool, &said));
        }
        written.map_err(io)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_own_network_is_out_of_bounds() {
        assert!(Namespace::open(Path::new("/proc/self/ns/net")).is_err());
    }
}
