//! What a session's decision needs to know of the platform. Pure.
//!
//! Must not ask for what would wake a Sprite that sleeps.

use rules::lockdown::{Assessment, Demanded, Recorded, assess};
use sprites::Priority;

use super::{
    observed::Observed,
    plan::{since, status},
    relock::lost_to_a_run,
};
use crate::policy::{compile::Compiled, view::PolicyView};

/// The policy, when it is in force.
pub fn compiled(o: &Observed) -> Option<&Compiled> {
    match &o.policy {
        PolicyView::Ready(compiled) => Some(compiled),
        PolicyView::NotFound(_) | PolicyView::NotReady(..) => None,
    }
}

/// What the session must have on record, while its policy is in force.
pub fn demanded(o: &Observed) -> Option<Demanded<'_>> {
    compiled(o).map(|policy| Demanded { rules: &policy.egress, runner: o.runner })
}

/// Under which name the platform must be asked, if anything depends on it now.
pub fn sprite_to_observe(o: &Observed) -> Option<String> {
    let status = status(o);
    let sprite = status.sprite?;
    let lockdown = status.lockdown.unwrap_or_default();
    let deleting = o.session.metadata.deletion_timestamp.is_some();
    if !deleting && sprite.id.is_some() && lost_to_a_run(o, &lockdown).is_some() {
        // First of all nothing starts on it any more.
        return None;
    }
    let recorded = Recorded {
        instance: sprite.id.as_deref(),
        token: lockdown.token.as_deref(),
        runner: lockdown.runner.as_deref(),
        fresh: false,
    };
    let assessment = assess(demanded(o), recorded, None);
    let unproved = !matches!(assessment, Assessment::Holds { .. });
    let due = lockdown.verified_at.as_ref().is_none_or(|at| since(at.0, o.now) >= o.timing.verify_interval);
    let look = deleting || sprite.id.is_none() || unproved || due || o.activity.needs_reverify();
    look.then_some(sprite.name)
}

/// Whether the rules of a running Sprite must be read, too.
pub fn needs_policy_read(o: &Observed) -> bool {
    o.session.metadata.deletion_timestamp.is_none() && status(o).lockdown.is_some_and(|l| l.token.is_some())
}

/// How urgent it is.
pub fn priority(o: &Observed) -> Priority {
    if o.session.metadata.deletion_timestamp.is_some() {
        Priority::Delete
    } else if o.wanted() {
        Priority::Lockdown
    } else {
        Priority::Verify
    }
}

#[cfg(test)]
mod tests;
