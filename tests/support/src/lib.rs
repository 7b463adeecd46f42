//! What tests and benches start, and how they look at it: processes, the programs under test and, with feature `cluster`, a
//! control plane and an operator with everything around it.
//!
//! Must not assert what a test is about.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    clippy::doc_markdown,
    reason = "a test fails by panicking, and names what it expects"
)]

#[cfg(feature = "cluster")]
pub mod cluster;
#[cfg(feature = "cluster")]
pub mod environment;
#[cfg(feature = "cluster")]
pub mod gate;
#[cfg(feature = "cluster")]
pub mod late_proxy;
pub mod process;
pub mod programs;
pub mod waiting;

#[cfg(feature = "cluster")]
pub use environment::TestEnv;
