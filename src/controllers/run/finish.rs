//! The end of a Run: the only place that writes a terminal status, then the Event. Must not decide how it ended.

use api::{Run, RunStatus, names::RUN_FINALIZER};
use kube::Api;
use rules::{outcome::Outcome, output::Captured};

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
    // Who lost the Lease leaves the end to whoever has it.
    context.lease.ensure_held()?;
    // The audit record of the end belongs here, before the status.
    let Bodies { mut new, fallback } = bodies(o, &end);
    if new.output.as_ref().is_some_and(|output| !output.stored) {
        tracing::warn!(run = o.key.name, "the object has no room for the output, which is not stored");
    }
    let mut written = report::write(context, o, &new).await;
    // What an execution left is given up only for itself: where the server takes less of it (an admission policy that refuses
    // every end does not), and still refuses the whole.
    if matches!(&written, Err(Error::Kubernetes(error)) if apply::is_refused(error))
        && matches!(end, End::Executed(_))
        && let Some(less) = &fallback
    {
        report::try_write(context, o, less).await?;
        written = report::write(context, o, &new).await;
    }
    match written {
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
        // Its slot is free: whoever waits for one looks.
        context.wake_waiting(&o.key.namespace, &o.session_name);
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
            let compact = || {
                let captured = finished.captured.clone().map(Captured::compact);
                status::finished(&o.run, &Finished { captured, ..Finished::clone(finished) }, true, o.now)
            };
            let whole = Some(status::finished(&o.run, finished, true, o.now)).filter(|new| status::fits(&o.run, new));
            let stored = whole.or_else(|| Some(compact()).filter(|new| status::fits(&o.run, new)));
            let without = status::finished(&o.run, finished, false, o.now);
            match stored {
                Some(new) => Bodies { new, fallback: Some(without) },
                None => Bodies { new: without, fallback: None },
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
    use rules::output::Encoded;

    use super::*;
    use crate::controllers::run::fixtures::{NOW, at, in_phase, named, observed};

    fn executed(output: &str) -> Finished {
        let stdout = Encoded { text: Some(output.to_owned()), base64: None, bytes: output.len() as u64 };
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
    fn an_end_is_written_whole_then_shorter_then_without_output_then_with_as_little_as_ends_it() {
        let o = observed(in_phase(named(), RunPhase::Running));
        let stored = |status: &RunStatus| status.output.as_ref().map(|output| output.stored);
        let table = [
            ("1\n".repeat(9), "text", Some(false)),
            ("\u{1}".repeat(128 << 10), "text", Some(false)),
            // Six bytes of JSON each: too long as text, and not as base64.
            ("\u{1}".repeat(400 << 10), "base64", Some(false)),
            ("x".repeat(2 << 20), "nothing", None),
        ];
        for (output, kept, fallback) in table {
            let finished = executed(&output);
            let bodies = bodies(&o, &End::Executed(&finished));
            assert_eq!(bodies.fallback.as_ref().and_then(stored), fallback, "{kept}");
            let stdout = bodies.new.output.unwrap().stdout;
            let told = match (&stdout.text, &stdout.base64) {
                (Some(_), None) => "text",
                (None, Some(_)) => "base64",
                _ => "nothing",
            };
            assert_eq!(told, kept);
            assert_eq!(stdout.bytes, output.len() as u64, "how much there was is told");
        }
        let outcome = Outcome::start_deadline("x");
        let bodies = bodies(&o, &End::Early(&outcome));
        let least = bodies.fallback.unwrap();
        assert!(bodies.new.message.is_some() && least.message.is_none());
        assert_eq!((bodies.new.phase, bodies.new.reason), (least.phase, least.reason));
        assert!(bodies.new.conditions.is_true("Finished") && least.conditions.is_true("Finished"));
    }
}
