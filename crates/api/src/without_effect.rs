//! Fields that exist so that manifests stay valid, and have no effect in this version.
//!
//! One list: descriptions of the CRD, the message of a policy's Ready condition and the dry run follow it. A field leaves it with
//! the change that gives it its effect.

/// In `spec` of an `ExecutionPolicy`: fields, each with all below it.
pub const WITHOUT_EFFECT: &[&str] = &[
    "resources",
    "lifecycle.persistent",
    "lifecycle.hibernateAfter",
    "lifecycle.expireAfter",
    "lifecycle.maxAwake",
    "lifecycle.onTighten",
    "lifecycle.onWiden",
    "lifecycle.onKillUnconfirmed",
    "quota",
    "containment",
    "audit.failure",
];
