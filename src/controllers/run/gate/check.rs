//! What a check of the gate may say. Types only.

use api::SandboxSession;
use rules::outcome::Outcome;

use crate::controllers::{driver::Next, run::plan::Waiting};

/// What a check says that does not let a Run pass.
pub enum Check {
    /// It is over.
    Over(Outcome),
    /// It waits, and looks again then.
    Wait(Waiting, Next),
    /// Its session has to be made.
    CreateSession(Box<SandboxSession>),
}
