//! What can go wrong in a reconcile, and what class it is: the class alone decides when to come back.
//!
//! Must not hold provider text for status: that goes to the log.

use std::{sync::Arc, time::Duration};

use thiserror::Error;

use crate::kubernetes::{apply, lease};

/// What went wrong.
#[derive(Debug, Error)]
pub enum Error {
    /// The API server.
    #[error("the API server: {0}")]
    Kubernetes(#[from] kube::Error),
    /// The API server, in a read that several waited for.
    #[error("the API server: {0}")]
    SharedRead(Arc<kube::Error>),
    /// The platform.
    #[error("the Sprites API: {0}")]
    Sprites(#[from] sprites::Error),
    /// The platform, while opening an exec.
    #[error("the Sprites API, opening an exec: {0}")]
    Exec(#[from] sprites::ExecError),
    /// A server sent an object without identity.
    #[error(transparent)]
    NoIdentity(#[from] apply::NoIdentity),
    /// Not enough of the Lease is left.
    #[error(transparent)]
    InsufficientLease(#[from] lease::InsufficientLease),
    /// The whole reconcile took too long.
    #[error("the reconcile took longer than {0:?}")]
    Deadline(Duration),
    /// A reconcile panicked, which is a fault of the operator.
    #[error("the reconcile panicked; the log has where")]
    Panicked,
    /// A trusted command in the guest gave another answer than it must.
    #[error("a trusted command in the guest failed: {0}")]
    Guest(&'static str),
}

/// How a reconcile ends, as metrics say it.
pub const RESULTS: [&str; 10] = [
    "ok",
    "outdated",
    "kubernetes_error",
    "sprites_error",
    "exec_error",
    "no_identity",
    "insufficient_lease",
    "deadline",
    "guest_error",
    "panicked",
];

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Somebody else wrote first: look again at once.
    Outdated,
    /// Try again later, later each time.
    Transient,
    /// Try again when the server said.
    RateLimited(Duration),
}

impl Error {
    /// What to do about it.
    pub fn class(&self) -> Class {
        match self {
            Self::Kubernetes(error) if is_outdated(error) => Class::Outdated,
            // What is not there is an answer of such a read, not its error: 404 is a kind that is not served any more.
            Self::SharedRead(error) if apply::is_conflict(error) => Class::Outdated,
            Self::Sprites(error) => error.retry_after().map_or(Class::Transient, Class::RateLimited),
            Self::Kubernetes(_)
            | Self::SharedRead(_)
            | Self::Exec(_)
            | Self::NoIdentity(_)
            | Self::InsufficientLease(_)
            | Self::Deadline(_)
            | Self::Panicked
            | Self::Guest(_) => Class::Transient,
        }
    }

    /// A word for metrics: one of [`RESULTS`]. Another writer who was first is no error.
    pub fn result(&self) -> &'static str {
        match self {
            _ if self.class() == Class::Outdated => "outdated",
            Self::Kubernetes(_) | Self::SharedRead(_) => "kubernetes_error",
            Self::Sprites(_) => "sprites_error",
            Self::Exec(_) => "exec_error",
            Self::NoIdentity(_) => "no_identity",
            Self::InsufficientLease(_) => "insufficient_lease",
            Self::Deadline(_) => "deadline",
            Self::Panicked => "panicked",
            Self::Guest(_) => "guest_error",
        }
    }
}

fn is_outdated(error: &kube::Error) -> bool {
    apply::is_conflict(error) || apply::is_not_found(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::{Status, response::StatusSummary};
    use rstest::rstest;

    fn answered(code: u16) -> kube::Error {
        let status = Status { status: Some(StatusSummary::Failure), code, ..Status::default() };
        kube::Error::Api(Box::new(status))
    }

    #[rstest]
    #[case(Error::Kubernetes(answered(409)), Class::Outdated, "outdated")]
    #[case(Error::Kubernetes(answered(404)), Class::Outdated, "outdated")]
    #[case(Error::Kubernetes(answered(500)), Class::Transient, "kubernetes_error")]
    #[case(Error::SharedRead(Arc::new(answered(409))), Class::Outdated, "outdated")]
    #[case(Error::SharedRead(Arc::new(answered(404))), Class::Transient, "kubernetes_error")]
    #[case(Error::SharedRead(Arc::new(answered(403))), Class::Transient, "kubernetes_error")]
    #[case(Error::NoIdentity(apply::NoIdentity), Class::Transient, "no_identity")]
    #[case(Error::Deadline(Duration::from_secs(1)), Class::Transient, "deadline")]
    #[case(Error::Panicked, Class::Transient, "panicked")]
    #[case(Error::Guest("x"), Class::Transient, "guest_error")]
    fn the_class_says_when_to_come_back_and_the_word_what_it_was(
        #[case] error: Error,
        #[case] class: Class,
        #[case] result: &str,
    ) {
        assert_eq!((error.class(), error.result()), (class, result));
        assert!(RESULTS.contains(&result));
    }
}
