//! What an adopter must know of a command: where it was started, under which limits, how long its end is looked for. Pure.

use std::{sync::Arc, time::Duration};

use api::{Run, values::GoDuration};
use k8s_openapi::jiff::Timestamp;
use rules::{combine, outcome::Stop};

use super::super::observed::Observed;
use crate::policy::view::PolicyView;

/// What an adopter must know of a Run's limits.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Its run time.
    pub timeout: Duration,
    /// Its output cap.
    pub output: u64,
    /// Whether recognisable secrets are masked in what is stored.
    pub redact: bool,
}

/// The limits of a Run that is found running: those of its policies as they are now.
pub fn limits(o: &Observed) -> Limits {
    let of = |policy: &'_ PolicyView| match policy {
        PolicyView::Ready(compiled) => Some(Arc::clone(compiled)),
        PolicyView::NotFound(_) | PolicyView::NotReady(..) => None,
    };
    let policies: Vec<_> = std::iter::once(&o.session_policy).chain(o.run_policy.as_ref()).filter_map(of).collect();
    let tightest = combine::limits(policies.iter().map(|policy| &policy.limits));
    let asked = o.run.spec.timeout.as_ref().map(GoDuration::get);
    // Without any policy: what a policy that says nothing would give, and nothing unmasked.
    let known = !policies.is_empty();
    Limits {
        timeout: asked.unwrap_or(if known { tightest.timeout } else { Duration::from_secs(30) }),
        output: if known { tightest.output } else { 64 << 10 },
        redact: !known || policies.iter().any(|policy| policy.redact),
    }
}

/// How long an end is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryWindow {
    /// Within the bound of a Run: its timeout and 30 s.
    Short,
    /// After an outage that bound may have passed long ago.
    AfterOutage,
}

/// Where a command was started: from status, or from whoever started it just now.
#[derive(Debug, Clone)]
pub struct Place {
    /// Name of the session.
    pub session: String,
    /// UID of the session.
    pub session_uid: String,
    /// The instance.
    pub instance: String,
    /// When the start was recorded, before the command was sent.
    pub started_at: Timestamp,
}

impl Place {
    /// What a Run's status says.
    pub fn on_record(run: &Run, now: Timestamp) -> Self {
        let status = run.status.clone().unwrap_or_default();
        let session = status.session.unwrap_or_default();
        let started = status.execution.and_then(|execution| execution.started_at);
        Self {
            session: session.name,
            session_uid: session.uid,
            instance: status.sprite.unwrap_or_default().id,
            started_at: started.map_or(now, |at| at.0),
        }
    }
}

/// A command to be adopted.
#[derive(Debug, Clone)]
pub struct RecoveryRequest {
    /// Where it was started.
    pub place: Place,
    /// Its limits.
    pub limits: Limits,
    /// How long its end is looked for.
    pub window: RecoveryWindow,
    /// Why it was told to stop, before its connection was lost.
    pub stopped: Option<Stop>,
    /// Whether its start marker was seen: then a missing guard was taken away, and says nothing.
    pub seen_started: bool,
}
