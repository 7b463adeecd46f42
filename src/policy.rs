//! Policies: from an `ExecutionPolicy` to what is in force, for controllers and the dry run.
//!
//! Must not write a status, and must not read one: what is in force is always computed from the spec.

pub mod bounds;
pub mod cache;
pub mod compile;
pub mod effect;
pub mod view;
