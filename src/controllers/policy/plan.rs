//! What a policy's decision comes to. Types only.

use api::{execution_policy::ExecutionPolicyStatus, reasons::PolicyReason};

use crate::controllers::driver::Next;

/// The decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Plan {
    /// Nothing is to be said.
    Nothing(Next),
    /// Something new is to be said.
    Report {
        /// The status.
        status: Box<ExecutionPolicyStatus>,
        /// A transition that people wait for or must know of, with what is said of it.
        told: Option<(PolicyReason, String)>,
        /// When to come back.
        next: Next,
    },
}
