//! sprite-operator: runs untrusted agent code in Fly Sprites, driven by Kubernetes resources.
//!
//! Who may import whom: the crates `api` ← `redact`, `rules`; then here `kubernetes`, `telemetry` ← `access`, `policy`,
//! `lockdown` ← `controllers` ← `explain`, `serve` ← `app`. docs/architecture.md says what each part does.

#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects"))]

pub mod access;
pub mod app;
pub mod cli;
pub mod config;
pub mod controllers;
pub mod explain;
pub mod kubernetes;
pub mod lockdown;
pub mod policy;
pub mod serve;
pub mod telemetry;
