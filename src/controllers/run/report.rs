//! Reports a Run's progress: status, then an Event. Must not decide what it says.

use api::{Run, RunStatus};
use kube::{Resource, ResourceExt};
use rules::anomaly;

use super::{observed::Observed, plan::Wait, status};
use crate::{
    controllers::{
        context::Context,
        driver::Next,
        error::Error,
        events::{self, Notice},
        state::session_view::SessionView,
    },
    kubernetes::apply::{self, Target},
    policy::view::PolicyView,
};

pub async fn write(context: &Context, o: &Observed, new: &RunStatus) -> Result<(), Error> {
    if o.run.status.as_ref() == Some(new) {
        return Ok(());
    }
    let target = Target::of(o.run.as_ref())?;
    let _: Run = apply::status(&context.client, &target, new).await?;
    Ok(())
}

pub async fn wait(context: &Context, o: &Observed, wait: Wait) -> Result<Next, Error> {
    context.waiting.add(&o.run.namespace().unwrap_or_default(), &o.session_name, &o.run.name_any());
    write(context, o, &status::waiting(&o.run, &wait, o.now)).await?;
    // A sleeping session under a policy that changed is relocked only for somebody.
    if let SessionView::Present(session) = &o.session
        && session.status.as_ref().is_some_and(|s| s.conditions.get("Ready").is_some_and(|c| c.reason == "Stale"))
    {
        context.wake_sessions.wake(&o.run.namespace().unwrap_or_default(), &o.session_name);
    }
    Ok(wait.next)
}

/// One Event a Run, at its end; only for anomalies where the policy says so.
pub async fn announce(context: &Context, o: &Observed, new: &RunStatus) {
    let Some(reason) = new.reason else { return };
    context.metrics.run_finished(reason.as_str());
    let notice = Notice {
        warning: anomaly::of_run(reason).is_some(),
        reason: reason.as_str(),
        action: "Run",
        note: new.message.clone().unwrap_or_default(),
    };
    let quiet = matches!(&o.session_policy, PolicyView::Ready(policy) if policy.only_anomalies);
    if notice.warning || !quiet {
        events::publish(&context.client, &context.metrics, o.run.object_ref(&()), notice).await;
    }
}
