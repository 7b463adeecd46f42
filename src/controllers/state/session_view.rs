//! A session as a Run sees it. Pure.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{ResourceExt, core::DeserializeGuard};

use api::SandboxSession;

/// A session as a Run sees it.
#[derive(Debug, Clone)]
pub enum SessionView {
    /// There is none of that name.
    Absent,
    /// There is one that cannot be read.
    Unreadable(String),
    /// It is there.
    Present(Arc<SandboxSession>),
}

impl SessionView {
    /// Its UID.
    pub fn uid(&self) -> Option<String> {
        match self {
            Self::Present(session) => session.uid(),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }
}

impl SessionView {
    /// Its resource version.
    pub fn version(&self) -> Option<String> {
        match self {
            Self::Present(session) => session.resource_version(),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }
}

/// What a cache holds of it.
pub fn of(guarded: Option<&DeserializeGuard<SandboxSession>>) -> SessionView {
    match guarded.map(|g| &g.0) {
        None => SessionView::Absent,
        Some(Ok(session)) => SessionView::Present(Arc::new(session.clone())),
        Some(Err(error)) => SessionView::Unreadable(error.error.clone()),
    }
}

/// Whether an owner is a Run: of our group, not only of that kind.
pub fn is_run(owner: &OwnerReference) -> bool {
    owner.kind == "Run" && owner.api_version.split('/').next() == Some(api::GROUP)
}
