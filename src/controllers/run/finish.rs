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
    let Bodies { mut new, fallback } = bodies(o, &end);
    if new.output.as_ref().is_some_and(|output| !output.stored) {
        tracing::warn!(run = o.key.name, "the object has no room for the output, which is not stored");
    }
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

/// What is written, and what instead where the API server refuses that.
struct Bodies {
    new: RunStatus,
    fallback: Option<RunStatus>,
}

fn bodies(o: &Observed, end: &End<'_>) -> Bodies {
    match end {
        // Where the object itself leaves no room: as little as says what became of it.
        End::Early(outcome) => Bodies {
            new: status::finished_early(&o.run, outcome, o.now),
            fallback: Some(status::least(&o.run, outcome, o.now)),
        },
        End::Executed(finished) => {
            let whole = status::finished(&o.run, finished, true, o.now);
            let without = status::finished(&o.run, finished, false, o.now);
            if status::fits(&o.run, &whole) {
                Bodies { new: whole, fallback: Some(without) }
            } else {
                Bodies { new: without, fallback: None }
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use api::reasons::RunPhase;
    use rules::output::{Captured, Encoded};

    use super::*;
    use crate::controllers::run::fixtures::{NOW, at, in_phase, named, observed};

    fn executed(output: usize) -> Finished {
        let stdout = Encoded { text: Some("x".repeat(output)), base64: None, bytes: output as u64 };
        let captured =
            Captured { stdout, stderr: Encoded::default(), over_cap: false, truncated: false, redacted: false };
        Finished {
            outcome: Outcome::unknown("x"),
            captured: Some(captured),
            incomplete: false,
            id: None,
            finished_at: at(NOW),
            duration_ms: None,
        }
    }

    /// Each end can be written with less: a Run that cannot be ended would be one that runs for ever.
    #[test]
    fn an_end_is_written_whole_then_without_output_then_with_as_little_as_ends_it() {
        let o = observed(in_phase(named(), RunPhase::Running));
        let stored = |status: &RunStatus| status.output.as_ref().map(|output| output.stored);
        for (size, new, fallback) in [(5, true, Some(false)), (2 << 20, false, None)] {
            let finished = executed(size);
            let bodies = bodies(&o, &End::Executed(&finished));
            assert_eq!(
                (stored(&bodies.new), bodies.fallback.as_ref().and_then(stored)),
                (Some(new), fallback),
                "{size}"
            );
            assert_eq!(bodies.new.output.unwrap().stdout.bytes, size as u64, "how much there was is told");
        }
        let outcome = Outcome::start_deadline("x");
        let bodies = bodies(&o, &End::Early(&outcome));
        let least = bodies.fallback.unwrap();
        assert!(bodies.new.message.is_some() && least.message.is_none());
        assert_eq!((bodies.new.phase, bodies.new.reason), (least.phase, least.reason));
        assert!(bodies.new.conditions.is_true("Finished") && least.conditions.is_true("Finished"));
    }
}
