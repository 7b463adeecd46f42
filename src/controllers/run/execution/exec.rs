//! The task of one running command: open, feed, collect under the cap, stop, judge.
//!
//! Never starts twice: it opens the exec again only when the handshake was never sent, and the runner's guard stands
//! behind that. Must not write to the API server.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use k8s_openapi::jiff::Timestamp;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    super::plan::{Start, Tool},
    adopt,
    collect::{limit_hit, stop_requested, store},
    judge::{self, NotSent, Refusal},
    place::{Limits, Place, RecoveryRequest, RecoveryWindow},
    proved::Proved,
};
use crate::{
    controllers::{context::Context, state::executions::Finished},
    kubernetes::object_key::ObjectKey,
    lockdown::kill,
};
use redact::LOOKAHEAD;
use rules::{
    outcome::{self, ExecSeen, Outcome, Stop, Verdict},
    output::{Capture, Captured, Source},
    runner::{self, Launch},
};
use sprites::{Exec, ExecEvent, ExecRequest, OnDrop};

/// How much longer than the timeout the guest waits before it ends a script by itself.
const BACKSTOP: Duration = Duration::from_secs(5);
/// How long a command lives on when our connection is lost, past its timeout.
const SURVIVES: Duration = Duration::from_mins(1);
/// How long it may take to see that nothing is left of a command that was killed.
const SWEEP: Duration = Duration::from_secs(8);
/// How long the end of a command that was told to stop is waited for; then the guest is asked, which takes its time, too.
const AFTER_STOP: Duration = Duration::from_secs(12);

/// Executes, and says how it ended.
pub async fn execute(
    context: Arc<Context>,
    key: ObjectKey,
    start: Start,
    proved: Proved,
    started_at: Timestamp,
    mut stop: watch::Receiver<Option<Stop>>,
) -> Finished {
    let start_by = Instant::now() + judge::START_WITHIN;
    let uid = key.uid.clone();
    let limits = &start.request.limits;
    let Tool::Bash { command, stdin, directory, environment } = &start.request.tool;
    let launch = Launch {
        uid: &uid,
        nonce: &start.proof.nonce,
        backstop: start.request.timeout + BACKSTOP,
        // Past the cap, as much as redaction looks ahead.
        spool: limits.output.saturating_add(LOOKAHEAD as u64),
        environment,
        directory,
        script: command,
        stdin: stdin.as_bytes(),
        kill_leftovers: start.kill_leftovers,
    };
    let (argv, input) = match launch.encode() {
        Ok(encoded) => encoded,
        Err(error) => return not_started(&context, &error.to_string()),
    };
    let request = ExecRequest {
        argv,
        stdin: true,
        max_run_after_disconnect: start.request.timeout + SURVIVES,
        path: None,
        // A successor adopts it; whoever wants it dead kills it, and says so.
        on_drop: OnDrop::Leave,
    };
    let exec = match open(&context, &request, &proved, &mut stop).await {
        Opened::Exec(exec) => exec,
        Opened::NotSent(NotSent::Never(why)) => return not_started(&context, &why),
        Opened::NotSent(NotSent::Stopped(stop)) => {
            let outcome = Outcome::stopped_before_start(stop);
            return Finished { outcome, ..not_started(&context, "") };
        }
        Opened::Unknown => {
            let (place, limits) = adoptable(&start, started_at);
            let found =
                RecoveryRequest { place, limits, window: RecoveryWindow::Short, stopped: None, seen_started: false };
            return adopt::adopt(context, key, found, stop).await;
        }
    };
    let began = Instant::now();
    let capture = Capture::new(start.request.limits.output, runner::start_marker(&uid));
    let place = kill::Place { sprite: &start.proof.name, instance: &start.proof.instance, uid: &uid };
    let timeout = start.request.timeout;
    let watched = RunningExec { context: &context, place, start_by, timeout, redact: start.redact };
    let end = watched.run(exec, Bytes::from(input), capture, &mut stop).await;
    let confirmed = watched.swept(&end).await;
    let seen = ExecSeen { exit: end.exit, started: end.started, stop: end.stop, overtime: end.overtime };
    match outcome::after_exec(seen) {
        Verdict::Final(mut outcome) => {
            if let Some(why) = &start.data_lost {
                outcome.message = format!("{}; before it, {why}", outcome.message);
            }
            if !confirmed {
                outcome.message.push_str("; that nothing of it is left could not be confirmed");
            }
            Finished {
                captured: end.started.then_some(end.captured),
                incomplete: false,
                id: end.id,
                finished_at: context.now(),
                duration_ms: u64::try_from(began.elapsed().as_millis()).ok(),
                outcome,
            }
        }
        Verdict::Adopt => {
            let (place, limits) = adoptable(&start, started_at);
            let found = RecoveryRequest {
                place,
                limits,
                window: RecoveryWindow::Short,
                stopped: end.stop,
                seen_started: end.started,
            };
            let mut finished = adopt::adopt(Arc::clone(&context), key, found, stop).await;
            if finished.captured.is_none() && end.started {
                // The guest could not be read; what had come through is kept and marked.
                finished.captured = Some(end.captured);
                finished.incomplete = true;
            }
            finished
        }
    }
}

/// What an adopter needs of a command that was started just now.
fn adoptable(start: &Start, started_at: Timestamp) -> (Place, Limits) {
    let place = Place {
        session: start.session.key.name.clone(),
        session_uid: start.session.key.uid.clone(),
        instance: start.proof.instance.clone(),
        started_at,
    };
    (place, Limits { timeout: start.request.timeout, output: start.request.limits.output, redact: start.redact })
}

fn not_started(context: &Context, why: &str) -> Finished {
    Finished {
        outcome: Outcome::not_started(why),
        captured: None,
        incomplete: false,
        id: None,
        finished_at: context.now(),
        duration_ms: None,
    }
}

enum Opened {
    Exec(Exec),
    /// The handshake was never sent.
    NotSent(NotSent),
    /// It may have been.
    Unknown,
}

/// Opens the exec. Only what was not sent, or was refused with 429, is tried again.
async fn open(
    context: &Context,
    request: &ExecRequest,
    proved: &Proved,
    stop: &mut watch::Receiver<Option<Stop>>,
) -> Opened {
    // Tried again here and not below: between two tries the proof grows old, the Lease may go, a stop may come.
    let sprites = context.sprites.without_retries();
    let mut tried = 0;
    loop {
        let asked = *stop.borrow();
        let within = match judge::may_send(asked, proved.age(), context.lease.ensure_time_left().is_ok()) {
            Ok(within) => within,
            Err(why) => return Opened::NotSent(why),
        };
        let error = match sprites.within(within).exec(&proved.on, request).await {
            Ok(exec) => return Opened::Exec(exec),
            Err(error) => error,
        };
        tracing::warn!(%error, "an exec could not be opened");
        match judge::after_refusal(&error, tried) {
            Refusal::Again(pause) => sleep(pause).await,
            Refusal::Never(why) => return Opened::NotSent(NotSent::Never(why)),
            Refusal::Unknown => return Opened::Unknown,
        }
        tried += 1;
    }
}

/// What came of an opened exec.
struct End {
    exit: Option<u8>,
    started: bool,
    stop: Option<Stop>,
    /// Its timeout had passed.
    overtime: bool,
    captured: Captured,
    id: Option<String>,
}

struct RunningExec<'a> {
    context: &'a Context,
    place: kill::Place<'a>,
    /// When it must have started in the guest.
    start_by: Instant,
    /// From its start in the guest.
    timeout: Duration,
    redact: bool,
}

impl RunningExec<'_> {
    /// Feeds and reads until the end is known, or can no longer be known from this connection.
    async fn run(
        &self,
        mut exec: Exec,
        input: Bytes,
        mut capture: Capture,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> End {
        // Beside reading: a script that does not read its stdin must not keep us from reading its output.
        let stdin = exec.stdin();
        let mut feeding = std::pin::pin!(async move {
            stdin.send(input).await?;
            stdin.close().await
        });
        let mut fed = false;
        let mut deadline: Option<Instant> = None;
        let mut stopped: Option<Stop> = None;
        let mut give_up: Option<Instant> = None;
        let mut killed = false;
        let mut killing = std::pin::pin!(futures::future::Either::Left(std::future::pending::<()>()));
        let exit = loop {
            if deadline.is_none() && capture.started() {
                deadline = Some(Instant::now() + self.timeout);
            }
            let patience = give_up.unwrap_or_else(|| Instant::now() + Duration::from_hours(1));
            let reason = tokio::select! {
                event = exec.next() => match event {
                    ExecEvent::Session { .. } => continue,
                    ExecEvent::Stdout(chunk) => limit_hit(capture.push(Source::Stdout, &chunk)),
                    ExecEvent::Stderr(chunk) => limit_hit(capture.push(Source::Stderr, &chunk)),
                    ExecEvent::Exit(code) => break Some(code),
                    ExecEvent::Lost(reason) => {
                        tracing::warn!(?reason, run = self.place.uid, "the connection of a command was lost");
                        break None;
                    }
                },
                // A script may end, or close its stdin, before it has read everything: that is its own affair. A launch that
                // was cut short is refused by the runner.
                _ = &mut feeding, if !fed => {
                    fed = true;
                    continue;
                }
                reason = stop_requested(stop), if stopped.is_none() => Some(reason),
                () = sleep_until(deadline.unwrap_or(self.start_by)), if stopped.is_none() && deadline.is_some() => {
                    Some(Stop::Timeout)
                }
                () = sleep_until(self.start_by), if stopped.is_none() && deadline.is_none() => {
                    tracing::warn!(run = self.place.uid, "a command did not start in time; the guest is asked");
                    break None;
                }
                () = &mut killing, if stopped.is_some() && !killed => {
                    killed = true;
                    continue;
                }
                () = sleep_until(patience), if give_up.is_some() => break None,
            };
            if let (Some(reason), None) = (reason, stopped) {
                stopped = Some(reason);
                give_up = Some(Instant::now() + AFTER_STOP);
                killing.set(futures::future::Either::Right(self.kill()));
            }
        };
        End {
            exit,
            started: capture.started(),
            stop: stopped,
            overtime: deadline.is_some_and(|deadline| Instant::now() >= deadline),
            captured: store(self.context, capture, self.redact).await,
            id: exec.session_id().map(str::to_owned),
        }
    }

    /// After an end that was not the script's own: whether nothing of it is left.
    async fn swept(&self, end: &End) -> bool {
        if !judge::needs_sweep(end.exit, end.stop) {
            return true;
        }
        if self.context.lease.ensure_held().is_err() {
            return false;
        }
        matches!(timeout(SWEEP, kill::kill(&self.context.sprites, self.place)).await, Ok(Ok(true)))
    }

    /// Kills until it is confirmed, or the time for it is over.
    async fn kill(&self) {
        for pause in [1, 2, 4, 8] {
            if self.context.lease.ensure_held().is_err() {
                tracing::warn!(
                    run = self.place.uid,
                    "not killed: the Lease is lost, and another operator adopts the command"
                );
                return;
            }
            match kill::kill(&self.context.sprites, self.place).await {
                Ok(true) => return,
                Ok(false) => tracing::warn!(run = self.place.uid, "a kill is not confirmed yet"),
                Err(error) => tracing::warn!(run = self.place.uid, %error, "a kill could not be sent"),
            }
            sleep(Duration::from_secs(pause)).await;
        }
        tracing::error!(run = self.place.uid, "a kill could not be confirmed");
    }
}
