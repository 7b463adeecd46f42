//! What the controllers remember between reconciles. Losing it costs time, never safety.
//!
//! Must not import a controller, and must not hold what a decision about safety rests on: that is in status.

pub mod executions;
pub mod own_secrets;
pub mod queue;
pub mod session_activity;
pub mod session_view;
pub mod shared_reads;
pub mod waiting;
