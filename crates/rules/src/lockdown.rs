//! The lockdown token, and the one verdict on a Sprite: is it locked down with these rules?
//!
//! The token binds an instance to the rules confirmed on it. Must not read or send anything.

pub mod failure;

use std::fmt;

use super::egress::{ReadRule, Ruleset, compare};

/// `<instance id>:<egress hash>`: the rules with this hash were read back from this instance.
///
/// A new one is made of a [`Confirmed`] only; one that is on record is read by [`Token::parse`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    instance: String,
    egress: String,
}

impl Token {
    /// Reads a recorded token. Anything that is not exactly one is no proof.
    pub fn parse(text: &str) -> Option<Self> {
        // The hash holds no colon; the id is opaque and might.
        let (instance, egress) = text.rsplit_once(':')?;
        let hash = egress.len() == 64 && egress.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        (!instance.is_empty() && hash).then(|| Self { instance: instance.to_owned(), egress: egress.to_owned() })
    }

    /// The platform's instance id.
    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// SHA3-256 of the canonical rules, 64 hex digits.
    pub fn egress(&self) -> &str {
        &self.egress
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.instance, self.egress)
    }
}

impl From<Confirmed> for Token {
    fn from(confirmed: Confirmed) -> Self {
        Self { instance: confirmed.instance, egress: confirmed.hash }
    }
}

/// A lockdown that was read back from this instance and is what was demanded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirmed {
    instance: String,
    hash: String,
}

impl Confirmed {
    /// Confirms what was read of a live Sprite: ours, private, with exactly the demanded rules.
    pub fn of(demanded: &Ruleset, live: LiveInstance<'_>) -> Result<Self, Difference> {
        let rules = live.rules.ok_or(Difference::RulesNotRead)?;
        differs(demanded, live.id, live, rules)?;
        Ok(Self { instance: live.id.to_owned(), hash: demanded.hash().to_owned() })
    }
}

/// A live Sprite, as it was read.
#[derive(Debug, Clone, Copy)]
pub struct LiveInstance<'a> {
    /// Its instance id.
    pub id: &'a str,
    /// Whether it carries all of our labels for this session.
    pub ours: bool,
    /// Whether its URL is private.
    pub private: bool,
    /// Its rules; nothing: they were not read, since it sleeps.
    pub rules: Option<&'a [ReadRule]>,
}

/// What a session must have on record.
#[derive(Debug, Clone, Copy)]
pub struct Demanded<'a> {
    /// The rules that its policy asks for.
    pub rules: &'a Ruleset,
    /// Hash of the operator's runner.
    pub runner: &'a str,
}

/// What a session has on record.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recorded<'a> {
    /// The instance.
    pub instance: Option<&'a str>,
    /// The token.
    pub token: Option<&'a str>,
    /// Hash of the runner that was put into it last.
    pub runner: Option<&'a str>,
    /// Whether no lockdown of this instance was ever confirmed.
    pub fresh: bool,
}

/// How the live Sprite differs from what is on record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Another instance.
    Instance,
    /// Without our labels.
    NotOurs,
    /// A URL that is not private.
    UrlPublic,
    /// Other rules.
    Rules(Vec<String>),
    /// Its rules were not read.
    RulesNotRead,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Instance => f.write_str("the live Sprite is another instance than the one on record"),
            Self::NotOurs => f.write_str("the live Sprite does not carry our labels"),
            Self::UrlPublic => f.write_str("the live Sprite's URL is not private"),
            Self::Rules(differences) => write!(f, "the live rules differ: {}", differences.join(", ")),
            Self::RulesNotRead => f.write_str("the live rules were not read"),
        }
    }
}

/// Why rules must be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyReason {
    /// No token was ever confirmed for this instance.
    Fresh,
    /// No instance is on record.
    InstanceUnknown,
    /// No token is recorded, or one that cannot be read.
    NoToken,
    /// The recorded rules are not those demanded now.
    EgressDiffers,
    /// The token is of another instance than the recorded one.
    InstanceDiffers,
    /// The recorded runner is not the operator's.
    RunnerDiffers,
}

impl ApplyReason {
    /// Why nothing may start on such a record, for people.
    pub const fn message(self) -> &'static str {
        match self {
            Self::InstanceUnknown => "no Sprite is locked down",
            Self::Fresh | Self::NoToken => "the lockdown is not proved",
            Self::EgressDiffers | Self::InstanceDiffers => {
                "the recorded lockdown is for another instance or other rules"
            }
            Self::RunnerDiffers => "the runner in the Sprite is not this operator's version",
        }
    }
}

/// The verdict on a Sprite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assessment {
    /// The live Sprite contradicts what is on record, whatever is demanded now.
    Lost(Difference),
    /// What is on record is not what is demanded now: apply, read back, compare.
    Apply(ApplyReason),
    /// The record is what is demanded, and nothing that was read contradicts it.
    Holds {
        /// The token.
        token: Token,
        /// Whether the live rules were read and are those demanded.
        read: bool,
    },
}

/// Is this Sprite locked down with these rules? The only place that answers.
///
/// `demanded`: nothing while no policy is in force. `live`: the Sprite, where it was read.
pub fn assess(demanded: Option<Demanded<'_>>, recorded: Recorded<'_>, live: Option<LiveInstance<'_>>) -> Assessment {
    let Some(instance) = recorded.instance.filter(|id| !id.is_empty()) else {
        return Assessment::Apply(ApplyReason::InstanceUnknown);
    };
    let token = recorded.token.and_then(Token::parse);
    if let (Some(token), Some(live)) = (&token, live) {
        // Under a policy that changed since, the rules to expect are not known any more; they are applied anyhow.
        let expected = demanded.map(|demanded| demanded.rules).filter(|rules| rules.hash() == token.egress);
        let rules = live.rules.filter(|_| expected.is_some());
        let contradicted = match (expected, rules) {
            (Some(expected), Some(rules)) => differs(expected, instance, live, rules),
            (Some(_) | None, _) => differs_but_for_rules(instance, live),
        };
        if let Err(difference) = contradicted {
            return Assessment::Lost(difference);
        }
    }
    if recorded.fresh {
        return Assessment::Apply(ApplyReason::Fresh);
    }
    // Before the token: it is taken back for this, and the cause is to be told until it is mended.
    if demanded.is_some_and(|demanded| recorded.runner != Some(demanded.runner)) {
        return Assessment::Apply(ApplyReason::RunnerDiffers);
    }
    let Some(token) = token else { return Assessment::Apply(ApplyReason::NoToken) };
    if token.instance != instance {
        return Assessment::Apply(ApplyReason::InstanceDiffers);
    }
    match demanded {
        Some(demanded) if demanded.rules.hash() != token.egress => Assessment::Apply(ApplyReason::EgressDiffers),
        Some(_) => Assessment::Holds { token, read: live.is_some_and(|live| live.rules.is_some()) },
        None => Assessment::Holds { token, read: false },
    }
}

fn differs_but_for_rules(instance: &str, live: LiveInstance<'_>) -> Result<(), Difference> {
    if live.id != instance {
        return Err(Difference::Instance);
    }
    if !live.ours {
        return Err(Difference::NotOurs);
    }
    if !live.private {
        return Err(Difference::UrlPublic);
    }
    Ok(())
}

fn differs(demanded: &Ruleset, instance: &str, live: LiveInstance<'_>, rules: &[ReadRule]) -> Result<(), Difference> {
    differs_but_for_rules(instance, live)?;
    let found = compare(demanded.rules(), rules);
    if found.is_equal() { Ok(()) } else { Err(Difference::Rules(found.differences)) }
}

#[cfg(test)]
mod tests;
