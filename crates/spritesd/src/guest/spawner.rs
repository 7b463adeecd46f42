//! One thread that starts all sandboxes.
//!
//! `bwrap --die-with-parent` means "with the *thread* that started me". Tasks move between threads and threads of a
//! pool end when idle, so starting from a task would kill guests at random. This thread lives as long as the server.

use std::io;
use std::sync::mpsc;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

struct Job {
    command: Command,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// A handle to the starting thread; it ends when all handles are gone.
#[derive(Debug, Clone)]
pub(crate) struct Spawner {
    jobs: mpsc::Sender<Job>,
}

impl Spawner {
    /// Starts the thread; children are waited for by the runtime of the caller.
    pub(crate) fn start() -> io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let runtime = Handle::current();
        std::thread::Builder::new().name("spawner".into()).spawn(move || {
            let _inside = runtime.enter();
            for mut job in queue {
                // The requester may have gone; the child then dies by `kill_on_drop`.
                drop(job.reply.send(job.command.spawn()));
            }
        })?;
        Ok(Self { jobs })
    }

    /// Starts a child.
    pub(crate) async fn spawn(&self, command: Command) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the spawning thread is gone");
        self.jobs.send(Job { command, reply }).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}
