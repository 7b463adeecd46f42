//! Kills the command of a Run: found by its mark immediately before, since ids are PIDs and get reused.
//!
//! Must not kill anything that does not carry the mark, nor in another instance than the Run's.

use std::time::Duration;

use super::ask::{AskFailure, ask};
use rules::outcome::Stop;
use runner_protocol::{RUN, SWEEP, answer};
use sprites::{Awake, Killed, Priority};

/// How long the platform waits after the signal before it kills the runner itself, which has ended everything by then.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// Why nothing is confirmed.
#[derive(Debug, thiserror::Error)]
pub enum KillFailure {
    /// The signal could not be sent, or its answer says nothing.
    #[error("the signal could not be sent ({})", .0.kind())]
    Signal(#[from] sprites::Error),
    /// Whether something is left could not be asked.
    #[error(transparent)]
    Sweep(#[from] AskFailure),
}

/// The signal that asks for an end: TERM leaves the script two seconds to clean up, INT none.
pub const fn signal(stop: Stop) -> &'static str {
    match stop {
        Stop::Timeout | Stop::Cancel | Stop::OutputLimit => "SIGTERM",
        Stop::KillSwitch
        | Stop::Suspended
        | Stop::Held
        | Stop::PolicySuspended
        | Stop::TenantDisabled
        | Stop::Deleted
        | Stop::SessionDeleted => "SIGINT",
    }
}

/// What the arguments of a Run's runner contain.
fn mark(uid: &str) -> [&str; 2] {
    [RUN, uid]
}

/// The exec session of a Run, if the platform lists one.
pub async fn find(sprites: &sprites::Client, on: &Awake, uid: &str) -> Result<Option<String>, sprites::Error> {
    let marked = sprites.find_marked(on, &mark(uid)).await?;
    Ok(marked.into_iter().next().map(|session| session.id))
}

/// Kills, and says whether nothing of it is left: no session, and no process with the mark.
pub async fn kill(sprites: &sprites::Client, place: Place<'_>, stop: Stop) -> Result<bool, KillFailure> {
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
    match sprites.kill_marked(&on, &mark(place.uid), signal(stop), PATIENCE).await? {
        Killed::Nothing | Killed::Confirmed { .. } => {}
        Killed::Unconfirmed { left: _, error: Some(error) } => return Err(error.into()),
        Killed::Unconfirmed { left: _, error: None } => return Ok(false),
    }
    // A script may have killed its runner, which would have ended it: what carries the mark is ended from here then.
    Ok(ask(&sprites, &on, SWEEP, place.uid, answer::parse_swept).await? == 0)
}
