//! What the operator shows of itself: health, readiness, metrics.
//!
//! Must not show names, commands, hosts or error text in a metric.

pub mod health;
pub mod metrics;
