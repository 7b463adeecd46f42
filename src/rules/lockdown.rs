//! The lockdown token, and whether the rules must be applied.
//!
//! The token binds an instance to the rules confirmed on it. Must not read or send anything.

use std::fmt;

/// `<instance id>:<egress hash>`: the rules with this hash were read back from this instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The platform's instance id.
    pub instance: String,
    /// SHA3-256 of the canonical rules, 64 hex digits.
    pub egress: String,
}

impl Token {
    /// Reads a recorded token. Anything that is not exactly one is no proof.
    pub fn parse(text: &str) -> Option<Self> {
        // The hash holds no colon; the id is opaque and might.
        let (instance, egress) = text.rsplit_once(':')?;
        let hash = egress.len() == 64 && egress.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        (!instance.is_empty() && hash).then(|| Self { instance: instance.to_owned(), egress: egress.to_owned() })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.instance, self.egress)
    }
}

/// Why rules must be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyReason {
    /// No token was ever confirmed for this instance.
    Fresh,
    /// The platform gave no instance id.
    InstanceUnknown,
    /// No token is recorded, or one that cannot be read.
    NoToken,
    /// The recorded rules are not those demanded now.
    EgressDiffers,
    /// The recorded instance is not the live one.
    InstanceDiffers,
}

/// Whether rules must be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Apply, read back, compare.
    Apply(ApplyReason),
    /// What is recorded is what is demanded, on this instance.
    Skip,
}

/// Decides from the recorded token, the live instance and the hash demanded now. Skips only when all are equal.
pub fn decide(recorded: Option<&str>, live_instance: Option<&str>, demanded_hash: &str, fresh: bool) -> Decision {
    if fresh {
        return Decision::Apply(ApplyReason::Fresh);
    }
    let Some(live) = live_instance.filter(|id| !id.is_empty()) else {
        return Decision::Apply(ApplyReason::InstanceUnknown);
    };
    let Some(token) = recorded.and_then(Token::parse) else {
        return Decision::Apply(ApplyReason::NoToken);
    };
    if token.instance != live {
        return Decision::Apply(ApplyReason::InstanceDiffers);
    }
    if token.egress != demanded_hash {
        return Decision::Apply(ApplyReason::EgressDiffers);
    }
    Decision::Skip
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    const HASH: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const OTHER: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    fn token(instance: &str, egress: &str) -> String {
        Token { instance: instance.to_owned(), egress: egress.to_owned() }.to_string()
    }

    #[rstest]
    #[case(Some(token("sprite-1", HASH)), Some("sprite-1"), false, Decision::Skip)]
    #[case(Some(token("sprite-1", HASH)), Some("sprite-1"), true, Decision::Apply(ApplyReason::Fresh))]
    #[case(Some(token("sprite-1", HASH)), Some("sprite-2"), false, Decision::Apply(ApplyReason::InstanceDiffers))]
    #[case(Some(token("sprite-1", OTHER)), Some("sprite-1"), false, Decision::Apply(ApplyReason::EgressDiffers))]
    #[case(Some(token("sprite-1", HASH)), None, false, Decision::Apply(ApplyReason::InstanceUnknown))]
    #[case(Some(token("sprite-1", HASH)), Some(""), false, Decision::Apply(ApplyReason::InstanceUnknown))]
    #[case(None, Some("sprite-1"), false, Decision::Apply(ApplyReason::NoToken))]
    #[case(Some("sprite-1".to_owned()), Some("sprite-1"), false, Decision::Apply(ApplyReason::NoToken))]
    #[case(Some(format!(":{HASH}")), Some(""), false, Decision::Apply(ApplyReason::InstanceUnknown))]
    fn rules_are_skipped_only_when_instance_and_rules_are_equal(
        #[case] recorded: Option<String>,
        #[case] live: Option<&str>,
        #[case] fresh: bool,
        #[case] expected: Decision,
    ) {
        assert_eq!(decide(recorded.as_deref(), live, HASH, fresh), expected);
    }

    #[test]
    fn a_token_reads_back_even_when_the_id_holds_a_colon() {
        let text = token("a:b", HASH);
        assert_eq!(Token::parse(&text).unwrap().instance, "a:b");
        assert_eq!(Token::parse("a:"), None);
        assert_eq!(Token::parse(&format!("a:{}", HASH.to_uppercase())), None);
    }
}
