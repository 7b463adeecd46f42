//! Behaviour on real parts: a real control plane, a real spritesd with real sandboxes, the operator as a real process.
//!
//! Each test has namespaces, policies, an operator and a spritesd of its own, so all run in parallel.

mod crashes;
mod runs;
mod sessions;
mod stops;
mod support;
