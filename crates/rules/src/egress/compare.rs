//! The comparison of what was sent with what was read back. Must not decide what follows from a difference.

use std::collections::BTreeSet;

use super::{Rule, shown};

/// A rule as it was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadRule {
    /// What is known of it.
    pub rule: Rule,
    /// Names of fields that it has besides.
    pub unknown: Vec<String>,
}

/// How what was read back stands to what is demanded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Each rule that is missing, or there without being demanded.
    pub differences: Vec<String>,
    /// Fields of rules that this version does not know. A platform that begins to show more than was sent says nothing about
    /// what is in force, so they are no difference; they are named, so that somebody looks.
    pub unknown_fields: Vec<String>,
}

impl Comparison {
    /// Whether exactly the demanded rules are there.
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty()
    }
}

/// Compares the rules read back with those demanded. Order and repetition do not count, anything else does.
pub fn compare(demanded: &[Rule], read: &[ReadRule]) -> Comparison {
    let demanded: BTreeSet<&Rule> = demanded.iter().collect();
    let known: BTreeSet<&Rule> = read.iter().map(|read| &read.rule).collect();
    let missing = demanded.difference(&known).map(|rule| format!("missing: {}", describe(rule)));
    let extra = known.difference(&demanded).map(|rule| format!("not demanded: {}", describe(rule)));
    let unknown: BTreeSet<&String> = read.iter().flat_map(|read| &read.unknown).collect();
    Comparison {
        differences: missing.chain(extra).collect(),
        unknown_fields: unknown.into_iter().map(|name| shown(name)).collect(),
    }
}

fn describe(rule: &Rule) -> String {
    match (&rule.include, &rule.action, &rule.domain) {
        (Some(preset), None, None) => format!("include {}", shown(preset)),
        (Some(preset), _, _) => format!("include {} beside an action or a domain", shown(preset)),
        (None, action, domain) => {
            format!(
                "{} {}",
                shown(action.as_deref().unwrap_or("(no action)")),
                shown(domain.as_deref().unwrap_or("(no domain)"))
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rules: &[Rule]) -> Vec<ReadRule> {
        rules.iter().map(|rule| ReadRule { rule: rule.clone(), unknown: Vec::new() }).collect()
    }

    fn include(preset: &str) -> Rule {
        Rule { action: None, domain: None, include: Some(preset.to_owned()) }
    }

    #[test]
    fn one_rule_more_or_less_is_a_difference_and_order_is_none() {
        let demanded = [Rule::new("allow", "a.example.com"), Rule::new("deny", "*")];
        let [allow, deny] = demanded.clone();
        let differences = |rules: &[Rule]| compare(&demanded, &read(rules)).differences;
        let none: [&str; 0] = [];
        assert_eq!(differences(&[deny.clone(), allow.clone(), deny.clone()]), none);
        assert_eq!(differences(std::slice::from_ref(&allow)), ["missing: deny *"]);
        let more = [allow.clone(), deny.clone(), Rule::new("allow", "b.example.com")];
        assert_eq!(differences(&more), ["not demanded: allow b.example.com"]);
        assert!(!compare(&demanded, &read(&more)).is_equal());
        assert_eq!(differences(&[]).len(), 2, "an empty list is unrestricted and never equal");
        // Another action, another spelling, a preset: each is another rule.
        assert_eq!(differences(&[Rule::new("deny", "a.example.com"), deny.clone()]).len(), 2);
        assert_eq!(differences(&[Rule::new("allow", "A.example.com"), deny.clone()]).len(), 2);
        assert_eq!(
            differences(&[allow.clone(), deny.clone(), include("defaults")]),
            ["not demanded: include defaults"]
        );
        let mixed = Rule { include: Some("defaults".to_owned()), ..deny.clone() };
        let found = differences(&[allow, deny, mixed]);
        assert_eq!(found, ["not demanded: include defaults beside an action or a domain"]);
    }

    #[test]
    fn a_field_that_is_not_known_is_named_and_no_difference() {
        let demanded = [Rule::new("deny", "*")];
        let shown = ReadRule { rule: demanded[0].clone(), unknown: vec!["note".into(), "id\n".into()] };
        let again = ReadRule { unknown: vec!["id\n".into()], ..shown.clone() };
        let comparison = compare(&demanded, &[shown, again]);
        assert!(comparison.is_equal());
        assert_eq!(comparison.unknown_fields, ["id\\n", "note"]);
    }
}
