//! What the tables of a session begin with: one that carries its finalizer. Each row says what is otherwise.

use std::sync::Arc;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::api::ObjectMeta;

use super::observed::{Live, Observed, Timing};
use crate::{
    access::{switch::Switch, tenant::Tenant},
    controllers::state::session_activity::SessionActivity,
    kubernetes::object_key::ObjectKey,
    lockdown::instance::LiveSprite,
    policy::{compile::compile, view::PolicyView},
};
use api::{
    ExecutionPolicy, SandboxSession, SandboxSessionSpec, SandboxSessionStatus,
    names::SESSION_FINALIZER,
    reasons::SpritePhase,
    sandbox_session::{LockdownStatus, SpriteStatus},
};
use rules::egress::{ReadRule, Rule, Ruleset};

pub const NOW: i64 = 1_000_000;
/// Hash of the operator's runner.
pub const RUNNER: &str = "r";

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub fn spec() -> SandboxSessionSpec {
    serde_json::from_str(r#"{"drive": "d", "conversation": "c"}"#).unwrap()
}

pub fn token(id: &str) -> String {
    format!("{id}:{}", Ruleset::deny_all().hash())
}

/// A session that carries its finalizer and this status.
pub fn session(status: Option<SandboxSessionStatus>) -> SandboxSession {
    SandboxSession {
        metadata: ObjectMeta {
            name: Some("s".into()),
            namespace: Some("n".into()),
            uid: Some("u".into()),
            finalizers: Some(vec![SESSION_FINALIZER.into()]),
            ..ObjectMeta::default()
        },
        spec: spec(),
        status,
    }
}

pub fn sprite(id: Option<&str>) -> SpriteStatus {
    SpriteStatus {
        name: "so-1".into(),
        id: id.map(str::to_owned),
        state: Some(SpritePhase::Running),
        create_requested_at: Some(Time(at(NOW - 5))),
        ..SpriteStatus::default()
    }
}

pub fn locked(verified: i64) -> LockdownStatus {
    LockdownStatus {
        token: Some(token("i")),
        nonce: Some("n".into()),
        runner: Some(RUNNER.into()),
        applied_at: Some(Time(at(NOW - 1000))),
        verified_at: Some(Time(at(verified))),
        ..LockdownStatus::default()
    }
}

pub fn with(id: Option<&str>, lockdown: Option<LockdownStatus>) -> SandboxSession {
    session(Some(SandboxSessionStatus { sprite: Some(sprite(id)), lockdown, ..SandboxSessionStatus::default() }))
}

pub fn live() -> LiveSprite {
    LiveSprite {
        id: "i".into(),
        ours: true,
        state: Some(SpritePhase::Running),
        url: None,
        private: true,
        region: None,
        rules: None,
    }
}

pub fn policy(spec: &str) -> PolicyView {
    let policy = ExecutionPolicy::new("default", serde_saphyr::from_str(spec).unwrap());
    PolicyView::Ready(Arc::new(compile(&policy, false).unwrap()))
}

pub fn observed(session: SandboxSession, live: Live) -> Observed {
    Observed {
        key: ObjectKey { namespace: "n".into(), name: "s".into(), uid: "session-uid".into() },
        session: Arc::new(session),
        policy: policy("{}"),
        tenant: Tenant { enabled: true, terminating: false },
        switch: Switch::On,
        name: Ok("so-1".into()),
        labels: ["a".into(), "b".into(), "c".into()],
        live,
        executions: 0,
        waited_for: false,
        nonce: "fresh-nonce".into(),
        runner: RUNNER,
        activity: SessionActivity::default(),
        now: at(NOW),
        timing: Timing { absent_after: 10, create_grace: 120, verify_interval: 300 },
    }
}

pub fn deleted(mut session: SandboxSession) -> SandboxSession {
    session.metadata.deletion_timestamp = Some(Time(at(NOW - 1)));
    session
}

/// The rules of `locked`, as a live Sprite shows them.
pub fn rules_as_read() -> Vec<ReadRule> {
    let read = |rule: &Rule| ReadRule { rule: rule.clone(), unknown: Vec::new() };
    Ruleset::deny_all().rules().iter().map(read).collect()
}
