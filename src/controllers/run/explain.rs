//! The gate for the dry run: what it says of a Run while everything that only a cluster knows is in order. Pure.
//!
//! Must not check anything: `gate` does. What is made up here is what the dry run cannot see, and says that it did not judge.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};

use super::{
    gate,
    observed::{LiveRead, Observed, Source, session_name},
    plan::{Plan, Start, Tool, ValidatedRun},
};
use crate::{
    access::{switch::Switch, tenant::Tenant},
    controllers::state::session_view::SessionView,
    kubernetes::object_key::ObjectKey,
    lockdown::{instance::LiveSprite, runner},
    policy::view::PolicyView,
};
use api::{
    Run, SandboxSession, SandboxSessionSpec,
    conditions::{ConditionUpdate, Conditions, READY},
    reasons::{SessionReason, SpritePhase},
    sandbox_session::{Access, LockdownStatus, SandboxSessionStatus, SpriteStatus},
};
use rules::{
    egress::{ReadRule, Rule, Ruleset},
    limits::Limits,
    outcome::Outcome,
};
use runner_protocol::FileOperation;

/// Stands for the UID that the API server gives a Run.
const UID: &str = "<uid>";
/// Stands for whatever else only a cluster gives.
const MADE_UP: &str = "dry-run";

/// What the gate says.
#[derive(Debug)]
pub enum Answer {
    /// The Run may start, and this holds for it.
    Passes(Box<Holds>),
    /// It is over.
    Over(Outcome),
    /// Neither: the gate asks for something that is not made up here.
    Open(&'static str),
}

/// What holds for a Run that may start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holds {
    /// Name of the session that it runs in.
    pub session: String,
    /// What is executed.
    pub tool: HeldTool,
    /// Its run time.
    pub timeout: Duration,
    /// Its limits.
    pub limits: Limits,
    /// Bytes of output that are stored.
    pub output: u64,
    /// Whether recognisable secrets are masked in what is stored.
    pub redact: bool,
}

/// What is executed, without what is nobody's to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeldTool {
    /// A script.
    Bash {
        /// Its working directory, absolute.
        directory: String,
        /// Names of the variables that policy and Run give it.
        environment: Vec<String>,
    },
    /// A file is written.
    WriteFile {
        /// Absolute, below the workspace.
        path: String,
    },
    /// A part of a file is read.
    ReadFile {
        /// Absolute, below the workspace.
        path: String,
        /// Bytes that are skipped.
        offset: u64,
        /// Bytes that are read.
        length: u64,
    },
    /// Text in a file is replaced.
    EditFile {
        /// Absolute, below the workspace.
        path: String,
    },
}

/// Asks the gate for a Run under the session's policy, and its own if it names one.
pub fn ask(run: Run, session_policy: PolicyView, run_policy: Option<PolicyView>) -> Answer {
    let key = ObjectKey {
        namespace: run.metadata.namespace.clone().unwrap_or_else(|| MADE_UP.to_owned()),
        name: run.metadata.name.clone().unwrap_or_else(|| MADE_UP.to_owned()),
        uid: UID.to_owned(),
    };
    let session_name = session_name(&run, &key);
    let egress = match &session_policy {
        PolicyView::Ready(compiled) => compiled.egress.clone(),
        PolicyView::NotFound(_) | PolicyView::NotReady(..) => Ruleset::deny_all(),
    };
    let session = SessionView::present(Arc::new(session(&run, &session_name, &egress)));
    let o = Observed {
        run: Arc::new(run),
        key,
        session_name,
        session,
        session_policy,
        run_policy,
        tenant: Tenant { enabled: true, terminating: false },
        switch: Switch::On,
        execution: None,
        in_session: 0,
        candidates: Vec::new(),
        spec_holds: false,
        source: Source::Servers,
        live: Some(LiveRead::Sprite(live(&egress))),
        now: Timestamp::UNIX_EPOCH,
    };
    match gate::gate(&o) {
        Plan::Start(start) => Answer::Passes(Box::new(holds(o.session_name, *start))),
        Plan::Finish(outcome) => Answer::Over(outcome),
        other @ (Plan::Need(_)
        | Plan::Nothing(_)
        | Plan::Wait(_)
        | Plan::CreateSession(_)
        | Plan::Wake(..)
        | Plan::Reverify { .. }
        | Plan::Adopt(_)
        | Plan::Stop(_)
        | Plan::Conclude(_)
        | Plan::Forget
        | Plan::DeleteSession
        | Plan::Expire
        | Plan::Release) => Answer::Open(other.name()),
    }
}

fn holds(session: String, start: Start) -> Holds {
    let Start { request, redact, .. } = start;
    let output = request.output_limit();
    let ValidatedRun { tool, timeout, limits } = request;
    let tool = match tool {
        Tool::Bash { directory, environment, .. } => {
            HeldTool::Bash { directory, environment: environment.into_iter().map(|(name, _)| name).collect() }
        }
        Tool::File(FileOperation::Write { path, .. }) => HeldTool::WriteFile { path },
        Tool::File(FileOperation::Read { path, offset, length, .. }) => HeldTool::ReadFile { path, offset, length },
        Tool::File(FileOperation::Edit { path, .. }) => HeldTool::EditFile { path },
    };
    Holds { session, tool, timeout, limits, output, redact }
}

/// A session that is as the gate wants it, whatever the Run selects.
fn session(run: &Run, name: &str, egress: &Ruleset) -> SandboxSession {
    let selector = &run.spec.session;
    let ready = ConditionUpdate::new(READY, true, SessionReason::LockedDown.as_str());
    SandboxSession {
        metadata: ObjectMeta { name: Some(name.to_owned()), uid: Some(MADE_UP.to_owned()), ..ObjectMeta::default() },
        spec: SandboxSessionSpec {
            drive: selector.drive.clone().unwrap_or_else(|| MADE_UP.to_owned()),
            conversation: selector.conversation.clone().unwrap_or_else(|| UID.to_owned()),
            policy_ref: None,
            suspend: false,
            access: Access::Drive,
        },
        status: Some(SandboxSessionStatus {
            sprite: Some(SpriteStatus {
                name: MADE_UP.to_owned(),
                id: Some(MADE_UP.to_owned()),
                ..SpriteStatus::default()
            }),
            lockdown: Some(LockdownStatus {
                token: Some(format!("{MADE_UP}:{}", egress.hash())),
                nonce: Some(MADE_UP.to_owned()),
                runner: Some(runner::hash().to_owned()),
                ..LockdownStatus::default()
            }),
            conditions: Conditions::default().merged(vec![ready], None, Timestamp::UNIX_EPOCH),
            ..SandboxSessionStatus::default()
        }),
    }
}

/// Its Sprite: awake, ours, private, with these rules.
fn live(egress: &Ruleset) -> LiveSprite {
    let read = |rule: &Rule| ReadRule { rule: rule.clone(), unknown: Vec::new() };
    LiveSprite {
        id: MADE_UP.to_owned(),
        ours: true,
        state: Some(SpritePhase::Running),
        url: None,
        private: true,
        region: None,
        rules: Some(egress.rules().iter().map(read).collect()),
    }
}
