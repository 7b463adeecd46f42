//! Does what was decided for a session, and reports. Must not decide: what follows from an effect is asked of `decide`.

use std::sync::Arc;

use kube::{Api, Resource, ResourceExt};

use super::{
    decide,
    observed::{Live, Observed},
    plan::{self, Effect, Plan, StatusDraft, Then},
    status,
};
use crate::{
    controllers::{
        context::Context,
        driver::Next,
        error::Error,
        events::{self, Notice},
    },
    kubernetes::{
        apply::{self, Target},
        finalizer,
    },
    lockdown::{self, apply::Instance, instance::LiveSprite},
};
use api::{SandboxSession, SandboxSessionStatus, names::SESSION_FINALIZER, reasons::SessionReason};
use rules::outcome::Stop;
use sprites::{CreateSprite, Priority, UrlSettings};

/// How long a create or delete may wait for its turn: with the time to connect, 10 s, it is sent within the 15 s that
/// [`lease::MIN_REMAINING`](crate::kubernetes::lease::MIN_REMAINING) leaves.
const TO_BEGIN: std::time::Duration = std::time::Duration::from_secs(5);

/// Does it.
pub async fn act(context: &Context, o: &Observed, plan: Plan) -> Result<Next, Error> {
    let Plan { effect, report, remember, next } = plan;
    let uid = o.key.uid.clone();
    if matches!(o.live, Live::Present(_)) {
        // Seen: an absence from before says nothing any more.
        context.activities.update(&uid, |activity| activity.absent_since = None);
    }
    if let Some(remember) = remember {
        context.activities.update(&uid, |activity| remember.apply(activity, o));
    }
    let api: Api<SandboxSession> = Api::namespaced(context.client.clone(), &o.key.namespace);
    match effect {
        Effect::Nothing => {
            if report.is_none() {
                return Ok(next);
            }
            report_draft(context, o, report).await.map(|()| status::activity_next(o, next))
        }
        Effect::AddFinalizer => {
            outdated_is_fine(finalizer::add(&api, o.session.as_ref(), SESSION_FINALIZER).await.map(drop))?;
            Ok(next)
        }
        Effect::RemoveFinalizer => {
            outdated_is_fine(finalizer::remove(&api, o.session.as_ref(), SESSION_FINALIZER).await)?;
            context.activities.forget(&uid);
            Ok(next)
        }
        Effect::StopRuns => {
            context.executions.stop_session(&uid, Stop::SessionDeleted);
            report_draft(context, o, report).await.map(|()| next)
        }
        Effect::Create { name, before } => create(context, o, &api, name, *before).await,
        Effect::Lock(lock) => {
            let instance = Instance { name: &lock.name, id: &lock.id, nonce: &lock.nonce, labels: &o.labels };
            let result = lockdown::apply::apply(&context.sprites, instance, &lock.rules).await;
            context
                .metrics
                .lockdown(result.as_ref().map_or_else(|f| f.reason().as_str(), |_| SessionReason::LockedDown.as_str()));
            let plan = match result {
                Ok((confirmed, awake)) => {
                    context.reads.awake.record(awake);
                    decide::after_lock(o, *lock, Ok(confirmed))
                }
                Err(failure) => {
                    tracing::warn!(session = o.key.name, %failure, "a lockdown failed");
                    decide::after_lock(o, *lock, Err(&failure))
                }
            };
            follow(context, o, plan).await
        }
        Effect::Destroy { name, id, then } => {
            let answered = destroy(context, o, &name, &id).await?;
            match then {
                Then::Release => {
                    context.activities.update(&uid, |activity| activity.delete_answered |= answered);
                    report_draft(context, o, report).await.map(|()| next)
                }
                Then::Reprovision(before) => follow(context, o, decide::after_destroy(o, &before)).await,
            }
        }
    }
}

async fn report_draft(context: &Context, o: &Observed, draft: Option<StatusDraft>) -> Result<(), Error> {
    match draft {
        Some(draft) => report(context, o, &o.session, draft).await,
        None => Ok(()),
    }
}

/// Reports what follows from an effect.
async fn follow(context: &Context, o: &Observed, plan: Plan) -> Result<Next, Error> {
    let Plan { effect: _, report, remember, next } = plan;
    if let Some(remember) = remember {
        context.activities.update(&o.key.uid, |activity| remember.apply(activity, o));
    }
    report_draft(context, o, report).await.map(|()| next)
}

/// Asks for a Sprite: only on the newest version of the session, and only while it still says so.
async fn create(
    context: &Context,
    o: &Observed,
    api: &Api<SandboxSession>,
    name: String,
    draft: StatusDraft,
) -> Result<Next, Error> {
    let session = Arc::new(apply::within(api.get(&o.key.name)).await?);
    let Some(intended) = decide::still_intended(o, &session, &name) else { return Ok(Next::Change) };
    context.lease.ensure_time_left()?;
    let request = CreateSprite { name, labels: o.labels.to_vec(), url_settings: UrlSettings::private(), config: None };
    match context.sprites.sent_within(TO_BEGIN).create(&request).await {
        Ok(sprite) => {
            let live = LiveSprite::of(sprite, &o.labels);
            if !live.ours {
                // Created under our name, yet without our labels: look again, the name may be somebody else's.
                return Ok(Next::After(std::time::Duration::from_secs(2)));
            }
            let before = StatusDraft { sprite: Some(intended), ..draft };
            report(context, o, &session, plan::created(before, live)).await?;
            Ok(Next::Change)
        }
        // Somebody was first, perhaps ourselves with a lost reply: the next look tells.
        Err(sprites::Error::Busy { .. }) => Ok(Next::After(std::time::Duration::from_millis(200))),
        Err(error) if error.is_capacity() => {
            let wait = error.retry_after().unwrap_or(std::time::Duration::from_secs(10));
            report(context, o, &session, plan::at_capacity(&draft)).await?;
            Ok(Next::After(wait))
        }
        Err(error) => Err(error.into()),
    }
}

/// Destroys this instance: its id and our labels are read immediately before, since the wire has no precondition. Whether
/// a DELETE of ours was answered: that no Sprite was found now is only one more look.
async fn destroy(context: &Context, o: &Observed, name: &str, id: &str) -> Result<bool, Error> {
    context.lease.ensure_time_left()?;
    let sprites = context.sprites.with_priority(Priority::Delete);
    let live = match sprites.get(name).await {
        Ok(sprite) => LiveSprite::of(sprite, &o.labels),
        Err(error) if error.is_absent() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if live.id != id || !live.ours {
        return Ok(false);
    }
    // That look may have taken its time.
    context.lease.ensure_time_left()?;
    match sprites.sent_within(TO_BEGIN).delete(sprites::Target::any(name)).await {
        Ok(()) => Ok(true),
        Err(error) if error.is_absent() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A finalizer patch that met another version, or nothing: the next look tells.
fn outdated_is_fine(result: Result<(), kube::Error>) -> Result<(), Error> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if finalizer::is_outdated(&error) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Writes the status when it says something new.
async fn report(context: &Context, o: &Observed, session: &SandboxSession, draft: StatusDraft) -> Result<(), Error> {
    let old = session.status.clone().unwrap_or_default();
    let new = status::report(o, draft, o.now);
    if old == new {
        return Ok(());
    }
    let target = Target::of(session)?;
    let _: SandboxSession = apply::status(&context.client, &target, &new).await?;
    if status::activity_due(o) {
        context.activities.update(&o.key.uid, |activity| status::activity_written(o, activity));
    }
    announce(context, session, &old, &new).await;
    Ok(())
}

/// One Event and one log line a transition that is announced.
async fn announce(context: &Context, session: &SandboxSession, old: &SandboxSessionStatus, new: &SandboxSessionStatus) {
    let Some((condition, word, warning)) = status::announced(old, new) else { return };
    context.metrics.session_transition(word.as_str());
    if warning {
        tracing::warn!(
            namespace = session.namespace(),
            session = session.name_any(),
            reason = word.as_str(),
            message = condition.message,
            "session not ready"
        );
    }
    let notice = Notice { warning, reason: word.as_str(), action: "Reconcile", note: condition.message.clone() };
    events::publish(context, session.object_ref(&()), notice).await;
}
