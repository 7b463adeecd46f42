//! Kills the command of a Run: found by its mark immediately before, since ids are PIDs and get reused.
//!
//! Must not kill anything that does not carry the mark, nor in another instance than the Run's.

use std::time::Duration;

use super::trusted::trusted;
use rules::runner;
use sprites::{Awake, Killed, Priority};

/// How long a command has between TERM and KILL.
const PATIENCE: Duration = Duration::from_secs(5);
/// A trusted command on an awake Sprite.
const TRUSTED: Duration = Duration::from_secs(10);

/// Where a Run's command was started.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The Sprite's name.
    pub sprite: &'a str,
    /// Its instance.
    pub instance: &'a str,
    /// The Run.
    pub uid: &'a str,
}

/// What the arguments of a Run's runner contain.
fn mark(uid: &str) -> [&str; 2] {
    [runner::MARK, uid]
}

/// The exec session of a Run, if the platform lists one.
pub async fn find(sprites: &sprites::Client, on: &Awake, uid: &str) -> Result<Option<String>, sprites::Error> {
    let marked = sprites.find_marked(on, &mark(uid)).await?;
    Ok(marked.into_iter().next().map(|session| session.id))
}

/// Kills, and says whether nothing of it is left: no session, and no process with the mark.
pub async fn kill(sprites: &sprites::Client, place: Place<'_>) -> Result<bool, sprites::Error> {
    let sprites = sprites.with_priority(Priority::Kill);
    let sprite = sprites.get(place.sprite).await?;
    if sprite.id != place.instance {
        // It went with its instance.
        return Ok(true);
    }
    // A frozen command cannot hear a signal: for a kill the Sprite is woken.
    let on = match sprite.awake() {
        Some(on) => on,
        None => sprites.wake(place.sprite).await?,
    };
    if on.id() != place.instance {
        return Ok(true);
    }
    // The runner's trap sweeps on TERM; KILL would leave a script in a session of its own running.
    match sprites.kill_marked(&on, &mark(place.uid), "SIGTERM", PATIENCE).await? {
        Killed::Nothing | Killed::Confirmed { .. } => {}
        Killed::Unconfirmed { left: _, error: Some(error) } => return Err(error),
        Killed::Unconfirmed { left: _, error: None } => return Ok(false),
    }
    // A script may have killed its runner, which would have swept: what carries the mark is swept from here then.
    let none_left = |output: sprites::Output| output.exit == Some(0) && output.stdout.trim_ascii() == b"0";
    let swept = trusted(&sprites, &on, runner::sweep(place.uid), TRUSTED).await;
    Ok(swept.is_ok_and(none_left))
}
