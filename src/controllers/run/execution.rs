//! The execution of a Run: prove and start, the running command, adoption after a crash.
//!
//! Must not write a terminal status: an execution ends with a `Finished`, which reconcile writes.

pub mod adopt;
pub mod collect;
pub mod exec;
pub mod judge;
mod open;
pub mod place;
pub mod proved;
mod running;
mod spool;
pub mod start;
pub mod work;
