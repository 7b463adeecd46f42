//! Starts a Run: prove, take a slot, say Running by compare-and-swap, execute. The order is the heart of it.
//!
//! Must not decide, and must not execute what is not first said in status.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use tokio::{sync::watch, time::Instant};

use super::{
    super::{
        observed::{self, Observed},
        plan::{Start, Wait},
        report, status,
    },
    exec,
};
use crate::{
    controllers::{
        context::Context,
        driver::Next,
        error::Error,
        state::{
            executions::{Finished, NoSlot, Owner},
            session_view::{self, SessionView},
            shared_reads,
        },
    },
    lockdown::{
        instance::{LiveSprite, rule},
        verify,
    },
};
use api::Run;
use rules::{outcome::Stop, session_name};
use sprites::{Awake, Priority};

/// How long after a failed proof a Run is looked at again.
const REPROVE_AFTER: Duration = Duration::from_secs(2);

/// Prove, take a slot, say Running, execute.
pub async fn start(context: &Arc<Context>, o: Observed, start: Start) -> Result<Next, Error> {
    let namespace = o.run.namespace().unwrap_or_default();
    let session_uid = start.session.uid().unwrap_or_default();
    let proved = match prove_live(context, &start, &namespace, &session_uid).await? {
        Verification::Verified(proved) => proved,
        // What was read before the wake may be old by now: all of it is looked at again.
        Verification::WokeUp => return Ok(Next::After(Duration::from_millis(1))),
        Verification::Failed(doubt) => {
            context.reads.awake.forget(&start.proof.name);
            return requeue_after_failed_proof(context, &o, &start, &doubt).await;
        }
    };
    let owner = Owner { namespace, run: o.run.name_any(), uid: o.uid.clone(), session: session_uid };
    let in_session = usize::try_from(start.limits.parallel_runs).unwrap_or(usize::MAX);
    let stop = match context.executions.reserve(owner, in_session) {
        Ok(stop) => stop,
        Err(NoSlot::Taken) => return Ok(Next::After(Duration::from_millis(100))),
        Err(NoSlot::Session | NoSlot::Process) => return Ok(Next::After(Duration::from_millis(200))),
    };
    // From here on a task of its own: a reconcile may be cut off at any await, and a slot would stay taken by nobody.
    let (run, now) = (Arc::clone(&o.run), o.now);
    let task = record_running_and_exec(Arc::clone(context), o, start, proved, stop);
    tokio::spawn(run_and_report(Arc::clone(context), run, task));
    tracing::debug!(at = %now, "a start is under way");
    Ok(Next::Change)
}

/// Says Running, by compare-and-swap, and executes; nothing when that could not be said.
async fn record_running_and_exec(
    context: Arc<Context>,
    o: Observed,
    start: Start,
    proved: exec::Proved,
    stop: watch::Receiver<Option<Stop>>,
) -> Option<Finished> {
    if proved.at.elapsed() > FRESH {
        tracing::info!(run = o.run.name_any(), "not started: the proof had become old; it is proved anew");
        return None;
    }
    let said = match context.lease.ensure_time_left() {
        Ok(()) => report::write(&context, &o, &status::running(&o.run, &start, o.now)).await,
        Err(error) => Err(error.into()),
    };
    if let Err(error) = said {
        // A lost reply to this write leaves a Run that says Running and never started: adoption finds that out.
        tracing::info!(run = o.run.name_any(), %error, "not started: Running could not be said");
        return None;
    }
    let created = o.run.metadata.creation_timestamp.as_ref().map_or(o.now, |t| t.0);
    context.metrics.run_started(Duration::try_from(context.now().duration_since(created)).unwrap_or_default());
    context.activities.update(&start.session.uid().unwrap_or_default(), |activity| {
        activity.runs += 1;
        activity.last_active = Some(o.now);
    });
    Some(exec::execute(context, o.run, start, proved, o.now, stop).await)
}

/// A proof that failed: the session looks again, the Run waits.
async fn requeue_after_failed_proof(
    context: &Context,
    o: &Observed,
    start: &Start,
    doubt: &str,
) -> Result<Next, Error> {
    let (namespace, session_uid) = (o.run.namespace().unwrap_or_default(), start.session.uid().unwrap_or_default());
    tracing::warn!(run = o.run.name_any(), session = o.session_name, doubt, "not started: the proof failed");
    context.activities.update(&session_uid, |activity| activity.reverify_requested += 1);
    context.wake_sessions.wake(&namespace, &o.session_name);
    let created = o.run.metadata.creation_timestamp.as_ref().map_or(o.now, |t| t.0);
    let until = created.checked_add(start.limits.start).unwrap_or(k8s_openapi::jiff::Timestamp::MAX);
    let cause = format!("SessionNotReady: SandboxSession {} is being proved anew: {doubt}", o.session_name);
    report::wait(context, o, Wait { cause, until, next: Next::After(REPROVE_AFTER) }).await
}

/// Runs an execution and hands its end to reconcile; without an end the slot is given back.
pub async fn run_and_report(
    context: Arc<Context>,
    run: Arc<Run>,
    task: impl Future<Output = Option<Finished>> + Send + 'static,
) {
    let (uid, namespace) = (run.uid().unwrap_or_default(), run.namespace().unwrap_or_default());
    let session = observed::session_name(&run);
    // A task of its own, so that a panic in it is seen: the Run is then found running by nobody, and adopted.
    let ended = tokio::spawn(task).await;
    let finished_at = context.now();
    match ended {
        Ok(Some(finished)) => {
            let view = session_view::of(context.sessions.get(Some(&namespace), &session).as_deref());
            if let SessionView::Present(session) = view {
                // The rules are read once more: code in the Run may have had them weakened.
                context.activities.update(&session.uid().unwrap_or_default(), |activity| {
                    activity.reverify_requested += 1;
                    activity.last_active = Some(finished_at);
                });
            }
            context.executions.finish(&uid, finished);
        }
        Ok(None) => context.executions.forget(&uid),
        Err(error) => {
            tracing::error!(%error, run = run.name_any(), "an execution broke off");
            context.executions.forget(&uid);
        }
    }
    if context.runs.get(Some(&namespace), &run.name_any()).is_none() {
        context.executions.forget_done(&uid);
    }
    context.wake_runs.wake(&namespace, &run.name_any());
    context.wake_sessions.wake(&namespace, &session);
}

/// How long the reads of a proof may take: with the second that they may be shared for, well below what it is good for.
const READ_WITHIN: Duration = Duration::from_millis(1500);
/// How old a proof may be when Running is said: what follows takes its time, too.
const FRESH: Duration = Duration::from_secs(4);

/// What the live reads came to.
enum Verification {
    /// All is as demanded.
    Verified(exec::Proved),
    /// It was asleep and is awake now.
    WokeUp,
    /// It does not hold, or there was no answer.
    Failed(String),
}

/// Reads the live Sprite and its rules, both at once where it was seen awake a moment ago, and compares.
async fn prove_live(
    context: &Arc<Context>,
    start: &Start,
    namespace: &str,
    session_uid: &str,
) -> Result<Verification, Error> {
    // A shared read may have begun before we asked for it.
    let began = Instant::now().checked_sub(shared_reads::SHARED).unwrap_or_else(Instant::now);
    let name = &start.proof.name;
    let labels = session_name::sprite_labels(&context.settings.installation, namespace, session_uid);
    let sprites = context.sprites.with_priority(Priority::Lockdown);
    // What was not read by then would be too old to start on.
    let proving = sprites.within(READ_WITHIN);
    let (reading, wanted) = (proving.clone(), name.clone());
    let read_sprite =
        context.reads.sprites.get(name.clone(), move || async move { reading.get(&wanted).await.map(Arc::new) });
    let read_rules = |on: Awake| {
        let sprites = proving.clone();
        context.reads.rules.get(name.clone(), move || async move { sprites.network_policy(&on).await.map(Arc::new) })
    };
    let (sprite, rules) = match context.reads.awake.of(name, &start.proof.instance) {
        Some(on) => {
            let (sprite, rules) = tokio::join!(read_sprite, read_rules(on));
            (sprite, Some(rules))
        }
        None => (read_sprite.await, None),
    };
    let no_answer = |what: &str, error: &sprites::Error| {
        Verification::Failed(format!("the platform gave no answer about {what} ({})", error.kind()))
    };
    let sprite = match sprite {
        Ok(sprite) => sprite,
        Err(error) => return Ok(no_answer("the Sprite", &error)),
    };
    let awake = sprite.awake();
    let live = LiveSprite::of(sprite.as_ref().clone(), &labels);
    if live.id != start.proof.instance || !live.ours {
        let why = verify::prove(&start.proof, &start.egress, &live, &[]).err();
        return Ok(Verification::Failed(why.unwrap_or_default()));
    }
    let Some(on) = awake else {
        return Ok(match sprites.wake(name).await {
            Ok(on) => {
                context.reads.awake.record(on);
                Verification::WokeUp
            }
            Err(error) => Verification::Failed(format!("the Sprite did not wake ({})", error.kind())),
        });
    };
    context.reads.awake.record(on.clone());
    let rules = match rules {
        Some(rules) => rules,
        None => read_rules(on.clone()).await,
    };
    let rules: Vec<_> = match rules {
        Ok(rules) => rules.iter().cloned().map(rule).collect(),
        Err(error) => return Ok(no_answer("the rules", &error)),
    };
    Ok(match verify::prove(&start.proof, &start.egress, &live, &rules) {
        Ok(()) => Verification::Verified(exec::Proved { at: began, on }),
        Err(doubt) => Verification::Failed(doubt),
    })
}
