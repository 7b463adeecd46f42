//! Reports a Run's progress: status, then an Event. Must not decide what it says.

use std::time::Duration;

use api::{
    Run, RunStatus,
    conditions::READY,
    reasons::{RunPhase, RunReason},
};
use kube::Resource;
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
    let written: Run = apply::status(&context.client, &target, new).await?;
    context.executions.wrote(&o.key.uid, written);
    Ok(())
}

/// Asks whether the API server would take a status.
pub async fn try_write(context: &Context, o: &Observed, new: &RunStatus) -> Result<(), Error> {
    let _: Run = apply::try_status(&context.client, &Target::of(o.run.as_ref())?, new).await?;
    Ok(())
}

pub async fn wait(context: &Context, o: &Observed, wait: Wait) -> Result<Next, Error> {
    context.waiting.add(&o.key.namespace, &o.session_name, &o.key.name);
    write(context, o, &status::waiting(&o.run, &wait, o.now)).await?;
    // A sleeping session under a policy that changed is relocked only for somebody.
    if let SessionView::Present(session) = &o.session
        && session.status.as_ref().is_some_and(|s| s.conditions.get(READY).is_some_and(|c| c.reason == "Stale"))
    {
        context.wake_sessions.wake(&o.key.namespace, &o.session_name);
    }
    // A slot that was given back between the look and this wait woke nobody.
    let freed = o.session.uid().is_some_and(|uid| context.executions.in_session(uid) < o.in_session);
    Ok(if freed { Next::After(Duration::from_millis(1)) } else { wait.next })
}

/// Returns whether the Event for a finished Run has type Warning: anomalies, refusals, and failures of the operator or the platform.
pub fn is_warning(phase: RunPhase, reason: RunReason) -> bool {
    anomaly::of_run(reason).is_some()
        || phase == RunPhase::Denied
        || matches!(reason, RunReason::StartDeadlineExceeded | RunReason::SandboxBroken | RunReason::NotStarted)
}

/// Whether the end of a Run has an Event: an ordinary one has none where the policy says `audit.events: Anomalies`. Without a policy
/// all have.
fn has_event(reason: RunReason, policy: &PolicyView) -> bool {
    let quiet = matches!(policy, PolicyView::Ready(policy) if policy.only_anomalies);
    anomaly::of_run(reason).is_some() || !quiet
}

/// One log line and one Event a Run, at its end; the Event only for anomalies where the policy says so.
pub async fn announce(context: &Context, o: &Observed, new: &RunStatus) {
    let (Some(phase), Some(reason)) = (new.phase, new.reason) else { return };
    context.metrics.run_finished(reason.as_str());
    let policy = new.policy.as_ref().map_or("", |policy| policy.name.as_str());
    let ms = new.execution.as_ref().and_then(|execution| execution.duration_ms);
    if let Some(ms) = ms {
        context.metrics.run_took(Duration::from_millis(ms));
    }
    // Nothing of its content: no command, no output, no message.
    tracing::info!(
        namespace = o.key.namespace,
        run = o.key.name,
        uid = o.key.uid,
        session = o.session_name,
        policy,
        phase = phase.as_str(),
        reason = reason.as_str(),
        ms,
        "Run finished"
    );
    let notice = Notice {
        warning: is_warning(phase, reason),
        reason: reason.as_str(),
        action: "Run",
        note: new.message.clone().unwrap_or_default(),
    };
    if has_event(reason, &o.session_policy) {
        events::publish(context, o.run.object_ref(&()), notice).await;
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::controllers::run::fixtures::policy;

    #[rstest]
    #[case(RunReason::Completed, "{}", true)]
    #[case(RunReason::Completed, "{audit: {events: Anomalies}}", false)]
    #[case(RunReason::NonZeroExit, "{audit: {events: Anomalies}}", false)]
    #[case(RunReason::Timeout, "{audit: {events: Anomalies}}", true)]
    #[case(RunReason::BlockedCommand, "{audit: {events: Anomalies}}", true)]
    #[case(RunReason::OutcomeUnknown, "{audit: {events: Anomalies}}", true)]
    fn ordinary_ends_are_quiet_where_the_policy_says_so(
        #[case] reason: RunReason,
        #[case] spec: &str,
        #[case] told: bool,
    ) {
        assert_eq!(has_event(reason, &policy("x", spec)), told);
        assert!(
            has_event(reason, &PolicyView::NotFound("x".to_owned())),
            "nothing is left out without a policy's word"
        );
    }

    #[rstest]
    #[case(RunPhase::Succeeded, RunReason::Completed, false)]
    #[case(RunPhase::Failed, RunReason::NonZeroExit, false)]
    #[case(RunPhase::Cancelled, RunReason::CancelRequested, false)]
    #[case(RunPhase::Failed, RunReason::Timeout, true)]
    #[case(RunPhase::Failed, RunReason::StartDeadlineExceeded, true)]
    #[case(RunPhase::Failed, RunReason::SandboxBroken, true)]
    #[case(RunPhase::Denied, RunReason::PolicyNotFound, true)]
    #[case(RunPhase::Denied, RunReason::InvalidSpec, true)]
    #[case(RunPhase::Unknown, RunReason::OutcomeUnknown, true)]
    fn refusals_and_what_somebody_must_look_at_are_warnings(
        #[case] phase: RunPhase,
        #[case] reason: RunReason,
        #[case] warning: bool,
    ) {
        assert_eq!(is_warning(phase, reason), warning);
    }
}
