//! What was read of the live Sprite, against what the session has on record. Pure.

use crate::controllers::run::{observed::LiveRead, plan::Start};
use rules::lockdown::Assessment;

/// Why a start has to wait for the Sprite.
pub enum NotProved {
    /// It sleeps: its rules can be read once it is awake.
    Asleep,
    /// It is not as recorded.
    Doubt(String),
    /// There was no answer that says enough.
    NoAnswer(String),
}

/// Passes the recorded instance, ours, private, awake, with exactly the demanded rules.
pub fn check(start: &Start, live: &LiveRead) -> Result<(), NotProved> {
    let sprite = match live {
        LiveRead::NoAnswer(why) => return Err(NotProved::NoAnswer(why.clone())),
        LiveRead::Sprite(sprite) => sprite,
    };
    match start.proof.assess(&start.egress, sprite.as_read()) {
        Assessment::Holds { read: true, .. } => Ok(()),
        Assessment::Holds { read: false, .. } => Err(NotProved::Asleep),
        Assessment::Lost(difference) => Err(NotProved::Doubt(difference.to_string())),
        Assessment::Apply(reason) => Err(NotProved::Doubt(reason.message().to_owned())),
    }
}
