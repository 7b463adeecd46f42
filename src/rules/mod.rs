//! What is allowed: every security decision as pure code.
//!
//! No client, no clock, no async, no random source, no log. Time comes as an argument. Takes plain values and gives plain
//! values; of `api` it may import only `names` and `reasons`, so that it can be built, fuzzed and mutated alone.

pub mod anomaly;
pub mod combine;
pub mod command;
pub mod egress;
pub mod environment;
pub mod fit;
pub mod limits;
pub mod lockdown;
pub mod outcome;
pub mod output;
pub mod path;
pub mod quota;
pub mod record;
pub mod redact;
pub mod runner;
pub mod session_name;

#[cfg(test)]
mod scenarios;
