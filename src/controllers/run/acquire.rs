//! The session that a Run wants, if it may have it. Pure.

use std::sync::Arc;

use api::{
    SandboxSession,
    names::HOLD_ANNOTATION,
    reasons::{RunReason, SessionReason},
};
use kube::ResourceExt;
use rules::outcome::Outcome;

use super::observed::Observed;
use crate::controllers::state::session_view::SessionView;

/// Whether a session is this Run's own.
pub fn owns(o: &Observed, session: &SandboxSession) -> bool {
    session.owner_references().iter().any(|owner| owner.kind == "Run" && owner.uid == o.uid)
}

pub enum Acquired {
    Session(Arc<SandboxSession>),
    Create,
    Over(Outcome),
    Wait(String),
}

/// The session that the Run wants, if it may have it.
pub fn session(o: &Observed) -> Acquired {
    let selector = &o.run.spec.session;
    let by_name = selector.name.is_some();
    let name = &o.session_name;
    let session = match &o.session {
        SessionView::Absent if by_name => {
            return Acquired::Wait(format!("SessionNotReady: there is no SandboxSession {name} yet"));
        }
        SessionView::Absent => return Acquired::Create,
        SessionView::Unreadable(_) => {
            return Acquired::Wait(format!("SessionNotReady: SandboxSession {name} cannot be read"));
        }
        SessionView::Present(session) => session,
    };
    let mismatch = |message: String| Acquired::Over(Outcome::denied(RunReason::SessionMismatch, message));
    let of_a_run = session.owner_references().iter().any(|owner| owner.kind == "Run");
    if of_a_run && !owns(o, session) {
        return mismatch(format!("SandboxSession {name} belongs to another Run: name one of your own"));
    }
    if let Some(drive) = &selector.drive {
        let conversation = selector.conversation.as_ref().unwrap_or(&o.uid);
        if session.spec.drive != *drive || session.spec.conversation != *conversation {
            return mismatch(format!(
                "SandboxSession {name} is for another drive or conversation: delete it, or use it by name"
            ));
        }
    }
    if session.metadata.deletion_timestamp.is_some() {
        return if selector.conversation.is_some() {
            Acquired::Wait(format!("SessionNotReady: SandboxSession {name} is being deleted; another will be made"))
        } else {
            Acquired::Over(Outcome::session_deleted())
        };
    }
    if session.annotations().contains_key(HOLD_ANNOTATION) {
        return Acquired::Over(Outcome::denied(
            RunReason::SessionHeld,
            format!("an administrator holds SandboxSession {name}: annotation sprite-operator.io/hold"),
        ));
    }
    if session.spec.suspend {
        return Acquired::Over(Outcome::denied(
            RunReason::SessionSuspended,
            format!("SandboxSession {name} is suspended"),
        ));
    }
    Acquired::Session(Arc::clone(session))
}

/// Why a session cannot be used now.
pub fn not_ready(o: &Observed, session: &SandboxSession) -> Option<String> {
    let conditions = session.status.as_ref().map(|s| &s.conditions);
    let ready = conditions.and_then(|c| c.get("Ready"));
    let name = &o.session_name;
    match ready {
        Some(condition) if condition.status == "True" => None,
        Some(condition) if condition.reason == SessionReason::PlatformCapacity.as_str() => {
            Some("PlatformCapacity: the platform account is full".to_owned())
        }
        Some(condition) => {
            // Steps on the way are one cause: a write is made once a cause.
            let on_the_way = [SessionReason::Provisioning, SessionReason::Provisioned].map(SessionReason::as_str);
            let detail = if on_the_way.contains(&condition.reason.as_str()) {
                String::new()
            } else {
                format!(" ({})", condition.reason)
            };
            Some(format!("SessionNotReady: SandboxSession {name} is not ready{detail}"))
        }
        None => Some(format!("SessionNotReady: SandboxSession {name} is not ready")),
    }
}
