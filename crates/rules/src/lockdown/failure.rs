//! What follows from a lockdown that failed. Must not send anything.

use std::time::Duration;

/// Attempts to lock down a fresh instance before it is destroyed.
pub const FRESH_ATTEMPTS: u32 = 3;
/// The first pause between them; each is that much longer.
const FRESH_PAUSE: Duration = Duration::from_millis(500);
/// The pause where nothing was said about the instance, or it is not fresh.
const PAUSE: Duration = Duration::from_secs(5);
/// The pause where only another operator or another machine helps.
const LONG_PAUSE: Duration = Duration::from_mins(5);

/// How a lockdown failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The rules read back are not those sent.
    RulesDiffer,
    /// The URL stays public.
    UrlPublic,
    /// The runner could not be put into the guest.
    Guest,
    /// The guest cannot execute the runner. A new instance would be no other, and each costs money.
    UnsupportedPlatform,
    /// Another instance answers to the name: nothing is known of this one.
    Replaced,
    /// No usable answer, after which the platform asked to wait that long, if it did.
    NoAnswer(Option<Duration>),
}

impl Failure {
    /// Whether it says something about this instance that another one may do better, and not only about the way to it.
    pub const fn is_definite(self) -> bool {
        match self {
            Self::RulesDiffer | Self::UrlPublic | Self::Guest => true,
            Self::UnsupportedPlatform | Self::Replaced | Self::NoAnswer(_) => false,
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
    /// Destroy the instance: it holds no user data, and it cannot be locked down. The count is recorded first, so that a crash
    /// between the two does not reset it.
    Destroy {
        /// Attempts that count.
        attempts: u32,
    },
}

/// Decides what follows. Only failures of a fresh instance itself are counted: an instance that held somebody's files is
/// refused, again and again, and never destroyed for it.
pub fn after_failure(failure: Failure, fresh: bool, attempts: u32) -> Consequence {
    if !fresh || !failure.is_definite() {
        let pause = match failure {
            Failure::NoAnswer(asked) => asked.unwrap_or(PAUSE),
            Failure::UnsupportedPlatform => LONG_PAUSE,
            Failure::RulesDiffer | Failure::UrlPublic | Failure::Guest | Failure::Replaced => PAUSE,
        };
        return Consequence::Again { attempts, pause };
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
    // Nor does what a new instance would say, too.
    #[case(Failure::UnsupportedPlatform, true, 0, again(0, 300_000))]
    #[case(Failure::UnsupportedPlatform, true, 2, again(2, 300_000))]
    #[case(Failure::UnsupportedPlatform, false, 9, again(9, 300_000))]
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
}
