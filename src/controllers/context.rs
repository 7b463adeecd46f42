//! What every reconcile works with: clients, caches, settings, shared memory.
//!
//! No globals, nothing that changes behind one's back. Must not decide.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace},
    jiff::Timestamp,
};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;

use super::{
    driver::Waker,
    state::{
        executions::Executions,
        own_secrets::{OwnSecrets, Redactors},
        queue::Queue,
        session_activity::SessionActivities,
        shared_reads::Reads,
        waiting::Waiting,
    },
};
use crate::{
    access::{switch::Switch, tenant::Tenant},
    config::{SecretFile, Settings},
    kubernetes::{clock::Clock, lease, scope::Cache},
    policy::{
        cache::{Compilation, Compilations},
        view::PolicyView,
    },
    serve::health::Readiness,
    telemetry::metrics::Metrics,
};
use api::{ExecutionPolicy, Run, SandboxSession, SandboxSessionSpec, reasons::RunPhase};
use redact::Redactor;
use rules::order::Candidate;

/// Everything.
pub struct Context {
    /// The API server.
    pub client: Client,
    /// The platform.
    pub sprites: sprites::Client,
    /// What the operator was started with.
    pub settings: Settings,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Readiness.
    pub readiness: Readiness,
    /// What is left of the Lease.
    pub lease: lease::Handle,
    /// The API server's clock.
    pub clock: Arc<Clock>,
    /// The switch.
    pub switch: watch::Receiver<Switch>,
    /// The session secret.
    pub secret: SecretFile,
    /// What is masked in all output.
    pub own_secrets: OwnSecrets,
    /// Cached policies.
    pub policies: Cache<ExecutionPolicy>,
    /// Cached sessions.
    pub sessions: Cache<SandboxSession>,
    /// Cached Runs.
    pub runs: Cache<Run>,
    /// Cached namespaces.
    pub namespaces: Cache<Namespace>,
    /// Compiled policies.
    pub compilations: Compilations,
    /// Commands that are running or being adopted.
    pub executions: Executions,
    /// Reads of live things, shared for a second.
    pub reads: Reads,
    /// What is remembered of sessions between reconciles.
    pub activities: SessionActivities,
    /// Runs that wait for a session.
    pub waiting: Waiting,
    /// What their order rests on.
    pub queue: Queue,
    /// Wakes Runs.
    pub wake_runs: Waker<Run>,
    /// Wakes sessions.
    pub wake_sessions: Waker<SandboxSession>,
}

impl Context {
    /// The time of day, as the API server has it.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What masks output before it is stored: the operator's own secrets always, recognisable ones where a policy says so.
    pub fn redactor(&self, recognised: bool) -> Arc<Redactor> {
        let Redactors { recognised: all, own } = self.own_secrets.redactors();
        if recognised { all } else { own }
    }

    /// The name of a session's policy.
    pub fn policy_name<'a>(&'a self, spec: &'a SandboxSessionSpec) -> &'a str {
        spec.policy_ref.as_ref().map_or(&self.settings.default_policy, |r| &r.name)
    }

    /// A policy by name, from the cache.
    pub fn policy(&self, name: &str) -> PolicyView {
        match self.policies.get_named(name) {
            None => PolicyView::NotFound(name.to_owned()),
            Some(guarded) => match &guarded.0 {
                Ok(policy) => self.policy_view(policy),
                Err(error) => PolicyView::NotReady(name.to_owned(), format!("it cannot be read: {}", error.error)),
            },
        }
    }

    /// A policy as a Run or session sees it.
    pub fn policy_view(&self, policy: &ExecutionPolicy) -> PolicyView {
        let compilation: Compilation = self.compilations.of(policy, self.settings.open_egress);
        match compilation {
            Ok(compiled) => PolicyView::Ready(compiled),
            Err(errors) => PolicyView::NotReady(policy.name_any(), errors.to_string()),
        }
    }

    /// How many sessions name a policy.
    pub fn sessions_of_policy(&self, name: &str) -> u32 {
        let of_policy = |guarded: &Arc<crate::kubernetes::scope::Guarded<SandboxSession>>| {
            guarded.0.as_ref().is_ok_and(|session| self.policy_name(&session.spec) == name)
        };
        u32::try_from(self.sessions.all().iter().filter(|s| of_policy(s)).count()).unwrap_or(u32::MAX)
    }

    /// UIDs of the Runs of a session that the cache shows running.
    pub fn running_in_session(&self, namespace: &str, session_uid: &str) -> Vec<String> {
        let store = self.runs.store(Some(namespace));
        let all = store.map(kube::runtime::reflector::Store::state).unwrap_or_default();
        let is_running = |run: &&Run| {
            let status = run.status.as_ref();
            status.is_some_and(|status| {
                status.phase == Some(RunPhase::Running)
                    && status.session.as_ref().is_some_and(|session| session.uid == session_uid)
            })
        };
        let runs = all.iter().filter_map(|guarded| guarded.0.as_ref().ok());
        runs.filter(is_running).filter_map(kube::ResourceExt::uid).collect()
    }

    /// The Runs that wait for the session of a Run, itself among them, by the cache.
    pub fn candidates(&self, run: &Run, namespace: &str, session: &str) -> Vec<Candidate> {
        let store = self.runs.store(Some(namespace));
        let all = store.map(kube::runtime::reflector::Store::state).unwrap_or_default();
        let runs = all.iter().filter_map(|guarded| guarded.0.as_ref().ok());
        // What has a slot already stands in no queue.
        let mut candidates = self.queue.candidates(run, session, runs);
        candidates.retain(|candidate| self.executions.view(&candidate.uid).is_none());
        candidates
    }

    /// A tenant, from the cache.
    pub fn tenant(&self, namespace: &str) -> Tenant {
        let guarded = self.namespaces.get_named(namespace);
        Tenant::of(guarded.as_ref().and_then(|g| g.0.as_ref().ok()))
    }

    /// The operator's own `ConfigMap`s.
    pub fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.settings.operator_namespace)
    }

    /// Wakes the Runs that wait for a session.
    pub fn wake_waiting(&self, namespace: &str, session: &str) {
        for run in self.waiting.take(namespace, session) {
            self.wake_runs.wake(namespace, &run);
        }
    }

    /// Wakes what is in a namespace.
    pub fn wake_namespace(&self, namespace: &str) {
        self.wake_if(|of, _| of == namespace);
    }

    /// Wakes what depends on a policy. A Run may name one of its own, so all Runs that go on or wait are asked.
    pub fn wake_policy(&self, policy: &str) {
        self.wake_if(|_, session| session.is_none_or(|spec| self.policy_name(spec) == policy));
    }

    /// Wakes everything that the switch, a policy or a namespace may start or stop.
    pub fn wake_everything(&self) {
        self.wake_if(|_, _| true);
    }

    /// Wakes Runs that go on or wait, and sessions (with their spec), by namespace.
    fn wake_if(&self, concerned: impl Fn(&str, Option<&SandboxSessionSpec>) -> bool) {
        for (namespace, run) in self.executions.all().into_iter().chain(self.waiting.all()) {
            if concerned(&namespace, None) {
                self.wake_runs.wake(&namespace, &run);
            }
        }
        for session in self.sessions.all() {
            if let (Ok(session), Some(namespace)) = (&session.0, session.namespace())
                && concerned(&namespace, Some(&session.spec))
            {
                self.wake_sessions.wake(&namespace, &session.name_any());
            }
        }
    }
}
