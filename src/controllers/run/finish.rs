//! The end of a Run: the only place that writes a terminal status, then the Event. Must not decide how it ended.

use api::{Run, RunStatus, names::RUN_FINALIZER};
use kube::Api;
use rules::outcome::Outcome;

use super::{observed::Observed, report, status};
use crate::{
    controllers::{context::Context, driver::Next, error::Error, state::executions::Finished},
    kubernetes::{apply, finalizer},
};

/// How a Run came to its end.
#[derive(Debug)]
pub enum End<'a> {
    /// Without a command.
    Early(&'a Outcome),
    /// Its execution ended.
    Executed(&'a Finished),
}

/// Writes how a Run ended, as much of it as the API server takes.
pub async fn finish(context: &Context, o: &Observed, end: End<'_>) -> Result<Next, Error> {
    // The audit record of the end belongs here, before the status.
    let mut fallback = None;
    let mut new = match &end {
        End::Early(outcome) => {
            // Where the object itself leaves no room: as little as says what became of it.
            fallback = Some(status::least(&o.run, outcome, o.now));
            status::finished_early(&o.run, outcome, o.now)
        }
        End::Executed(finished) => {
            let whole = status::finished(&o.run, finished, true, o.now);
            let without = status::finished(&o.run, finished, false, o.now);
            if status::fits(&o.run, &whole) {
                fallback = Some(without);
                whole
            } else {
                tracing::warn!(run = o.key.name, "the object has no room for the output, which is not stored");
                without
            }
        }
    };
    match report::write(context, o, &new).await {
        Ok(()) => {}
        Err(Error::Kubernetes(error)) if apply::is_refused(&error) => {
            let Some(less) = fallback else { return Err(error.into()) };
            let error = apply::brief(&error);
            tracing::warn!(run = o.key.name, error, "the API server rejected the status; writing less of it");
            new = less;
            if write_less(context, o, &end, &new).await? == Written::LetGo {
                return Ok(Next::Change);
            }
        }
        Err(error) => return Err(error),
    }
    if matches!(end, End::Executed(_)) {
        context.executions.conclude(&o.key.uid, context.now());
    }
    report::announce(context, o, &new).await;
    Ok(Next::Change)
}

#[derive(PartialEq, Eq)]
enum Written {
    Status,
    LetGo,
}

async fn write_less(context: &Context, o: &Observed, end: &End<'_>, less: &RunStatus) -> Result<Written, Error> {
    match report::write(context, o, less).await {
        Ok(()) => Ok(Written::Status),
        // Nothing was started, so nothing is lost by letting a deleted one go.
        Err(Error::Kubernetes(error))
            if apply::is_refused(&error)
                && matches!(end, End::Early(_))
                && o.run.metadata.deletion_timestamp.is_some() =>
        {
            let api: Api<Run> = Api::namespaced(context.client.clone(), &o.key.namespace);
            finalizer::remove(&api, o.run.as_ref(), RUN_FINALIZER).await?;
            Ok(Written::LetGo)
        }
        Err(error) => Err(error),
    }
}
