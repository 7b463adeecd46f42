//! Release: a session that is being deleted destroys its Sprite, confirms that, and lets go. Pure.
//!
//! Gated by nothing: not by policy, switch, quota or secret. Nothing that is not ours is touched.

use std::time::Duration;

use super::{
    super::driver::Next,
    gather::{Live, Observed},
    plan::{Effect, Plan, Remember, View, after, data_lost, since, status},
};
use api::reasons::{SessionPhase, SessionReason};

/// How long Runs have to end before their Sprite is destroyed with them.
pub const STOPPING: i64 = 15;

/// A session that is being deleted: destroy, confirm, let go.
pub fn release(o: &Observed) -> Plan {
    let status = status(o);
    let view = |message: &str| View {
        phase: SessionPhase::Terminating,
        reason: SessionReason::Terminating,
        message: message.to_owned(),
        sprite: status.sprite.clone(),
        lockdown: status.lockdown.clone(),
        data_lost: data_lost(&status),
        stalled: false,
        settled: false,
    };
    let remove = || Plan::quiet(Effect::RemoveFinalizer, Next::Change);
    let Some(sprite) = status.sprite.clone() else { return remove() };
    if o.executions > 0 && o.memory.stopping_since.is_none_or(|then| since(then, o.now) < STOPPING) {
        let then = o.memory.stopping_since.unwrap_or(o.now);
        let plan = Plan::act(Effect::StopRuns, view("the Runs in it are being stopped"));
        return Plan {
            next: Next::After(Duration::from_millis(500)),
            ..plan.remembering(Remember::StoppingSince(then))
        };
    }
    let gone = |wait: i64| {
        let then = o.memory.absent_since.unwrap_or(o.now);
        let left = wait - since(then, o.now);
        if o.memory.delete_answered || left <= 0 {
            return remove();
        }
        Plan::report(view("the Sprite was not found; that is looked at once more before it is believed"), after(left))
            .remembering(Remember::AbsentSince(then))
    };
    match (&sprite.id, &o.live) {
        (_, Live::NotAsked) => Plan::quiet(Effect::Nothing, after(1)),
        (_, Live::Unknown(kind)) => {
            Plan::report(view(&format!("the platform gave no answer about the Sprite ({kind})")), after(3))
        }
        (_, Live::Present(live)) if live.ours => {
            let effect = Effect::Destroy { name: sprite.name, id: live.id.clone() };
            let plan = Plan::act(effect, view("the Sprite is being destroyed"));
            Plan { next: Next::After(Duration::from_millis(200)), ..plan.remembering(Remember::Present) }
        }
        // Our instance without our labels: a person took them off, and only a person can say whose it is.
        (Some(id), Live::Present(live)) if *id == live.id => {
            let view = View {
                stalled: true,
                reason: SessionReason::NotOurs,
                ..view(
                    "the Sprite does not carry our labels any more and is left alone: give it back its labels, or destroy it",
                )
            };
            Plan::report(view, after(30))
        }
        (Some(_), Live::Absent | Live::Present(_)) => gone(o.timing.absent_after),
        (None, Live::Absent | Live::Present(_)) => {
            let requested = sprite.create_requested_at.as_ref().map_or(0, |at| since(at.0, o.now));
            let left = o.timing.create_grace - requested;
            if o.memory.delete_answered || left <= 0 {
                return remove();
            }
            Plan::report(view("a Sprite was asked for and may still come; that is waited for"), after(left.min(10)))
        }
    }
}
