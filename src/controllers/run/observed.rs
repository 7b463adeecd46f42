//! What a Run's decision rests on. Types only: must not read anything.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use crate::{
    access::{switch::Switch, tenant::Tenant},
    controllers::state::{executions::ExecutionView, session_view::SessionView},
    policy::view::PolicyView,
};
use api::Run;
use rules::session_name::{conversation_session, run_session};

/// Everything that a decision rests on.
#[derive(Debug)]
pub struct Observed {
    /// The Run, from the cache; every write compares its version.
    pub run: Arc<Run>,
    /// Its UID.
    pub uid: String,
    /// Name of the session that it wants.
    pub session_name: String,
    /// That session.
    pub session: SessionView,
    /// The policy of the session, or the one that it would get.
    pub session_policy: PolicyView,
    /// The policy that the Run names itself.
    pub run_policy: Option<PolicyView>,
    /// Its tenant.
    pub tenant: Tenant,
    /// The switch.
    pub switch: Switch,
    /// Its execution, if this process has one.
    pub execution: Option<ExecutionView>,
    /// How many commands run in the session.
    pub in_session: usize,
    /// The time.
    pub now: Timestamp,
}

/// The session that a Run wants.
pub fn session_name(run: &Run) -> String {
    let selector = &run.spec.session;
    match (&selector.name, &selector.drive, &selector.conversation) {
        (Some(name), _, _) => name.clone(),
        (None, Some(drive), Some(conversation)) => conversation_session(drive, conversation),
        (None, _, _) => run_session(&run.uid().unwrap_or_default()),
    }
}
