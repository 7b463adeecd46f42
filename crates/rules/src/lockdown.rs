//! The lockdown token, whether the rules must be applied, and what follows when that fails.
//!
//! The token binds an instance to the rules confirmed on it. Must not read or send anything.

use std::fmt;
use std::time::Duration;

/// Attempts to lock down a fresh instance before it is destroyed.
pub const FRESH_ATTEMPTS: u32 = 3;
/// The first pause between them; each is that much longer.
const FRESH_PAUSE: Duration = Duration::from_millis(500);
/// The pause where nothing was said about the instance, or it is not fresh.
const PAUSE: Duration = Duration::from_secs(5);

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

/// How a lockdown failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The rules read back are not those sent.
    RulesDiffer,
    /// The URL stays public.
    UrlPublic,
    /// The nonce could not be written by a trusted command in the guest.
    Guest,
    /// Another instance answers to the name: nothing is known of this one.
    Replaced,
    /// No usable answer, after which the platform asked to wait that long, if it did.
    NoAnswer(Option<Duration>),
}

impl Failure {
    /// Whether it says something about this instance, and not only about the way to it.
    pub const fn is_definite(self) -> bool {
        match self {
            Self::RulesDiffer | Self::UrlPublic | Self::Guest => true,
            Self::Replaced | Self::NoAnswer(_) => false,
        }
    }
}

/// What follows from a failed lockdown. In each case the instance is not used, and its token is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consequence {
    /// Try again after the pause; so many attempts are on record from now on.
    Again {
        /// Attempts that count.
        attempts: u32,
        /// How long to wait.
        pause: Duration,
    },
    /// Destroy the instance: nothing of anybody's is in it, and it cannot be locked down. The count goes on record first, so
    /// that a crash between does not start it anew.
    Destroy {
        /// Attempts that count.
        attempts: u32,
    },
}

/// Decides what follows. Only failures of a fresh instance itself are counted: an instance that held somebody's files is
/// refused, again and again, and never destroyed for it.
pub fn after_failure(failure: Failure, fresh: bool, attempts: u32) -> Consequence {
    if !fresh || !failure.is_definite() {
        let asked = match failure {
            Failure::NoAnswer(asked) => asked,
            Failure::RulesDiffer | Failure::UrlPublic | Failure::Guest | Failure::Replaced => None,
        };
        return Consequence::Again { attempts, pause: asked.unwrap_or(PAUSE) };
    }
    let attempts = attempts.saturating_add(1);
    if is_spent(fresh, attempts) {
        Consequence::Destroy { attempts }
    } else {
        Consequence::Again { attempts, pause: FRESH_PAUSE.saturating_mul(attempts) }
    }
}

/// Whether an instance has had all its attempts: recorded ones count, whoever made them.
pub const fn is_spent(fresh: bool, attempts: u32) -> bool {
    fresh && attempts >= FRESH_ATTEMPTS
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

    /// Every combination of what is recorded, what is live, and what is demanded.
    #[test]
    fn the_rules_are_skipped_in_one_case_of_the_whole_truth_table() {
        let tokens = [
            None,
            Some(String::new()),
            Some("sprite-1".to_owned()),
            Some(format!(":{HASH}")),
            Some("sprite-1:".to_owned()),
            Some(token("sprite-1", HASH)),
            Some(token("sprite-1", OTHER)),
            Some(token("sprite-2", HASH)),
            Some(token("sprite-2", OTHER)),
            Some(format!("{} ", token("sprite-1", HASH))),
            Some(token("sprite-1", HASH).to_uppercase()),
        ];
        let mut skipped = Vec::new();
        for recorded in &tokens {
            for live in [None, Some(""), Some("sprite-1"), Some("sprite-2")] {
                for demanded in [HASH, OTHER, ""] {
                    for fresh in [false, true] {
                        let decision = decide(recorded.as_deref(), live, demanded, fresh);
                        assert_eq!(decision == Decision::Apply(ApplyReason::Fresh), fresh);
                        if decision == Decision::Skip {
                            skipped.push((recorded.clone(), live, demanded));
                        }
                    }
                }
            }
        }
        let equal = |id: &str, hash| Some(token(id, hash));
        assert_eq!(
            skipped,
            [
                (equal("sprite-1", HASH), Some("sprite-1"), HASH),
                (equal("sprite-1", OTHER), Some("sprite-1"), OTHER),
                (equal("sprite-2", HASH), Some("sprite-2"), HASH),
                (equal("sprite-2", OTHER), Some("sprite-2"), OTHER),
            ]
        );
    }

    const fn again(attempts: u32, millis: u64) -> Consequence {
        Consequence::Again { attempts, pause: Duration::from_millis(millis) }
    }
    const SAID: Failure = Failure::NoAnswer(Some(Duration::from_secs(17)));

    #[rstest]
    // A fresh instance that cannot be locked down: three attempts, then it goes.
    #[case(Failure::RulesDiffer, true, 0, again(1, 500))]
    #[case(Failure::RulesDiffer, true, 1, again(2, 1000))]
    #[case(Failure::RulesDiffer, true, 2, Consequence::Destroy { attempts: 3 })]
    #[case(Failure::UrlPublic, true, 0, again(1, 500))]
    #[case(Failure::UrlPublic, true, 2, Consequence::Destroy { attempts: 3 })]
    #[case(Failure::Guest, true, 1, again(2, 1000))]
    #[case(Failure::Guest, true, 9, Consequence::Destroy { attempts: 10 })]
    #[case(Failure::Guest, true, u32::MAX, Consequence::Destroy { attempts: u32::MAX })]
    // What says nothing about the instance does not count.
    #[case(Failure::Replaced, true, 2, again(2, 5000))]
    #[case(Failure::NoAnswer(None), true, 2, again(2, 5000))]
    #[case(SAID, true, 2, again(2, 17_000))]
    // An instance in use is refused and never destroyed.
    #[case(Failure::RulesDiffer, false, 0, again(0, 5000))]
    #[case(Failure::RulesDiffer, false, 9, again(9, 5000))]
    #[case(Failure::UrlPublic, false, 9, again(9, 5000))]
    #[case(Failure::Guest, false, 9, again(9, 5000))]
    #[case(Failure::Replaced, false, 9, again(9, 5000))]
    #[case(SAID, false, 9, again(9, 17_000))]
    fn a_failed_lockdown_has_one_consequence(
        #[case] failure: Failure,
        #[case] fresh: bool,
        #[case] attempts: u32,
        #[case] expected: Consequence,
    ) {
        assert_eq!(after_failure(failure, fresh, attempts), expected);
    }

    #[test]
    fn attempts_on_record_count_after_a_restart() {
        assert!(is_spent(true, 3) && is_spent(true, 4) && !is_spent(true, 2));
        assert!(!is_spent(false, 3), "an instance in use is never destroyed for it");
    }

    #[test]
    fn a_token_reads_back_even_when_the_id_holds_a_colon() {
        let text = token("a:b", HASH);
        assert_eq!(Token::parse(&text).unwrap().instance, "a:b");
        assert_eq!(Token::parse("a:"), None);
        assert_eq!(Token::parse(&format!("a:{}", HASH.to_uppercase())), None);
    }
}
