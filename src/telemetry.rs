//! What the operator tells of itself: logs and metrics.
//!
//! Must not show names, commands, hosts or error text in a metric, nor a secret in a log.

pub mod logs;
pub mod metrics;
