//! An egress rule in its three forms: of the rules, of the Sprites API, of a policy's status. Pure.

use api::execution_policy::EgressRule;
use rules::egress::{ReadRule, Rule};
use sprites::NetworkRule;

/// As it was read from a Sprite; what we do not know of it is kept, so that it makes a difference.
pub fn read(rule: NetworkRule) -> ReadRule {
    let NetworkRule { domain, action, include, unknown } = rule;
    ReadRule { rule: Rule { action, domain, include }, unknown }
}

/// As it is sent to a Sprite.
pub fn sent(rule: &Rule) -> NetworkRule {
    let Rule { action, domain, include } = rule.clone();
    NetworkRule { domain, action, include, unknown: Vec::new() }
}

/// As a policy's status shows it.
pub fn shown(rule: &Rule) -> EgressRule {
    let Rule { action, domain, include } = rule.clone();
    EgressRule { domain, action, include }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_the_same_in_each_form() {
        for (domain, action, include) in [
            (Some("*"), Some("deny"), None),
            (Some("api.example.com"), Some("allow"), None),
            (None, None, Some("defaults")),
        ] {
            let text = |word: Option<&str>| word.map(str::to_owned);
            let rule = Rule { action: text(action), domain: text(domain), include: text(include) };
            assert_eq!(read(sent(&rule)), ReadRule { rule: rule.clone(), unknown: Vec::new() });
            let shown = shown(&rule);
            assert_eq!((shown.domain, shown.action, shown.include), (rule.domain, rule.action, rule.include));
        }
    }
}
