//! Starts a Run whose Sprite is proved: take a slot, say Running by compare-and-swap, execute. The order is the heart of it.
//!
//! Must not decide, and must not execute what is not first said in status.

use std::{sync::Arc, time::Duration};

use tokio::sync::watch;

use super::{
    super::{observed::Observed, plan::Start, report, status},
    exec::{self, Begin},
    proved::Proved,
};
use crate::{
    controllers::{
        context::Context,
        driver::Next,
        error::Error,
        state::{
            executions::{Finished, NoSlot, Owner},
            session_view::SessionView,
        },
    },
    kubernetes::{apply, object_key::ObjectKey},
};
use rules::outcome::Stop;

/// How old a proof may be when Running is said: what follows takes its time, too.
const FRESH: Duration = Duration::from_secs(4);

/// Takes a slot, says Running, executes.
pub fn start(context: &Arc<Context>, o: Observed, start: Start, proved: Proved) -> Next {
    let owner = Owner { key: o.key.clone(), session: start.session.key.uid.clone() };
    let running = context.running_in_session(&o.key.namespace, &start.session.key.uid);
    // What runs and was not adopted yet takes a slot, too.
    let not_adopted = running.iter().filter(|uid| context.executions.view(uid).is_none()).count();
    let parallel = usize::try_from(start.request.limits.parallel_runs).unwrap_or(usize::MAX);
    let in_session = parallel.saturating_sub(not_adopted);
    let stop = match context.executions.reserve(owner, in_session) {
        Ok(stop) => stop,
        Err(NoSlot::Taken) => return Next::After(Duration::from_millis(100)),
        Err(NoSlot::Session | NoSlot::Process) => return Next::After(Duration::from_millis(200)),
    };
    // From here on a task of its own: a reconcile may be cut off at any await, and a slot would stay taken by nobody.
    let (key, session, now) = (o.key.clone(), o.session_name.clone(), o.now);
    // Those of this process may not be in the cache yet.
    let known = context.executions.uids_of(&start.session.key.uid);
    let mut live: Vec<_> = running.into_iter().chain(known).filter(|uid| *uid != key.uid).collect();
    live.sort();
    live.dedup();
    let begin = Begin { start, proved, recorded_at: now, live };
    let task = record_running_and_exec(Arc::clone(context), o, begin, stop);
    tokio::spawn(run_and_report(Arc::clone(context), key, session, task));
    tracing::debug!(at = %now, "a start is under way");
    Next::Change
}

/// Says Running, by compare-and-swap, and executes; nothing when that could not be said.
async fn record_running_and_exec(
    context: Arc<Context>,
    o: Observed,
    begin: Begin,
    stop: watch::Receiver<Option<Stop>>,
) -> Option<Finished> {
    let start = &begin.start;
    if begin.proved.age() > FRESH {
        tracing::info!(run = o.key.name, "not started: the proof of lockdown is too old; verifying again");
        return None;
    }
    let said = match context.lease.ensure_time_left() {
        Ok(()) => report::write(&context, &o, &status::running(&o.run, start, o.now)).await,
        Err(error) => Err(error.into()),
    };
    if let Err(error) = said {
        // Its own object is why: others need not wait for it.
        if matches!(&error, Error::Kubernetes(error) if apply::is_refused(error)) {
            context.queue.stand_aside(&o.key.uid);
            context.wake_waiting(&o.key.namespace, &o.session_name);
        }
        // A lost reply to this write leaves a Run that says Running and never started: adoption finds that out.
        tracing::info!(run = o.key.name, %error, "not started: Running could not be said");
        return None;
    }
    context.queue.leave(&o.key.uid);
    let created = o.run.metadata.creation_timestamp.as_ref().map_or(o.now, |t| t.0);
    context.metrics.run_started(Duration::try_from(context.now().duration_since(created)).unwrap_or_default());
    context.activities.update(&start.session.key.uid, |activity| {
        activity.runs += 1;
        activity.last_active = Some(o.now);
    });
    // The audit record of the start belongs here: after Running, before the exec.
    Some(exec::execute(context, o.key, begin, stop).await)
}

/// Runs an execution and hands its end to reconcile; without an end the slot is given back.
pub async fn run_and_report(
    context: Arc<Context>,
    key: ObjectKey,
    session: String,
    task: impl Future<Output = Option<Finished>> + Send + 'static,
) {
    let ObjectKey { namespace, name, uid } = &key;
    // A task of its own, so that a panic in it is seen: the Run is then found running by nobody, and adopted.
    let ended = tokio::spawn(task).await;
    let finished_at = context.now();
    match ended {
        Ok(Some(finished)) => {
            let view = SessionView::cached(context.sessions.get(Some(namespace), &session).as_deref());
            if let Some(uid) = view.uid() {
                // The rules are read once more: code in the Run may have had them weakened.
                context.activities.update(uid, |activity| {
                    activity.reverify_requested += 1;
                    activity.last_active = Some(finished_at);
                });
            }
            context.executions.finish(uid, finished);
        }
        Ok(None) => context.executions.forget(uid),
        Err(error) => {
            tracing::error!(%error, run = name, "an execution task panicked");
            context.executions.forget(uid);
        }
    }
    if context.runs.get(Some(namespace), name).is_none() {
        context.executions.forget_done(uid);
    }
    context.wake_runs.wake(namespace, name);
    context.wake_sessions.wake(namespace, &session);
}
