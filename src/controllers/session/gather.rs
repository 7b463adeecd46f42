//! Gathers what a session's decision needs. Must not decide, and changes nothing.

use std::sync::Arc;

use super::{
    needs::{needs_policy_read, priority, sprite_to_observe},
    observed::{Live, NoAnswer, Observed, Timing},
};
use crate::{
    config::SecretProblem,
    controllers::context::Context,
    kubernetes::object_key::ObjectKey,
    lockdown::{egress_rule, instance::LiveSprite, runner},
};
use api::SandboxSession;
use rules::session_name::{self, SessionKey};

/// Gathers.
pub async fn gather(context: &Context, session: Arc<SandboxSession>, key: ObjectKey) -> Observed {
    let ObjectKey { namespace, name: session_name, uid } = &key;
    let settings = &context.settings;
    let labels = session_name::sprite_labels(&settings.installation, namespace, uid);
    let components =
        SessionKey { namespace, drive: &session.spec.drive, conversation: &session.spec.conversation, uid };
    let name = secret(context).map_err(|problem| problem.to_string()).and_then(|secret| {
        session_name::sprite_name(&secret, &settings.installation, components).map_err(|e| e.to_string())
    });
    let seconds = |span: std::time::Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let mut observed = Observed {
        policy: context.policy(context.policy_name(&session.spec)),
        tenant: context.tenant(namespace),
        switch: *context.switch.borrow(),
        name,
        labels,
        live: Live::NotAsked,
        executions: context.executions.in_session(uid),
        waited_for: context.waiting.any(namespace, session_name),
        nonce: format!("{:032x}", rand::random::<u128>()),
        runner: runner::hash(),
        activity: context.activities.get(uid),
        now: context.now(),
        timing: Timing {
            absent_after: seconds(settings.absent_after),
            create_grace: seconds(settings.create_grace),
            verify_interval: seconds(settings.verify_interval),
        },
        session,
        key,
    };
    if let Some(name) = sprite_to_observe(&observed) {
        let sprites = context.sprites.with_priority(priority(&observed));
        observed.live = look(&sprites, &name, &observed.labels, needs_policy_read(&observed)).await;
    }
    observed
}

/// The secret; its absence keeps the operator from being ready.
fn secret(context: &Context) -> Result<session_name::SessionSecret, SecretProblem> {
    let secret = context.secret.read();
    context.readiness.set("secret", secret.as_ref().err().map(ToString::to_string));
    secret
}

async fn look(sprites: &sprites::Client, name: &str, labels: &[String; 3], rules: bool) -> Live {
    let sprite = match sprites.get(name).await {
        Ok(sprite) => sprite,
        Err(error) if error.is_absent() => return Live::Absent,
        Err(error) => return unknown(&error),
    };
    let awake = sprite.awake();
    let mut live = LiveSprite::of(sprite, labels);
    // Sleeping Sprites are left asleep: reading the rules would wake one.
    if let Some(awake) = awake.filter(|_| rules && live.ours) {
        match sprites.network_policy(&awake).await {
            Ok(read) => live.rules = Some(read.into_iter().map(egress_rule::read).collect()),
            Err(error) => return unknown(&error),
        }
    }
    Live::Present(live)
}

fn unknown(error: &sprites::Error) -> Live {
    // Told once as a transition of the session, not at each look.
    tracing::debug!(%error, "no usable answer about a Sprite");
    Live::Unknown(NoAnswer::of(error))
}
