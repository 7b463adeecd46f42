//! What a session's decision is made of: the one effect, what is so, what to remember. Pure.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

use super::observed::Observed;
use crate::{
    controllers::{driver::Next, state::session_activity::SessionActivity},
    lockdown::instance::LiveSprite,
};
use api::{
    SandboxSessionStatus,
    conditions::DATA_LOST,
    reasons::{SessionPhase, SessionReason},
    sandbox_session::{LockdownStatus, SpriteStatus},
};
use rules::egress::Ruleset;

/// The one thing to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Only report.
    Nothing,
    /// Take responsibility, before anything external exists.
    AddFinalizer,
    /// Let go: nothing external exists any more.
    RemoveFinalizer,
    /// Have the Runs in it stop.
    StopRuns,
    /// Ask the platform for a Sprite of this name.
    Create {
        /// The recorded name.
        name: String,
        /// What is so before it.
        before: Box<StatusDraft>,
    },
    /// Apply and prove the rules on this instance.
    Lock(Box<Lock>),
    /// Destroy this instance.
    Destroy {
        /// The recorded name.
        name: String,
        /// The instance that was seen.
        id: String,
        /// What follows.
        then: Then,
    },
}

/// A lockdown to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    /// The recorded name.
    pub name: String,
    /// The recorded instance.
    pub id: String,
    /// The persisted nonce.
    pub nonce: String,
    /// The rules to apply.
    pub rules: Ruleset,
    /// Name and generation of the policy that asks for them.
    pub policy: (String, i64),
    /// What is so before it.
    pub before: StatusDraft,
}

/// What follows when an instance was destroyed.
#[derive(Debug, Clone, PartialEq)]
pub enum Then {
    /// Create it again; holds the status before.
    Reprovision(Box<StatusDraft>),
    /// The session is let go once the Sprite is gone.
    Release,
}

/// What to remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remember {
    /// The recorded Sprite was not found.
    AbsentSince(Timestamp),
    /// It was found, and proved where it was doubted.
    Proved,
    /// It was locked down.
    Locked,
    /// It cannot execute the runner: no lockdown is tried until then.
    UnsupportedUntil(Timestamp),
    /// It was found.
    Present,
    /// Files were lost with it.
    Lost,
    /// Runs were told to stop.
    StoppingSince(Timestamp),
}

impl Remember {
    /// Remembers it.
    pub const fn apply(self, activity: &mut SessionActivity, o: &Observed) {
        match self {
            Self::AbsentSince(then) => activity.absent_since = Some(then),
            Self::Present => activity.absent_since = None,
            Self::Lost => {
                activity.absent_since = None;
                activity.runs_before_loss = activity.runs;
                // Another instance may be another machine.
                activity.unsupported_until = None;
            }
            Self::Locked => {
                // What a Run found while it was under way may be of before or after: it is locked down once more.
                if o.activity.relock_requested > o.activity.relocked {
                    activity.relocked = o.activity.relock_requested;
                    activity.relocks_in_a_row = activity.relocks_in_a_row.saturating_add(1);
                }
                activity.unsupported_until = None;
                Self::Proved.apply(activity, o);
            }
            Self::UnsupportedUntil(then) => activity.unsupported_until = Some(then),
            Self::Proved => {
                activity.absent_since = None;
                // Doubts that came up meanwhile are not settled by it.
                activity.reverified = o.activity.reverify_requested;
            }
            Self::StoppingSince(then) => activity.stopping_since = Some(then),
        }
    }
}

/// What is so, for status.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusDraft {
    /// Where the session stands.
    pub phase: SessionPhase,
    /// Why it is ready or not.
    pub reason: SessionReason,
    /// For people.
    pub message: String,
    /// The Sprite.
    pub sprite: Option<SpriteStatus>,
    /// The proof.
    pub lockdown: Option<LockdownStatus>,
    /// Files were lost: why.
    pub data_lost: Option<String>,
    /// Only a person can help.
    pub stalled: bool,
    /// Nothing is under way: what is so stays so until something changes.
    pub settled: bool,
}

/// The decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The one thing to do.
    pub effect: Effect,
    /// What is so, to be written; nothing: no report. An effect that carries what was so before it reports what came of it.
    pub report: Option<StatusDraft>,
    /// What to remember.
    pub remember: Option<Remember>,
    /// When to come back.
    pub next: Next,
}

impl Plan {
    pub fn report(draft: StatusDraft, next: Next) -> Self {
        Self { effect: Effect::Nothing, report: Some(draft), remember: None, next }
    }

    pub fn act(effect: Effect, report: Option<StatusDraft>) -> Self {
        Self { effect, report, remember: None, next: Next::Change }
    }

    pub fn without_report(effect: Effect, next: Next) -> Self {
        Self { effect, report: None, remember: None, next }
    }

    pub fn remembering(self, remember: Remember) -> Self {
        Self { remember: Some(remember), ..self }
    }
}

// === small parts ===

pub fn after(seconds: i64) -> Next {
    Next::After(Duration::from_secs(seconds.max(1).unsigned_abs()))
}

pub fn since(then: Timestamp, now: Timestamp) -> i64 {
    now.as_second().saturating_sub(then.as_second())
}

/// The status on record; a loss that a Run has seen is told no more.
pub fn status(o: &Observed) -> SandboxSessionStatus {
    let mut status = o.session.status.clone().unwrap_or_default();
    if o.activity.loss_was_seen() {
        status.conditions.0.retain(|condition| condition.type_ != DATA_LOST);
    }
    status
}

pub fn data_lost(status: &SandboxSessionStatus) -> Option<String> {
    status.conditions.get(DATA_LOST).filter(|c| c.status == "True").map(|c| c.message.clone())
}

pub fn keep(status: &SandboxSessionStatus, phase: SessionPhase, reason: SessionReason, message: String) -> StatusDraft {
    StatusDraft {
        phase,
        reason,
        message,
        sprite: status.sprite.clone(),
        lockdown: status.lockdown.clone(),
        data_lost: data_lost(status),
        stalled: false,
        settled: false,
    }
}

/// What is so while something stands in the way.
pub fn obstructed(status: &SandboxSessionStatus, reason: SessionReason, message: String) -> StatusDraft {
    let asked = status.sprite.as_ref().is_some_and(|sprite| sprite.id.is_some());
    let phase = if asked { SessionPhase::Degraded } else { SessionPhase::Pending };
    StatusDraft { settled: true, ..keep(status, phase, reason, message) }
}

pub fn degraded(status: &SandboxSessionStatus, reason: SessionReason, message: String) -> StatusDraft {
    keep(status, SessionPhase::Degraded, reason, message)
}

pub fn provisioning(status: &SandboxSessionStatus, message: &str) -> StatusDraft {
    keep(status, SessionPhase::Provisioning, SessionReason::Provisioning, message.to_owned())
}

/// What is so after the platform made the Sprite that was asked for.
pub fn created(before: StatusDraft, live: LiveSprite) -> StatusDraft {
    let LiveSprite { id, url, region, state, .. } = live;
    StatusDraft {
        phase: SessionPhase::LockingDown,
        reason: SessionReason::Provisioned,
        message: "the Sprite exists; it is not locked down yet".to_owned(),
        sprite: before.sprite.map(|intended| SpriteStatus { id: Some(id), url, region, state, ..intended }),
        ..before
    }
}

/// What is so while the account is full.
pub fn at_capacity(before: &StatusDraft) -> StatusDraft {
    StatusDraft {
        phase: SessionPhase::Pending,
        reason: SessionReason::PlatformCapacity,
        message: "the platform account is full; retrying the create".to_owned(),
        ..before.clone()
    }
}

#[cfg(test)]
mod tests;
