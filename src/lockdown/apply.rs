//! Locks an instance down: wake, set the rules, read them back, URL private, runner and nonce.
//!
//! Every step is of the recorded instance: its id is read before and after. Must not start anything of a user's.

use super::{
    egress_rule,
    instance::LiveSprite,
    runner::{self, PutFailure},
};
use api::reasons::SessionReason;
use rules::{
    egress::{Ruleset, compare},
    lockdown::{Confirmed, Difference, failure::Failure},
};
use sprites::{Awake, ExecError, Priority, Target, UpdateSprite, UrlSettings};

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
    /// The runner does not exist for this Sprite.
    #[error("the Sprite cannot execute the runner, which is built for x86_64 Linux")]
    UnsupportedPlatform,
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

impl From<PutFailure> for LockFailure {
    fn from(failure: PutFailure) -> Self {
        match failure {
            PutFailure::Refused(_) => Self::Guest("the runner could not be written"),
            PutFailure::NotInstalled { exit: _ } => Self::Guest("the runner could not install itself"),
            PutFailure::UnsupportedPlatform => Self::UnsupportedPlatform,
            PutFailure::Platform(error) | PutFailure::Cut(error) => error.into(),
            PutFailure::Exec(error) => Self::Exec(error),
        }
    }
}

/// How a lockdown ends, as metrics say it.
pub const OUTCOMES: [SessionReason; 6] = [
    SessionReason::LockedDown,
    SessionReason::RulesDiffer,
    SessionReason::UrlPublic,
    SessionReason::PlatformDenied,
    SessionReason::PlatformUnavailable,
    SessionReason::UnsupportedPlatform,
];

impl LockFailure {
    /// What kind of failure it is.
    pub fn kind(&self) -> Failure {
        match self {
            Self::Differs(_) => Failure::RulesDiffer,
            Self::UrlPublic => Failure::UrlPublic,
            Self::Replaced => Failure::Replaced,
            Self::Guest(_) => Failure::Guest,
            Self::UnsupportedPlatform => Failure::UnsupportedPlatform,
            Self::Platform(error) => Failure::NoAnswer(error.retry_after()),
            Self::Exec(_) => Failure::NoAnswer(None),
        }
    }

    /// The word for it.
    pub const fn reason(&self) -> SessionReason {
        match self {
            Self::Differs(_) => SessionReason::RulesDiffer,
            Self::UrlPublic => SessionReason::UrlPublic,
            Self::UnsupportedPlatform => SessionReason::UnsupportedPlatform,
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
    runner::put(&sprites, &awake, nonce).await.inspect_err(|failure| {
        tracing::debug!(sprite = name, %failure, "the runner was not put into a Sprite");
    })?;
    let live = LiveSprite { rules: live.rules, ..this_instance(&sprites, instance).await? };
    Ok((Confirmed::of(rules, live.as_read())?, awake))
}

/// What the name stands for now, if it is still this instance.
async fn this_instance(sprites: &sprites::Client, instance: Instance<'_>) -> Result<LiveSprite, LockFailure> {
    let sprite = sprites.get(instance.name).await?;
    if sprite.id == instance.id { Ok(LiveSprite::of(sprite, instance.labels)) } else { Err(LockFailure::Replaced) }
}
