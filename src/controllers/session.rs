//! `SandboxSession`: name, create or adopt exactly ours, lock down, prove, verify, destroy.
//!
//! Every lock and every delete is of an instance, not of a name. Must not start untrusted code.

mod act;
mod decide;
#[cfg(test)]
mod fixtures;
mod gather;
mod needs;
mod observed;
mod plan;
mod release;
mod relock;
#[cfg(test)]
mod simulation;
mod status;

pub use status::TOLD;

use std::sync::Arc;

use kube::ResourceExt;

use super::{context::Context, driver::Next, error::Error, state::session_view::is_run};
use crate::kubernetes::object_key::ObjectKey;
use api::{SandboxSession, names::HOLD_ANNOTATION};

/// Brings a session one step further.
pub async fn reconcile(session: Arc<SandboxSession>, context: Arc<Context>) -> Result<Next, Error> {
    let key = ObjectKey::of(session.as_ref())?;
    let observed = gather::gather(&context, session, key).await;
    let plan = decide::decide(&observed);
    tracing::debug!(session = observed.key.name, effect = ?plan.effect, "decided");
    let ObjectKey { namespace, name, uid } = &observed.key;
    let result = act::act(&context, &observed, plan).await;
    if stops_runs(&observed.session) {
        for run in context.executions.runs_of(uid) {
            context.wake_runs.wake(namespace, &run);
        }
    }
    // A Run that ended before its own session was seen has still to delete it.
    for owner in observed.session.owner_references().iter().filter(|owner| is_run(owner)) {
        context.wake_runs.wake(namespace, &owner.name);
    }
    // Whatever came of it, a Run that waits should look: it registers again if it still has to wait.
    context.wake_waiting(namespace, name);
    result
}

/// Whether commands in the session must stop; their Runs decide.
fn stops_runs(session: &SandboxSession) -> bool {
    session.spec.suspend
        || session.metadata.deletion_timestamp.is_some()
        || session.annotations().contains_key(HOLD_ANNOTATION)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{
        fixtures::{at, session},
        *,
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    #[rstest]
    #[case::as_it_is(|_: &mut SandboxSession| {}, false)]
    #[case::suspended(|s: &mut SandboxSession| s.spec.suspend = true, true)]
    #[case::deleted(|s: &mut SandboxSession| s.metadata.deletion_timestamp = Some(Time(at(1))), true)]
    #[case::held(|s: &mut SandboxSession| drop(s.annotations_mut().insert(HOLD_ANNOTATION.into(), String::new())), true)]
    #[case::held_whatever_it_says(|s: &mut SandboxSession| drop(s.annotations_mut().insert(HOLD_ANNOTATION.into(), "false".into())), true)]
    #[case::another_annotation(|s: &mut SandboxSession| drop(s.annotations_mut().insert("held".into(), "true".into())), false)]
    fn commands_stop_when_their_session_must(#[case] change: fn(&mut SandboxSession), #[case] expected: bool) {
        let mut session = session(None);
        change(&mut session);
        assert_eq!(stops_runs(&session), expected);
    }
}
