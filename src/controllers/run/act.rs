//! Does what was decided for a Run, and reports. Must not decide.
//!
//! The order of a start is the heart of it: prove, take a slot, say Running by compare-and-swap, execute.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use tokio::{sync::watch, time::Instant};

use super::{
    super::{
        context::{Context, PolicyView},
        driver::Next,
        error::Error,
        events::{self, Notice},
        session::gather::{LiveSprite, rule},
        session::lock,
        session_view::{self, SessionView},
    },
    adopt,
    adopt::{Found, Patience},
    decide::{Plan, Start, Wait},
    exec,
    executions::{Finished, NoSlot, Owner},
    gather::Observed,
    prove, reads, status,
};
use crate::{
    api::{
        Run, RunStatus, SandboxSession, SandboxSessionSpec,
        names::{RUN_FINALIZER, RUN_UID_LABEL},
        reasons::{RunReason, SpritePhase},
        sandbox_session::Access,
    },
    kubernetes::{
        apply::{self, Target},
        finalizer,
    },
    rules::{
        outcome::{Outcome, Stop},
        session_name,
    },
    sprites,
};

/// How long after a failed proof a Run is looked at again.
const DOUBT: Duration = Duration::from_secs(2);

/// Does it.
pub async fn act(context: &Arc<Context>, o: Observed, plan: Plan) -> Result<Next, Error> {
    let api: Api<Run> = Api::namespaced(context.client.clone(), &o.run.namespace().unwrap_or_default());
    match plan {
        Plan::Nothing(next) => Ok(next),
        Plan::Wait(wait) => self::wait(context, &o, wait).await,
        Plan::Finish(outcome) => {
            context.waiting.remove(&o.run.namespace().unwrap_or_default(), &o.session_name, &o.run.name_any());
            finish(context, &o, &api, &outcome).await
        }
        Plan::CreateSession => create_session(context, &o).await,
        Plan::Start(start) => self::start(context, o, *start).await,
        Plan::Adopt(stop) => Ok(adopt(context, &o, stop)),
        Plan::Stop(stop) => {
            context.executions.stop(&o.uid, stop);
            Ok(Next::Change)
        }
        Plan::Conclude(finished) => conclude(context, &o, &finished).await,
        Plan::DeleteSession => delete_session(context, &o).await,
        Plan::Expire => {
            let exactly = Preconditions { uid: Some(o.uid.clone()), resource_version: None };
            let params = DeleteParams { preconditions: Some(exactly), ..DeleteParams::background() };
            match api.delete(&o.run.name_any(), &params).await {
                Ok(_) => Ok(Next::Change),
                Err(error) if apply::is_not_found(&error) => Ok(Next::Change),
                Err(error) => Err(error.into()),
            }
        }
        Plan::Release => match finalizer::remove(&api, o.run.as_ref(), RUN_FINALIZER).await {
            Ok(()) => {
                context.executions.forget(&o.uid);
                Ok(Next::Change)
            }
            Err(error) if finalizer::is_outdated(&error) => Ok(Next::Change),
            Err(error) => Err(error.into()),
        },
    }
}

/// Writes how a Run ended without a command.
async fn finish(context: &Context, o: &Observed, api: &Api<Run>, outcome: &Outcome) -> Result<Next, Error> {
    let mut new = status::finished_early(&o.run, outcome, o.now);
    match write(context, o, &new).await {
        Ok(()) => {}
        Err(Error::Kubernetes(error)) if apply::is_refused(&error) => {
            // The object itself leaves no room: as little as says what became of it.
            tracing::warn!(run = o.run.name_any(), error = apply::brief(&error), "a status is not taken");
            new = status::least(&o.run, outcome, o.now);
            match write(context, o, &new).await {
                // Nothing was started, so nothing is lost by letting a deleted one go.
                Err(Error::Kubernetes(error))
                    if apply::is_refused(&error) && o.run.metadata.deletion_timestamp.is_some() =>
                {
                    finalizer::remove(api, o.run.as_ref(), RUN_FINALIZER).await?;
                    return Ok(Next::Change);
                }
                written => written?,
            }
        }
        Err(error) => return Err(error),
    }
    announce(context, o, &new).await;
    Ok(Next::Change)
}

async fn write(context: &Context, o: &Observed, new: &RunStatus) -> Result<(), Error> {
    if o.run.status.as_ref() == Some(new) {
        return Ok(());
    }
    let target = Target::of(o.run.as_ref())?;
    let _: Run = apply::status(&context.client, &target, new).await?;
    Ok(())
}

async fn wait(context: &Context, o: &Observed, wait: Wait) -> Result<Next, Error> {
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

/// Makes the session that a Run by drive wants: of its own, or that of the conversation.
async fn create_session(context: &Context, o: &Observed) -> Result<Next, Error> {
    let namespace = o.run.namespace().unwrap_or_default();
    let selector = &o.run.spec.session;
    let own = selector.conversation.is_none();
    let owner = own.then(|| OwnerReference {
        api_version: Run::api_version(&()).into_owned(),
        kind: Run::kind(&()).into_owned(),
        name: o.run.name_any(),
        uid: o.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    });
    let spec = SandboxSessionSpec {
        drive: selector.drive.clone().unwrap_or_default(),
        conversation: selector.conversation.clone().unwrap_or_else(|| o.uid.clone()),
        policy_ref: o.run.spec.policy_ref.clone(),
        suspend: false,
        access: Access::Drive,
    };
    let session = SandboxSession {
        metadata: ObjectMeta {
            name: Some(o.session_name.clone()),
            namespace: Some(namespace.clone()),
            owner_references: owner.map(|owner| vec![owner]),
            labels: Some([(RUN_UID_LABEL.to_owned(), o.uid.clone())].into()).filter(|_| own),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    };
    debug_assert!(!own || o.session_name == session_name::run_session(&o.uid));
    context.waiting.add(&namespace, &o.session_name, &o.run.name_any());
    let api: Api<SandboxSession> = Api::namespaced(context.client.clone(), &namespace);
    match api.create(&PostParams::default(), &session).await {
        Ok(_) => Ok(Next::After(Duration::from_secs(5))),
        // Somebody was first; the cache will show whether it is the one.
        Err(error) if apply::is_conflict(&error) => Ok(Next::After(Duration::from_millis(500))),
        Err(error) => Err(error.into()),
    }
}

/// Prove, take a slot, say Running, execute.
async fn start(context: &Arc<Context>, o: Observed, start: Start) -> Result<Next, Error> {
    let namespace = o.run.namespace().unwrap_or_default();
    let session_uid = start.session.uid().unwrap_or_default();
    let proved_at = match prove_live(context, &start, &namespace, &session_uid).await? {
        Proved::At(began) => began,
        // What was read before the wake may be old by now: all of it is looked at again.
        Proved::Woken => return Ok(Next::After(Duration::from_millis(1))),
        Proved::Not(doubt) => return doubted(context, &o, &start, &doubt).await,
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
    let task = licensed(Arc::clone(context), o, start, proved_at, stop);
    tokio::spawn(supervised(Arc::clone(context), run, task));
    tracing::debug!(at = %now, "a start is under way");
    Ok(Next::Change)
}

/// Says Running, by compare-and-swap, and executes; nothing when that could not be said.
async fn licensed(
    context: Arc<Context>,
    o: Observed,
    start: Start,
    proved_at: Instant,
    stop: watch::Receiver<Option<Stop>>,
) -> Option<Finished> {
    let said = match context.lease.license() {
        Ok(()) => write(&context, &o, &status::running(&o.run, &start, o.now)).await,
        Err(error) => Err(error.into()),
    };
    if let Err(error) = said {
        // A lost reply to this write leaves a Run that says Running and never started: adoption finds that out.
        tracing::info!(run = o.run.name_any(), %error, "not started: Running could not be said");
        return None;
    }
    let created = o.run.metadata.creation_timestamp.as_ref().map_or(o.now, |t| t.0);
    context.metrics.run_started(Duration::try_from(context.now().duration_since(created)).unwrap_or_default());
    context.memories.update(&start.session.uid().unwrap_or_default(), |memory| {
        memory.runs += 1;
        memory.last_active = Some(o.now);
    });
    Some(exec::execute(context, o.run, start, proved_at, o.now, stop).await)
}

/// A proof that failed: the session looks again, the Run waits.
async fn doubted(context: &Context, o: &Observed, start: &Start, doubt: &str) -> Result<Next, Error> {
    let (namespace, session_uid) = (o.run.namespace().unwrap_or_default(), start.session.uid().unwrap_or_default());
    tracing::warn!(run = o.run.name_any(), session = o.session_name, doubt, "not started: the proof failed");
    context.memories.update(&session_uid, |memory| memory.doubts += 1);
    context.wake_sessions.wake(&namespace, &o.session_name);
    let created = o.run.metadata.creation_timestamp.as_ref().map_or(o.now, |t| t.0);
    let until = created.checked_add(start.limits.start).unwrap_or(k8s_openapi::jiff::Timestamp::MAX);
    let cause = format!("SessionNotReady: SandboxSession {} is being proved anew: {doubt}", o.session_name);
    wait(context, o, Wait { cause, until, next: Next::After(DOUBT) }).await
}

/// Runs an execution and hands its end to reconcile; without an end the slot is given back.
async fn supervised(
    context: Arc<Context>,
    run: Arc<Run>,
    task: impl Future<Output = Option<Finished>> + Send + 'static,
) {
    let (uid, namespace) = (run.uid().unwrap_or_default(), run.namespace().unwrap_or_default());
    let session = super::gather::session_name(&run);
    // A task of its own, so that a panic in it is seen: the Run is then found running by nobody, and adopted.
    let ended = tokio::spawn(task).await;
    let finished_at = context.now();
    match ended {
        Ok(Some(finished)) => {
            let view = session_view::of(context.sessions.get(Some(&namespace), &session).as_deref());
            if let SessionView::Present(session) = view {
                // The rules are read once more: code in the Run may have had them weakened.
                context.memories.update(&session.uid().unwrap_or_default(), |memory| {
                    memory.doubts += 1;
                    memory.last_active = Some(finished_at);
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

/// What a look at the live Sprite showed.
enum Proved {
    /// It is what is on record; the oldest read that says so began then.
    At(Instant),
    /// It slept and was woken.
    Woken,
    /// It is not, or nobody could say.
    Not(String),
}

/// Reads the live Sprite and compares. A sleeping one is woken first: this Run is about to use it.
async fn prove_live(
    context: &Arc<Context>,
    start: &Start,
    namespace: &str,
    session_uid: &str,
) -> Result<Proved, Error> {
    // A shared read may have begun before we asked for it.
    let began = Instant::now().checked_sub(reads::SHARED).unwrap_or_else(Instant::now);
    let name = &start.proof.name;
    let labels = session_name::sprite_labels(&context.settings.installation, namespace, session_uid);
    let (sprites, wanted) = (context.sprites.clone(), name.clone());
    let read_sprite =
        context.reads.sprites.get(name.clone(), move || async move { sprites.get(&wanted).await.map(Arc::new) });
    let read_rules = || {
        let (sprites, wanted) = (context.sprites.clone(), name.clone());
        context
            .reads
            .rules
            .get(name.clone(), move || async move { sprites.network_policy(&wanted).await.map(Arc::new) })
    };
    let state = start.session.status.as_ref().and_then(|s| s.sprite.as_ref()).and_then(|s| s.state);
    // Both at once where it is awake as far as is known: reading the rules of a sleeping one would wake it.
    let (sprite, rules) = if state == Some(SpritePhase::Running) {
        let (sprite, rules) = tokio::join!(read_sprite, read_rules());
        (sprite, Some(rules))
    } else {
        (read_sprite.await, None)
    };
    let no_answer = |what: &str, error: &sprites::Error| {
        Proved::Not(format!("the platform gave no answer about {what} ({})", error.kind()))
    };
    let sprite = match sprite {
        Ok(sprite) => sprite,
        Err(error) => return Ok(no_answer("the Sprite", &error)),
    };
    let live = LiveSprite::of(sprite.as_ref().clone(), &labels);
    if live.id != start.proof.instance || !live.ours {
        let why = prove::prove(&start.proof, &start.egress, &live, &[]).err();
        return Ok(Proved::Not(why.unwrap_or_default()));
    }
    if live.state != Some(SpritePhase::Running) {
        return Ok(match lock::wake(context, name).await {
            Ok(()) => Proved::Woken,
            Err(error) => Proved::Not(format!("the Sprite did not wake: {error}")),
        });
    }
    let rules = match rules {
        Some(rules) => rules,
        None => read_rules().await,
    };
    let rules: Vec<_> = match rules {
        Ok(rules) => rules.iter().cloned().map(rule).collect(),
        Err(error) => return Ok(no_answer("the rules", &error)),
    };
    Ok(match prove::prove(&start.proof, &start.egress, &live, &rules) {
        Ok(()) => Proved::At(began),
        Err(doubt) => Proved::Not(doubt),
    })
}

fn adopt(context: &Arc<Context>, o: &Observed, stop: Option<Stop>) -> Next {
    let place = adopt::Place::on_record(&o.run, o.now);
    let owner = Owner {
        namespace: o.run.namespace().unwrap_or_default(),
        run: o.run.name_any(),
        uid: o.uid.clone(),
        session: place.session_uid.clone(),
    };
    // What runs already runs: it takes a slot whatever the policy says.
    let Ok(receiver) = context.executions.reserve(owner, usize::MAX) else {
        return Next::After(Duration::from_secs(1));
    };
    if let Some(stop) = stop {
        context.executions.stop(&o.uid, stop);
    }
    tracing::info!(run = o.run.name_any(), "adopting a command that somebody else started");
    let limits = adopt::limits(o);
    let found = Found { place, limits, patience: Patience::AfterOutage, stopped: None, seen_started: false };
    let task = adopt::adopt(Arc::clone(context), Arc::clone(&o.run), found, receiver);
    tokio::spawn(supervised(Arc::clone(context), Arc::clone(&o.run), async { Some(task.await) }));
    Next::Change
}

async fn conclude(context: &Context, o: &Observed, finished: &Finished) -> Result<Next, Error> {
    let mut new = status::finished(&o.run, finished, true, o.now);
    match write(context, o, &new).await {
        Ok(()) => {}
        Err(Error::Kubernetes(error)) if apply::is_refused(&error) => {
            let error = apply::brief(&error);
            tracing::warn!(run = o.run.name_any(), error, "the output is not taken by the API server and not stored");
            new = status::finished(&o.run, finished, false, o.now);
            write(context, o, &new).await?;
        }
        Err(error) => return Err(error),
    }
    context.executions.forget(&o.uid);
    announce(context, o, &new).await;
    Ok(Next::Change)
}

/// One Event a Run, at its end; only for anomalies where the policy says so.
async fn announce(context: &Context, o: &Observed, new: &RunStatus) {
    let Some(reason) = new.reason else { return };
    context.metrics.run_finished(reason.as_str());
    let notice = Notice {
        warning: is_anomaly(reason),
        reason: reason.as_str(),
        action: "Run",
        note: new.message.clone().unwrap_or_default(),
    };
    let quiet = matches!(&o.session_policy, PolicyView::Ready(policy) if policy.only_anomalies);
    if notice.warning || !quiet {
        events::publish(&context.client, &context.metrics, o.run.object_ref(&()), notice).await;
    }
}

/// Outcomes that somebody should look at. A plain non-zero exit is none.
const fn is_anomaly(reason: RunReason) -> bool {
    match reason {
        RunReason::Timeout
        | RunReason::OutputLimitExceeded
        | RunReason::Killed
        | RunReason::NotStarted
        | RunReason::StartDeadlineExceeded
        | RunReason::SandboxBroken
        | RunReason::OutcomeUnknown
        | RunReason::KillSwitch
        | RunReason::AuthorizationDenied
        | RunReason::AuthorizationUnavailable
        | RunReason::IdentityUnprotected
        | RunReason::BlockedCommand
        | RunReason::PathEscape => true,
        RunReason::Waiting
        | RunReason::Started
        | RunReason::Completed
        | RunReason::NonZeroExit
        | RunReason::SessionDeleted
        | RunReason::FileError
        | RunReason::CancelRequested
        | RunReason::Suspended
        | RunReason::PolicySuspended
        | RunReason::Deleted
        | RunReason::InvalidSpec
        | RunReason::LimitExceeded
        | RunReason::SessionSuspended
        | RunReason::SessionHeld
        | RunReason::PolicyNotFound
        | RunReason::PolicyNotReady
        | RunReason::PolicyNotApplicable
        | RunReason::TenantNotEnabled
        | RunReason::KillSwitchOff
        | RunReason::InvalidEnvironment
        | RunReason::TooLarge
        | RunReason::QuotaConcurrency
        | RunReason::QuotaDaily
        | RunReason::QuotaSessions
        | RunReason::QueueTimeout
        | RunReason::SessionMismatch => false,
    }
}

async fn delete_session(context: &Context, o: &Observed) -> Result<Next, Error> {
    let SessionView::Present(session) = &o.session else { return Ok(Next::Change) };
    let api: Api<SandboxSession> = Api::namespaced(context.client.clone(), &o.run.namespace().unwrap_or_default());
    let exactly = Preconditions { uid: session.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(exactly), ..DeleteParams::background() };
    match api.delete(&session.name_any(), &params).await {
        Ok(_) => Ok(Next::After(Duration::from_secs(5))),
        Err(error) if apply::is_not_found(&error) || apply::is_conflict(&error) => {
            Ok(Next::After(Duration::from_secs(1)))
        }
        Err(error) => Err(error.into()),
    }
}
