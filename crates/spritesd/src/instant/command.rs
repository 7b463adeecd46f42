//! What a command asks for, by its arguments, and its answer. Of the operator's own questions each is one line.

use std::path::PathBuf;
use std::sync::Arc;

use runner_protocol::{Arguments, EXIT_DISK, EXIT_USAGE, FENCE, Fence, INSTALL, RUN, STATE, SWEEP, answer, is_plain};
use tokio::sync::watch;

use super::files::place;
use super::machine::{Instance, Machine};
use super::writer::Writer;
use super::{home, run};
use crate::exec::inputs::Inputs;
use crate::exec::session::Session;
use crate::guest::protocol::Spawn;
use crate::sprite::blocking;

/// The constant command that wakes a Sprite.
const WAKE: &str = "true";

/// A command that is understood.
pub(super) enum Asked {
    /// Nothing: it wakes.
    Wake,
    Install {
        program: PathBuf,
        hash: String,
        nonce: String,
        workspace: String,
    },
    /// A Run, and whether it was given an input.
    Run(Box<Arguments>, bool),
    Fence(String),
    Sweep(String),
    State(String),
    /// One of the runner's words with arguments that it does not take.
    Malformed,
}

impl Asked {
    /// Reads a command; else what a shell would exit with, and say.
    pub(super) fn new(instance: &Instance, spawn: &Spawn) -> Result<Self, (u8, String)> {
        let words: Vec<&str> = spawn.argv.iter().skip(1).map(String::as_str).collect();
        if spawn.program == WAKE {
            return Ok(Self::Wake);
        }
        let uid = |uid: &str| is_plain(uid).then(|| uid.to_owned());
        let asked = match words.as_slice() {
            [RUN, words @ ..] => Arguments::parse(words).map(|arguments| Self::Run(Box::new(arguments), spawn.stdin)),
            [INSTALL, hash, nonce, workspace] => (is_plain(hash) && is_plain(nonce)).then(|| Self::Install {
                program: place(&instance.root, &spawn.program),
                hash: (*hash).to_owned(),
                nonce: (*nonce).to_owned(),
                workspace: (*workspace).to_owned(),
            }),
            [FENCE, run] => uid(run).map(Self::Fence),
            [SWEEP, run] => uid(run).map(Self::Sweep),
            [STATE, run] => uid(run).map(Self::State),
            [INSTALL | FENCE | SWEEP | STATE, ..] => None,
            _ => return Err(Machine::refusal(spawn)),
        };
        instance.find(&spawn.program)?;
        Ok(asked.unwrap_or(Self::Malformed))
    }

    /// Answers it, and gives its exit code.
    pub(super) async fn answer(
        self,
        instance: &Arc<Instance>,
        session: &Arc<Session>,
        inputs: Inputs,
        signals: watch::Receiver<Option<i32>>,
    ) -> u8 {
        let line = match self {
            Self::Wake => return 0,
            Self::Malformed => return EXIT_USAGE,
            Self::Run(arguments, has_input) => {
                return run::run(instance, &arguments, session, has_input.then_some(inputs), signals).await;
            }
            Self::Install { program, hash, nonce, workspace } => {
                let (root, installed) = (instance.root.clone(), answer::installed(&hash, &nonce));
                let put = blocking(move || home::install(&root, &program, &hash, &workspace)).await;
                if let Err(error) = put {
                    Writer::new(session).say(&format!("not installed: {error}")).await;
                    return EXIT_DISK;
                }
                instance.memory.install(&nonce);
                installed
            }
            // Nothing of a Run can remain: what was asked to end has.
            Self::Fence(uid) => Fence { remaining: 0, guard: instance.memory.fence(&uid) }.line(&uid),
            Self::Sweep(uid) => {
                instance.memory.sweep(&uid);
                answer::swept(&uid, 0)
            }
            Self::State(uid) => instance.memory.state(&uid).line(&uid),
        };
        let mut writer = Writer::new(session);
        writer.stdout(line.as_bytes());
        writer.flush().await;
        0
    }
}
