//! Does what was decided for a Run, and reports. Must not decide.
//!
//! The order of a start is the heart of it: prove, take a slot, say Running by compare-and-swap, execute.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};
use tokio::time::Instant;

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
    prove, status,
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
    rules::session_name,
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
            let new = status::finished_early(&o.run, &outcome, o.now);
            write(context, &o, &new).await?;
            announce(context, &o, &new).await;
            Ok(Next::Change)
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
    let proved_at = Instant::now();
    if let Err(doubt) = prove_live(context, &start, &namespace, &session_uid).await? {
        tracing::warn!(run = o.run.name_any(), session = o.session_name, doubt, "not started: the proof failed");
        context.memories.update(&session_uid, |memory| memory.doubted = true);
        context.wake_sessions.wake(&namespace, &o.session_name);
        let created = o.run.metadata.creation_timestamp.as_ref().map_or(o.now, |t| t.0);
        let until = created.checked_add(start.limits.start).unwrap_or(k8s_openapi::jiff::Timestamp::MAX);
        let cause = format!("SessionNotReady: SandboxSession {} is being proved anew: {doubt}", o.session_name);
        return wait(context, &o, Wait { cause, until, next: Next::After(DOUBT) }).await;
    }
    let owner = Owner { namespace, run: o.run.name_any(), uid: o.uid.clone(), session: session_uid };
    let in_session = usize::try_from(start.limits.parallel_runs).unwrap_or(usize::MAX);
    let stop = match context.executions.reserve(owner, in_session) {
        Ok(stop) => stop,
        Err(NoSlot::Taken) => return Ok(Next::After(Duration::from_millis(100))),
        Err(NoSlot::Session | NoSlot::Process) => return Ok(Next::After(Duration::from_millis(200))),
    };
    // From here on the slot is given back on every way out that does not execute.
    let licensed = match context.lease.license() {
        Ok(()) => write(context, &o, &status::running(&o.run, &start, o.now)).await,
        Err(error) => Err(error.into()),
    };
    if let Err(error) = licensed {
        // A lost reply to this write leaves a Run that says Running and never started: adoption finds that out.
        context.executions.forget(&o.uid);
        return Err(error);
    }
    let created = o.run.metadata.creation_timestamp.as_ref().map_or(o.now, |t| t.0);
    context.metrics.run_started(Duration::try_from(context.now().duration_since(created)).unwrap_or_default());
    context.memories.update(&start.session.uid().unwrap_or_default(), |memory| {
        memory.runs += 1;
        memory.last_active = Some(o.now);
    });
    let task = exec::execute(Arc::clone(context), Arc::clone(&o.run), start, proved_at, o.now, stop);
    tokio::spawn(supervised(Arc::clone(context), Arc::clone(&o.run), o.session_name.clone(), task));
    Ok(Next::Change)
}

/// Runs an execution and hands its end to reconcile.
async fn supervised(
    context: Arc<Context>,
    run: Arc<Run>,
    session: String,
    task: impl Future<Output = Finished> + Send + 'static,
) {
    let (uid, namespace) = (run.uid().unwrap_or_default(), run.namespace().unwrap_or_default());
    // A task of its own, so that a panic in it is seen: the Run is then found running by nobody, and adopted.
    let ended = tokio::spawn(task).await;
    let finished_at = context.now();
    if let SessionView::Present(session) = session_view::of(context.sessions.get(Some(&namespace), &session).as_deref())
    {
        // The rules are read once more: code in the Run may have had them weakened.
        context.memories.update(&session.uid().unwrap_or_default(), |memory| {
            memory.doubted = true;
            memory.last_active = Some(finished_at);
        });
    }
    match ended {
        Ok(finished) => context.executions.finish(&uid, finished),
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

/// Reads the live Sprite and compares. A sleeping one is woken first: this Run is about to use it.
async fn prove_live(
    context: &Arc<Context>,
    start: &Start,
    namespace: &str,
    session_uid: &str,
) -> Result<Result<(), String>, Error> {
    let name = &start.proof.name;
    let labels = session_name::sprite_labels(&context.settings.installation, namespace, session_uid);
    let sprites = context.sprites.clone();
    let wanted = name.clone();
    let read_sprite =
        context.reads.sprites.get(name.clone(), move || async move { sprites.get(&wanted).await.map(Arc::new) });
    let sprites = context.sprites.clone();
    let wanted = name.clone();
    let read_rules = || {
        context
            .reads
            .rules
            .get(name.clone(), move || async move { sprites.network_policy(&wanted).await.map(Arc::new) })
    };
    let awake = start.session.status.as_ref().and_then(|s| s.sprite.as_ref()).and_then(|s| s.state)
        == Some(SpritePhase::Running);
    let (sprite, rules) = if awake {
        let (sprite, rules) = tokio::join!(read_sprite, read_rules());
        (sprite, Some(rules))
    } else {
        (read_sprite.await, None)
    };
    let sprite = match sprite {
        Ok(sprite) => sprite,
        Err(error) => return Ok(Err(format!("the platform gave no answer about the Sprite ({})", error.kind()))),
    };
    let live = LiveSprite::of(sprite.as_ref().clone(), &labels);
    let rules = match rules {
        Some(rules) if live.state == Some(SpritePhase::Running) => rules,
        _ if live.id != start.proof.instance || !live.ours => {
            return Ok(prove::prove(&start.proof, &start.egress, &live, &[]));
        }
        _ => {
            if let Err(error) = lock::wake(context, name).await {
                return Ok(Err(format!("the Sprite did not wake: {error}")));
            }
            let read = context.sprites.network_policy(name).await;
            read.map(Arc::new).map_err(Arc::new)
        }
    };
    let rules: Vec<_> = match rules {
        Ok(rules) => rules.iter().cloned().map(rule).collect(),
        Err(error) => return Ok(Err(format!("the platform gave no answer about the rules ({})", error.kind()))),
    };
    Ok(prove::prove(&start.proof, &start.egress, &live, &rules))
}

fn adopt(context: &Arc<Context>, o: &Observed, stop: Option<crate::rules::outcome::Stop>) -> Next {
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
    let session = place.session.clone();
    let found = Found { place, limits, patience: Patience::AfterOutage, stopped: None };
    let task = adopt::adopt(Arc::clone(context), Arc::clone(&o.run), found, receiver);
    tokio::spawn(supervised(Arc::clone(context), Arc::clone(&o.run), session, task));
    Next::Change
}

async fn conclude(context: &Context, o: &Observed, finished: &Finished) -> Result<Next, Error> {
    let mut new = status::finished(&o.run, finished, true, o.now);
    match write(context, o, &new).await {
        Ok(()) => {}
        Err(Error::Kubernetes(error)) if apply::is_too_large(&error) => {
            tracing::warn!(run = o.run.name_any(), %error, "the output does not fit into the object and is not stored");
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
