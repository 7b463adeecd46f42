//! Egress: from what a policy demands to the platform's rules, their hash, and the comparison with what was read back.
//!
//! Nothing is dropped silently: an entry is used as normalised, or refused with what to write instead. Must not know
//! which Sprite the rules are for.

pub mod compare;
pub mod hostname;
pub mod matching;

use std::{collections::BTreeSet, fmt::Write as _};

use serde::Serialize;
use sha3::{Digest, Sha3_256};
use thiserror::Error;

pub use compare::{Comparison, ReadRule, compare};
pub use hostname::{Pattern, PatternError};

/// Names of the platform itself; never reachable, whatever a policy says. Each zone covers the name and all below it.
pub const PROVIDER_INTERNAL: &[&str] = &[
    "_api.internal",
    "*.internal",
    "flycast",
    "*.flycast",
    "fly.storage.tigris.dev",
    "*.fly.storage.tigris.dev",
    "t3.tigrisfiles.io",
    "*.t3.tigrisfiles.io",
];

/// One rule as the platform knows it: either a domain with an action, or a preset to include.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Rule {
    /// `allow` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// A host name, `*.suffix`, or `*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// A preset of the platform.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
}

impl Rule {
    fn new(action: &str, domain: impl Into<String>) -> Self {
        Self { action: Some(action.to_owned()), domain: Some(domain.into()), include: None }
    }
}

/// How a policy decides egress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing.
    DenyAll,
    /// Only what is listed.
    Allowlist,
    /// Everything but what is denied.
    Open,
}

/// What a policy demands.
#[derive(Debug, Clone, Copy)]
pub struct Demand<'a> {
    /// How it decides.
    pub mode: Mode,
    /// Entries as written.
    pub allow: &'a [String],
    /// Entries as written.
    pub deny: &'a [String],
    /// Whether the platform's own preset of allows is asked for.
    pub defaults: bool,
}

/// Why a demand was refused; one for each bad entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum EgressError {
    /// The entry is no host pattern.
    #[error("egress.{list}: `{entry}` {why}")]
    Entry {
        /// `allow` or `deny`.
        list: &'static str,
        /// As written.
        entry: String,
        /// What is wrong and what to write.
        why: PatternError,
    },
    /// An allow that reaches into the platform's own names.
    #[error("egress.allow: `{entry}` would reach {zone}, which belongs to the platform: remove it")]
    Overlap {
        /// As written.
        entry: String,
        /// The denied zone.
        zone: &'static str,
    },
    /// The same name is allowed and denied.
    #[error("egress: `{0}` stands in both allow and deny: keep it in one of them")]
    Contradiction(String),
    /// `DenyAll` with allows.
    #[error("egress: mode DenyAll, the default, allows nothing: set mode to Allowlist, or remove allow and presets")]
    DenyAllAllows,
    /// `Open` without the operator's consent.
    #[error(
        "egress: mode Open is not allowed by this operator: start it with --allow-open-egress, or set mode to Allowlist"
    )]
    OpenNotAllowed,
}

/// Rules to send, never empty: an empty list would mean unrestricted on the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruleset {
    rules: Vec<Rule>,
    hash: String,
}

impl Ruleset {
    /// The rules that deny everything: exactly one.
    pub fn deny_all() -> Self {
        Self::of(vec![Rule::new("deny", "*")])
    }

    fn of(rules: Vec<Rule>) -> Self {
        let hash = hash(&rules);
        Self { rules, hash }
    }

    /// The rules in the order in which they are sent.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// SHA3-256 over the canonical form, hex.
    pub fn hash(&self) -> &str {
        &self.hash
    }
}

/// The rules that a demand comes to, or everything that is wrong with it.
pub fn build(demand: Demand<'_>, open_allowed: bool) -> Result<Ruleset, Vec<EgressError>> {
    let mut errors = Vec::new();
    let allow = patterns("allow", demand.allow, &mut errors);
    let deny = patterns("deny", demand.deny, &mut errors);
    for (entry, pattern) in &allow {
        if let Some(zone) = PROVIDER_INTERNAL.iter().find(|zone| pattern.overlaps(zone)) {
            errors.push(EgressError::Overlap { entry: shown(entry), zone });
        }
        if deny.iter().any(|(_, denied)| denied == pattern) {
            errors.push(EgressError::Contradiction(pattern.to_string()));
        }
    }
    match demand.mode {
        Mode::DenyAll if !demand.allow.is_empty() || demand.defaults => errors.push(EgressError::DenyAllAllows),
        Mode::Open if !open_allowed => errors.push(EgressError::OpenNotAllowed),
        Mode::DenyAll | Mode::Allowlist | Mode::Open => {}
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if demand.mode == Mode::DenyAll {
        return Ok(Ruleset::deny_all());
    }
    let mut rules: Vec<Rule> = PROVIDER_INTERNAL.iter().map(|zone| Rule::new("deny", *zone)).collect();
    let named = |list: &[(&str, Pattern)]| list.iter().map(|(_, p)| p.to_string()).collect::<BTreeSet<_>>();
    // Public names of metadata services that an allow would cover.
    let open = demand.mode == Mode::Open;
    for service in hostname::METADATA.iter().filter(|name| !name.ends_with(".internal")) {
        if open || allow.iter().any(|(_, pattern)| pattern.overlaps(service)) {
            rules.extend([Rule::new("deny", *service), Rule::new("deny", format!("*.{service}"))]);
        }
    }
    rules.extend(named(&deny).into_iter().map(|domain| Rule::new("deny", domain)));
    rules.extend(named(&allow).into_iter().map(|domain| Rule::new("allow", domain)));
    if demand.defaults {
        rules.push(Rule { action: None, domain: None, include: Some("defaults".to_owned()) });
    }
    rules.push(Rule::new(if open { "allow" } else { "deny" }, "*"));
    Ok(Ruleset::of(rules))
}

fn patterns<'a>(list: &'static str, entries: &'a [String], errors: &mut Vec<EgressError>) -> Vec<(&'a str, Pattern)> {
    let mut parsed = Vec::with_capacity(entries.len());
    for entry in entries {
        match Pattern::parse(entry) {
            Ok(pattern) => parsed.push((entry.as_str(), pattern)),
            Err(why) => errors.push(EgressError::Entry { list, entry: shown(entry), why }),
        }
    }
    parsed
}

/// An entry as it may be repeated to people: without a user and password before the host, on one line, cut.
fn shown(entry: &str) -> String {
    const KEPT: usize = 80;
    let (scheme, rest) = entry.split_once("://").map_or(("", entry), |(scheme, rest)| (scheme, rest));
    let host = rest.rsplit_once('@').map(|(_, host)| format!("…@{host}"));
    let text = match (scheme, host) {
        (_, None) => entry.to_owned(),
        ("", Some(host)) => host,
        (scheme, Some(host)) => format!("{scheme}://{host}"),
    };
    let mut line: String = text.chars().take(KEPT).flat_map(char::escape_debug).collect();
    if text.chars().nth(KEPT).is_some() {
        line.push('…');
    }
    line
}

/// SHA3-256, in hex, over the rules in order, without duplicates: for each its fields action, domain and include, where they are there, as
/// `key=LENGTH:value`, then a line feed. The order of entries does not count.
fn hash(rules: &[Rule]) -> String {
    let canonical: BTreeSet<&Rule> = rules.iter().collect();
    let mut digest = Sha3_256::new();
    for rule in canonical {
        for (key, value) in [("action", &rule.action), ("domain", &rule.domain), ("include", &rule.include)] {
            if let Some(value) = value {
                // Length-prefixed, so that no two different rules give the same bytes.
                digest.update(format!("{key}={}:", value.len()));
                digest.update(value);
            }
        }
        digest.update(b"\n");
    }
    hex(&digest.finalize())
}

/// Lower-case hex.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|e| (*e).to_owned()).collect()
    }

    fn allowlist(allow: &[&str], deny: &[&str]) -> Result<Ruleset, Vec<EgressError>> {
        let (allow, deny) = (list(allow), list(deny));
        build(Demand { mode: Mode::Allowlist, allow: &allow, deny: &deny, defaults: false }, false)
    }

    #[test]
    fn a_refusal_repeats_no_password_and_stays_on_one_line() {
        let secret = ["hunter", "2"].concat();
        for entry in
            [format!("user:{secret}@example.com"), format!("https://a:b@{secret}@example.com/x"), format!("{secret}@")]
        {
            let demand = Demand { mode: Mode::Allowlist, allow: &[entry], deny: &[], defaults: false };
            let errors = build(demand, false).unwrap_err();
            assert!(!errors[0].to_string().contains(&secret), "{}", errors[0]);
        }
        assert_eq!(shown("a\nb\u{202e}"), "a\\nb\\u{202e}");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), 81);
    }

    #[test]
    fn deny_all_is_exactly_one_rule_and_never_an_empty_list() {
        let rules = build(Demand { mode: Mode::DenyAll, allow: &[], deny: &[], defaults: false }, false).unwrap();
        assert_eq!(rules.rules(), [Rule::new("deny", "*")]);
    }

    #[rstest]
    #[case::an_allow(&["example.com"], false)]
    #[case::a_preset(&[], true)]
    #[case::both(&["example.com"], true)]
    fn deny_all_with_something_allowed_is_refused(#[case] allow: &[&str], #[case] defaults: bool) {
        let demand = Demand { mode: Mode::DenyAll, allow: &list(allow), deny: &[], defaults };
        assert_eq!(build(demand, true).unwrap_err(), [EgressError::DenyAllAllows]);
    }

    #[test]
    fn an_allowlist_is_the_platforms_own_denies_then_the_entries_then_deny() {
        let rules = allowlist(&["api.example.com", "*.example.org"], &["bad.example.org"]).unwrap();
        let n = PROVIDER_INTERNAL.len();
        assert_eq!(
            rules.rules()[n..],
            [
                Rule::new("deny", "bad.example.org"),
                Rule::new("allow", "*.example.org"),
                Rule::new("allow", "api.example.com"),
                Rule::new("deny", "*"),
            ]
        );
        assert!(rules.rules()[..n].iter().all(|r| r.action.as_deref() == Some("deny")));
    }

    #[test]
    fn every_bad_entry_is_named_at_once() {
        let errors = allowlist(&["http://example.com/x", "10.0.0.1", "ok.example.com"], &["*"]).unwrap_err();
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(errors[0].to_string().contains("http://example.com/x"));
    }

    #[test]
    fn no_allow_reaches_into_the_platforms_own_names() {
        for entry in ["fly.storage.tigris.dev", "x.fly.storage.tigris.dev", "*.storage.tigris.dev", "*.tigrisfiles.io"]
        {
            let errors = allowlist(&[entry], &[]).unwrap_err();
            assert!(errors.iter().any(|e| matches!(e, EgressError::Overlap { .. })), "{entry}: {errors:?}");
        }
    }

    #[test]
    fn the_same_name_in_another_spelling_is_still_a_contradiction() {
        let errors = allowlist(&["Example.COM."], &["example.com"]).unwrap_err();
        assert_eq!(errors, [EgressError::Contradiction("example.com".to_owned())]);
    }

    #[test]
    fn open_needs_consent_and_keeps_the_platforms_denies() {
        let demand = Demand { mode: Mode::Open, allow: &[], deny: &[], defaults: false };
        assert_eq!(build(demand, false).unwrap_err(), [EgressError::OpenNotAllowed]);
        let rules = build(demand, true).unwrap();
        assert_eq!(rules.rules().last(), Some(&Rule::new("allow", "*")));
        let services = hostname::METADATA.iter().filter(|name| !name.ends_with(".internal"));
        assert_eq!(rules.rules().len(), PROVIDER_INTERNAL.len() + 2 * services.count() + 1);
        assert!(rules.rules().contains(&Rule::new("deny", "metadata.goog")));
    }

    #[test]
    fn a_wildcard_does_not_open_a_metadata_service() {
        let rules = allowlist(&["*.azure.com"], &[]).unwrap();
        assert_eq!(
            rules.rules()[PROVIDER_INTERNAL.len()..],
            [
                Rule::new("deny", "metadata.azure.com"),
                Rule::new("deny", "*.metadata.azure.com"),
                Rule::new("allow", "*.azure.com"),
                Rule::new("deny", "*"),
            ]
        );
        let decision = matching::decide(rules.rules(), "metadata.azure.com");
        assert!(matches!(decision, matching::Decision::Denied { .. }), "{decision:?}");
    }

    #[test]
    fn the_hash_is_stable_across_releases() {
        assert_eq!(Ruleset::deny_all().hash(), "333c7c26d8e5bfd67d0981fc8a61484ac9984d19a48fc9164cfe934c71d3fb06");
    }

    proptest! {
        #[test]
        fn the_order_of_entries_changes_neither_rules_nor_hash(mut entries in proptest::collection::vec("[a-z]{1,8}\\.example\\.com", 1..8)) {
            let one = build(Demand { mode: Mode::Allowlist, allow: &entries, deny: &[], defaults: false }, false).unwrap();
            entries.reverse();
            let two = build(Demand { mode: Mode::Allowlist, allow: &entries, deny: &[], defaults: false }, false).unwrap();
            prop_assert_eq!(one, two);
        }
    }
}
