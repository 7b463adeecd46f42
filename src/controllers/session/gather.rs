//! Gathers what a session's decision needs. Must not decide, and changes nothing.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kube::ResourceExt;

use super::{
    super::context::{Context, PolicyView, SecretProblem, Tenant},
    decide,
    memory::Memory,
};
use crate::access::switch::Switch;
use api::{SandboxSession, reasons::SpritePhase};
use rules::{
    egress::{ReadRule, Rule},
    session_name::{self, SessionKey},
};
use sprites::{NetworkRule, Priority, Sprite, SpriteState};

/// Everything that a decision rests on.
#[derive(Debug)]
pub struct Observed {
    /// The session, from the cache; every write compares its version.
    pub session: Arc<SandboxSession>,
    /// Its policy.
    pub policy: PolicyView,
    /// Its tenant.
    pub tenant: Tenant,
    /// The switch.
    pub switch: Switch,
    /// The computed name of its Sprite.
    pub name: Result<String, String>,
    /// Our labels for it.
    pub labels: [String; 3],
    /// What the platform says of that name.
    pub live: Live,
    /// Commands running in it.
    pub executions: usize,
    /// Whether a Run waits for it.
    pub waited_for: bool,
    /// A nonce for an instance that has none yet: 32 random hex digits.
    pub nonce: String,
    /// What is remembered.
    pub memory: Memory,
    /// The time.
    pub now: Timestamp,
    /// Times that were configured.
    pub timing: Timing,
}

impl Observed {
    /// Whether a Run waits for this session.
    pub const fn wanted(&self) -> bool {
        self.waited_for
    }
}

/// Times that were configured, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// How long a Sprite must be absent before that is believed.
    pub absent_after: i64,
    /// How long a create may still be on its way.
    pub create_grace: i64,
    /// How often an awake Sprite is verified.
    pub verify_interval: i64,
}

/// What the platform says.
#[derive(Debug, Clone)]
pub enum Live {
    /// It was not asked: nothing depends on it now.
    NotAsked,
    /// There is none of that name. One answer is not yet the truth.
    Absent,
    /// No answer that says anything.
    Unknown(String),
    /// There is one.
    Present(LiveSprite),
}

/// A live Sprite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveSprite {
    /// Instance id.
    pub id: String,
    /// Whether it carries all of our labels for this session.
    pub ours: bool,
    /// Its state; nothing when the platform said something new.
    pub state: Option<SpritePhase>,
    /// Its URL.
    pub url: Option<String>,
    /// Whether its URL is private.
    pub private: bool,
    /// Where it is.
    pub region: Option<String>,
    /// Its rules, when they were read.
    pub rules: Option<Vec<ReadRule>>,
}

impl LiveSprite {
    /// What the platform's answer means for us.
    pub fn of(sprite: Sprite, labels: &[String; 3]) -> Self {
        Self {
            ours: labels.iter().all(|label| sprite.labels.contains(label)),
            state: match sprite.status {
                SpriteState::Cold => Some(SpritePhase::Cold),
                SpriteState::Warm => Some(SpritePhase::Warm),
                SpriteState::Running => Some(SpritePhase::Running),
                SpriteState::Other(_) => None,
            },
            private: sprite.url_settings.auth.as_deref() == Some("sprite"),
            url: sprite.url,
            region: sprite.region,
            id: sprite.id,
            rules: None,
        }
    }
}

/// A rule as it was read.
pub fn rule(read: NetworkRule) -> ReadRule {
    let NetworkRule { domain, action, include, unknown } = read;
    ReadRule { rule: Rule { action, domain, include }, unknown }
}

/// A rule as it is sent.
pub fn network_rule(rule: &Rule) -> NetworkRule {
    NetworkRule {
        domain: rule.domain.clone(),
        action: rule.action.clone(),
        include: rule.include.clone(),
        unknown: Vec::new(),
    }
}

/// Gathers.
pub async fn gather(context: &Context, session: Arc<SandboxSession>) -> Observed {
    let uid = session.uid().unwrap_or_default();
    let namespace = session.namespace().unwrap_or_default();
    let settings = &context.settings;
    let labels = session_name::sprite_labels(&settings.installation, &namespace, &uid);
    let key = SessionKey {
        namespace: &namespace,
        drive: &session.spec.drive,
        conversation: &session.spec.conversation,
        uid: &uid,
    };
    let name = secret(context)
        .map_err(|problem| problem.to_string())
        .and_then(|secret| session_name::sprite_name(&secret, &settings.installation, key).map_err(|e| e.to_string()));
    let seconds = |span: std::time::Duration| i64::try_from(span.as_secs()).unwrap_or(i64::MAX);
    let mut observed = Observed {
        policy: context.policy(context.policy_name(&session.spec)),
        tenant: context.tenant(&namespace),
        switch: *context.switch.borrow(),
        name,
        labels,
        live: Live::NotAsked,
        executions: context.executions.in_session(&uid),
        waited_for: context.waiting.any(&namespace, &session.name_any()),
        nonce: format!("{:032x}", rand::random::<u128>()),
        memory: context.memories.get(&uid),
        now: context.now(),
        timing: Timing {
            absent_after: seconds(settings.absent_after),
            create_grace: seconds(settings.create_grace),
            verify_interval: seconds(settings.verify_interval),
        },
        session,
    };
    if let Some(name) = decide::look_at(&observed) {
        let priority = if observed.session.metadata.deletion_timestamp.is_some() {
            Priority::Delete
        } else if observed.wanted() {
            Priority::Lockdown
        } else {
            Priority::Verify
        };
        let sprites = context.sprites.with_priority(priority);
        observed.live = look(&sprites, &name, &observed.labels, decide::reads_rules(&observed)).await;
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
            Ok(read) => live.rules = Some(read.into_iter().map(rule).collect()),
            Err(error) => return unknown(&error),
        }
    }
    Live::Present(live)
}

fn unknown(error: &sprites::Error) -> Live {
    tracing::info!(%error, "the platform gave no answer about a Sprite");
    Live::Unknown(error.kind().to_owned())
}
