//! The end of a Run: the only place that writes a terminal status, then the Event. Must not decide how it ended.

use api::{Run, RunStatus, names::RUN_FINALIZER};
use kube::Api;
use rules::{outcome::Outcome, output::Detail};

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
    }
    context.queue.leave(&o.key.uid);
    // Its slot is free, or its turn: others look whether it is theirs.
    context.wake_waiting(&o.key.namespace, &o.session_name);
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
            let with = |detail| status::finished(&o.run, finished, detail, o.now);
            let fits = |detail: &Detail| status::fits(&o.run, &with(Some(*detail)));
            let without = with(None);
            let detail = [Detail::Whole, Detail::Exact, Detail::Shortest].into_iter().find(fits);
            let detail = detail.or_else(|| longest(finished, |most| fits(&Detail::Cut(most))).map(Detail::Cut));
            match detail {
                Some(detail) => Bodies { new: with(Some(detail)), fallback: Some(without) },
                None => Bodies { new: without, fallback: None },
            }
        }
    }
}

/// The most bytes of output that there is room for; nothing where there is none.
fn longest(finished: &Finished, fits: impl Fn(usize) -> bool) -> Option<usize> {
    let (mut low, mut high) = (0, finished.captured.as_ref()?.length());
    if !fits(0) {
        return None;
    }
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    Some(low)
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
    use redact::Redactor;
    use rules::output::{Capture, Source, shape};

    use super::*;
    use crate::controllers::run::fixtures::{NOW, at, in_phase, named, observed};

    fn executed(output: &[u8]) -> Finished {
        let mut capture = Capture::unmarked(shape(8 << 20, true));
        capture.push(Source::Stdout, output);
        Finished {
            outcome: Outcome::unknown("x"),
            captured: Some(capture.finish(&Redactor::default())),
            file: None,
            incomplete: false,
            id: None,
            finished_at: at(NOW),
            duration_ms: None,
        }
    }

    /// decisions O-b. Each end can be written with less: a Run that cannot be ended would be one that runs for ever.
    #[test]
    fn an_end_is_written_in_as_much_detail_as_there_is_room_for() {
        let o = observed(in_phase(named(), RunPhase::Running));
        let text = |length: usize| "a line of 16 by\n".repeat(length / 16).into_bytes();
        let table = [
            ("text", text(1 << 20), (true, false, false, false), ""),
            ("bytes and what of them is text", vec![0xc3; 100 << 10], (true, true, true, false), ""),
            ("bytes alone", vec![0xc3; 700 << 10], (false, true, false, false), ""),
            // Six bytes of JSON each: too long as text, and not as base64.
            ("text as base64", vec![1; 400 << 10], (false, true, false, false), "stored as base64"),
            ("head and tail", text(2 << 20), (true, false, false, true), "the middle of it is left out"),
        ];
        for (name, output, (has_text, has_base64, lossy, truncated), told) in table {
            let finished = executed(&output);
            let bodies = bodies(&o, &End::Executed(&finished));
            let stored = bodies.new.output.clone().unwrap();
            let stdout = &stored.stdout;
            assert_eq!(
                (stdout.text.is_some(), stdout.base64.is_some(), stdout.lossy),
                (has_text, has_base64, lossy),
                "{name}"
            );
            assert_eq!(
                (stored.truncated, stored.stored, stdout.bytes),
                (truncated, true, output.len() as u64),
                "{name}"
            );
            let message = bodies.new.message.clone().unwrap();
            assert!(message.ends_with(told) && (told.is_empty() != message.contains("no room")), "{name}: {message}");
            assert!(status::fits(&o.run, &bodies.new), "{name}");
            let least = bodies.fallback.unwrap().output.unwrap();
            assert_eq!(
                (least.stored, least.stdout.bytes, least.stdout.text),
                (false, output.len() as u64, None),
                "{name}"
            );
            if truncated {
                let text = stdout.text.as_ref().unwrap();
                assert!(text.len() > (1 << 20) && text.contains(" bytes left out]\n"), "{name}");
                assert!(text.starts_with("a line") && text.ends_with("by\n"), "{name}");
            }
        }
        let mut full = in_phase(named(), RunPhase::Running);
        full.metadata.annotations = Some([("a".to_owned(), "x".repeat(1_468_000))].into());
        let o = observed(full);
        let finished = executed(b"x");
        let bodies = bodies(&o, &End::Executed(&finished));
        assert!(bodies.fallback.is_none() && !bodies.new.output.unwrap().stored);
        assert!(bodies.new.message.unwrap().ends_with("so it is not stored"));
    }

    #[test]
    fn an_early_end_is_written_with_as_little_as_ends_it_where_there_is_no_room() {
        let o = observed(in_phase(named(), RunPhase::Running));
        let outcome = Outcome::start_deadline("x");
        let bodies = bodies(&o, &End::Early(&outcome));
        let least = bodies.fallback.unwrap();
        assert!(bodies.new.message.is_some() && least.message.is_none());
        assert_eq!((bodies.new.phase, bodies.new.reason), (least.phase, least.reason));
        assert!(bodies.new.conditions.is_true("Finished") && least.conditions.is_true("Finished"));
    }
}
