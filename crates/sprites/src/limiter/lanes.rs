//! Which waiting call may go next. PURE: time and randomness come as arguments; it knows tickets, not tasks.
//!
//! Two lanes: creations have a budget of their own, everything else shares one window, in order of priority. The window
//! halves when the service says "too many" and grows again with successes. A pause the service asked for holds for all.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::super::call::Priority;

/// Calls that may be under way beyond the window, for kills alone.
const KILL_LANE: usize = 16;
/// The window never shrinks below this.
const NARROWEST: usize = 2;
/// A kill tries again this soon, however long the service asks everyone to wait: a refused kill costs nothing, one that
/// was not tried may cost everything.
const KILL_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause that is believed.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_mins(1);
/// The first pause after a refusal that names none; doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause that we choose ourselves.
const LONGEST_OWN_PAUSE: Duration = Duration::from_secs(30);

/// How much may be under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls under way, exec handshakes included, creations and kills not. Default 256.
    pub concurrency: usize,
    /// Creations under way. Default 8.
    pub creations: usize,
    /// Calls waiting for their turn; what comes beyond is refused. Default 10,000.
    pub waiting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { concurrency: 256, creations: 8, waiting: 10_000 }
    }
}

/// Which budget a call takes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Lane {
    Create,
    Shared(Priority),
}

/// What an answer says about the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Verdict {
    /// It answers.
    Fine,
    /// No answer, or one that says nothing about load.
    Silent,
    /// Too many calls, or for now too much load; how long it asks us to wait.
    Refused(Option<Duration>),
}

/// One call that waits or is under way.
pub(super) type Ticket = u64;

#[derive(Debug)]
pub(super) struct Lanes {
    limits: Limits,
    shared: Budget,
    creating: Budget,
    waiting: BTreeSet<(Reverse<Priority>, Ticket)>,
    waiting_creations: BTreeSet<Ticket>,
    next: Ticket,
}

/// One window and its pause.
#[derive(Debug)]
struct Budget {
    widest: usize,
    window: usize,
    under_way: usize,
    /// Successes since the window last changed.
    successes: usize,
    /// Refusals in a row.
    refusals: u32,
    /// Raised with every pause: a refusal of a call from before it is no news.
    epoch: u64,
    paused: Option<(Instant, Instant)>,
    /// A kill that was refused lets the next one wait.
    kills_paused: Option<Instant>,
}

/// A call that was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) lane: Lane,
    epoch: u64,
}

impl Lanes {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            shared: Budget::new(limits.concurrency),
            creating: Budget::new(limits.creations),
            waiting: BTreeSet::new(),
            waiting_creations: BTreeSet::new(),
            next: 0,
        }
    }

    /// A place in the queue; `None` when it is full. A kill always finds one.
    pub(super) fn queue(&mut self, lane: Lane) -> Option<Ticket> {
        if self.waiting() >= self.limits.waiting.max(1) && lane != Lane::Shared(Priority::Kill) {
            return None;
        }
        self.next += 1;
        match lane {
            Lane::Create => self.waiting_creations.insert(self.next),
            Lane::Shared(priority) => self.waiting.insert((Reverse(priority), self.next)),
        };
        Some(self.next)
    }

    /// Leaves the queue; `false` when it was let go before.
    pub(super) fn withdraw(&mut self, lane: Lane, ticket: Ticket) -> bool {
        match lane {
            Lane::Create => self.waiting_creations.remove(&ticket),
            Lane::Shared(priority) => self.waiting.remove(&(Reverse(priority), ticket)),
        }
    }

    /// The next call that may go now, taken from the queue.
    pub(super) fn admit(&mut self, now: Instant) -> Option<(Ticket, Admitted)> {
        if self.creating.open(now, None)
            && self.creating.under_way < self.creating.window
            && let Some(ticket) = self.waiting_creations.pop_first()
        {
            self.creating.under_way += 1;
            return Some((ticket, Admitted { lane: Lane::Create, epoch: self.creating.epoch }));
        }
        let &(Reverse(priority), ticket) = self.waiting.first()?;
        let allowed = self.shared.open(now, Some(priority)) && self.shared.under_way < self.ceiling(priority);
        if !allowed {
            return None;
        }
        self.waiting.pop_first();
        self.shared.under_way += 1;
        Some((ticket, Admitted { lane: Lane::Shared(priority), epoch: self.shared.epoch }))
    }

    /// How much may be under way for one more of this priority to go: the higher ones always find room that lower ones,
    /// which may hang for their whole deadline, cannot take.
    fn ceiling(&self, priority: Priority) -> usize {
        let eighths = match priority {
            Priority::Kill => return self.shared.widest + KILL_LANE,
            Priority::Delete => 8,
            Priority::Lockdown => 7,
            Priority::Exec => 6,
            Priority::Probe => 5,
            Priority::Verify => 4,
            Priority::Sweep => 2,
        };
        (self.shared.window * eighths).div_ceil(8)
    }

    /// A call that was let go is over.
    pub(super) fn leave(&mut self, admitted: Admitted, verdict: Verdict, now: Instant, jitter: f64) {
        let budget = match admitted.lane {
            Lane::Create => &mut self.creating,
            Lane::Shared(_) => &mut self.shared,
        };
        budget.under_way = budget.under_way.saturating_sub(1);
        match verdict {
            Verdict::Fine => budget.succeeded(),
            Verdict::Silent => {}
            Verdict::Refused(_) if admitted.lane == Lane::Shared(Priority::Kill) && budget.is_paused(now) => {
                // It went although all others wait: that it was refused is no news to them.
                budget.kills_paused = Some(now + KILL_PAUSE);
            }
            Verdict::Refused(asked) => budget.refused(admitted.epoch, asked, now, jitter),
        }
    }

    /// Until when a call of this lane must wait because the service asked for it.
    pub(super) fn paused_until(&self, lane: Lane, now: Instant) -> Option<Instant> {
        match lane {
            Lane::Create => self.creating.closed_until(None),
            Lane::Shared(priority) => self.shared.closed_until(Some(priority)),
        }
        .filter(|until| *until > now)
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.len() + self.waiting_creations.len()
    }

    pub(super) fn under_way(&self) -> usize {
        self.shared.under_way + self.creating.under_way
    }
}

impl Budget {
    fn new(widest: usize) -> Self {
        let widest = widest.max(1);
        Self {
            widest,
            window: widest,
            under_way: 0,
            successes: 0,
            refusals: 0,
            epoch: 0,
            paused: None,
            kills_paused: None,
        }
    }

    fn open(&self, now: Instant, priority: Option<Priority>) -> bool {
        self.closed_until(priority).is_none_or(|until| until <= now)
    }

    fn closed_until(&self, priority: Option<Priority>) -> Option<Instant> {
        let (since, until) = self.paused?;
        if priority != Some(Priority::Kill) {
            return Some(until);
        }
        let first = until.min(since + KILL_PAUSE);
        Some(self.kills_paused.map_or(first, |later| first.max(later)))
    }

    fn is_paused(&self, now: Instant) -> bool {
        self.paused.is_some_and(|(_, until)| until > now)
    }

    fn succeeded(&mut self) {
        self.refusals = 0;
        self.successes += 1;
        if self.successes >= self.window && self.window < self.widest {
            self.window = (self.window + self.window.div_ceil(4)).min(self.widest);
            self.successes = 0;
        }
    }

    fn refused(&mut self, epoch: u64, asked: Option<Duration>, now: Instant, jitter: f64) {
        let news = epoch == self.epoch;
        if news {
            self.refusals = self.refusals.saturating_add(1);
            self.window = (self.window / 2).max(NARROWEST).min(self.widest);
            self.successes = 0;
            self.epoch += 1;
        }
        let own = || FIRST_PAUSE.saturating_mul(1 << self.refusals.saturating_sub(1).min(10)).min(LONGEST_OWN_PAUSE);
        let pause = match asked {
            Some(asked) => asked.min(LONGEST_PAUSE),
            // Everyone who was refused says so at about the same time: one of them decides.
            None if !news => return,
            None => own(),
        };
        // Never shorter than asked, and not in step with other processes of the same account.
        let until = now + pause.mul_f64(1.0 + jitter.clamp(0.0, 1.0) / 10.0);
        // A later word counts when it asks for more; since when, is said by the first.
        self.paused = match self.paused {
            Some((since, before)) if before > now => Some((since, before.max(until))),
            Some(_) | None => Some((now, until)),
        };
    }
}

#[cfg(test)]
mod tests;
