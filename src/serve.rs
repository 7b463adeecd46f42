//! The operator's HTTP endpoints: health, readiness, metrics.
//!
//! Must not decide whether the operator is healthy: parts say so themselves.

pub mod health;
