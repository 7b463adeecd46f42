//! What is remembered of sessions between reconciles. Losing it costs time, never safety.
//!
//! Must not hold what a decision about safety rests on: that is in status.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use k8s_openapi::jiff::Timestamp;

/// What is remembered of one session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionActivity {
    /// When a recorded Sprite was first not found.
    pub absent_since: Option<Timestamp>,
    /// Our DELETE of the recorded instance was answered.
    pub delete_answered: bool,
    /// How often somebody had reason to doubt the lockdown.
    pub reverify_requested: u64,
    /// How many of these were settled by a proof that began after them.
    pub reverified: u64,
    /// How often a Run found the lockdown lost.
    pub relock_requested: u64,
    /// How many of these were settled by a lockdown that began after them.
    pub relocked: u64,
    /// What the last of these Runs found.
    pub relock_cause: Option<&'static str>,
    /// Lockdowns made for such Runs since the last Run that started.
    pub relocks_in_a_row: u32,
    /// The instance cannot execute the runner: until then no lockdown is tried.
    pub unsupported_until: Option<Timestamp>,
    /// Runs that started since the totals were written.
    pub runs: u64,
    /// How many of these started before files were lost: they have not seen the loss.
    pub runs_before_loss: u64,
    /// When a Run last started or ended, if not written yet.
    pub last_active: Option<Timestamp>,
    /// When activity was last written.
    pub activity_written: Option<Timestamp>,
    /// When Runs were first told to stop for a deletion.
    pub stopping_since: Option<Timestamp>,
}

impl SessionActivity {
    /// Whether a doubt is not settled.
    pub const fn needs_reverify(&self) -> bool {
        self.reverify_requested > self.reverified
    }

    /// A Run found the lockdown lost: no nonce or another one, no runner, a file system that refuses.
    pub const fn request_relock(&mut self, cause: &'static str) {
        self.relock_requested += 1;
        self.relock_cause = Some(cause);
    }

    /// A Run started: what was locked down last was found so.
    pub const fn lockdown_held(&mut self) {
        self.relocks_in_a_row = 0;
    }

    /// Why the session is to be locked down again, if a Run found it lost and no lockdown was made since.
    pub fn needs_relock(&self) -> Option<&'static str> {
        self.relock_cause.filter(|_| self.relock_requested > self.relocked)
    }

    /// Whether a Run started since files were lost: it was told.
    pub const fn loss_was_seen(&self) -> bool {
        self.runs > self.runs_before_loss
    }
}

/// All of them, by session UID.
#[derive(Debug, Default)]
pub struct SessionActivities {
    all: Mutex<HashMap<String, SessionActivity>>,
}

impl SessionActivities {
    /// What is remembered of a session.
    pub fn get(&self, uid: &str) -> SessionActivity {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).get(uid).cloned().unwrap_or_default()
    }

    /// Changes what is remembered.
    pub fn update(&self, uid: &str, change: impl FnOnce(&mut SessionActivity)) {
        change(self.all.lock().unwrap_or_else(PoisonError::into_inner).entry(uid.to_owned()).or_default());
    }

    /// Forgets a session that is gone.
    pub fn forget(&self, uid: &str) {
        self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(0, 0, false)]
    #[case(1, 0, true)]
    #[case(1, 1, false)]
    #[case::another_doubt_during_the_proof(2, 1, true)]
    #[case::settled_by_a_proof_that_began_later(1, 2, false)]
    fn a_doubt_stays_until_a_proof_that_began_after_it(
        #[case] reverify_requested: u64,
        #[case] reverified: u64,
        #[case] expected: bool,
    ) {
        let activity = SessionActivity { reverify_requested, reverified, ..SessionActivity::default() };
        assert_eq!(activity.needs_reverify(), expected);
    }

    #[test]
    fn a_lost_lockdown_is_told_until_one_is_made_that_began_after_it() {
        let mut activity = SessionActivity::default();
        assert_eq!(activity.needs_relock(), None);
        activity.request_relock("no nonce");
        activity.request_relock("no runner");
        assert_eq!(activity.needs_relock(), Some("no runner"));
        activity.relocked = 1;
        assert_eq!(activity.needs_relock(), Some("no runner"), "another one meanwhile");
        activity.relocked = 2;
        assert_eq!(activity.needs_relock(), None);
        activity.relocks_in_a_row = 7;
        activity.lockdown_held();
        assert_eq!((activity.relocks_in_a_row, activity.needs_relock()), (0, None));
    }

    #[test]
    fn each_session_is_remembered_by_itself() {
        let activities = SessionActivities::default();
        activities.update("a", |activity| activity.runs += 1);
        activities.update("a", |activity| activity.delete_answered = true);
        activities.update("b", |activity| activity.runs += 5);
        let expected = SessionActivity { runs: 1, delete_answered: true, ..SessionActivity::default() };
        assert_eq!(activities.get("a"), expected);
        activities.forget("b");
        assert_eq!((activities.get("a"), activities.get("b")), (expected, SessionActivity::default()));
        assert_eq!(activities.get("never seen"), SessionActivity::default());
    }

    #[test]
    fn what_was_taken_before_a_change_does_not_show_it() {
        let activities = SessionActivities::default();
        let observed = activities.get("a");
        activities.update("a", |activity| activity.reverify_requested += 1);
        assert!(!observed.needs_reverify() && activities.get("a").needs_reverify());
    }
}
