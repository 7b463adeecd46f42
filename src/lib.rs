//! sprite-operator: runs untrusted agent code in Fly Sprites, driven by Kubernetes resources.
//!
//! Who may import whom: `api` ← `rules` ← `sprites`, `access` ← `controllers` ← `explain`, `app`. `spritesd`, the local Sprites
//! server, shares nothing with `sprites`, the client: a misread protocol must not cancel out.

#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects"))]

pub mod access;
pub mod api;
pub mod app;
pub mod cli;
pub mod controllers;
pub mod explain;
pub mod kubernetes;
pub mod rules;
pub mod serve;
pub mod sprites;
pub mod spritesd;
pub mod telemetry;
