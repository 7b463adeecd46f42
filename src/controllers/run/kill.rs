//! Kills the command of a Run: found by its mark immediately before, since ids are PIDs and get reused.
//!
//! Must not kill anything that does not carry the mark.

use std::time::Duration;

use super::super::{context::Context, session::lock};
use crate::{rules::runner, sprites};

/// How long a command has between TERM and KILL.
const PATIENCE: Duration = Duration::from_secs(5);
/// A trusted command on an awake Sprite.
const TRUSTED: Duration = Duration::from_secs(10);

/// The exec session of a Run, if the platform lists one.
pub async fn find(context: &Context, sprite: &str, uid: &str) -> Result<Option<String>, sprites::Error> {
    let sessions = context.sprites.exec_sessions(sprite).await?;
    let runners = sessions.into_iter().filter(|session| session.command.contains("so-run "));
    let mut marked = runners.filter(|session| session.command.split(' ').any(|word| word == uid));
    Ok(marked.next().map(|session| session.id))
}

/// Kills, and says whether nothing of it is left: no session, and no process with the mark.
pub async fn kill(context: &Context, sprite: &str, uid: &str) -> Result<bool, sprites::Error> {
    if let Some(id) = find(context, sprite, uid).await? {
        // The runner's trap sweeps on TERM; KILL would leave a script in a session of its own running.
        match context.sprites.kill(sprite, &id, "SIGTERM", PATIENCE).await {
            Ok(_) => {}
            Err(error) if error.is_absent() => {}
            Err(error) => return Err(error),
        }
    }
    if find(context, sprite, uid).await?.is_some() {
        return Ok(false);
    }
    // A script may have killed its runner, which would have swept: what carries the mark is swept from here then.
    let none_left = |output: sprites::Output| output.exit == Some(0) && output.stdout.trim_ascii() == b"0";
    let swept = lock::trusted(context, sprite, runner::sweep(uid), TRUSTED).await;
    Ok(swept.is_ok_and(none_left))
}
