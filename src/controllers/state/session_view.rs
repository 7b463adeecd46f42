//! A session as a Run sees it. Pure.

use std::{ops::Deref, sync::Arc};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{ResourceExt, core::DeserializeGuard};

use crate::kubernetes::object_key::ObjectKey;
use api::SandboxSession;

/// A session with its key.
#[derive(Debug, Clone)]
pub struct KnownSession {
    /// Which session.
    pub key: ObjectKey,
    object: Arc<SandboxSession>,
}

impl Deref for KnownSession {
    type Target = SandboxSession;

    fn deref(&self) -> &SandboxSession {
        &self.object
    }
}

/// A session as a Run sees it.
#[derive(Debug, Clone)]
pub enum SessionView {
    /// There is none of that name.
    Absent,
    /// There is one that cannot be read, for this reason.
    Unreadable(String),
    /// It is there.
    Present(KnownSession),
}

impl SessionView {
    /// An object that was read.
    pub fn present(object: Arc<SandboxSession>) -> Self {
        match ObjectKey::of(&*object) {
            Ok(key) => Self::Present(KnownSession { key, object }),
            Err(error) => Self::Unreadable(error.to_string()),
        }
    }

    /// What a cache holds of it.
    pub fn cached(guarded: Option<&DeserializeGuard<SandboxSession>>) -> Self {
        match guarded.map(|g| &g.0) {
            None => Self::Absent,
            Some(Ok(session)) => Self::present(Arc::new(session.clone())),
            Some(Err(error)) => Self::Unreadable(error.error.clone()),
        }
    }

    /// It, when it is there and can be read.
    pub const fn known(&self) -> Option<&KnownSession> {
        match self {
            Self::Present(session) => Some(session),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }

    /// Its UID.
    pub fn uid(&self) -> Option<&str> {
        self.known().map(|session| session.key.uid.as_str())
    }

    /// Its resource version.
    pub fn version(&self) -> Option<String> {
        self.known()?.resource_version()
    }
}

/// Whether an owner is a Run: of our group, not only of that kind.
pub fn is_run(owner: &OwnerReference) -> bool {
    owner.kind == "Run" && owner.api_version.split('/').next() == Some(api::GROUP)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn session(metadata: &Value) -> SandboxSession {
        let spec = json!({"drive": "d", "conversation": "c"});
        serde_json::from_value(json!({"apiVersion": "sprite-operator.io/v1alpha1", "kind": "SandboxSession", "metadata": metadata, "spec": spec})).unwrap()
    }

    /// What cannot be told apart from another object is never used as one.
    #[rstest]
    #[case(json!({"name": "s", "namespace": "n", "uid": "u", "resourceVersion": "7"}), Some(("u", "7")))]
    #[case(json!({"name": "s", "namespace": "n"}), None)]
    #[case(json!({"namespace": "n", "uid": "u"}), None)]
    fn an_object_without_identity_is_unreadable(#[case] metadata: Value, #[case] expected: Option<(&str, &str)>) {
        let view = SessionView::present(Arc::new(session(&metadata)));
        assert_eq!(matches!(view, SessionView::Unreadable(_)), expected.is_none());
        assert_eq!((view.uid(), view.version().as_deref()), (expected.map(|e| e.0), expected.map(|e| e.1)));
        let cached = SessionView::cached(Some(&DeserializeGuard(Ok(session(&metadata)))));
        assert_eq!(cached.uid(), view.uid());
        assert!(matches!(SessionView::cached(None), SessionView::Absent));
    }

    #[rstest]
    #[case("Run", "sprite-operator.io/v1alpha1", true)]
    #[case("Run", "sprite-operator.io/v1", true)]
    #[case("Run", "example.com/v1", false)]
    #[case("Run", "v1", false)]
    #[case("SandboxSession", "sprite-operator.io/v1alpha1", false)]
    fn an_owner_is_a_run_by_group_and_kind(#[case] kind: &str, #[case] version: &str, #[case] expected: bool) {
        let owner = OwnerReference {
            api_version: version.to_owned(),
            kind: kind.to_owned(),
            name: "r".to_owned(),
            uid: "u".to_owned(),
            ..OwnerReference::default()
        };
        assert_eq!(is_run(&owner), expected);
    }
}
