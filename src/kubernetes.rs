//! Thin helpers over kube: guarded writes, finalizers, the Lease, watching.
//!
//! Must not know what our resources mean.

pub mod apply;
pub mod clock;
pub mod finalizer;
pub mod lease;
pub mod object_key;
pub mod scope;
