//! What no policy and no Run may pass, said once: schemas, the operator's own check and the dry run use these.
//!
//! The descriptions of fields repeat them, since those are texts. Must not decide anything.

use std::time::Duration;

const KI: u64 = 1 << 10;

/// Shortest `limits.timeout` and `limits.start`.
pub const SHORTEST: Duration = Duration::from_millis(1);
/// Longest `limits.timeout`.
pub const TIMEOUT: Duration = Duration::from_mins(55);
/// Longest `limits.start`.
pub const START: Duration = Duration::from_hours(24);
/// Most bytes of `limits.output`.
pub const OUTPUT: u64 = 128 * KI;
/// Most bytes of `limits.command`.
pub const COMMAND: u64 = 64 * KI;
/// Most bytes of `limits.stdin`.
pub const STDIN: u64 = 512 * KI;
/// Most bytes of `limits.write`.
pub const WRITE: u64 = 512 * KI;
/// Most bytes of `limits.read`.
pub const READ: u64 = 128 * KI;
/// Most of `limits.parallelRuns`.
pub const PARALLEL_RUNS: u32 = 64;
/// Most of `resources.cpus`.
pub const CPUS: u32 = 64;
/// Most bytes of `resources.memory`.
pub const MEMORY: u64 = 1 << 40;
/// Most bytes of `resources.storage`.
pub const STORAGE: u64 = 1 << 44;
/// Longest `lifecycle.hibernateAfter` and `lifecycle.maxAwake`.
pub const IDLE: Duration = Duration::from_hours(720);
/// Longest `lifecycle.expireAfter`.
pub const LIFE: Duration = Duration::from_hours(8760);
/// Most entries of `egress.allow`, and of `egress.deny`.
pub const EGRESS_ENTRIES: usize = 200;
/// Most characters of one entry.
pub const EGRESS_ENTRY_CHARACTERS: usize = 260;
/// Most expressions of `commands.deny`.
pub const EXPRESSIONS: usize = 64;
/// Most bytes of one expression.
pub const EXPRESSION_BYTES: usize = 512;
/// Most variables of `environment.set`, names of `environment.allow`, and variables of a Run.
pub const VARIABLES: usize = 128;
/// Most bytes of the value of a variable.
pub const VARIABLE_BYTES: usize = 32 << 10;
/// Most entries of `quota.concurrentRuns.byTier`.
pub const TIERS: usize = 32;
/// Most of `quota.sessions` and `quota.concurrentRuns`.
pub const AT_ONCE: u32 = 100_000;
/// Most of `quota.runsPerDay`.
pub const A_DAY: u32 = 10_000_000;
/// Longest `ttlAfterFinished` of a Run.
pub const TIME_TO_LIVE: Duration = Duration::from_hours(8760);
