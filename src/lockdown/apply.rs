//! Locks an instance down: wake, set the rules, read them back, URL private, nonce.
//!
//! Every step is of the recorded instance: its id is read before and after. Must not start anything of a user's.

use std::time::Duration;

use super::{egress_rule, instance::LiveSprite, trusted::trusted};
use api::reasons::SessionReason;
use rules::{
    egress::{Ruleset, compare},
    lockdown::{Confirmed, Difference, failure::Failure},
    runner,
};
use sprites::{Awake, ExecError, Priority, Target, UpdateSprite, UrlSettings};

/// A trusted command on an awake Sprite.
const TRUSTED: Duration = Duration::from_secs(15);

/// Why a lockdown failed.
#[derive(Debug, thiserror::Error)]
pub enum LockFailure {
    /// The rules read back are others.
    #[error("the rules read back differ from those set: {}", .0.join(", "))]
    Differs(Vec<String>),
    /// The URL stays public.
    #[error("the Sprite's URL is not private")]
    UrlPublic,
    /// Another instance answers to the name.
    #[error("the Sprite was replaced while it was locked down")]
    Replaced,
    /// A trusted command in the guest failed.
    #[error("a trusted command in the Sprite failed: {0}")]
    Guest(&'static str),
    /// No answer that says anything.
    #[error("the platform gave no usable answer ({})", .0.kind())]
    Platform(#[source] sprites::Error),
    /// An exec could not be opened.
    #[error("a trusted command in the Sprite could not be started")]
    Exec(#[from] ExecError),
}

impl From<Difference> for LockFailure {
    fn from(difference: Difference) -> Self {
        match difference {
            // Whose it is now, nobody can say.
            Difference::Instance | Difference::NotOurs => Self::Replaced,
            Difference::UrlPublic => Self::UrlPublic,
            Difference::Rules(differences) => Self::Differs(differences),
            Difference::RulesNotRead => Self::Guest("the rules were not read"),
        }
    }
}

impl From<sprites::Error> for LockFailure {
    fn from(error: sprites::Error) -> Self {
        if matches!(error, sprites::Error::Replaced { .. }) { Self::Replaced } else { Self::Platform(error) }
    }
}

/// How a lockdown ends, as metrics say it.
pub const OUTCOMES: [SessionReason; 5] = [
    SessionReason::LockedDown,
    SessionReason::RulesDiffer,
    SessionReason::UrlPublic,
    SessionReason::PlatformDenied,
    SessionReason::PlatformUnavailable,
];

impl LockFailure {
    /// What kind of failure it is.
    pub fn kind(&self) -> Failure {
        match self {
            Self::Differs(_) => Failure::RulesDiffer,
            Self::UrlPublic => Failure::UrlPublic,
            Self::Replaced => Failure::Replaced,
            Self::Guest(_) => Failure::Guest,
            Self::Platform(error) => Failure::NoAnswer(error.retry_after()),
            Self::Exec(_) => Failure::NoAnswer(None),
        }
    }

    /// The word for it.
    pub const fn reason(&self) -> SessionReason {
        match self {
            Self::Differs(_) => SessionReason::RulesDiffer,
            Self::UrlPublic => SessionReason::UrlPublic,
            Self::Platform(sprites::Error::Denied { .. } | sprites::Error::Token(_)) => SessionReason::PlatformDenied,
            Self::Replaced | Self::Guest(_) | Self::Platform(_) | Self::Exec(_) => SessionReason::PlatformUnavailable,
        }
    }
}

/// What is to be locked.
#[derive(Debug, Clone, Copy)]
pub struct Instance<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its id.
    pub id: &'a str,
    /// Its nonce.
    pub nonce: &'a str,
    /// Our labels for it.
    pub labels: &'a [String; 3],
}

/// Locks, and reads it back: what is confirmed by that, and the instance as it was seen awake.
pub async fn apply(
    sprites: &sprites::Client,
    instance: Instance<'_>,
    rules: &Ruleset,
) -> Result<(Confirmed, Awake), LockFailure> {
    let Instance { name, id, nonce, labels: _ } = instance;
    let sprites = sprites.with_priority(Priority::Lockdown);
    let awake = sprites.wake(name).await?;
    if awake.id() != id {
        return Err(LockFailure::Replaced);
    }
    let wire: Vec<_> = rules.rules().iter().map(egress_rule::sent).collect();
    sprites.set_network_policy(&awake.checked(), &wire).await?;
    let read: Vec<_> = sprites.network_policy(&awake).await?.into_iter().map(egress_rule::read).collect();
    let unknown = compare(rules.rules(), &read).unknown_fields;
    if !unknown.is_empty() {
        // No difference, and yet somebody should look what they mean.
        tracing::warn!(sprite = name, fields = unknown.join(", "), "egress rules have fields that are not known");
    }
    let mut live = LiveSprite { rules: Some(read), ..this_instance(&sprites, instance).await? };
    if !live.private {
        let update = UpdateSprite { url_settings: Some(UrlSettings::private()), labels: None };
        sprites.update(Target::instance(name, id), &update).await?;
        live = LiveSprite { rules: live.rules, ..this_instance(&sprites, instance).await? };
    }
    // Nothing of ours is put into a Sprite that is not locked down.
    Confirmed::of(rules, live.as_read())?;
    let output = trusted(&sprites, &awake, runner::lockdown(nonce), TRUSTED).await?;
    if output.exit != Some(0) || output.stdout != runner::lockdown_answer(nonce).as_bytes() {
        return Err(LockFailure::Guest("the nonce could not be written"));
    }
    let live = LiveSprite { rules: live.rules, ..this_instance(&sprites, instance).await? };
    Ok((Confirmed::of(rules, live.as_read())?, awake))
}

/// What the name stands for now, if it is still this instance.
async fn this_instance(sprites: &sprites::Client, instance: Instance<'_>) -> Result<LiveSprite, LockFailure> {
    let sprite = sprites.get(instance.name).await?;
    if sprite.id == instance.id { Ok(LiveSprite::of(sprite, instance.labels)) } else { Err(LockFailure::Replaced) }
}
