//! Whether rules let a host through, as the platform decides it: the most specific rule wins, whatever the order.
//!
//! An exact name is more specific than `*.suffix`, a longer suffix more than a shorter one, and `*` is the least. Where an
//! allow and a deny are equally specific the deny wins; a name that no rule matches is denied, since there are rules at all.
//! Must not resolve anything, and does not know what the platform's presets hold.

use std::fmt;

use super::{Pattern, PatternError, Rule};

/// What rules say of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// An allow is the most specific rule.
    Allowed {
        /// The rule's domain.
        by: String,
    },
    /// A deny is the most specific rule, or one of them.
    Denied {
        /// The rule's domain.
        by: String,
    },
    /// No rule names it.
    Unlisted,
    /// No rule but `*` names it, and the platform's own preset, whose names only the platform knows, may allow it.
    Preset {
        /// The preset.
        include: String,
    },
    /// There are no rules: the platform lets everything through.
    Unrestricted,
    /// It is no host that rules could name.
    NoHost(PatternError),
}

impl Decision {
    /// Whether it is certain that the host is let through.
    pub const fn is_allowed(&self) -> bool {
        match self {
            Self::Allowed { .. } | Self::Unrestricted => true,
            Self::Denied { .. } | Self::Unlisted | Self::Preset { .. } | Self::NoHost(_) => false,
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Allowed { by } => write!(f, "allowed by {by}"),
            Self::Denied { by } => write!(f, "denied by {by}"),
            Self::Unlisted => f.write_str("denied: no rule names it"),
            Self::Preset { include } => {
                write!(f, "not allowed by the policy itself; the platform's preset `{include}` may allow it")
            }
            Self::Unrestricted => f.write_str("allowed: there are no rules"),
            Self::NoHost(why) => write!(f, "no rule can name it: it {why}"),
        }
    }
}

/// What these rules say of a host, as a person writes it.
pub fn decide(rules: &[Rule], host: &str) -> Decision {
    if rules.is_empty() {
        return Decision::Unrestricted;
    }
    // A name of the platform or of special use is a host like others here: it may well be asked for.
    let host = match Pattern::host(host) {
        Ok(host) => host,
        Err(why) => return Decision::NoHost(why),
    };
    let mut best: Option<(usize, bool, &str)> = None;
    for rule in rules {
        let Some(domain) = rule.domain.as_deref() else { continue };
        let Some(rank) = specificity(domain, &host) else { continue };
        // An action that we do not know is no allow.
        let denies = rule.action.as_deref() != Some("allow");
        if best.is_none_or(|(other, denied, _)| rank > other || (rank == other && denies && !denied)) {
            best = Some((rank, denies, domain));
        }
    }
    let preset = rules.iter().find_map(|rule| rule.include.clone());
    match (best, preset) {
        (Some((_, false, by)), _) => Decision::Allowed { by: by.to_owned() },
        // Whatever the preset names is more specific than `*`.
        (Some((0, true, _)) | None, Some(include)) => Decision::Preset { include },
        (Some((_, true, by)), _) => Decision::Denied { by: by.to_owned() },
        (None, None) => Decision::Unlisted,
    }
}

/// How specific a rule is for this host; nothing when it does not match. `*` is 0; an exact name is above every suffix.
fn specificity(domain: &str, host: &str) -> Option<usize> {
    let domain = domain.trim_end_matches('.').to_ascii_lowercase();
    if domain == "*" {
        return Some(0);
    }
    match domain.strip_prefix("*.") {
        // The apex is not below itself. No suffix is as unspecific as `*`: an empty one matches no host, which ends with no dot.
        Some(suffix) => host.strip_suffix(suffix).is_some_and(|head| head.ends_with('.')).then_some(suffix.len()),
        None => (domain == host).then_some(usize::MAX),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::super::{Demand, Mode, build};
    use super::*;

    fn rules(allow: &[&str], deny: &[&str], mode: Mode, defaults: bool) -> Vec<Rule> {
        let list = |entries: &[&str]| entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>();
        let (allow, deny) = (list(allow), list(deny));
        build(Demand { mode, allow: &allow, deny: &deny, defaults }, true).unwrap().rules().to_vec()
    }

    #[rstest]
    #[case::exact("example.com", true)]
    #[case::as_written(" EXAMPLE.com. ", true)]
    #[case::not_below("www.example.com", false)]
    #[case::below("a.b.cdn.example.net", true)]
    #[case::apex("cdn.example.net", false)]
    #[case::other_label("xcdn.example.net", false)]
    #[case::other("example.org", false)]
    #[case::suffix_trick("example.com.example.org", false)]
    #[case::platform("_api.internal", false)]
    #[case::platform_zone("x.internal", false)]
    #[case::address("93.184.216.34", false)]
    #[case::address_in_decimal("1572395042", false)]
    #[case::nothing("", false)]
    fn an_allowlist_lets_through_what_it_names(#[case] host: &str, #[case] allowed: bool) {
        let rules = rules(&["example.com", "*.cdn.example.net"], &[], Mode::Allowlist, false);
        assert_eq!(decide(&rules, host).is_allowed(), allowed, "{}", decide(&rules, host));
    }

    #[rstest]
    #[case::exact_deny_in_a_wildcard("bad.example.com", "denied by bad.example.com")]
    #[case::the_rest_of_it("good.example.com", "allowed by *.example.com")]
    #[case::longer_suffix("x.deep.example.com", "denied by *.deep.example.com")]
    #[case::exact_allow_in_it("ok.deep.example.com", "allowed by ok.deep.example.com")]
    #[case::unlisted("example.org", "denied by *")]
    fn the_most_specific_rule_decides(#[case] host: &str, #[case] says: &str) {
        let rules = rules(
            &["*.example.com", "ok.deep.example.com"],
            &["bad.example.com", "*.deep.example.com"],
            Mode::Allowlist,
            false,
        );
        assert_eq!(decide(&rules, host).to_string(), says);
    }

    #[test]
    fn open_rules_let_all_through_but_the_platforms_own_and_what_is_denied() {
        let rules = rules(&[], &["bad.example.com"], Mode::Open, false);
        for (host, allowed) in
            [("example.org", true), ("bad.example.com", false), ("x.flycast", false), ("flycast", false)]
        {
            assert_eq!(decide(&rules, host).is_allowed(), allowed, "{host}");
        }
    }

    #[test]
    fn what_only_a_preset_may_allow_is_not_said_to_be_allowed() {
        let rules = rules(&["example.com"], &["bad.example.com"], Mode::Allowlist, true);
        assert!(matches!(decide(&rules, "registry.example.net"), Decision::Preset { .. }));
        assert!(matches!(decide(&rules, "bad.example.com"), Decision::Denied { .. }));
        assert!(decide(&rules, "example.com").is_allowed());
    }

    #[test]
    fn no_rules_are_no_restriction_and_an_unknown_action_is_no_allow() {
        assert!(decide(&[], "example.com").is_allowed());
        let rule = Rule { action: Some("maybe".into()), domain: Some("example.com".into()), include: None };
        assert!(!decide(&[rule], "example.com").is_allowed());
    }

    #[test]
    fn of_an_allow_and_a_deny_that_are_equally_specific_the_deny_wins_in_either_order() {
        for domain in ["example.com", "*.com", "*"] {
            let (allow, deny) = (Rule::new("allow", domain), Rule::new("deny", domain));
            for rules in [[allow.clone(), deny.clone()], [deny.clone(), allow.clone()]] {
                assert_eq!(decide(&rules, "example.com"), Decision::Denied { by: domain.to_owned() });
            }
        }
    }

    #[test]
    fn the_shortest_suffix_is_more_specific_than_the_star() {
        let rules = [Rule::new("deny", "*"), Rule::new("allow", "*.a")];
        assert_eq!(decide(&rules, "x.a"), Decision::Allowed { by: "*.a".to_owned() });
    }

    proptest! {
        #[test]
        fn order_and_repetition_do_not_matter(at in 0_usize..10, host in "(a|b|example)(\\.(a|example))?\\.(com|net)") {
            let rules = rules(&["*.example.com", "a.com"], &["a.example.com", "*.net.example.com"], Mode::Allowlist, false);
            let mut other = rules.clone();
            other.rotate_left(at % rules.len());
            other.extend(rules.clone());
            prop_assert_eq!(decide(&rules, &host), decide(&other, &host));
        }

        #[test]
        fn nothing_panics(host in any::<String>(), domain in any::<String>()) {
            let rule = Rule { action: Some("allow".into()), domain: Some(domain), include: None };
            let _ = decide(&[rule], &host);
        }
    }
}
