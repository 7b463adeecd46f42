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
    collect,
    judge::{self, ExecEnd, Recovered},
    place::{Limits, Place, RecoveryRequest},
};
use crate::{
    controllers::{context::Context, state::executions::Finished},
    kubernetes::{apply::within, object_key::ObjectKey},
    lockdown::{kill, trusted::trusted},
};
use api::SandboxSession;
use redact::LOOKAHEAD;
use rules::{
    outcome::{Outcome, Stop},
    output::{Capture, Captured, Source},
    runner::{self, Guard},
};
use sprites::{Awake, ExecEvent, Priority};

const PAUSE: Duration = Duration::from_secs(2);
const TRUSTED: Duration = Duration::from_secs(15);

/// What one try showed.
enum Attempt {
    /// It is over.
    Done(Box<Finished>),
    /// Nothing yet.
    Retry(&'static str),
}

/// Adopts, and says how it ended.
pub async fn adopt(
    context: Arc<Context>,
    key: ObjectKey,
    found: RecoveryRequest,
    mut stop: watch::Receiver<Option<Stop>>,
) -> Finished {
    let RecoveryRequest { place, limits, window, stopped, seen_started } = found;
    let begun = Instant::now();
    let ends = place.started_at.checked_add(limits.timeout).unwrap_or(Timestamp::MAX);
    let now = context.now();
    let deadline = begun + judge::recovery_deadline(window, ends, now);
    let adoption = Adoption {
        context: &context,
        key: &key,
        place: &place,
        limits,
        stopped,
        seen_started,
        // How much of its time the start took, the guest alone knows; its backstop is there all the same.
        ends: begun + judge::left(ends, judge::START_WITHIN, now),
    };
    let mut why = "there was no time to look for its end";
    loop {
        match timeout_at(deadline, adoption.attempt(&mut stop)).await {
            Ok(Attempt::Done(finished)) => return *finished,
            Ok(Attempt::Retry(reason)) => why = reason,
            Err(_) => return adoption.over(Outcome::unknown(why)),
        }
        if Instant::now() + PAUSE >= deadline {
            return adoption.over(Outcome::unknown(why));
        }
        sleep(PAUSE).await;
    }
}

struct Adoption<'a> {
    context: &'a Context,
    key: &'a ObjectKey,
    place: &'a Place,
    limits: Limits,
    stopped: Option<Stop>,
    seen_started: bool,
    ends: Instant,
}

impl Adoption<'_> {
    fn over(&self, outcome: Outcome) -> Finished {
        Finished {
            outcome,
            captured: None,
            incomplete: true,
            id: None,
            finished_at: self.context.now(),
            duration_ms: None,
        }
    }

    async fn attempt(&self, stop: &mut watch::Receiver<Option<Stop>>) -> Attempt {
        let again = Attempt::Retry;
        let over = |outcome| Attempt::Done(Box::new(self.over(outcome)));
        if self.context.lease.ensure_held().is_err() {
            return again("the Lease was lost");
        }
        let sprite = match self.sprite(&self.place.session, &self.place.session_uid).await {
            Ok(Some(sprite)) => sprite,
            Ok(None) => return over(Outcome::session_deleted_while_running()),
            Err(why) => return again(why),
        };
        let sprites = self.context.sprites.with_priority(Priority::Exec);
        match sprites.get(&sprite).await {
            Ok(live) if live.id == self.place.instance => {}
            Ok(_) => return over(Outcome::unknown("its Sprite was replaced")),
            Err(error) if error.is_absent() => return again("its Sprite was not found"),
            Err(_) => return again("the platform gave no answer"),
        }
        // Only from inside can be told what became of it.
        let on = match sprites.wake(&sprite).await {
            Ok(on) if on.id() == self.place.instance => on,
            Ok(_) => return over(Outcome::unknown("its Sprite was replaced")),
            Err(_) => return again("its Sprite did not wake"),
        };
        let uid = self.key.uid.as_str();
        let left = match kill::find(&self.context.sprites, &on, uid).await {
            Ok(None) => ExecEnd::Gone,
            Ok(Some(id)) => match self.wait_for_exit(&on, uid, &id, stop).await {
                Ok(left) => left,
                Err(why) => return again(why),
            },
            Err(_) => return again("the platform gave no answer"),
        };
        // The session is gone: what stands at the guard now is final, since the fence keeps anything from starting.
        let fence = trusted(&self.context.sprites, &on, runner::fence(uid), TRUSTED).await;
        let guard = match fence {
            Ok(output) if output.exit == Some(0) => Guard::parse(&String::from_utf8_lossy(&output.stdout)),
            Ok(_) | Err(_) => return again("the guest gave no answer"),
        };
        let Some(guard) = guard else { return again("the guest gave an answer that says nothing") };
        let (captured, duration) = match &guard {
            Guard::Never => (None, None),
            Guard::Started => (self.spool(&on, uid).await, None),
            Guard::Record { ran, .. } => (self.spool(&on, uid).await, u64::try_from(ran.as_millis()).ok()),
        };
        let (outcome, incomplete) = judge::recovered(&Recovered {
            guard: &guard,
            end: left,
            stopped: self.stopped,
            asked: *stop.borrow(),
            seen_started: self.seen_started,
            over_cap: captured.as_ref().map(|captured| captured.over_cap),
            timeout: self.limits.timeout,
        });
        let finished = Finished { captured, incomplete, duration_ms: duration, ..self.over(outcome) };
        Attempt::Done(Box::new(finished))
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
        &self,
        on: &Awake,
        uid: &str,
        id: &str,
        stop: &mut watch::Receiver<Option<Stop>>,
    ) -> Result<ExecEnd, &'static str> {
        if stop.borrow().is_some() || Instant::now() >= self.ends {
            return self.kill(on, uid).await;
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
                _ = collect::stop_requested(stop) => return self.kill(on, uid).await,
                () = tokio::time::sleep_until(self.ends) => return self.kill(on, uid).await,
            }
        }
    }

    async fn kill(&self, on: &Awake, uid: &str) -> Result<ExecEnd, &'static str> {
        self.context.lease.ensure_held().map_err(|_| "the Lease was lost")?;
        let place = kill::Place { sprite: on.name(), instance: on.id(), uid };
        match kill::kill(&self.context.sprites, place).await {
            Ok(true) => Ok(ExecEnd::Killed),
            Ok(false) => Err("a kill could not be confirmed"),
            Err(_) => Err("a kill could not be sent"),
        }
    }

    /// What the guest kept of the output, under the cap; its spools hold more than that, so output past it is seen.
    async fn spool(&self, on: &Awake, uid: &str) -> Option<Captured> {
        // One byte more than is looked at: whether a stream went on is seen by it.
        let most = self.limits.output.saturating_add(LOOKAHEAD as u64 + 1);
        let stdout = self.read(on, uid, "stdout", most).await.ok()?;
        let stderr = self.read(on, uid, "stderr", most).await.ok()?;
        // The spools begin after the marker.
        let mut capture = Capture::new(self.limits.output, "");
        capture.push(Source::Stdout, &stdout);
        capture.push(Source::Stderr, &stderr);
        Some(collect::store(self.context, capture, self.limits.redact).await)
    }

    async fn read(&self, on: &Awake, uid: &str, stream: &str, max: u64) -> Result<Vec<u8>, sprites::Error> {
        self.context.sprites.read_file(on, &runner::spool(uid, stream), max).await.map(|bytes| bytes.to_vec())
    }
}
