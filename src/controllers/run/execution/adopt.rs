//! Finds out about a command that was started, or may have been, by somebody who is gone.
//!
//! Attach and finish; else fence, so that it cannot start any more, and read the guest's record. Never guesses: no
//! evidence is Unknown. Must not start anything of a user's.

use std::{sync::Arc, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kube::{Api, ResourceExt};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{
    collect::{self, Collected, collect},
    judge,
    place::{Limits, Place, RecoveryRequest, SeenBefore},
    running::RUNNER_ENDS,
    spool,
    work::Work,
};
use crate::{
    controllers::{context::Context, state::executions::Finished},
    kubernetes::{apply::within, object_key::ObjectKey},
    lockdown::{ask::ask, kill},
};
use api::SandboxSession;
use rules::{
    outcome::{self, Outcome, Seen, Stop, Verdict},
    output::Capture,
};
use runner_protocol::{FENCE, Fence, Guard, Record, STATE, State};
use sprites::{Awake, ExecEvent, Priority};

const PAUSE: Duration = Duration::from_secs(2);
/// How often a spool that is shorter than its record says is read.
const SHORT_READS: u32 = 3;

/// What one try showed.
enum Attempt {
    /// It is over.
    Done(Box<Finished>),
    /// How it ended is known, and its output could not be read whole yet.
    WithoutOutput(Box<Finished>),
    /// Nothing yet.
    Retry(&'static str),
}

/// How an exec session was left.
enum ExecEnd {
    /// There was none any more, or it was killed.
    Gone,
    /// With this exit frame.
    Exit(u8),
}

/// Adopts, and says how it ended.
pub async fn adopt(
    context: Arc<Context>,
    key: ObjectKey,
    found: RecoveryRequest,
    mut stop: watch::Receiver<Option<Stop>>,
) -> Finished {
    let RecoveryRequest { place, limits, work, window, seen } = found;
    let begun = Instant::now();
    let ends = place.started_at.checked_add(limits.timeout).unwrap_or(Timestamp::MAX);
    let now = context.now();
    let deadline = begun + judge::recovery_deadline(window, ends, now);
    let mut adoption = Adoption {
        context: &context,
        key: &key,
        place: &place,
        limits,
        work,
        seen,
        // How much of its time the start took, the guest knows, and is asked.
        ends: begun + judge::left(ends, judge::START_WITHIN, now),
        asked_for_state: false,
        short_reads: 0,
    };
    let mut why = "the recovery deadline passed";
    let mut without_output = None;
    loop {
        match timeout_at(deadline, adoption.attempt(&mut stop)).await {
            Ok(Attempt::Done(finished)) => return *finished,
            Ok(Attempt::WithoutOutput(finished)) => without_output = Some(*finished),
            Ok(Attempt::Retry(reason)) => why = reason,
            Err(_) => break,
        }
        if Instant::now() + PAUSE >= deadline {
            break;
        }
        sleep(PAUSE).await;
    }
    without_output.unwrap_or_else(|| adoption.over(Outcome::unknown(why)))
}

struct Adoption<'a> {
    context: &'a Context,
    key: &'a ObjectKey,
    place: &'a Place,
    limits: Limits,
    work: Work,
    seen: SeenBefore,
    /// When the runner should have ended it.
    ends: Instant,
    asked_for_state: bool,
    short_reads: u32,
}

impl Adoption<'_> {
    fn over(&self, outcome: Outcome) -> Finished {
        Finished {
            outcome,
            captured: None,
            file: None,
            incomplete: true,
            id: None,
            finished_at: self.context.now(),
            duration_ms: None,
        }
    }

    async fn attempt(&mut self, stop: &mut watch::Receiver<Option<Stop>>) -> Attempt {
        let again = Attempt::Retry;
        if self.context.lease.ensure_held().is_err() {
            return again("the Lease was lost");
        }
        let sprite = match self.sprite(&self.place.session, &self.place.session_uid).await {
            Ok(Some(sprite)) => sprite,
            Ok(None) => return Attempt::Done(Box::new(self.over(Outcome::session_deleted_while_running()))),
            Err(why) => return again(why),
        };
        let replaced = |this: &Self| Attempt::Done(Box::new(this.over(Outcome::unknown("its Sprite was replaced"))));
        let sprites = self.context.sprites.with_priority(Priority::Exec);
        match sprites.get(&sprite).await {
            Ok(live) if live.id == self.place.instance => {}
            Ok(_) => return replaced(self),
            Err(error) if error.is_absent() => return again("its Sprite was not found"),
            Err(_) => return again("the platform gave no answer"),
        }
        // Only from inside can be told what became of it.
        let on = match sprites.wake(&sprite).await {
            Ok(on) if on.id() == self.place.instance => on,
            Ok(_) => return replaced(self),
            Err(_) => return again("its Sprite did not wake"),
        };
        let uid = self.key.uid.as_str();
        match kill::find(&self.context.sprites, &on, uid).await {
            Ok(None) => {}
            Ok(Some(id)) => match self.wait_for_exit(&on, uid, &id, stop).await {
                Ok(ExecEnd::Gone) => {}
                Ok(ExecEnd::Exit(code)) => self.seen.exit = Some(code),
                Err(why) => return again(why),
            },
            Err(_) => return again("the platform gave no answer"),
        }
        // The session is gone: what stands at the guard now is final, since the fence keeps anything from starting, and ends
        // what is left.
        let Fence { remaining, guard } = match ask(&sprites, &on, FENCE, uid, Fence::parse).await {
            Ok(fence) => fence,
            Err(error) => {
                tracing::warn!(run = self.key.name, %error, "a fence was not answered");
                return again("the guest gave no answer");
            }
        };
        let asked = *stop.borrow();
        self.conclude(&on, &guard, remaining, asked).await
    }

    async fn conclude(&mut self, on: &Awake, guard: &Guard, remaining: usize, asked: Option<Stop>) -> Attempt {
        let SeenBefore { exit, started, took, stop, refusal } = self.seen.clone();
        let stop = stop.or(asked);
        let (refusal, timeout) = (refusal.as_deref(), self.limits.timeout);
        let seen = Seen { exit, started, took, line: None, guard: Some(guard), stop, refusal, timeout };
        let Verdict::Final(mut outcome) = outcome::judge(&seen) else {
            return Attempt::Retry("the guest gave no answer");
        };
        if remaining > 0 {
            outcome.message.push_str("; leftover processes could not be ended");
        }
        let record: Option<&Record> = match guard {
            Guard::Ended(record) => Some(record).filter(|_| outcome.exit_code.is_some()),
            Guard::Never | Guard::Started => None,
        };
        let duration_ms = record.and_then(|record| u64::try_from(record.ran.as_millis()).ok());
        let finished = Finished { duration_ms, ..self.over(outcome) };
        if *guard == Guard::Never && !started {
            return Attempt::Done(Box::new(finished));
        }
        match spool::of(self.context, on, &self.key.uid, record).await {
            Ok(spool) => {
                let shape = self.work.shape(self.limits.output, self.limits.stop_at_output);
                let (capture, whole) = Capture::of_spool(shape, spool, record);
                let Collected { outcome, captured, file } =
                    collect(self.context, capture, self.limits.redact, &self.work, finished.outcome.clone()).await;
                let finished = Box::new(Finished { outcome, captured, file, incomplete: !whole, ..finished });
                // A body may have been cut on its way; a spool that is short itself stays so.
                self.short_reads += u32::from(!whole);
                let again = record.is_some() && (1..SHORT_READS).contains(&self.short_reads);
                if again { Attempt::WithoutOutput(finished) } else { Attempt::Done(finished) }
            }
            Err(error) => {
                tracing::warn!(run = self.key.name, %error, "a spool could not be read");
                Attempt::WithoutOutput(Box::new(finished))
            }
        }
    }

    /// The name of the Sprite; nothing when the session is gone, and its Sprite with it.
    async fn sprite(&self, name: &str, uid: &str) -> Result<Option<String>, &'static str> {
        let api: Api<SandboxSession> = Api::namespaced(self.context.client.clone(), &self.key.namespace);
        let session = within(api.get_opt(name)).await.map_err(|_| "the API server gave no answer")?;
        let Some(session) = session.filter(|s| s.uid().as_deref() == Some(uid)) else { return Ok(None) };
        let sprite = session.status.and_then(|s| s.sprite).map(|s| s.name);
        sprite.map(Some).ok_or("its session has no Sprite on record")
    }

    /// Stays with a command that goes on until it ended or was killed.
    async fn wait_for_exit(
        &mut self,
        on: &Awake,
        uid: &str,
        id: &str,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<ExecEnd, &'static str> {
        let asked = *stop.borrow();
        if let Some(asked) = asked {
            return self.kill(on, uid, asked).await;
        }
        if !self.has_begun(on, uid).await {
            // Its input came from a connection that is gone: the fence keeps it from starting, and ends it.
            return Ok(ExecEnd::Gone);
        }
        if Instant::now() >= self.ends {
            return self.kill(on, uid, Stop::Timeout).await;
        }
        let Ok(mut exec) = self.context.sprites.attach(on, id).await else {
            return Err("its exec session could not be attached to");
        };
        loop {
            tokio::select! {
                event = exec.next() => match event {
                    // Output comes from the spool, not from the replay.
                    ExecEvent::Session { .. } | ExecEvent::Stdout(_) | ExecEvent::Stderr(_) => {}
                    ExecEvent::Exit(code) => return Ok(ExecEnd::Exit(code)),
                    ExecEvent::Lost(_) => return Err("its connection was lost again"),
                },
                stop = collect::stop_requested(stop) => return self.kill(on, uid, stop).await,
                () = tokio::time::sleep_until(self.ends) => return self.kill(on, uid, Stop::Timeout).await,
            }
        }
    }

    /// Whether its script was started, and since when: the timeout counts from there, and only the guest knows.
    async fn has_begun(&mut self, on: &Awake, uid: &str) -> bool {
        if self.asked_for_state {
            return true;
        }
        let now = Instant::now();
        match ask(&self.context.sprites, on, STATE, uid, State::parse).await {
            Ok(State::Running(ran)) => {
                self.ends = now + self.limits.timeout.saturating_sub(ran) + RUNNER_ENDS;
                self.asked_for_state = true;
                true
            }
            Ok(State::Absent) => self.seen.started,
            Ok(State::Over) | Err(_) => true,
        }
    }

    async fn kill(&mut self, on: &Awake, uid: &str, stop: Stop) -> Result<ExecEnd, &'static str> {
        self.context.lease.ensure_held().map_err(|_| "the Lease was lost")?;
        self.seen.stop.get_or_insert(stop);
        let place = kill::Place { sprite: on.name(), instance: on.id(), uid };
        match kill::kill(&self.context.sprites, place, stop).await {
            Ok(true) => Ok(ExecEnd::Gone),
            Ok(false) => Err("a kill could not be confirmed"),
            Err(_) => Err("a kill could not be sent"),
        }
    }
}
