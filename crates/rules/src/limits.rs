//! Limits: which hold for a Run, and whether its spec keeps them.
//!
//! A Run's policy may only tighten. Zero allows nothing; absent never reaches this module, since the schema has defaults.
//! Must not know where limits come from.

use std::time::Duration;

use api::bounds;
use thiserror::Error;

/// Upper bounds of one Run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Longest run time.
    pub timeout: Duration,
    /// Longest wait from creation to start.
    pub start: Duration,
    /// Bytes of stdout and stderr together.
    pub output: u64,
    /// Bytes of the command.
    pub command: u64,
    /// Bytes of stdin.
    pub stdin: u64,
    /// Bytes of a file that is written.
    pub write: u64,
    /// Bytes of a file that are read.
    pub read: u64,
    /// Whether a command is stopped where its output passes the limit.
    pub stop_at_output: bool,
    /// Runs at the same time in one session.
    pub parallel_runs: u32,
}

impl Limits {
    /// What no policy may pass. The schema says the same; a policy that was stored under another schema is bounded all the
    /// same.
    pub const MAXIMA: Self = Self {
        timeout: bounds::TIMEOUT,
        start: bounds::START,
        output: bounds::OUTPUT,
        command: bounds::COMMAND,
        stdin: bounds::STDIN,
        write: bounds::WRITE,
        read: bounds::READ,
        stop_at_output: false,
        parallel_runs: bounds::PARALLEL_RUNS,
    };

    /// The tighter of both in every respect.
    #[must_use]
    pub fn tightened_by(&self, other: &Self) -> Self {
        Self {
            timeout: self.timeout.min(other.timeout),
            start: self.start.min(other.start),
            output: self.output.min(other.output),
            command: self.command.min(other.command),
            stdin: self.stdin.min(other.stdin),
            write: self.write.min(other.write),
            read: self.read.min(other.read),
            stop_at_output: self.stop_at_output || other.stop_at_output,
            parallel_runs: self.parallel_runs.min(other.parallel_runs),
        }
    }

    /// The run time of a Run that asks for `asked`, or for nothing.
    pub fn timeout_for(&self, asked: Option<Duration>) -> Result<Duration, LimitError> {
        match asked {
            Some(asked) if asked > self.timeout => Err(LimitError::Timeout { asked, limit: self.timeout }),
            Some(asked) => Ok(asked),
            None => Ok(self.timeout),
        }
    }

    /// How a field of this size passes its limit, if it does.
    pub fn check_size(field: &'static str, size: u64, limit: u64) -> Option<LimitError> {
        (size > limit).then_some(LimitError::Size { field, size, limit })
    }
}

/// How a spec passes a limit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LimitError {
    /// A longer run time than allowed.
    #[error("timeout {asked:?} is more than the policy's {limit:?}: ask for at most that")]
    Timeout {
        /// What was asked for.
        asked: Duration,
        /// What is allowed.
        limit: Duration,
    },
    /// More bytes than allowed.
    #[error("{field} has {size} bytes, the policy allows {limit}: make it smaller")]
    Size {
        /// Which field.
        field: &'static str,
        /// Its bytes.
        size: u64,
        /// What is allowed.
        limit: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(timeout: u64, output: u64) -> Limits {
        Limits {
            timeout: Duration::from_secs(timeout),
            start: Duration::from_mins(5),
            output,
            command: 10,
            stdin: 10,
            write: 10,
            read: 10,
            stop_at_output: false,
            parallel_runs: 4,
        }
    }

    #[test]
    fn no_policy_passes_these() {
        let Limits { output, command, stdin, write, read, .. } = Limits::MAXIMA;
        assert_eq!([output, command, stdin, write, read], [131_072, 65_536, 524_288, 524_288, 131_072]);
    }

    #[test]
    fn a_run_may_ask_for_less_and_not_for_more() {
        let limits = limits(30, 1);
        assert_eq!(limits.timeout_for(Some(Duration::from_secs(20))), Ok(Duration::from_secs(20)));
        assert_eq!(limits.timeout_for(Some(Duration::from_secs(30))), Ok(Duration::from_secs(30)));
        assert_eq!(limits.timeout_for(None), Ok(Duration::from_secs(30)));
        assert!(limits.timeout_for(Some(Duration::from_secs(31))).is_err());
    }

    #[test]
    fn a_size_over_its_limit_is_named() {
        assert_eq!(Limits::check_size("f", 10, 10), None);
        let error = Limits::check_size("f", 11, 10).unwrap().to_string();
        assert_eq!(error, "f has 11 bytes, the policy allows 10: make it smaller");
    }

    proptest! {
        #[test]
        fn tightening_never_allows_what_either_forbids(a in 1u64..100, b in 1u64..100, c in 0u64..100, d in 0u64..100) {
            let (one, two) = (limits(a, c), limits(b, d));
            let both = one.tightened_by(&two);
            prop_assert!(both.timeout <= one.timeout && both.timeout <= two.timeout);
            prop_assert!(both.output <= one.output && both.output <= two.output);
        }
    }
}
