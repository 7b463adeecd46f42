//! Gathers what a Run's decision needs: from caches first, from the servers before anything that cannot be taken back.
//!
//! Must not decide, and changes nothing.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::ListParams};

use super::observed::{Observed, Source, judges, session_name};
use crate::{
    access::{
        switch::{self, Switch},
        tenant::Tenant,
    },
    controllers::{
        context::Context,
        error::Error,
        state::{
            session_view::SessionView,
            shared_reads::{Read, Seen},
        },
    },
    kubernetes::{apply::within, object_key::ObjectKey},
    policy::view::PolicyView,
};
use api::{ExecutionPolicy, Run, SandboxSession};

/// Gathers from caches.
pub fn cached(context: &Context, run: Arc<Run>, key: ObjectKey) -> Observed {
    let namespace = &key.namespace;
    let session_name = session_name(&run, &key);
    let session = SessionView::cached(context.sessions.get(Some(namespace), &session_name).as_deref());
    let names = policy_names(context, &run, &session);
    let session_policy = context.policy(&names.session);
    let run_policy = names.run.as_deref().map(|name| context.policy(name));
    Observed {
        spec_holds: context.queue.holds(&key.uid, &judges(&session_policy, run_policy.as_ref())),
        session_policy,
        run_policy,
        tenant: context.tenant(namespace),
        switch: *context.switch.borrow(),
        execution: context.executions.view(&key.uid),
        in_session: session.uid().map_or(0, |uid| context.executions.in_session(uid)),
        candidates: context.candidates(&run, namespace, &session_name),
        source: Source::Caches,
        live: None,
        now: context.now(),
        run,
        key,
        session_name,
        session,
    }
}

struct PolicyNames {
    session: String,
    run: Option<String>,
}

/// A session that is not there yet would take the Run's policy.
fn policy_names(context: &Context, run: &Run, session: &SessionView) -> PolicyNames {
    let own = run.spec.policy_ref.as_ref().map(|r| r.name.clone());
    match session {
        SessionView::Present(session) => {
            let of_session = context.policy_name(&session.spec).to_owned();
            let run = own.filter(|own| *own != of_session);
            PolicyNames { session: of_session, run }
        }
        SessionView::Absent | SessionView::Unreadable(_) => {
            PolicyNames { session: own.unwrap_or_else(|| context.settings.default_policy.clone()), run: None }
        }
    }
}

/// Gathers from the servers; each read is shared for at most a second.
pub async fn fresh(context: &Context, cached: Observed) -> Result<Observed, Error> {
    let namespace = cached.key.namespace.clone();
    let cached_names = policy_names(context, &cached.run, &cached.session);
    let (session, policy, own, tenant, switch) = tokio::join!(
        session(context, &namespace, &cached.session_name, cached.session.version()),
        policy(context, &cached_names.session),
        async {
            match &cached_names.run {
                Some(name) => policy(context, name).await.map(Some),
                None => Ok(None),
            }
        },
        tenant(context, &namespace),
        read_switch(context),
    );
    let session = session?;
    let names = policy_names(context, &cached.run, &session);
    // The session may name another policy than the cache said; then the reads were of the wrong ones.
    let again = names.session != cached_names.session || names.run != cached_names.run;
    let (session_policy, run_policy) = if again {
        let own = match &names.run {
            Some(name) => Some(self::policy(context, name).await?),
            None => None,
        };
        (self::policy(context, &names.session).await?, own)
    } else {
        (policy?, own?)
    };
    let in_session = session.uid().map_or(0, |uid| context.executions.in_session(uid));
    let candidates = context.candidates(&cached.run, &namespace, &cached.session_name);
    Ok(Observed {
        spec_holds: context.queue.holds(&cached.key.uid, &judges(&session_policy, run_policy.as_ref())),
        candidates,
        session,
        session_policy,
        run_policy,
        tenant: tenant?,
        switch: switch?,
        in_session,
        source: Source::Servers,
        now: context.now(),
        ..cached
    })
}

fn shared<T>(read: Read<T, kube::Error>) -> Result<T, Error> {
    read.map_err(Error::SharedRead)
}

async fn session(context: &Context, namespace: &str, name: &str, seen: Seen) -> Result<SessionView, Error> {
    let api: Api<SandboxSession> = Api::namespaced(context.client.clone(), namespace);
    let key = (namespace.to_owned(), name.to_owned(), seen);
    let name = name.to_owned();
    let read =
        context.reads.sessions.get(key, move || async move { Ok(within(api.get_opt(&name)).await?.map(Arc::new)) });
    Ok(match shared(read.await)? {
        Some(session) => SessionView::present(session),
        None => SessionView::Absent,
    })
}

/// Through a list, so that the server applies our selector: what is outside of it does not exist for us.
async fn policy(context: &Context, name: &str) -> Result<PolicyView, Error> {
    let api: Api<ExecutionPolicy> = Api::all(context.client.clone());
    let selector = context.settings.policy_selector.clone();
    let wanted = name.to_owned();
    let seen = context.policies.get_named(name).and_then(|policy| policy.resource_version());
    let read = context.reads.policies.get((name.to_owned(), seen), move || async move {
        let mut params = ListParams::default().fields(&format!("metadata.name={wanted}"));
        params.label_selector = selector;
        Ok(within(api.list(&params)).await?.items.into_iter().next().map(Arc::new))
    });
    Ok(match shared(read.await)? {
        Some(policy) => context.policy_view(&policy),
        None => PolicyView::NotFound(name.to_owned()),
    })
}

async fn tenant(context: &Context, namespace: &str) -> Result<Tenant, Error> {
    let api: Api<Namespace> = Api::all(context.client.clone());
    let name = namespace.to_owned();
    let seen = context.namespaces.get_named(namespace).and_then(|namespace| namespace.resource_version());
    let read = context
        .reads
        .namespaces
        .get((name.clone(), seen), move || async move { Ok(within(api.get_opt(&name)).await?.map(Arc::new)) });
    Ok(Tenant::of(shared(read.await)?.as_deref()))
}

/// A switch that cannot be read now is Frozen: nothing starts.
async fn read_switch(context: &Context) -> Result<Switch, Error> {
    let api = context.config_maps();
    let read = context.reads.switch.get((), move || async move { within(switch::read(&api)).await });
    Ok(read.await.unwrap_or(Switch::Frozen))
}
