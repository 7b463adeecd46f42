//! Release: a session that is being deleted destroys its Sprite, confirms that, and lets go. Pure.
//!
//! Gated by nothing: not by policy, switch, quota or secret. Nothing that is not ours is touched.

use std::time::Duration;

use super::{
    observed::{Live, Observed},
    plan::{Effect, Plan, Remember, StatusDraft, Then, after, data_lost, since, status},
};
use crate::controllers::driver::Next;
use api::reasons::{SessionPhase, SessionReason};

/// How long Runs have to end before their Sprite is destroyed with them.
pub const STOPPING: i64 = 15;

/// A session that is being deleted: destroy, confirm, let go.
pub fn release(o: &Observed) -> Plan {
    let status = status(o);
    let draft = |message: &str| StatusDraft {
        phase: SessionPhase::Terminating,
        reason: SessionReason::Terminating,
        message: message.to_owned(),
        sprite: status.sprite.clone(),
        lockdown: status.lockdown.clone(),
        data_lost: data_lost(&status),
        stalled: false,
        settled: false,
    };
    let remove = || Plan::without_report(Effect::RemoveFinalizer, Next::Change);
    let Some(sprite) = status.sprite.clone() else { return remove() };
    if o.executions > 0 && o.activity.stopping_since.is_none_or(|then| since(then, o.now) < STOPPING) {
        let then = o.activity.stopping_since.unwrap_or(o.now);
        let plan = Plan::act(Effect::StopRuns, Some(draft("the Runs in it are being stopped")));
        return Plan {
            next: Next::After(Duration::from_millis(500)),
            ..plan.remembering(Remember::StoppingSince(then))
        };
    }
    let gone = |wait: i64| {
        let then = o.activity.absent_since.unwrap_or(o.now);
        let left = wait - since(then, o.now);
        if o.activity.delete_answered || left <= 0 {
            return remove();
        }
        Plan::report(draft("Sprite not found; confirming with a second read before it counts as lost"), after(left))
            .remembering(Remember::AbsentSince(then))
    };
    match (&sprite.id, &o.live) {
        (_, Live::NotAsked) => Plan::without_report(Effect::Nothing, after(1)),
        (_, Live::Unknown(why)) => {
            let draft = StatusDraft { reason: why.reason(), ..draft(&why.to_string()) };
            Plan::report(draft, after(3))
        }
        (_, Live::Present(live)) if live.ours => {
            let effect = Effect::Destroy { name: sprite.name, id: live.id.clone(), then: Then::Release };
            let plan = Plan::act(effect, Some(draft("the Sprite is being destroyed")));
            Plan { next: Next::After(Duration::from_millis(200)), ..plan.remembering(Remember::Present) }
        }
        // Our instance without our labels: a person took them off, and only a person can say whose it is.
        (Some(id), Live::Present(live)) if *id == live.id => {
            let draft = StatusDraft {
                stalled: true,
                reason: SessionReason::NotOurs,
                ..draft(
                    "the Sprite no longer has this operator's labels; not touching it: restore its labels, or destroy it",
                )
            };
            Plan::report(draft, after(30))
        }
        (Some(_), Live::Absent | Live::Present(_)) => gone(o.timing.absent_after),
        (None, Live::Absent | Live::Present(_)) => {
            let requested = sprite.create_requested_at.as_ref().map_or(0, |at| since(at.0, o.now));
            let left = o.timing.create_grace - requested;
            // Also after a DELETE of ours: which of several asked for was destroyed, nobody can say.
            if left <= 0 {
                return gone(o.timing.absent_after);
            }
            // What is not found before it may have come says nothing of afterwards: such looks are not counted.
            Plan::report(
                draft("a create request may still complete; waiting before releasing the finalizer"),
                after(left.min(10)),
            )
            .remembering(Remember::Present)
        }
    }
}

#[cfg(test)]
mod tests;
