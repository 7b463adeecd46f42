//! Policy combination: what holds for a Run from its session's policy, its own, and what no policy may pass.
//!
//! Only ever tighter: what one of them forbids is forbidden, and what cannot be combined is refused. Egress belongs to the
//! Sprite, so a Run's own policy must demand the same. Must not look a policy up, or judge whether it is in force.

use thiserror::Error;

use super::{
    command::{CommandText, Denial, DenyList},
    egress::Ruleset,
    environment::{self, EnvironmentError},
    limits::Limits,
    quota::{PolicyQuota, Quota},
};

/// What one policy says of a Run.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// Name of the policy.
    pub name: &'a str,
    /// Its limits.
    pub limits: &'a Limits,
    /// The rules that it demands.
    pub egress: &'a Ruleset,
    /// Commands that it refuses.
    pub deny: &'a DenyList,
    /// Variables that it sets.
    pub set: &'a [(String, String)],
    /// Names that it lets a Run set.
    pub allow: &'a [String],
    /// How much it lets be run.
    pub quota: &'a PolicyQuota,
    /// Whether recognisable secrets are masked in what is stored.
    pub redact: bool,
}

/// What holds for a Run.
#[derive(Debug, Clone)]
pub struct Effective<'a> {
    /// The tighter of each.
    pub limits: Limits,
    /// The rules of the session's policy, which the Run's own demands too.
    pub egress: &'a Ruleset,
    /// The tighter of each, for the tenant's tier.
    pub quota: Quota,
    /// Whether either wants secrets masked.
    pub redact: bool,
    deny: Vec<(&'a str, &'a DenyList)>,
    set: Vec<environment::Variable<'a>>,
    allow: Vec<&'a str>,
}

/// Why two policies do not go together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CombineError {
    /// The Sprite has the rules of the session's policy.
    #[error(
        "ExecutionPolicy {run} demands other egress than {session}, which the session's Sprite has: use a session under it"
    )]
    Egress {
        /// The Run's policy.
        run: String,
        /// The session's.
        session: String,
    },
    /// The Run's policy sets what a Run in this session may not set.
    #[error(
        "ExecutionPolicy {run} sets `{variable}`, which {session} neither sets so nor allows: name it in environment.allow of \
         {session}, or use a session under {run}"
    )]
    Variable {
        /// The variable.
        variable: String,
        /// The Run's policy.
        run: String,
        /// The session's.
        session: String,
    },
}

/// Combines the session's policy with a Run's own, if it names one; `tier` is the tenant's. All reasons against it at once.
pub fn combine<'a>(
    session: Terms<'a>,
    run: Option<Terms<'a>>,
    tier: Option<&str>,
) -> Result<Effective<'a>, Vec<CombineError>> {
    let policies = || std::iter::once(session).chain(run);
    let mut errors = Vec::new();
    let mut set: Vec<environment::Variable<'a>> = session.set.iter().map(pair).collect();
    if let Some(run) = run {
        if run.egress.hash() != session.egress.hash() {
            errors.push(CombineError::Egress { run: run.name.to_owned(), session: session.name.to_owned() });
        }
        for (name, value) in run.set.iter().map(pair) {
            let own = set.iter_mut().find(|(other, _)| *other == name);
            match own {
                Some((_, same)) if *same == value => {}
                // The session's policy lets a Run give it another value, and this is a Run's.
                Some((_, other)) if allows(&session, name) => *other = value,
                None if allows(&session, name) => set.push((name, value)),
                Some(_) | None => errors.push(CombineError::Variable {
                    variable: name.to_owned(),
                    run: run.name.to_owned(),
                    session: session.name.to_owned(),
                }),
            }
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let allow = session.allow.iter().map(String::as_str);
    let allow = allow.filter(|name| run.as_ref().is_none_or(|run| allows(run, name))).collect();
    let quota = session.quota.for_tier(tier);
    Ok(Effective {
        limits: limits(policies().map(|policy| policy.limits)),
        egress: session.egress,
        quota: run.map_or(quota, |run| quota.tightened_by(&run.quota.for_tier(tier))),
        redact: policies().any(|policy| policy.redact),
        deny: policies().map(|policy| (policy.name, policy.deny)).collect(),
        set,
        allow,
    })
}

/// The tightest of these limits and of what no policy may pass.
pub fn limits<'a>(policies: impl IntoIterator<Item = &'a Limits>) -> Limits {
    policies.into_iter().fold(Limits::MAXIMA, |tightest, limits| tightest.tightened_by(limits))
}

fn pair((name, value): &(String, String)) -> environment::Variable<'_> {
    (name, value)
}

fn allows(policy: &Terms<'_>, name: &str) -> bool {
    policy.allow.iter().any(|allowed| allowed == name)
}

impl Effective<'_> {
    /// Expressions that a command matches: the first of each policy, with its name.
    pub fn denies<'s>(&'s self, command: &'s CommandText<'_>) -> impl Iterator<Item = (&'s str, Denial<'s>)> {
        self.deny.iter().filter_map(move |(policy, list)| list.denies(command).map(|denial| (*policy, denial)))
    }

    /// The variables of a command that sets `own` ones.
    pub fn environment(
        &self,
        own: &[environment::Variable<'_>],
    ) -> Result<Vec<(String, String)>, Vec<EnvironmentError>> {
        environment::combine(&self.set, &self.allow, own)
    }
}

#[cfg(test)]
mod tests;
