//! Does what was decided for a Run, and reports. Must not decide. A start is a matter of its own: `start`.

use std::{sync::Arc, time::Duration};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::{
    Api, Resource, ResourceExt,
    api::{DeleteParams, PostParams, Preconditions},
};

use super::{
    execution::{
        adopt, place,
        place::{RecoveryRequest, RecoveryWindow},
        start,
    },
    observed::Observed,
    plan::Plan,
    report, status,
};
use crate::{
    controllers::{
        context::Context,
        driver::Next,
        error::Error,
        state::{
            executions::{Finished, Owner},
            session_view::SessionView,
        },
    },
    kubernetes::{apply, finalizer},
};
use api::{
    Run, SandboxSession, SandboxSessionSpec,
    names::{RUN_FINALIZER, RUN_UID_LABEL},
    sandbox_session::Access,
};
use rules::{
    outcome::{Outcome, Stop},
    session_name,
};

/// Does it.
pub async fn act(context: &Arc<Context>, o: Observed, plan: Plan) -> Result<Next, Error> {
    let api: Api<Run> = Api::namespaced(context.client.clone(), &o.run.namespace().unwrap_or_default());
    match plan {
        Plan::Nothing(next) => Ok(next),
        Plan::Wait(wait) => report::wait(context, &o, wait).await,
        Plan::Finish(outcome) => {
            context.waiting.remove(&o.run.namespace().unwrap_or_default(), &o.session_name, &o.run.name_any());
            finish(context, &o, &api, &outcome).await
        }
        Plan::CreateSession => create_session(context, &o).await,
        Plan::Start(start) => start::start(context, o, *start).await,
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
    match report::write(context, o, &new).await {
        Ok(()) => {}
        Err(Error::Kubernetes(error)) if apply::is_refused(&error) => {
            // The object itself leaves no room: as little as says what became of it.
            tracing::warn!(run = o.run.name_any(), error = apply::brief(&error), "a status is not taken");
            new = status::least(&o.run, outcome, o.now);
            match report::write(context, o, &new).await {
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
    report::announce(context, o, &new).await;
    Ok(Next::Change)
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

fn adopt(context: &Arc<Context>, o: &Observed, stop: Option<Stop>) -> Next {
    let place = place::Place::on_record(&o.run, o.now);
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
    let limits = place::limits(o);
    let found =
        RecoveryRequest { place, limits, window: RecoveryWindow::AfterOutage, stopped: None, seen_started: false };
    let task = adopt::adopt(Arc::clone(context), Arc::clone(&o.run), found, receiver);
    tokio::spawn(start::run_and_report(Arc::clone(context), Arc::clone(&o.run), async { Some(task.await) }));
    Next::Change
}

async fn conclude(context: &Context, o: &Observed, finished: &Finished) -> Result<Next, Error> {
    let mut new = status::finished(&o.run, finished, true, o.now);
    if !status::fits(&o.run, &new) {
        tracing::warn!(run = o.run.name_any(), "the object has no room for the output, which is not stored");
        new = status::finished(&o.run, finished, false, o.now);
    }
    match report::write(context, o, &new).await {
        Ok(()) => {}
        Err(Error::Kubernetes(error)) if apply::is_refused(&error) => {
            let error = apply::brief(&error);
            tracing::warn!(run = o.run.name_any(), error, "the output is not taken by the API server and not stored");
            new = status::finished(&o.run, finished, false, o.now);
            report::write(context, o, &new).await?;
        }
        Err(error) => return Err(error),
    }
    context.executions.forget(&o.uid);
    report::announce(context, o, &new).await;
    Ok(Next::Change)
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
