//! A policy as a Run or session sees it. Pure.

use std::sync::Arc;

use super::compile::Compiled;

/// A policy as a Run or session sees it.
#[derive(Debug, Clone)]
pub enum PolicyView {
    /// No such policy.
    NotFound(String),
    /// There is one, with errors or unreadable.
    NotReady(String, String),
    /// In force.
    Ready(Arc<Compiled>),
}
