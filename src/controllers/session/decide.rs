//! What a session needs next. Pure: no client, no clock, no log.
//!
//! Decides from the beginning each time. Unknown is not absent; a Sprite that is not ours is never touched; authorization
//! and quota never gate release.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::{
    needs::{compiled, demanded},
    observed::{Live, Observed},
    plan::{
        Effect, Lock, Plan, Remember, StatusDraft, Then, after, data_lost, degraded, obstructed, provisioning, since,
        status,
    },
    release::release,
    relock::{lost_to_a_run, pause, stale_message, take_back},
};
use crate::{
    access::switch::Switch,
    controllers::driver::Next,
    lockdown::{apply::LockFailure, instance::LiveSprite},
    policy::{compile::Compiled, view::PolicyView},
};
use api::{
    SandboxSession, SandboxSessionStatus,
    names::{HOLD_ANNOTATION, SESSION_FINALIZER},
    reasons::{SessionPhase, SessionReason, SpritePhase},
    sandbox_session::{LockdownStatus, SpriteStatus},
};
use rules::lockdown::{
    ApplyReason, Assessment, Confirmed, Recorded, Token, assess,
    failure::{self, Consequence, FRESH_ATTEMPTS, Failure, after_failure},
};

/// How long an instance that is given up may wait for its end.
const DESTROY_SOON: Duration = Duration::from_millis(500);
/// Longest pause between Sprites that could not be proved, in seconds.
const LONGEST_PAUSE: i64 = 300;

/// Why no Sprite may be made or used now.
fn obstacle(o: &Observed) -> Option<(SessionReason, String)> {
    let spec = &o.session.spec;
    if o.session.annotations().contains_key(HOLD_ANNOTATION) {
        return Some((SessionReason::Held, "an administrator holds the session".to_owned()));
    }
    if spec.suspend {
        return Some((SessionReason::Suspended, "spec.suspend is set".to_owned()));
    }
    if !o.tenant.enabled {
        let message = "the namespace is not opted in: label it sprite-operator.io/code-execution=enabled";
        return Some((SessionReason::TenantNotEnabled, message.to_owned()));
    }
    match o.switch {
        Switch::On => {}
        Switch::Off => return Some((SessionReason::SwitchOff, "the cluster-wide switch is off".to_owned())),
        Switch::Frozen => {
            return Some((SessionReason::SwitchOff, "the cluster-wide switch cannot be read".to_owned()));
        }
    }
    match &o.policy {
        PolicyView::Ready(_) => {}
        PolicyView::NotFound(name) => {
            return Some((SessionReason::PolicyNotReady, format!("there is no ExecutionPolicy {name}")));
        }
        PolicyView::NotReady(name, errors) => {
            return Some((SessionReason::PolicyNotReady, format!("ExecutionPolicy {name} is not ready: {errors}")));
        }
    }
    let recorded = o.session.status.as_ref().is_some_and(|s| s.sprite.is_some());
    match &o.name {
        Err(problem) if !recorded => Some((SessionReason::SecretMissing, problem.clone())),
        Err(_) | Ok(_) => None,
    }
}

/// Decides.
pub fn decide(o: &Observed) -> Plan {
    let has_finalizer = o.session.finalizers().iter().any(|f| f == SESSION_FINALIZER);
    if o.session.metadata.deletion_timestamp.is_some() {
        return if has_finalizer { release(o) } else { Plan::without_report(Effect::Nothing, Next::Change) };
    }
    if !has_finalizer {
        return Plan::without_report(Effect::AddFinalizer, Next::Change);
    }
    let status = status(o);
    let obstacle = obstacle(o);
    let Some(sprite) = status.sprite.clone() else {
        return match (obstacle, &o.name) {
            (Some((reason, message)), _) => Plan::report(obstructed(&status, reason, message), Next::Change),
            (None, Ok(name)) => record_create_intent(o, name.clone(), 0, None),
            (None, Err(problem)) => {
                Plan::report(obstructed(&status, SessionReason::SecretMissing, problem.clone()), after(5))
            }
        };
    };
    if sprite.id.is_some()
        && let lockdown = status.lockdown.clone().unwrap_or_default()
        && let Some(cause) = lost_to_a_run(o, &lockdown)
    {
        return take_back(&status, lockdown, cause);
    }
    match (&sprite.id, &o.live) {
        (_, Live::Unknown(why)) => {
            let next = if obstacle.is_some() { after(60) } else { after(3) };
            Plan::report(degraded(&status, why.reason(), why.to_string()), next)
        }
        (_, Live::Present(live)) if !live.ours => {
            let message = "a Sprite with this name exists but lacks this operator's labels; not touching it".to_owned();
            let draft = StatusDraft { stalled: true, ..degraded(&status, SessionReason::NotOurs, message) };
            Plan::report(draft, after(60))
        }
        (None, Live::Present(live)) => adopt(&status, sprite, live, None),
        (None, Live::Absent | Live::NotAsked) => {
            if let Some((reason, message)) = obstacle {
                return Plan::report(obstructed(&status, reason, message), Next::Change);
            }
            // Made again and again without ever being proved: each time it is waited longer, since each costs money.
            let tries = sprite.incarnation.min(10);
            let wait = if tries == 0 { 0 } else { (1i64 << (tries - 1)).min(LONGEST_PAUSE) };
            let left = wait - sprite.create_requested_at.as_ref().map_or(0, |at| since(at.0, o.now));
            if left > 0 {
                return Plan::report(
                    provisioning(&status, "backing off before creating the Sprite again"),
                    after(left),
                );
            }
            let name = sprite.name.clone();
            let before = Box::new(provisioning(&status, "creating the Sprite"));
            Plan::act(Effect::Create { name, before }, None)
        }
        (Some(_), Live::Absent) => lost(o, &status, sprite),
        (Some(id), Live::Present(live)) if *id != live.id => {
            adopt(&status, sprite, live, Some("the platform replaced the Sprite"))
        }
        (Some(id), Live::NotAsked) => reconcile_existing(o, &status, id, None, obstacle),
        (Some(id), Live::Present(live)) => reconcile_existing(o, &status, id, Some(live), obstacle),
    }
}

/// The Sprite that is to be asked for, if the newest version of the session still says so.
pub fn still_intended(o: &Observed, newest: &SandboxSession, name: &str) -> Option<SpriteStatus> {
    let same = newest.uid() == o.session.uid() && newest.metadata.deletion_timestamp.is_none();
    let recorded = newest.status.as_ref()?.sprite.as_ref()?;
    (same && recorded.name == name && recorded.id.is_none()).then(|| recorded.clone())
}

/// Records that a Sprite of this name will be asked for.
fn record_create_intent(o: &Observed, name: String, incarnation: u32, data_lost: Option<String>) -> Plan {
    let sprite = SpriteStatus { name, incarnation, create_requested_at: Some(Time(o.now)), ..SpriteStatus::default() };
    let draft = StatusDraft {
        phase: SessionPhase::Provisioning,
        reason: SessionReason::Provisioning,
        message: "about to create the Sprite".to_owned(),
        sprite: Some(sprite),
        lockdown: None,
        data_lost,
        stalled: false,
        settled: false,
    };
    Plan::report(draft, Next::Change)
}

/// Records the instance that carries our name and our labels.
fn adopt(status: &SandboxSessionStatus, sprite: SpriteStatus, live: &LiveSprite, replaced: Option<&str>) -> Plan {
    let sprite = SpriteStatus {
        id: Some(live.id.clone()),
        url: live.url.clone(),
        region: live.region.clone(),
        state: live.state,
        incarnation: sprite.incarnation + u32::from(replaced.is_some()),
        ..sprite
    };
    let draft = StatusDraft {
        phase: SessionPhase::LockingDown,
        reason: SessionReason::Provisioned,
        message: "the Sprite exists; it is not locked down yet".to_owned(),
        sprite: Some(sprite),
        lockdown: None,
        data_lost: replaced.map(str::to_owned).or_else(|| data_lost(status)),
        stalled: false,
        settled: false,
    };
    Plan::report(draft, Next::Change).remembering(if replaced.is_some() { Remember::Lost } else { Remember::Present })
}

/// A recorded Sprite that was not found: believed on the second look.
fn lost(o: &Observed, status: &SandboxSessionStatus, sprite: SpriteStatus) -> Plan {
    match o.activity.absent_since {
        Some(then) if since(then, o.now) >= o.timing.absent_after => {
            let why = "the Sprite is gone from the platform, with its files";
            record_create_intent(o, sprite.name, sprite.incarnation + 1, Some(why.to_owned()))
                .remembering(Remember::Lost)
        }
        seen => {
            let then = seen.unwrap_or(o.now);
            let message = "Sprite not found; confirming with a second read before it counts as lost".to_owned();
            let wait = o.timing.absent_after - since(then, o.now);
            Plan::report(degraded(status, SessionReason::PlatformUnavailable, message), after(wait))
                .remembering(Remember::AbsentSince(then))
        }
    }
}

/// The recorded instance is there, or nothing speaks against it.
fn reconcile_existing(
    o: &Observed,
    status: &SandboxSessionStatus,
    id: &str,
    live: Option<&LiveSprite>,
    obstacle: Option<(SessionReason, String)>,
) -> Plan {
    let lockdown = status.lockdown.clone().unwrap_or_default();
    let mut sprite = status.sprite.clone().unwrap_or_default();
    if let Some(live) = live {
        sprite.state = live.state;
        sprite.url.clone_from(&live.url);
    }
    let base = SandboxSessionStatus { sprite: Some(sprite.clone()), ..status.clone() };
    let fresh = lockdown.applied_at.is_none();
    let recorded =
        Recorded { instance: Some(id), token: lockdown.token.as_deref(), runner: lockdown.runner.as_deref(), fresh };
    let assessment = assess(demanded(o), recorded, live.map(LiveSprite::as_read));
    let to_apply = match assessment {
        Assessment::Holds { .. } => None,
        Assessment::Apply(reason) => Some(reason),
        Assessment::Lost(difference) => return take_back(&base, lockdown, difference),
    };
    if let Some((reason, message)) = obstacle {
        return Plan::report(obstructed(&base, reason, message), Next::Change);
    }
    let Some(policy) = compiled(o) else {
        return Plan::report(obstructed(&base, SessionReason::PolicyNotReady, "no policy".to_owned()), Next::Change);
    };
    match to_apply {
        None => proved(o, &base, lockdown, live),
        Some(reason) => apply(o, policy, &base, lockdown, live, reason),
    }
}

fn proved(o: &Observed, base: &SandboxSessionStatus, lockdown: LockdownStatus, live: Option<&LiveSprite>) -> Plan {
    // Asleep, the rules cannot be read without a wake: what was proved last still stands.
    let read = live.is_some_and(|l| l.rules.is_some() || l.state != Some(SpritePhase::Running));
    let verified = lockdown.verified_at.as_ref().map_or(i64::MAX, |at| since(at.0, o.now));
    let verified_at = if read && verified >= o.timing.verify_interval.min(30) {
        Some(Time(o.now))
    } else {
        lockdown.verified_at.clone()
    };
    let due = o.timing.verify_interval - verified_at.as_ref().map_or(0, |at| since(at.0, o.now));
    let asleep = base.sprite.as_ref().and_then(|s| s.state).is_some_and(|s| s != SpritePhase::Running);
    let draft = StatusDraft {
        phase: if asleep { SessionPhase::Hibernated } else { SessionPhase::Ready },
        reason: SessionReason::LockedDown,
        message: "the rules were read back and are those demanded; the URL is private".to_owned(),
        sprite: base.sprite.clone(),
        lockdown: Some(LockdownStatus { verified_at, ..lockdown }),
        data_lost: data_lost(base),
        stalled: false,
        settled: false,
    };
    let plan = Plan::report(draft, after(due));
    if live.is_some() { plan.remembering(Remember::Proved) } else { plan }
}

fn apply(
    o: &Observed,
    policy: &Compiled,
    base: &SandboxSessionStatus,
    lockdown: LockdownStatus,
    live: Option<&LiveSprite>,
    why: ApplyReason,
) -> Plan {
    let sprite = base.sprite.clone().unwrap_or_default();
    let (Some(id), Some(live)) = (sprite.id.clone(), live) else {
        // Never asked means that nothing was to be applied: look again, with the platform's answer.
        return Plan::without_report(Effect::Nothing, after(1));
    };
    let fresh = why == ApplyReason::Fresh;
    let asleep = live.state != Some(SpritePhase::Running);
    let stale = StatusDraft {
        lockdown: Some(LockdownStatus { token: None, egress_hash: None, ..lockdown.clone() }),
        ..degraded(base, SessionReason::Stale, stale_message(base, why))
    };
    if asleep && !fresh && !o.wanted() {
        return Plan::report(stale, Next::Change);
    }
    if failure::is_spent(fresh, lockdown.attempts) {
        let message = format!("{FRESH_ATTEMPTS} attempts to lock down the fresh Sprite failed; it is destroyed");
        let draft = degraded(base, SessionReason::RulesDiffer, message);
        return Plan::act(Effect::Destroy { name: sprite.name, id, then: Then::Reprovision(Box::new(draft)) }, None);
    }
    if let Some(wait) = pause(o, base, &lockdown) {
        return wait;
    }
    let draft = StatusDraft {
        phase: SessionPhase::LockingDown,
        reason: SessionReason::Provisioned,
        message: "egress rules are being applied and read back".to_owned(),
        sprite: base.sprite.clone(),
        lockdown: Some(LockdownStatus {
            token: None,
            egress_hash: None,
            nonce: lockdown.nonce.clone().or_else(|| Some(o.nonce.clone())),
            ..lockdown.clone()
        }),
        data_lost: data_lost(base),
        stalled: false,
        settled: false,
    };
    match lockdown.nonce {
        // Persisted before it is written anywhere; the change wakes us again.
        None => Plan::report(draft, Next::Change),
        // A token that no longer counts is taken back before the rules move.
        Some(_) if lockdown.token.is_some() => Plan::report(draft, Next::Change),
        Some(nonce) => {
            let lock = Lock {
                name: sprite.name,
                id,
                nonce,
                rules: policy.egress.clone(),
                policy: (policy.name.clone(), policy.generation),
                before: draft,
            };
            Plan::act(Effect::Lock(Box::new(lock)), None)
        }
    }
}

/// What is so after a lockdown was tried. A token is made of what was confirmed, and of nothing else.
pub fn after_lock(o: &Observed, lock: Lock, result: Result<Confirmed, &LockFailure>) -> Plan {
    let Lock { before, policy: (policy_name, policy_generation), .. } = lock;
    let lockdown = before.lockdown.clone().unwrap_or_default();
    let fresh = lockdown.applied_at.is_none();
    match result {
        Ok(confirmed) => {
            let token = Token::from(confirmed);
            let lockdown = LockdownStatus {
                egress_hash: Some(token.egress().to_owned()),
                token: Some(token.to_string()),
                policy_name: Some(policy_name),
                policy_generation: Some(policy_generation),
                nonce: lockdown.nonce,
                runner: Some(o.runner.to_owned()),
                applied_at: Some(Time(o.now)),
                verified_at: Some(Time(o.now)),
                attempts: 0,
            };
            let sprite = before.sprite.map(|s| SpriteStatus { state: Some(SpritePhase::Running), ..s });
            let draft = StatusDraft {
                phase: SessionPhase::Ready,
                reason: SessionReason::LockedDown,
                message: "the rules were read back and are those demanded; the URL is private".to_owned(),
                sprite,
                lockdown: Some(lockdown),
                ..before
            };
            Plan::report(draft, after(o.timing.verify_interval)).remembering(Remember::Locked)
        }
        Err(failure) => {
            let kind = failure.kind();
            let (attempts, wait) = match after_failure(kind, fresh, lockdown.attempts) {
                Consequence::Again { attempts, pause } => (attempts, pause),
                // On record first; it is destroyed at the next look, which this write brings about.
                Consequence::Destroy { attempts } => (attempts, DESTROY_SOON),
            };
            let unsupported = kind == Failure::UnsupportedPlatform;
            let draft = StatusDraft {
                phase: SessionPhase::Degraded,
                reason: failure.reason(),
                message: failure.to_string(),
                lockdown: Some(LockdownStatus { attempts, ..lockdown }),
                stalled: unsupported,
                ..before
            };
            let plan = Plan::report(draft, Next::After(wait));
            // This write, and Runs that wait, wake the session: the pause holds all the same.
            if unsupported { plan.remembering(Remember::UnsupportedUntil(o.now + wait)) } else { plan }
        }
    }
}

/// The status after a fresh instance was destroyed: a new create request.
pub fn after_destroy(o: &Observed, before: &StatusDraft) -> Plan {
    let sprite = before.sprite.clone().unwrap_or_default();
    record_create_intent(o, sprite.name, sprite.incarnation + 1, before.data_lost.clone())
}

#[cfg(test)]
mod tests;
