//! What is remembered of sessions between reconciles. Losing it costs time, never safety.
//!
//! Must not hold what a decision about safety rests on: that is in status.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use k8s_openapi::jiff::Timestamp;

/// What is remembered of one session.
#[derive(Debug, Clone, Default)]
pub struct SessionActivity {
    /// When a recorded Sprite was first not found.
    pub absent_since: Option<Timestamp>,
    /// Our DELETE of the recorded instance was answered.
    pub delete_answered: bool,
    /// How often somebody had reason to doubt the lockdown.
    pub reverify_requested: u64,
    /// How many of these were settled by a proof that began after them.
    pub reverified: u64,
    /// Runs that started since the totals were written.
    pub runs: u64,
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
