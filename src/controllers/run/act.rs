//! Does what was decided for a Run, and reports. Must not decide. A start is a matter of its own: `start`.

use std::{sync::Arc, time::Duration};

use kube::{
    Api,
    api::{DeleteParams, PostParams, Preconditions},
};

use super::{
    execution::{
        adopt, place,
        place::{RecoveryRequest, RecoveryWindow, SeenBefore},
        proved::Proved,
        start,
        work::Work,
    },
    finish::{End, finish},
    observed::Observed,
    plan::{Plan, Wait},
    report,
};
use crate::{
    controllers::{
        context::Context,
        driver::Next,
        error::Error,
        state::{executions::Owner, session_view::SessionView},
    },
    kubernetes::{
        apply::{self, within},
        finalizer,
    },
};
use api::{Run, SandboxSession, names::RUN_FINALIZER};
use rules::outcome::Stop;
use sprites::Priority;

/// When what was decided on has changed by our own doing.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Does it.
pub async fn act(context: &Arc<Context>, o: Observed, plan: Plan, proved: Option<Proved>) -> Result<Next, Error> {
    let api: Api<Run> = Api::namespaced(context.client.clone(), &o.key.namespace);
    match plan {
        // Both are met before anything is done; whoever gets here looks again.
        Plan::Need(_) => Ok(Next::After(LOOK_AGAIN)),
        Plan::Nothing(next) => Ok(next),
        Plan::Wait(wait) => report::wait(context, &o, wait).await,
        Plan::Finish(outcome) => {
            context.waiting.remove(&o.key.namespace, &o.session_name, &o.key.name);
            finish(context, &o, End::Early(&outcome)).await
        }
        Plan::CreateSession(session) => create_session(context, &o, &session).await,
        Plan::Wake(sprite, wait) => wake(context, &o, &sprite, wait).await,
        Plan::Reverify { doubt, sprite, wait } => reverify(context, &o, &doubt, &sprite, wait).await,
        Plan::Start(start) => match proved {
            Some(proved) => Ok(start::start(context, o, *start, proved)),
            None => Ok(Next::After(LOOK_AGAIN)),
        },
        Plan::Adopt(stop) => Ok(adopt(context, &o, stop)),
        Plan::Stop(stop) => {
            context.executions.stop(&o.key.uid, stop);
            Ok(Next::Change)
        }
        Plan::Conclude(finished) => finish(context, &o, End::Executed(&finished)).await,
        Plan::Forget => {
            context.executions.forget(&o.key.uid);
            Ok(Next::After(LOOK_AGAIN))
        }
        Plan::DeleteSession => delete_session(context, &o).await,
        Plan::Expire => {
            let exactly = Preconditions { uid: Some(o.key.uid.clone()), resource_version: None };
            let params = DeleteParams { preconditions: Some(exactly), ..DeleteParams::background() };
            match within(api.delete(&o.key.name, &params)).await {
                Ok(_) => Ok(Next::Change),
                Err(error) if apply::is_not_found(&error) => Ok(Next::Change),
                Err(error) => Err(error.into()),
            }
        }
        Plan::Release => match finalizer::remove(&api, o.run.as_ref(), RUN_FINALIZER).await {
            Ok(()) => {
                context.executions.forget(&o.key.uid);
                context.queue.leave(&o.key.uid);
                context.wake_waiting(&o.key.namespace, &o.session_name);
                Ok(Next::Change)
            }
            Err(error) if finalizer::is_outdated(&error) => Ok(Next::Change),
            Err(error) => Err(error.into()),
        },
    }
}

/// Makes the session that a Run by drive wants.
async fn create_session(context: &Context, o: &Observed, session: &SandboxSession) -> Result<Next, Error> {
    context.waiting.add(&o.key.namespace, &o.session_name, &o.key.name);
    let api: Api<SandboxSession> = Api::namespaced(context.client.clone(), &o.key.namespace);
    match within(api.create(&PostParams::default(), session)).await {
        Ok(_) => Ok(Next::After(Duration::from_secs(5))),
        // Somebody was first; the cache will show whether it is the one.
        Err(error) if apply::is_conflict(&error) => Ok(Next::After(Duration::from_millis(500))),
        Err(error) => Err(error.into()),
    }
}

/// Wakes the Sprite; all of it is looked at again then, since what was read before may be old by now.
async fn wake(context: &Context, o: &Observed, sprite: &str, wait: Wait) -> Result<Next, Error> {
    match context.sprites.with_priority(Priority::Lockdown).wake(sprite).await {
        Ok(on) => {
            context.reads.woken(on);
            Ok(Next::After(LOOK_AGAIN))
        }
        Err(error) => {
            let doubt = format!("the Sprite did not wake ({})", error.kind());
            reverify(context, o, &doubt, sprite, wait).await
        }
    }
}

/// A proof that failed: the session looks again, the Run waits.
async fn reverify(context: &Context, o: &Observed, doubt: &str, sprite: &str, wait: Wait) -> Result<Next, Error> {
    context.reads.awake.forget(sprite);
    tracing::warn!(run = o.key.name, session = o.session_name, doubt, "not started: the proof failed");
    if let Some(uid) = o.session.uid() {
        context.activities.update(uid, |activity| activity.reverify_requested += 1);
    }
    context.wake_sessions.wake(&o.key.namespace, &o.session_name);
    report::wait(context, o, wait).await
}

fn adopt(context: &Arc<Context>, o: &Observed, stop: Option<Stop>) -> Next {
    let place = place::Place::on_record(&o.run, o.now);
    let owner = Owner { key: o.key.clone(), session: place.session_uid.clone() };
    // What runs already runs: it takes a slot whatever the policy says.
    let Ok(receiver) = context.executions.reserve(owner, usize::MAX) else {
        return Next::After(Duration::from_secs(1));
    };
    if let Some(stop) = stop {
        context.executions.stop(&o.key.uid, stop);
    }
    tracing::info!(run = o.key.name, "adopting a command that somebody else started");
    let limits = place::limits(o);
    let work = Work::of_spec(&o.run.spec);
    let found =
        RecoveryRequest { place, limits, work, window: RecoveryWindow::AfterOutage, seen: SeenBefore::default() };
    let task = adopt::adopt(Arc::clone(context), o.key.clone(), found, receiver);
    tokio::spawn(start::run_and_report(Arc::clone(context), o.key.clone(), o.session_name.clone(), async {
        Some(task.await)
    }));
    Next::Change
}

async fn delete_session(context: &Context, o: &Observed) -> Result<Next, Error> {
    let SessionView::Present(session) = &o.session else { return Ok(Next::Change) };
    let api: Api<SandboxSession> = Api::namespaced(context.client.clone(), &o.key.namespace);
    let exactly = Preconditions { uid: Some(session.key.uid.clone()), resource_version: None };
    let params = DeleteParams { preconditions: Some(exactly), ..DeleteParams::background() };
    match within(api.delete(&session.key.name, &params)).await {
        Ok(_) => Ok(Next::After(Duration::from_secs(5))),
        Err(error) if apply::is_not_found(&error) || apply::is_conflict(&error) => {
            Ok(Next::After(Duration::from_secs(1)))
        }
        Err(error) => Err(error.into()),
    }
}
