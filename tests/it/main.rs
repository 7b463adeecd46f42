//! Behaviour on real parts: a real control plane, a real spritesd with real sandboxes, the operator as a real process.
//!
//! Each test has namespaces, policies, an operator and a spritesd of its own, so all run in parallel.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    clippy::doc_markdown,
    reason = "a test fails by panicking, and names what it expects"
)]

mod adversary;
mod bounds;
mod crash_storm;
mod crashes;
mod day_two;
mod egress;
mod faults;
mod generated;
mod monitoring;
mod outages;
mod output;
mod policies;
mod runner;
mod runs;
mod schema;
mod sessions;
mod startup;
mod stops;
mod tools;
