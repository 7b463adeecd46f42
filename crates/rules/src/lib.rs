//! What is allowed: every security decision as pure code.
//!
//! No client, no clock, no async, no random source, no log: the manifest names no crate that has one. Time comes as an
//! argument. Functions take plain values and return plain values.

#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects"))]

pub mod anomaly;
pub mod combine;
pub mod command;
pub mod egress;
pub mod environment;
pub mod limits;
pub mod lockdown;
pub mod object_size;
pub mod order;
pub mod outcome;
pub mod output;
pub mod path;
pub mod quota;
pub mod record;
pub mod session_name;

#[cfg(test)]
mod scenarios;
