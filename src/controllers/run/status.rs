//! The status of a `Run`. Pure.

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

use super::{
    execution::judge::START_WITHIN,
    plan::{Start, Wait},
};
use crate::controllers::state::executions::Finished;
use api::{
    Run, RunStatus,
    conditions::{
        ADMITTED, ConditionStatus, ConditionUpdate, Conditions, FINISHED, RECONCILING, STALLED, SUCCEEDED, cut,
    },
    execution_policy::{OnLimit, Redact},
    reasons::{RunPhase, RunReason},
    run_status::{Admission, Execution, Output, PolicyIdentity, SessionIdentity, SpriteIdentity, Stream},
    values::GoDuration,
};
use rules::{
    object_size,
    outcome::{self, ConditionStatuses, Outcome},
    output::{Captured, Detail, Encoded, Stored},
};

/// What a Run may take beside its timeout: to start, and until its end is known.
const AROUND: Duration = START_WITHIN.saturating_add(Duration::from_secs(15));
/// Longest message of a Run, in bytes; the schema has the same bound.
const MESSAGE_MAX: usize = 1024;

/// All conditions of a Run; they tell one story.
fn conditions(run: &Run, phase: RunPhase, reason: RunReason, message: &str, now: Timestamp) -> Conditions {
    let old = run.status.as_ref().map(|s| s.conditions.clone()).unwrap_or_default();
    let word = reason.as_str();
    let ConditionStatuses { admitted, succeeded, finished } = outcome::story(phase, old.is_true(ADMITTED));
    let truth = |told: Option<bool>| told.map_or(ConditionStatus::Unknown, ConditionStatus::from);
    let admitted = truth(admitted);
    let signals = vec![
        // Once admitted it stays so, whatever comes of it: its reason is that of the start.
        ConditionUpdate::new(
            ADMITTED,
            admitted,
            if admitted == ConditionStatus::True { RunReason::Started.as_str() } else { word },
        ),
        ConditionUpdate::new(SUCCEEDED, truth(succeeded), word).with_message(message),
        ConditionUpdate::new(FINISHED, finished, word),
        ConditionUpdate::new(RECONCILING, !finished, word),
        ConditionUpdate::new(STALLED, false, word),
    ];
    old.merged(signals, run.metadata.generation, now)
}

fn base(run: &Run, phase: RunPhase, reason: RunReason, message: &str, now: Timestamp) -> RunStatus {
    let message = cut(message, MESSAGE_MAX);
    RunStatus {
        observed_generation: run.metadata.generation,
        phase: Some(phase),
        reason: Some(reason),
        message: Some(message.to_owned()),
        conditions: conditions(run, phase, reason, message, now),
        ..RunStatus::default()
    }
}

/// Waiting; the same as long as the cause is the same.
pub fn waiting(run: &Run, wait: &Wait, now: Timestamp) -> RunStatus {
    let message = format!("{}; until {:.0}", wait.waiting, wait.until);
    let mut status = base(run, RunPhase::Pending, RunReason::Waiting, &message, now);
    // The column Admitted says for what it waits.
    for condition in status.conditions.0.iter_mut().filter(|condition| condition.type_ == ADMITTED) {
        wait.waiting.cause.as_str().clone_into(&mut condition.reason);
    }
    status
}

/// Running: the charge and the proof, written before the command is started.
pub fn running(run: &Run, start: &Start, now: Timestamp) -> RunStatus {
    let (name, generation) = start.policy.clone();
    let latest_end = now.checked_add(start.request.timeout.saturating_add(AROUND)).unwrap_or(Timestamp::MAX);
    let message = format!("running until {latest_end:.0} at the latest");
    RunStatus {
        session: Some(SessionIdentity { name: start.session.key.name.clone(), uid: start.session.key.uid.clone() }),
        sprite: Some(SpriteIdentity { id: start.proof.instance.clone() }),
        lockdown_token: Some(start.proof.token.clone()),
        policy: Some(PolicyIdentity { name, generation }),
        admission: Some(Admission { at: Time(now), tier: None, scopes: Vec::new() }),
        // What an adopter goes by: policies may have changed, or gone.
        execution: Some(Execution {
            started_at: Some(Time(now)),
            timeout: Some(GoDuration::from(start.request.timeout)),
            latest_end: Some(Time(latest_end)),
            output_limit: Some(start.request.output_limit()),
            on_limit: Some(if start.request.limits.stop_at_output { OnLimit::Kill } else { OnLimit::Truncate }),
            redact: Some(if start.redact { Redact::Recognised } else { Redact::Off }),
            ..Execution::default()
        }),
        ..base(run, RunPhase::Running, RunReason::Started, &message, now)
    }
}

/// Over without a command.
pub fn finished_early(run: &Run, outcome: &Outcome, now: Timestamp) -> RunStatus {
    base(run, outcome.phase, outcome.reason, &outcome.message, now)
}

/// As little as says how a Run ended, for an object that leaves no room.
pub fn least(run: &Run, outcome: &Outcome, now: Timestamp) -> RunStatus {
    let whole = finished_early(run, outcome, now);
    let finished = whole.conditions.0.into_iter().filter(|c| c.type_ == FINISHED).collect();
    RunStatus {
        observed_generation: whole.observed_generation,
        phase: whole.phase,
        reason: whole.reason,
        conditions: Conditions(finished),
        ..RunStatus::default()
    }
}

/// Over; in how much detail the output is stored is the caller's to say.
pub fn finished(run: &Run, finished: &Finished, detail: Option<Detail>, now: Timestamp) -> RunStatus {
    let Finished { outcome, captured, file, incomplete, id, finished_at, duration_ms } = finished;
    let told = match detail {
        Some(Detail::Whole | Detail::Exact) => "",
        Some(Detail::Shortest) => "; the object has no room for the output as text, so it is stored as base64",
        Some(Detail::Cut(_)) => "; the object has no room for all of the output, so the middle of it is left out",
        None => "; the object has no room for the output, so it is not stored",
    };
    let told = if captured.is_some() { told } else { "" };
    let message = format!("{}{told}", outcome.message);
    let old = run.status.clone().unwrap_or_default();
    let execution = Execution {
        id: id.clone(),
        finished_at: Some(Time(*finished_at)),
        duration_ms: *duration_ms,
        evidence: Some(outcome.evidence),
        ..old.execution.unwrap_or_default()
    };
    RunStatus {
        session: old.session,
        sprite: old.sprite,
        lockdown_token: old.lockdown_token,
        policy: old.policy,
        // What never started is not charged.
        admission: old.admission.filter(|_| !outcome.never_started),
        execution: Some(execution),
        exit_code: outcome.exit_code.map(i32::from),
        output: captured.as_ref().map(|captured| output(captured, *incomplete, detail)),
        file: file.clone(),
        ..base(run, outcome.phase, outcome.reason, &message, now)
    }
}

/// Whether the object can be stored with this status.
pub fn fits(run: &Run, status: &RunStatus) -> bool {
    let whole = Run { status: Some(status.clone()), ..run.clone() };
    object_size::stored_size(&whole).is_some_and(object_size::fits)
}

fn output(captured: &Captured, incomplete: bool, detail: Option<Detail>) -> Output {
    let stored = detail.map(|detail| captured.stored(detail));
    let is_stored = stored.is_some();
    let (stdout, stderr) = captured.written();
    let none = |bytes| Encoded { bytes, ..Encoded::default() };
    let Stored { stdout, stderr, truncated } =
        stored.unwrap_or_else(|| Stored { stdout: none(stdout), stderr: none(stderr), truncated: captured.truncated });
    let stream = |Encoded { text, base64, lossy, bytes }: Encoded| Stream {
        text: text.filter(|text| !text.is_empty()),
        base64,
        lossy,
        bytes,
    };
    Output {
        stdout: stream(stdout),
        stderr: stream(stderr),
        truncated,
        redacted: captured.redactions > 0,
        redactions: captured.redactions,
        incomplete,
        stored: is_stored,
    }
}

#[cfg(test)]
mod tests;
