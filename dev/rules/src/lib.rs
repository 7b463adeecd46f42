//! The rules of sprite-operator as a library of their own: the same source files, built without any client.
//!
//! Nothing is written here: what `rules` may import of `api` is mounted beside it, so an import of anything else does not
//! compile.

#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects"))]

pub mod api;
#[path = "../../../src/rules/mod.rs"]
pub mod rules;
