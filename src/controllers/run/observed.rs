//! What a Run's decision rests on. Types only: must not read anything.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;

use crate::{
    access::{switch::Switch, tenant::Tenant},
    controllers::state::{executions::ExecutionView, queue::Judged, session_view::SessionView},
    kubernetes::object_key::ObjectKey,
    lockdown::instance::LiveSprite,
    policy::view::PolicyView,
};
use api::Run;
use rules::{order::Candidate, session_name};

/// Everything that a decision rests on.
#[derive(Debug)]
pub struct Observed {
    /// The Run, from the cache; every write compares its version.
    pub run: Arc<Run>,
    /// Which Run.
    pub key: ObjectKey,
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
    /// The Runs that wait for the session, this one among them.
    pub candidates: Vec<Candidate>,
    /// Whether the spec was judged before under these policies, and holds.
    pub spec_holds: bool,
    /// Where session, policies, tenant and switch were read.
    pub source: Source,
    /// What was read of the live Sprite, if it was.
    pub live: Option<LiveRead>,
    /// The time.
    pub now: Timestamp,
}

impl Observed {
    /// The policies that the spec is judged under.
    pub fn judges(&self) -> Judged {
        judges(&self.session_policy, self.run_policy.as_ref())
    }
}

/// Policies in force, by name and generation.
pub fn judges(session: &PolicyView, run: Option<&PolicyView>) -> Judged {
    let views = std::iter::once(session).chain(run);
    views
        .filter_map(|view| match view {
            PolicyView::Ready(policy) => Some((policy.name.clone(), policy.generation)),
            PolicyView::NotFound(_) | PolicyView::NotReady(..) => None,
        })
        .collect()
}

/// Where something was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// From caches: what they show may be old.
    Caches,
    /// From the API server, at most a second ago.
    Servers,
}

/// What was read of the live Sprite for a start.
#[derive(Debug, Clone)]
pub enum LiveRead {
    /// It is there. Awake, and the instance on record, its rules were read, too.
    Sprite(LiveSprite),
    /// There was no answer that says enough, for this reason.
    NoAnswer(String),
}

/// The session that a Run wants.
pub fn session_name(run: &Run, key: &ObjectKey) -> String {
    session_name::selected(&run.spec.session, &key.uid)
}
