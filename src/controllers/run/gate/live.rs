//! What was read of the live Sprite, against what the session has on record. Pure.

use crate::{
    controllers::run::{observed::LiveRead, plan::Start},
    lockdown::verify,
};

/// Why a start has to wait for the Sprite.
pub enum NotProved {
    /// It sleeps: its rules can be read once it is awake.
    Asleep,
    /// It is not as recorded, or gave no answer.
    Doubt(String),
}

/// Passes the recorded instance, ours, private, awake, with exactly the demanded rules.
pub fn check(start: &Start, live: &LiveRead) -> Result<(), NotProved> {
    let sprite = match live {
        LiveRead::NoAnswer(why) => return Err(NotProved::Doubt(why.clone())),
        LiveRead::Sprite(sprite) => sprite,
    };
    if sprite.rules.is_none() && sprite.id == start.proof.instance && sprite.ours {
        return Err(NotProved::Asleep);
    }
    let rules = sprite.rules.as_deref().unwrap_or_default();
    verify::prove(&start.proof, &start.egress, sprite, rules).map_err(NotProved::Doubt)
}
