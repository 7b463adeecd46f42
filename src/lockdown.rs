//! Everything that is done to one live Sprite: apply and verify its lockdown, run trusted commands, kill.
//!
//! Each act is on an instance, not on a name. Must not start anything of a user's, and must not know Kubernetes.

pub mod apply;
pub mod ask;
pub mod egress_rule;
pub mod instance;
pub mod kill;
pub mod runner;
pub mod trusted;
pub mod verify;
