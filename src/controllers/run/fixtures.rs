//! What the tables of a Run begin with: one that could start at once. Each row says what is otherwise.

use std::sync::Arc;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::{OwnerReference, Time},
    jiff::Timestamp,
};
use kube::api::ObjectMeta;
use serde_json::json;

use super::observed::{LiveRead, Observed, Source, session_name};
use crate::{
    access::{switch::Switch, tenant::Tenant},
    controllers::state::session_view::SessionView,
    kubernetes::object_key::ObjectKey,
    lockdown::{instance::LiveSprite, runner},
    policy::{compile::compile, view::PolicyView},
};
use api::{
    ExecutionPolicy, Run, RunStatus, SandboxSession,
    conditions::{ConditionUpdate, Conditions, FINISHED, READY},
    names::RUN_FINALIZER,
    reasons::{RunPhase, SpritePhase},
    sandbox_session::{LockdownStatus, SandboxSessionStatus, SpriteStatus},
};
use rules::egress::{ReadRule, Rule, Ruleset};

pub const NOW: i64 = 1_000_000;

pub fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub fn run(spec: serde_json::Value) -> Run {
    let mut run = Run::new("r", serde_json::from_value(spec).unwrap());
    run.metadata.namespace = Some("n".into());
    run.metadata.uid = Some("run-uid".into());
    run.metadata.creation_timestamp = Some(Time(at(NOW - 1)));
    run.metadata.finalizers = Some(vec![RUN_FINALIZER.into()]);
    run
}

pub fn named() -> Run {
    run(json!({"session": {"name": "s"}, "bash": {"command": "true"}}))
}

pub fn session() -> SandboxSession {
    let token = format!("i:{}", Ruleset::deny_all().hash());
    SandboxSession {
        metadata: ObjectMeta { name: Some("s".into()), uid: Some("session-uid".into()), ..ObjectMeta::default() },
        spec: serde_json::from_value(json!({"drive": "d", "conversation": "c"})).unwrap(),
        status: Some(SandboxSessionStatus {
            sprite: Some(SpriteStatus { name: "so-1".into(), id: Some("i".into()), ..SpriteStatus::default() }),
            lockdown: Some(LockdownStatus {
                token: Some(token),
                nonce: Some("n".into()),
                runner: Some(runner::hash().to_owned()),
                ..LockdownStatus::default()
            }),
            conditions: Conditions::default().merged(
                vec![ConditionUpdate::new(READY, true, "LockedDown")],
                None,
                at(1),
            ),
            ..SandboxSessionStatus::default()
        }),
    }
}

pub fn policy(name: &str, spec: &str) -> PolicyView {
    let policy = ExecutionPolicy::new(name, serde_saphyr::from_str(spec).unwrap());
    PolicyView::Ready(Arc::new(compile(&policy, false).unwrap()))
}

pub fn observed(run: Run) -> Observed {
    Observed {
        session_name: session_name(&run, &key()),
        key: key(),
        run: Arc::new(run),
        session: SessionView::present(Arc::new(session())),
        session_policy: policy("default", "{}"),
        run_policy: None,
        tenant: Tenant { enabled: true, terminating: false },
        switch: Switch::On,
        execution: None,
        in_session: 0,
        candidates: Vec::new(),
        spec_holds: false,
        source: Source::Servers,
        live: Some(LiveRead::Sprite(live())),
        now: at(NOW),
    }
}

pub fn key() -> ObjectKey {
    ObjectKey { namespace: "n".into(), name: "r".into(), uid: "run-uid".into() }
}

/// The Sprite as it is on record: awake, ours, private, with the rules that were demanded.
pub fn live() -> LiveSprite {
    let read = |rule: &Rule| ReadRule { rule: rule.clone(), unknown: Vec::new() };
    LiveSprite {
        id: "i".into(),
        ours: true,
        state: Some(SpritePhase::Running),
        url: None,
        private: true,
        region: None,
        rules: Some(Ruleset::deny_all().rules().iter().map(read).collect()),
    }
}

pub fn with_session(o: Observed, change: impl FnOnce(&mut SandboxSession)) -> Observed {
    let mut session = session();
    change(&mut session);
    Observed { session: SessionView::present(Arc::new(session)), ..o }
}

pub fn in_phase(mut run: Run, phase: RunPhase) -> Run {
    run.status = Some(RunStatus {
        phase: Some(phase),
        conditions: Conditions::default().merged(
            vec![ConditionUpdate::new(FINISHED, phase.is_terminal(), "Completed")],
            None,
            at(NOW - 10),
        ),
        ..RunStatus::default()
    });
    run
}

pub fn owner(uid: &str) -> OwnerReference {
    OwnerReference {
        api_version: "sprite-operator.io/v1alpha1".into(),
        kind: "Run".into(),
        uid: uid.into(),
        name: "x".into(),
        ..OwnerReference::default()
    }
}
