//! One folder a kind, each: gather → decide (pure) → act → report.
//!
//! `gather` and `act` hold clients; `decide` and `status` take time as an argument and touch none. Must not hold rules:
//! those are in `rules`.

pub mod context;
pub mod driver;
pub mod error;
pub mod events;
pub mod policy;
pub mod run;
pub mod session;
pub mod state;
pub mod triggers;
