//! sprite-operator: runs untrusted agent code in Fly Sprites, driven by Kubernetes resources.

pub mod api;
pub mod rules;
