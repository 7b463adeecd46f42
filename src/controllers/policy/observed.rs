//! What is said of a policy rests on this. Types only: must not read anything.

use std::sync::Arc;

use api::ExecutionPolicy;
use k8s_openapi::jiff::Timestamp;

use crate::policy::cache::Compilation;

/// Everything that a decision rests on.
#[derive(Debug)]
pub struct Observed {
    /// The policy, from the cache; every write compares its version.
    pub policy: Arc<ExecutionPolicy>,
    /// What its spec comes to.
    pub compilation: Compilation,
    /// How many sessions it is in effect for.
    pub sessions: u32,
    /// The time.
    pub now: Timestamp,
}
