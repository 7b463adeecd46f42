//! One opened exec: feeds it, reads it under the cap, passes a stop on, until its end is known or can no longer be known from
//! this connection. Must not judge.

use std::time::Duration;

use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::collect::stop_requested;
use crate::{controllers::context::Context, lockdown::kill};
use rules::{
    outcome::Stop,
    output::{Capture, Room, Source},
};
use runner_protocol::Record;
use sprites::{Exec, ExecEvent};

/// How much longer than its timeout, or than its output has passed the cap, a script is left to the runner, which ends it by
/// itself: two seconds to clean up, and what the way takes.
pub const RUNNER_ENDS: Duration = Duration::from_secs(5);
/// How long the end of a command that was told to stop is waited for; then the guest is asked, which takes its time, too.
const AFTER_STOP: Duration = Duration::from_secs(12);
/// How long it may take to see that nothing is left of a command that was killed.
const SWEEP: Duration = Duration::from_secs(12);
/// What a runner says before it starts anything, in bytes.
const REFUSAL: usize = 200;

/// What came of an opened exec.
pub struct End {
    /// The exit frame.
    pub exit: Option<u8>,
    /// Whether the start marker was seen.
    pub started: bool,
    /// From marker to exit frame.
    pub took: Option<Duration>,
    /// The record, if it came last.
    pub line: Option<Record>,
    /// Whether all that the runner kept came through.
    pub whole: bool,
    /// Why it was told to stop.
    pub stop: Option<Stop>,
    /// What the runner said before it started anything.
    pub refusal: Option<String>,
    /// The output.
    pub capture: Capture,
    /// The platform's exec session.
    pub id: Option<String>,
}

/// An exec that is watched.
pub struct RunningExec<'a> {
    /// Clients, caches and settings.
    pub context: &'a Context,
    /// Where it runs.
    pub place: kill::Place<'a>,
    /// When it must have started in the guest.
    pub start_by: Instant,
    /// From its start in the guest.
    pub timeout: Duration,
}

impl RunningExec<'_> {
    /// Feeds and reads. Calls `began` at the start marker.
    pub async fn run(
        &self,
        mut exec: Exec,
        input: Bytes,
        mut capture: Capture,
        stop: &mut watch::Receiver<Option<Stop>>,
        began: impl FnOnce(),
    ) -> End {
        // Beside reading: a script that does not read its stdin must not keep us from reading its output.
        let stdin = exec.stdin();
        let mut feeding = std::pin::pin!(async move {
            stdin.send(input).await?;
            stdin.close().await
        });
        let mut fed = false;
        let mut began = Some(began);
        let mut started_at: Option<Instant> = None;
        let mut passed_at: Option<Instant> = None;
        let mut stopped: Option<Stop> = None;
        let mut give_up: Option<Instant> = None;
        let mut killed = false;
        let mut refusal = Vec::new();
        let mut killing = std::pin::pin!(futures::future::Either::Left(std::future::pending::<()>()));
        let exit = loop {
            if started_at.is_none() && capture.started() {
                started_at = Some(Instant::now());
                if let Some(began) = began.take() {
                    began();
                }
            }
            let limit = passed_at.map(|at| at + RUNNER_ENDS);
            let deadline = started_at.map(|at| at + self.timeout + RUNNER_ENDS);
            let next = limit.into_iter().chain(deadline).min();
            let patience = give_up.unwrap_or_else(|| Instant::now() + Duration::from_hours(1));
            let reason = tokio::select! {
                event = exec.next() => {
                    let room = match event {
                        ExecEvent::Session { .. } => continue,
                        ExecEvent::Stdout(chunk) => capture.push(Source::Stdout, &chunk),
                        ExecEvent::Stderr(chunk) => {
                            if started_at.is_none() && refusal.len() < REFUSAL {
                                refusal.extend_from_slice(&chunk);
                            }
                            capture.push(Source::Stderr, &chunk)
                        }
                        ExecEvent::Exit(code) => break Some(code),
                        ExecEvent::Lost(reason) => {
                            tracing::warn!(?reason, run = self.place.uid, "the connection of a command was lost");
                            break None;
                        }
                    };
                    if room == Room::Passed {
                        passed_at.get_or_insert_with(Instant::now);
                    }
                    continue;
                }
                // A script may end, or close its stdin, before it has read everything: that is its own affair. A launch that
                // was cut short is refused by the runner.
                _ = &mut feeding, if !fed => {
                    fed = true;
                    continue;
                }
                reason = stop_requested(stop), if stopped.is_none() => reason,
                // The runner should have ended it.
                () = sleep_until(next.unwrap_or(self.start_by)), if stopped.is_none() && next.is_some() => {
                    if limit.is_some_and(|limit| Some(limit) == next) { Stop::OutputLimit } else { Stop::Timeout }
                }
                () = sleep_until(self.start_by), if stopped.is_none() && started_at.is_none() => {
                    tracing::warn!(run = self.place.uid, "a command did not start in time; the guest is asked");
                    break None;
                }
                () = &mut killing, if stopped.is_some() && !killed => {
                    killed = true;
                    continue;
                }
                () = sleep_until(patience), if give_up.is_some() => break None,
            };
            if stopped.is_none() {
                stopped = Some(reason);
                give_up = Some(Instant::now() + AFTER_STOP);
                killing.set(futures::future::Either::Right(self.kill(reason)));
            }
        };
        let started = capture.started();
        let took = started_at.filter(|_| exit.is_some()).map(|at| at.elapsed());
        let (line, whole) = capture.end();
        let refusal =
            String::from_utf8_lossy(&refusal).trim_end().chars().filter(|c| !c.is_control()).collect::<String>();
        let refusal = Some(refusal).filter(|refusal| !refusal.is_empty());
        End {
            exit,
            started,
            took,
            line,
            whole,
            stop: stopped,
            refusal,
            capture,
            id: exec.session_id().map(str::to_owned),
        }
    }

    /// After a stop: whether nothing of it is left.
    pub async fn swept(&self, stop: Stop) -> bool {
        if self.context.lease.ensure_held().is_err() {
            return false;
        }
        matches!(timeout(SWEEP, kill::kill(&self.context.sprites, self.place, stop)).await, Ok(Ok(true)))
    }

    /// Kills until it is confirmed, or the time for it is over.
    async fn kill(&self, stop: Stop) {
        for pause in [1, 2, 4, 8] {
            if self.context.lease.ensure_held().is_err() {
                tracing::warn!(
                    run = self.place.uid,
                    "not killed: the Lease is lost, and another operator adopts the command"
                );
                return;
            }
            match kill::kill(&self.context.sprites, self.place, stop).await {
                Ok(true) => return,
                Ok(false) => tracing::warn!(run = self.place.uid, "a kill is not confirmed yet"),
                Err(error) => tracing::warn!(run = self.place.uid, %error, "a kill is not confirmed"),
            }
            sleep(Duration::from_secs(pause)).await;
        }
        tracing::error!(run = self.place.uid, "a kill could not be confirmed");
    }
}
