//! One instant Sprite: its files and its memory, which stay, and its machine, which is there while it is awake.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use runner_protocol::{EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND};
use tokio_util::sync::CancellationToken;

use super::answers::Answers;
use super::command::Asked;
use super::files::{place, serve};
use super::memory::Memory;
use super::trees::FILES;
use crate::activity::Activity;
use crate::exec::session::{Begun, Command, End, Named, Session};
use crate::guest::protocol::{Answer, Request, Spawn};
use crate::guest::{Files, GuestError};
use crate::sprite::blocking;

/// The first process id, as if the system's own had the lower ones.
const FIRST_ID: u32 = 100;

/// What of an instant Sprite does not depend on whether it is awake.
pub(crate) struct Instance {
    /// Where its `/` is on this machine.
    pub(super) root: PathBuf,
    pub(super) memory: Arc<Memory>,
    pub(super) answers: Arc<Answers>,
    files: Files,
    ids: AtomicU32,
}

impl Instance {
    /// Of a Sprite with this directory.
    pub(crate) fn new(directory: &Path, answers: &Arc<Answers>) -> Self {
        Self {
            root: directory.join(FILES),
            memory: Arc::default(),
            answers: Arc::clone(answers),
            files: Files::default(),
            ids: AtomicU32::new(FIRST_ID),
        }
    }

    /// Whether a program is there and may be executed, looked up as a guest's agent does; else what a shell exits with and says.
    pub(super) fn find(&self, program: &str) -> Result<(), (u8, String)> {
        // One look at a directory that was used just now: no reason to leave this thread.
        match std::fs::metadata(place(&self.root, program)) {
            Ok(found) if found.is_file() && found.permissions().mode() & 0o111 != 0 => Ok(()),
            Ok(_) => Err((EXIT_NOT_EXECUTABLE, format!("{program}: Permission denied"))),
            Err(_) => Err((EXIT_NOT_FOUND, format!("{program}: No such file or directory"))),
        }
    }
}

/// An instant Sprite that is awake.
pub(crate) struct Machine {
    instance: Arc<Instance>,
    ended: CancellationToken,
}

impl Machine {
    /// Lets a Sprite be awake.
    pub(crate) fn start(instance: &Arc<Instance>) -> Self {
        Self { instance: Arc::clone(instance), ended: CancellationToken::new() }
    }

    /// Ends everything that goes on, as a power loss does.
    pub(crate) fn stop(&self) {
        self.ended.cancel();
    }

    /// Returns when it was stopped.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// Whether it was not stopped.
    pub(crate) fn is_alive(&self) -> bool {
        !self.ended.is_cancelled()
    }

    /// Why a program is not started: what a shell would exit with, and say.
    pub(crate) fn refusal(spawn: &Spawn) -> (u8, String) {
        let program = &spawn.program;
        (
            EXIT_NOT_FOUND,
            format!("{program}: not there: --guest instant has the operator's runner and `true`, nothing else"),
        )
    }

    /// Answers a command.
    pub(crate) fn begin(
        &self,
        activity: Arc<Activity>,
        command: Command,
        registered: impl FnOnce(&Arc<Session>),
        ended: impl FnOnce(&Arc<Session>, End) + Send + 'static,
    ) -> Begun {
        let Command { spawn, after_disconnect, terminal } = command;
        if terminal.is_some() {
            return Begun::Refused { text: "--guest instant has no terminals".into(), code: EXIT_NOT_EXECUTABLE };
        }
        let asked = match Asked::new(&self.instance, &spawn) {
            Ok(asked) => asked,
            Err((code, text)) => return Begun::Refused { text, code },
        };
        let id = self.instance.ids.fetch_add(1, Ordering::Relaxed);
        let named = Named { id, command: spawn.argv.join(" "), workdir: spawn.dir };
        let (instance, stopped) = (Arc::clone(&self.instance), self.ended.clone());
        let work = |session: Arc<Session>, inputs, signals| async move {
            tokio::select! {
                biased;
                () = stopped.cancelled() => End::Lost,
                code = asked.answer(&instance, &session, inputs, signals) => End::Exited(code),
            }
        };
        Begun::Session(Session::work(named, activity, after_disconnect, registered, ended, work))
    }

    /// Answers what a guest's agent is asked.
    pub(crate) async fn ask(
        &self,
        request: Request,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(Answer, Option<OwnedFd>), GuestError> {
        if !self.is_alive() {
            return Err(GuestError::Gone);
        }
        let fds = fds.iter().map(BorrowedFd::try_clone_to_owned).collect::<Result<Vec<_>, _>>()?;
        let instance = Arc::clone(&self.instance);
        Ok(blocking(move || Ok(serve(&instance.files, &instance.root, request, fds))).await?)
    }
}
