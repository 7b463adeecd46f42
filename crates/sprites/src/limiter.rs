//! One limiter for the account: who may call now, and who waits. All clones of a client share it.
//!
//! Decides nothing itself: [`lanes`] does. Must not know what a call is about.

mod lanes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};

pub use lanes::Limits;
use lanes::{Admitted, Lanes, Ticket};
pub(super) use lanes::{Lane, Verdict};

#[derive(Clone, Debug)]
pub(super) struct Limiter {
    state: Arc<Mutex<State>>,
    /// Told when a pause begins or grows: everyone who waits looks again when it ends.
    paused: Arc<Notify>,
}

#[derive(Debug)]
struct State {
    lanes: Lanes,
    waiters: HashMap<Ticket, oneshot::Sender<Admitted>>,
}

/// Why a call was not let go. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// Too many are waiting.
    Full,
    /// The service asked everyone to wait for longer than this call can.
    Paused(Instant),
    /// Its turn did not come in time.
    Late,
}

impl Limiter {
    pub(super) fn new(limits: Limits) -> Self {
        let state = State { lanes: Lanes::new(limits), waiters: HashMap::new() };
        Self { state: Arc::new(Mutex::new(state)), paused: Arc::default() }
    }

    /// Waits for the call's turn, at most until `deadline`. Cancelled by dropping.
    pub(super) async fn enter(&self, lane: Lane, deadline: Instant) -> Result<Permit, Held> {
        // Listened to from before the first look, so that no pause begins unheard in between.
        let mut heard = Box::pin(self.paused.notified());
        heard.as_mut().enable();
        let (mut waiting, paused) = self.queue(lane)?;
        let mut look_again = paused;
        loop {
            if let Some(until) = look_again.filter(|until| *until >= deadline) {
                return Err(Held::Paused(until));
            }
            let pause_is_over = async {
                match look_again {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // Whoever was let go goes, though its time be over in this very moment: the slot is taken.
                biased;
                admitted = &mut waiting.turn => {
                    // The sender goes only by sending: it stays with the waiter's ticket.
                    let admitted = admitted.map_err(|_| Held::Late)?;
                    waiting.ticket = None;
                    return Ok(Permit { limiter: self.clone(), admitted: Some(admitted) });
                }
                () = pause_is_over => {
                    let mut state = self.state();
                    state.let_go();
                    look_again = state.paused_until(lane);
                }
                () = heard.as_mut() => {
                    heard.set(self.paused.notified());
                    heard.as_mut().enable();
                    look_again = self.state().paused_until(lane);
                }
                () = sleep_until(deadline) => return Err(Held::Late),
            }
        }
    }

    fn queue(&self, lane: Lane) -> Result<(Waiting, Option<Instant>), Held> {
        let mut state = self.state();
        let ticket = state.lanes.queue(lane).ok_or(Held::Full)?;
        let (sender, turn) = oneshot::channel();
        state.waiters.insert(ticket, sender);
        state.let_go();
        let paused = state.paused_until(lane);
        Ok((Waiting { limiter: self.clone(), lane, ticket: Some(ticket), turn }, paused))
    }

    /// How many wait, and how many are under way.
    pub(super) fn counts(&self) -> (usize, usize) {
        let state = self.state();
        (state.lanes.waiting(), state.lanes.under_way())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn paused_until(&self, lane: Lane) -> Option<Instant> {
        self.lanes.paused_until(lane, Instant::now().into_std()).map(Instant::from_std)
    }

    /// Lets all go that may go now.
    fn let_go(&mut self) {
        let now = Instant::now().into_std();
        while let Some((ticket, admitted)) = self.lanes.admit(now) {
            let taken = self.waiters.remove(&ticket).is_some_and(|turn| turn.send(admitted).is_ok());
            if !taken {
                self.lanes.leave(admitted, Verdict::Silent, now, 0.0);
            }
        }
    }
}

/// A call in the queue. Dropped, it leaves it; and hands back a turn that came and was not taken.
struct Waiting {
    limiter: Limiter,
    lane: Lane,
    ticket: Option<Ticket>,
    turn: oneshot::Receiver<Admitted>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.limiter.state();
        state.waiters.remove(&ticket);
        if !state.lanes.withdraw(self.lane, ticket)
            && let Ok(admitted) = self.turn.try_recv()
        {
            state.lanes.leave(admitted, Verdict::Silent, Instant::now().into_std(), 0.0);
            state.let_go();
        }
    }
}

/// The right to make one call now.
#[derive(Debug)]
pub(super) struct Permit {
    limiter: Limiter,
    admitted: Option<Admitted>,
}

impl Permit {
    /// The call is over, and this is what its answer said about the account.
    pub(super) fn leave(mut self, verdict: Verdict) {
        self.end(verdict);
    }

    fn end(&mut self, verdict: Verdict) {
        let Some(admitted) = self.admitted.take() else { return };
        let mut state = self.limiter.state();
        state.lanes.leave(admitted, verdict, Instant::now().into_std(), rand::random());
        state.let_go();
        drop(state);
        if matches!(verdict, Verdict::Refused(_)) {
            self.limiter.paused.notify_waiters();
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.end(Verdict::Silent);
    }
}

#[cfg(test)]
mod tests;
