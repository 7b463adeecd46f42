//! The gate of a Run: an ordered list of checks, cheapest first. Each can only refuse. Pure.
//!
//! A new check is a file of its own and a line in [`admit`], or in [`gate`] where it needs no session.

mod check;
mod frozen;
mod live;
mod policy;
mod proof;
mod request;
mod session;
mod slot;
mod stops;
mod tenant;

pub use live::{NotProved, check as check_live};
pub use session::owns;

use std::time::Duration;

use api::conditions::DATA_LOST;
use k8s_openapi::jiff::Timestamp;
use rules::outcome::Outcome;

use self::{check::Check, policy::InForce, request::Checked};
use super::{
    observed::{Observed, Source},
    plan::{Need, Plan, Start, Wait, Waiting},
};
use crate::controllers::driver::Next;

/// How long after a failed proof a Run is looked at again.
const REPROVE_AFTER: Duration = Duration::from_secs(2);

/// From nothing to the start.
pub fn gate(o: &Observed) -> Plan {
    // What cannot be taken back is decided on what is so now, not on what a cache says.
    let finish = |outcome| if o.source == Source::Servers { Plan::Finish(outcome) } else { Plan::Need(Need::Servers) };
    let early = stops::check(o).and_then(|()| tenant::check(o)).and_then(|()| policy::check(o)).and_then(|in_force| {
        // One that waits is not judged each time it looks.
        let request = if o.spec_holds { None } else { Some(request::check(o, &in_force.effective)?) };
        Ok((in_force, request))
    });
    let (in_force, request) = match early {
        Ok(passed) => passed,
        Err(outcome) => return finish(outcome),
    };
    let until = deadline(o, &in_force);
    let start = match admit(o, in_force, request) {
        Ok(start) => start,
        Err(Check::Over(outcome)) => return finish(outcome),
        Err(Check::Wait(waiting, _)) if o.now >= until => {
            return finish(Outcome::start_deadline(&waiting.to_string()));
        }
        Err(Check::Wait(waiting, next)) => return Plan::Wait(wait(o, waiting, until, next)),
        Err(Check::CreateSession(_)) if o.now >= until => {
            return finish(Outcome::start_deadline("SessionNotReady: none was made in time"));
        }
        Err(Check::CreateSession(_)) if o.source == Source::Caches => return Plan::Need(Need::Servers),
        Err(Check::CreateSession(session)) => return Plan::CreateSession(session),
    };
    if o.now >= until {
        return finish(Outcome::start_deadline("the Run was not reconciled before limits.start"));
    }
    if o.source == Source::Caches {
        return Plan::Need(Need::Servers);
    }
    let Some(read) = &o.live else { return Plan::Need(Need::LiveSprite(start.proof.clone())) };
    let reverify = |doubt: &str| {
        let message = format!("SandboxSession {}: re-verifying lockdown: {doubt}", o.session_name);
        let waiting = Waiting::new(api::reasons::WaitingCause::SessionNotReady, message);
        wait(o, waiting, until, Next::After(REPROVE_AFTER))
    };
    match live::check(&start, read) {
        Ok(()) => Plan::Start(Box::new(start)),
        Err(NotProved::Asleep) => Plan::Wake(start.proof.name.clone(), reverify("the Sprite did not wake")),
        Err(NotProved::Doubt(doubt) | NotProved::NoAnswer(doubt)) => {
            Plan::Reverify { wait: reverify(&doubt), doubt, sprite: start.proof.name }
        }
    }
}

/// The checks that may also wait, in order.
fn admit(o: &Observed, in_force: InForce<'_>, request: Option<Checked<'_>>) -> Result<Start, Check> {
    let InForce { policy, effective } = in_force;
    frozen::check(o)?;
    let session = session::check(o)?;
    let proof = proof::check(o, &session, effective.egress)?;
    slot::check(o, &effective.limits)?;
    // Whatever is remembered of it: what is executed is judged as it is now.
    let request = request.map_or_else(|| request::check(o, &effective), Ok).map_err(Check::Over)?;
    let lost =
        session.status.as_ref().and_then(|s| s.conditions.get(DATA_LOST).filter(|c| c.status == "True").cloned());
    Ok(Start {
        request: request.validated(),
        proof,
        egress: effective.egress.clone(),
        redact: effective.redact,
        policy: (policy.name.clone(), policy.generation),
        kill_leftovers: policy.kill_leftovers,
        data_lost: lost.map(|c| c.message),
        session,
    })
}

/// When a Run must have started: `limits.start` after its creation.
fn deadline(o: &Observed, in_force: &InForce<'_>) -> Timestamp {
    let created = o.run.metadata.creation_timestamp.as_ref().map_or(o.now, |t| t.0);
    created.checked_add(in_force.effective.limits.start).unwrap_or(Timestamp::MAX)
}

/// Looks again no later than at the deadline.
fn wait(o: &Observed, waiting: Waiting, until: Timestamp, next: Next) -> Wait {
    let left = Duration::try_from(until.duration_since(o.now)).unwrap_or_default();
    let next = match next {
        Next::After(delay) => Next::After(delay.min(left)),
        Next::Change => Next::After(left),
    };
    Wait { waiting, until, next }
}

#[cfg(test)]
mod tests;
