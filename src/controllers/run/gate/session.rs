//! The session that a Run wants, if it may have it and it is ready. Pure.

use api::{
    Run, SandboxSession, SandboxSessionSpec,
    conditions::READY,
    names::{HOLD_ANNOTATION, RUN_UID_LABEL},
    reasons::{RunReason, SessionReason, WaitingCause},
    sandbox_session::Access,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};
use rules::outcome::Outcome;

use super::check::Check;
use crate::controllers::{
    driver::Next,
    run::{observed::Observed, plan::Waiting},
    state::session_view::{KnownSession, SessionView, is_run},
};

/// Whether a session is this Run's own.
pub fn owns(o: &Observed, session: &SandboxSession) -> bool {
    session.owner_references().iter().any(|owner| is_run(owner) && owner.uid == o.key.uid)
}

fn not_ready_yet(message: String) -> Check {
    Check::Wait(Waiting::new(WaitingCause::SessionNotReady, message), Next::Change)
}

/// The session that the Run wants, ready; else what is to be done about it.
pub fn check(o: &Observed) -> Result<KnownSession, Check> {
    let session = acquire(o)?;
    match not_ready(o, &session) {
        Some(waiting) => Err(Check::Wait(waiting, Next::Change)),
        None => Ok(session),
    }
}

fn acquire(o: &Observed) -> Result<KnownSession, Check> {
    let selector = &o.run.spec.session;
    let by_name = selector.name.is_some();
    let name = &o.session_name;
    let session = match &o.session {
        SessionView::Absent if by_name => {
            return Err(not_ready_yet(format!("there is no SandboxSession {name} yet")));
        }
        SessionView::Absent => return Err(Check::CreateSession(Box::new(new(o)))),
        SessionView::Unreadable(_) => {
            return Err(not_ready_yet(format!("SandboxSession {name} cannot be read")));
        }
        SessionView::Present(session) => session,
    };
    let mismatch = |message: String| Check::Over(Outcome::denied(RunReason::SessionMismatch, message));
    let of_a_run = session.owner_references().iter().any(is_run);
    if of_a_run && !owns(o, session) {
        return Err(mismatch(format!("SandboxSession {name} belongs to another Run: name one of your own")));
    }
    if let Some(drive) = &selector.drive {
        let conversation = selector.conversation.as_ref().unwrap_or(&o.key.uid);
        if session.spec.drive != *drive || session.spec.conversation != *conversation {
            return Err(mismatch(format!(
                "SandboxSession {name} is for another drive or conversation: delete it, or use it by name"
            )));
        }
    }
    if session.metadata.deletion_timestamp.is_some() {
        return Err(if selector.conversation.is_some() {
            not_ready_yet(format!("SandboxSession {name} is being deleted; another will be made"))
        } else {
            Check::Over(Outcome::session_deleted())
        });
    }
    if session.annotations().contains_key(HOLD_ANNOTATION) {
        let message = format!("an administrator holds SandboxSession {name}: annotation sprite-operator.io/hold");
        return Err(Check::Over(Outcome::denied(RunReason::SessionHeld, message)));
    }
    if session.spec.suspend {
        let message = format!("SandboxSession {name} is suspended");
        return Err(Check::Over(Outcome::denied(RunReason::SessionSuspended, message)));
    }
    Ok(session.clone())
}

/// Why a session cannot be used now.
fn not_ready(o: &Observed, session: &SandboxSession) -> Option<Waiting> {
    let conditions = session.status.as_ref().map(|s| &s.conditions);
    let ready = conditions.and_then(|c| c.get(READY));
    let name = &o.session_name;
    match ready {
        Some(condition) if condition.status == "True" => None,
        Some(condition) if condition.reason == SessionReason::PlatformCapacity.as_str() => {
            Some(Waiting::new(WaitingCause::PlatformCapacity, "the platform account is full"))
        }
        Some(condition) => {
            // Steps on the way are one cause: a write is made once a cause.
            let on_the_way = [SessionReason::Provisioning, SessionReason::Provisioned].map(SessionReason::as_str);
            let detail = if on_the_way.contains(&condition.reason.as_str()) {
                String::new()
            } else {
                format!(" ({})", condition.reason)
            };
            let message = format!("SandboxSession {name} is not ready{detail}");
            Some(Waiting::new(WaitingCause::SessionNotReady, message))
        }
        None => Some(Waiting::new(WaitingCause::SessionNotReady, format!("SandboxSession {name} is not ready"))),
    }
}

/// The session that a Run by drive makes: of its own, or that of the conversation.
fn new(o: &Observed) -> SandboxSession {
    let selector = &o.run.spec.session;
    let own = selector.conversation.is_none();
    let owner = own.then(|| OwnerReference {
        api_version: Run::api_version(&()).into_owned(),
        kind: Run::kind(&()).into_owned(),
        name: o.key.name.clone(),
        uid: o.key.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    });
    SandboxSession {
        metadata: ObjectMeta {
            name: Some(o.session_name.clone()),
            namespace: Some(o.key.namespace.clone()),
            owner_references: owner.map(|owner| vec![owner]),
            labels: Some([(RUN_UID_LABEL.to_owned(), o.key.uid.clone())].into()).filter(|_| own),
            ..ObjectMeta::default()
        },
        spec: SandboxSessionSpec {
            drive: selector.drive.clone().unwrap_or_default(),
            conversation: selector.conversation.clone().unwrap_or_else(|| o.key.uid.clone()),
            policy_ref: o.run.spec.policy_ref.clone(),
            suspend: false,
            access: Access::Drive,
        },
        status: None,
    }
}
