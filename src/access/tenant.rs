//! A tenant: a namespace that is opted in, or not. Pure.

use api::names::{CODE_EXECUTION_ENABLED, CODE_EXECUTION_LABEL};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;

/// A tenant's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tenant {
    /// Whether it is opted in.
    pub enabled: bool,
    /// Whether it is being deleted.
    pub terminating: bool,
}

impl Tenant {
    /// What a namespace says; one that is not there is not opted in.
    pub fn of(namespace: Option<&Namespace>) -> Self {
        let Some(namespace) = namespace else { return Self { enabled: false, terminating: false } };
        Self {
            enabled: namespace.labels().get(CODE_EXECUTION_LABEL).is_some_and(|v| v == CODE_EXECUTION_ENABLED),
            terminating: namespace.metadata.deletion_timestamp.is_some(),
        }
    }
}
