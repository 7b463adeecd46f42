//! The network policy as a document: its shape, and what of it is refused. Pure.
//!
//! Rules come back verbatim and in order. Nothing here enforces them.

use serde::{Deserialize, Serialize};

const MOST_RULES: usize = 1000;

/// The network policy of one Sprite; empty means unrestricted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NetworkPolicy {
    /// In the order they were given.
    pub(crate) rules: Vec<Rule>,
}

/// One rule: a domain with an action, or a named preset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) domain: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) action: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) include: Option<String>,
}

impl NetworkPolicy {
    /// Parses a body; the error is the text a client gets.
    pub(crate) fn parse(body: &[u8]) -> Result<Self, String> {
        let policy: Self = serde_json::from_slice(body).map_err(|e| format!("invalid network policy: {e}"))?;
        if policy.rules.len() > MOST_RULES {
            return Err(format!("invalid network policy: more than {MOST_RULES} rules"));
        }
        for (index, rule) in policy.rules.iter().enumerate() {
            rule.check().map_err(|why| format!("invalid network policy: rule {index}: {why}"))?;
        }
        Ok(policy)
    }
}

impl Rule {
    /// An allow rule for one domain.
    pub(crate) fn allow(domain: &str) -> Self {
        Self { domain: Some(domain.into()), action: Some("allow".into()), include: None }
    }

    fn check(&self) -> Result<(), &'static str> {
        match (self.domain.as_deref(), self.action.as_deref(), self.include.as_deref()) {
            (None, None, Some("defaults")) => Ok(()),
            (_, _, Some("defaults")) => Err("include stands alone"),
            (_, _, Some(_)) => Err("unknown include"),
            (None, _, None) => Err("domain or include is required"),
            (Some(_), None, None) => Err("action is required"),
            (Some(domain), Some("allow" | "deny"), None) => {
                if is_domain_pattern(domain) {
                    Ok(())
                } else {
                    Err("invalid domain")
                }
            }
            (Some(_), Some(_), None) => Err("action must be allow or deny"),
        }
    }
}

/// `*`, `*.suffix` or a host name.
fn is_domain_pattern(domain: &str) -> bool {
    if domain == "*" {
        return true;
    }
    let host = domain.strip_prefix("*.").unwrap_or(domain);
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    (1..=253).contains(&host.len()) && host.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case(r#"{"rules":[]}"#, true)]
    #[case(r#"{"rules":[{"domain":"*","action":"deny"}]}"#, true)]
    #[case(r#"{"rules":[{"domain":"*.example.com","action":"allow"}]}"#, true)]
    #[case(r#"{"rules":[{"include":"defaults"}]}"#, true)]
    #[case(r#"{"rules":[{"include":"others"}]}"#, false)]
    #[case(r#"{"rules":[{"include":"defaults","domain":"*","action":"deny"}]}"#, false)]
    #[case(r#"{"rules":[{"domain":"a b","action":"allow"}]}"#, false)]
    #[case(r#"{"rules":[{"domain":"a..b","action":"allow"}]}"#, false)]
    #[case(r#"{"rules":[{"domain":"*.*","action":"allow"}]}"#, false)]
    #[case(r#"{"rules":[{"domain":"example.com"}]}"#, false)]
    #[case(r#"{"rules":[{"domain":"example.com","action":"log"}]}"#, false)]
    #[case(r#"{"rules":[{}]}"#, false)]
    #[case(r#"{"rules":{}}"#, false)]
    #[case(r"{}", false)]
    #[case(r"", false)]
    fn shapes(#[case] body: &str, #[case] valid: bool) {
        assert_eq!(NetworkPolicy::parse(body.as_bytes()).is_ok(), valid, "{body}");
    }

    #[test]
    fn the_number_of_rules_is_bounded() {
        let policy = NetworkPolicy { rules: vec![Rule::allow("example.com"); MOST_RULES + 1] };
        assert!(NetworkPolicy::parse(&serde_json::to_vec(&policy).unwrap()).is_err());
    }

    proptest! {
        #[test]
        fn order_and_spelling_are_kept(domains in prop::collection::vec("(\\*\\.)?[A-Za-z0-9]{1,9}\\.example", 0..20)) {
            let policy = NetworkPolicy { rules: domains.iter().map(|d| Rule::allow(d)).collect() };
            let bytes = serde_json::to_vec(&policy).unwrap();
            prop_assert_eq!(NetworkPolicy::parse(&bytes), Ok(policy));
        }
    }
}
