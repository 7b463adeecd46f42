//! Which names a policy lets a guest look up. Pure.
//!
//! The most specific pattern that covers a name decides: the exact name, then the longest `*.suffix`, then `*`. The
//! order of the rules is irrelevant. What the platform's documents leave open is decided here, on the closed side:
//! any rule at all means that names covered by none are denied; `*.example.com` does not cover `example.com`; of two
//! rules with the same pattern a deny wins.

use std::collections::HashMap;

use crate::policy::NetworkPolicy;

/// What `include: defaults` allows. It only adds allows: it never changes what an explicit rule with the same or a
/// more specific pattern says.
const DEFAULTS: &[&str] = &[
    // GitHub
    "github.com",
    "*.github.com",
    "*.githubusercontent.com",
    "*.githubassets.com",
    "ghcr.io",
    // npm
    "npmjs.com",
    "*.npmjs.com",
    "npmjs.org",
    "*.npmjs.org",
    "registry.yarnpkg.com",
    // PyPI
    "pypi.org",
    "*.pypi.org",
    "pypi.python.org",
    "pythonhosted.org",
    "*.pythonhosted.org",
    // RubyGems
    "rubygems.org",
    "*.rubygems.org",
    // Rust
    "crates.io",
    "*.crates.io",
    "static.rust-lang.org",
    // Docker Hub
    "docker.io",
    "*.docker.io",
    "docker.com",
    "*.docker.com",
    // AI APIs
    "anthropic.com",
    "*.anthropic.com",
    "claude.ai",
    "openai.com",
    "*.openai.com",
    "generativelanguage.googleapis.com",
    "openrouter.ai",
    "api.mistral.ai",
    "api.groq.com",
    "api.cohere.com",
    "api.x.ai",
];

/// A policy made ready for look-ups.
#[derive(Debug, Clone, Default)]
pub(super) struct Matcher {
    /// By pattern in lower case: whether it allows. None without a rule: everything is allowed.
    patterns: Option<HashMap<String, bool>>,
}

impl Matcher {
    /// Reads a policy that has passed [`NetworkPolicy::parse`].
    pub(super) fn new(policy: &NetworkPolicy) -> Self {
        if policy.rules.is_empty() {
            return Self::default();
        }
        let mut patterns = HashMap::new();
        let mut presets = false;
        for rule in &policy.rules {
            presets |= rule.include.is_some();
            if let Some(domain) = &rule.domain {
                // Anything but the word "allow" closes.
                let allows = rule.action.as_deref() == Some("allow");
                *patterns.entry(domain.to_ascii_lowercase()).or_insert(true) &= allows;
            }
        }
        if presets {
            for &pattern in DEFAULTS {
                patterns.entry(String::from(pattern)).or_insert(true);
            }
        }
        Self { patterns: Some(patterns) }
    }

    /// Whether there is no rule at all.
    pub(super) fn is_unrestricted(&self) -> bool {
        self.patterns.is_none()
    }

    /// Whether `name`, in the form of [`canonical`], may be looked up.
    pub(super) fn allows(&self, name: &str) -> bool {
        let Some(patterns) = &self.patterns else { return true };
        if let Some(allows) = patterns.get(name) {
            return *allows;
        }
        let mut rest = name;
        while let Some((_, suffix)) = rest.split_once('.') {
            if let Some(allows) = patterns.get(&format!("*.{suffix}")) {
                return *allows;
            }
            rest = suffix;
        }
        patterns.get("*").copied().unwrap_or(false)
    }
}

/// A host name in lower case without the trailing dot; none for what is no host name. An IP literal is none: rules
/// are about names.
pub(super) fn canonical(name: &str) -> Option<String> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // No top-level domain is a number, so this tells 192.0.2.1 (and 0x7f.1) from a name.
    let numeric = |label: &str| {
        label.starts_with(|c: char| c.is_ascii_digit()) && {
            label.bytes().all(|b| b.is_ascii_digit()) || label.starts_with("0x") || label.starts_with("0X")
        }
    };
    let valid =
        (1..=253).contains(&name.len()) && name.split('.').all(label) && !name.rsplit('.').next().is_some_and(numeric);
    valid.then(|| name.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Rule;
    use proptest::prelude::*;
    use rstest::rstest;

    fn policy(rules: &str) -> NetworkPolicy {
        let rules = rules.split_whitespace().map(|rule| match (rule.strip_prefix('+'), rule.strip_prefix('-')) {
            (Some(domain), _) => Rule::allow(domain),
            (_, Some(domain)) => Rule { action: Some("deny".into()), ..Rule::allow(domain) },
            _ => Rule { domain: None, action: None, include: Some(rule.to_owned()) },
        });
        let policy = NetworkPolicy { rules: rules.collect() };
        NetworkPolicy::parse(&serde_json::to_vec(&policy).unwrap()).unwrap()
    }

    #[rstest]
    #[case("", "anything.example", true)]
    #[case("-*", "example.com", false)]
    #[case("+*", "example.com", true)]
    #[case("+example.com", "example.com", true)]
    #[case("+example.com", "www.example.com", false)]
    #[case("+EXAMPLE.com", "example.com", true)]
    #[case("+*.example.com", "example.com", false)]
    #[case("+*.example.com", "www.example.com", true)]
    #[case("+*.example.com", "a.b.example.com", true)]
    #[case("+*.example.com", "badexample.com", false)]
    #[case("-a.example.com +*.example.com -*", "a.example.com", false)]
    #[case("-a.example.com +*.example.com -*", "b.example.com", true)]
    #[case("-* +a.example.com", "a.example.com", true)]
    #[case("+*.example.com -*.b.example.com", "x.b.example.com", false)]
    #[case("-*.example.com +*.b.example.com", "x.b.example.com", true)]
    #[case("+a.example.com -a.example.com", "a.example.com", false)]
    #[case("-a.example.com +a.example.com", "a.example.com", false)]
    #[case("-a.example.com", "b.example.com", false)]
    #[case("-internal +*", "internal", false)]
    #[case("defaults", "github.com", true)]
    #[case("defaults", "api.github.com", true)]
    #[case("defaults", "files.pythonhosted.org", true)]
    #[case("defaults", "example.com", false)]
    #[case("defaults -github.com", "github.com", false)]
    #[case("-*.github.com defaults", "api.github.com", false)]
    #[case("-* defaults", "github.com", true)]
    #[case("defaults +example.com", "example.com", true)]
    fn rules_decide_by_specificity(#[case] rules: &str, #[case] name: &str, #[case] allowed: bool) {
        assert_eq!(Matcher::new(&policy(rules)).allows(name), allowed, "{rules}: {name}");
    }

    #[rstest]
    #[case("Example.COM.", Some("example.com"))]
    #[case("_api.internal", Some("_api.internal"))]
    #[case("flycast", Some("flycast"))]
    #[case("192.0.2.1", None)]
    #[case("0x7f.0x1", None)]
    #[case("2001:db8::1", None)]
    #[case("a..b", None)]
    #[case("", None)]
    #[case(".", None)]
    #[case("a\\.b", None)]
    #[case("*.example.com", None)]
    fn host_names_have_one_form(#[case] name: &str, #[case] expected: Option<&str>) {
        assert_eq!(canonical(name).as_deref(), expected);
    }

    /// The same question answered the slow way: look at every rule, keep the most specific ones.
    fn reference(policy: &NetworkPolicy, name: &str) -> bool {
        let covers = |pattern: &str| match pattern.strip_prefix('*') {
            Some("") => Some(0),
            Some(suffix) => (name.len() > suffix.len() && name.ends_with(suffix)).then_some(suffix.len()),
            None => (pattern == name).then_some(usize::MAX),
        };
        let rules = policy.rules.iter().map(|rule| (rule.domain.clone().unwrap(), rule.action.clone().unwrap()));
        let covering: Vec<_> = rules.filter_map(|(domain, action)| Some((covers(&domain)?, action))).collect();
        let most = covering.iter().map(|(rank, _)| *rank).max();
        policy.rules.is_empty()
            || most.is_some_and(|most| covering.iter().all(|(rank, action)| *rank < most || action == "allow"))
    }

    proptest! {
        #[test]
        fn the_most_specific_rule_decides_in_any_order(
            rules in prop::collection::vec("[+-](\\*|(\\*\\.)?[ab](\\.[ab]){0,2})", 0..6).prop_shuffle(),
            name in "[ab](\\.[ab]){0,3}",
        ) {
            let policy = policy(&rules.join(" "));
            prop_assert_eq!(Matcher::new(&policy).allows(&name), reference(&policy, &name));
        }

        #[test]
        fn presets_never_close(rules in prop::collection::vec("[+-](\\*|(\\*\\.)?(api\\.)?github\\.com)", 1..4), name in "(api\\.)?github\\.com") {
            let without = Matcher::new(&policy(&rules.join(" "))).allows(&name);
            let with = Matcher::new(&policy(&format!("{} defaults", rules.join(" ")))).allows(&name);
            prop_assert!(with || !without);
        }

        #[test]
        fn any_text_is_a_host_name_or_not(name in ".{0,80}") {
            if let Some(name) = canonical(&name) {
                prop_assert_eq!(canonical(&name), Some(name.clone()));
                prop_assert!(name.parse::<std::net::IpAddr>().is_err());
            }
        }
    }
}
