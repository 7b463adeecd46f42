//! The task of one command: open, watch, judge.
//!
//! Never starts twice: it opens the exec again only when the handshake was never sent, and the runner's guard stands
//! behind that. Must not write to the API server.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use k8s_openapi::jiff::Timestamp;
use tokio::{sync::watch, time::Instant};

use super::{
    super::plan::{Start, Tool},
    adopt,
    collect::{Collected, collect},
    judge::{self, NotSent},
    open::{Opened, open},
    place::{Limits, Place, RecoveryRequest, RecoveryWindow, SeenBefore},
    proved::Proved,
    running::{End, RunningExec},
    spool,
    work::Work,
};
use crate::{
    controllers::{
        context::Context,
        state::{executions::Finished, session_activity::SessionActivity},
    },
    kubernetes::object_key::ObjectKey,
    lockdown::{kill, runner},
};
use rules::{
    outcome::{self, LostLockdown, Outcome, Seen, Stop, Verdict},
    output::{Capture, Shape},
    path,
};
use runner_protocol::{Launch, Task};
use sprites::{ExecRequest, OnDrop};

/// How long a command lives on when our connection is lost, past its timeout.
const SURVIVES: Duration = Duration::from_mins(1);

/// What an execution starts with.
pub struct Begin {
    /// What was decided.
    pub start: Start,
    /// The proof that it rests on.
    pub proved: Proved,
    /// When the start was recorded.
    pub recorded_at: Timestamp,
    /// Other Runs of the session that are not terminal.
    pub live: Vec<String>,
}

/// Executes, and says how it ended.
pub async fn execute(
    context: Arc<Context>,
    key: ObjectKey,
    begin: Begin,
    mut stop: watch::Receiver<Option<Stop>>,
) -> Finished {
    let Begin { start, proved, recorded_at, live } = begin;
    let start_by = Instant::now() + judge::START_WITHIN;
    let uid = key.uid.clone();
    let (request, input) = match launch(&start, &uid, &live) {
        Ok(encoded) => encoded,
        Err(error) => return not_started(&context, Outcome::not_started(&error)),
    };
    let exec = match open(&context, &request, (&start, proved), start_by, &mut stop).await {
        Opened::Exec(exec) => exec,
        Opened::NotSent(NotSent::Never(why)) => return not_started(&context, Outcome::not_started(&why)),
        Opened::NotSent(NotSent::Stopped(stop)) => return not_started(&context, Outcome::stopped_before_start(stop)),
        Opened::Unknown => {
            let found = recovery(&start, recorded_at, SeenBefore::default());
            return adopt::adopt(context, key, found, stop).await;
        }
        Opened::NoRunner => {
            let found = recovery(&start, recorded_at, SeenBefore::default());
            let finished = adopt::adopt(Arc::clone(&context), key.clone(), found, stop).await;
            if finished.outcome.never_started {
                relock(&context, &key, &start, LostLockdown::Runner);
            }
            return finished;
        }
    };
    let shape = start.request.shape();
    let work = Work::of_tool(&start.request.tool);
    let capture = Capture::new(shape, &uid);
    let place = kill::Place { sprite: &start.proof.name, instance: &start.proof.instance, uid: &uid };
    let watched = RunningExec { context: &context, place, start_by, timeout: start.request.timeout };
    let session = &start.session.key.uid;
    let held = || context.activities.update(session, SessionActivity::lockdown_held);
    let End { exit, started, took, line, whole, stop: stopped, refusal, capture, id } =
        watched.run(exec, input, capture, &mut stop, held).await;
    let timeout = start.request.timeout;
    let seen = Seen { exit, started, took, line, guard: None, stop: stopped, refusal: refusal.as_deref(), timeout };
    let confirmed = match stopped {
        Some(stop) if outcome::needs_sweep(&seen) => watched.swept(stop).await,
        Some(_) | None => true,
    };
    match outcome::judge(&seen) {
        Verdict::Final(mut outcome) => {
            if let Some(why) = &start.data_lost {
                outcome.message = format!("{}; before it, {why}", outcome.message);
            }
            if !confirmed {
                outcome.message.push_str("; leftover processes could not be ruled out");
            }
            // What did not come through is in the spool.
            let (capture, incomplete) = if whole {
                (capture, false)
            } else {
                let spool = spool::read(&context, &start.proof.name, &start.proof.instance, &uid, line.as_ref()).await;
                let read = spool.map(|spool| Capture::of_spool(shape, spool, line.as_ref()));
                read.map_or((capture, true), |(read, whole)| (read, !whole))
            };
            let Collected { outcome, captured, file } = collect(&context, capture, start.redact, &work, outcome).await;
            Finished {
                captured,
                file,
                incomplete,
                id,
                finished_at: context.now(),
                duration_ms: line.and_then(|record| u64::try_from(record.ran.as_millis()).ok()),
                outcome,
            }
        }
        Verdict::AskGuest => {
            let seen = SeenBefore { exit, started, took, stop: stopped, refusal };
            let found = recovery(&start, recorded_at, seen);
            let mut finished = adopt::adopt(Arc::clone(&context), key.clone(), found, stop).await;
            if let Some(lost) = outcome::lost_lockdown(exit, started).filter(|_| finished.outcome.never_started) {
                relock(&context, &key, &start, lost);
            }
            // Where the guest could not be read, or has less, what had come through is kept and marked.
            let (stdout, stderr) = capture.received();
            let kept = finished.captured.as_ref().map_or(0, |kept| kept.written().0.saturating_add(kept.written().1));
            if work == Work::Script && started && finished.incomplete && kept < stdout.saturating_add(stderr) {
                let outcome = finished.outcome.clone();
                finished.captured = collect(&context, capture, start.redact, &work, outcome).await.captured;
            }
            Finished { id: finished.id.or(id), ..finished }
        }
    }
}

/// Has the session locked down again before its next Run.
fn relock(context: &Context, key: &ObjectKey, start: &Start, lost: LostLockdown) {
    let session = &start.session.key;
    tracing::warn!(
        run = key.name,
        session = session.name,
        cause = lost.message(),
        "the lockdown is lost; locking down again"
    );
    context.activities.update(&session.uid, |activity| activity.request_relock(lost.message()));
    context.wake_sessions.wake(&session.namespace, &session.name);
}

/// The exec of a launch, and what it reads.
fn launch(start: &Start, uid: &str, live: &[String]) -> Result<(ExecRequest, Bytes), String> {
    let (task, stdin, directory, environment) = match &start.request.tool {
        Tool::Bash { command, stdin, directory, environment } => {
            (Task::Script(command), stdin.as_slice(), directory.as_str(), environment.as_slice())
        }
        Tool::File(operation) => (Task::File(operation), [].as_slice(), path::ROOT, [].as_slice()),
    };
    let Shape { cap, lookahead, head_only } = start.request.shape();
    let launch = Launch {
        runner: &runner::path(),
        uid,
        nonce: &start.proof.nonce,
        timeout: start.request.timeout,
        cap,
        lookahead,
        kill_leftovers: start.kill_leftovers,
        stop_at_cap: head_only,
        live,
        environment,
        directory,
        task,
        stdin,
    };
    let (argv, input) = launch.encode().map_err(|error| error.to_string())?;
    let request = ExecRequest {
        argv,
        stdin: true,
        max_run_after_disconnect: start.request.timeout + SURVIVES,
        path: None,
        // A successor adopts it; a stop kills it explicitly.
        on_drop: OnDrop::Leave,
    };
    Ok((request, Bytes::from(input)))
}

/// What an adopter needs of a command that was started just now.
fn recovery(start: &Start, started_at: Timestamp, seen: SeenBefore) -> RecoveryRequest {
    let place = Place {
        session: start.session.key.name.clone(),
        session_uid: start.session.key.uid.clone(),
        instance: start.proof.instance.clone(),
        started_at,
    };
    let limits = Limits {
        timeout: start.request.timeout,
        output: start.request.output_limit(),
        stop_at_output: start.request.limits.stop_at_output,
        redact: start.redact,
    };
    let work = Work::of_tool(&start.request.tool);
    RecoveryRequest { place, limits, work, window: RecoveryWindow::Short, seen }
}

fn not_started(context: &Context, outcome: Outcome) -> Finished {
    Finished {
        outcome,
        captured: None,
        file: None,
        incomplete: false,
        id: None,
        finished_at: context.now(),
        duration_ms: None,
    }
}
