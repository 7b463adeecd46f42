//! What no policy may pass, whatever schema it was stored under. Pure.
//!
//! The schema says the same, and a test compares both. Must not say what an entry may be; that is the rules'.

use std::{fmt::Display, time::Duration};

use api::{
    ExecutionPolicySpec,
    values::{ByteSize, GoDuration},
};
use rules::limits::Limits;

/// Most entries of `egress.allow`, and of `egress.deny`.
pub const ENTRIES: usize = 200;
/// Most characters of one entry.
pub const ENTRY_CHARACTERS: usize = 260;
/// Most expressions of `commands.deny`.
pub const EXPRESSIONS: usize = 64;
/// Most bytes of one expression.
pub const EXPRESSION_BYTES: usize = 512;
/// Most variables of `environment.set`, and names of `environment.allow`.
pub const VARIABLES: usize = 128;
/// Shortest time that a command may be given.
pub const SHORTEST: Duration = Duration::from_millis(1);
/// Longest life of an idle Sprite.
pub const LIFE: Duration = Duration::from_hours(8760);

const IDLE: Duration = Duration::from_hours(720);
const WRITE: u64 = 512 << 10;
const READ: u64 = 128 << 10;
const MEMORY: u64 = 1 << 40;
const STORAGE: u64 = 1 << 44;
const CPUS: u32 = 64;
const TIERS: usize = 32;
const AT_ONCE: u32 = 100_000;
const A_DAY: u32 = 10_000_000;

/// Everything in which a policy passes a bound.
pub(super) fn check(spec: &ExecutionPolicySpec) -> Vec<String> {
    let mut errors: Vec<String> = times(spec).chain(sizes(spec)).collect();
    errors.extend(numbers(spec));
    errors.extend(lists(spec));
    errors.extend(texts(spec));
    errors
}

fn times(spec: &ExecutionPolicySpec) -> impl Iterator<Item = String> {
    let (limits, lifecycle) = (&spec.limits, &spec.lifecycle);
    let times: [(&str, &GoDuration, Duration, Duration); 5] = [
        ("limits.timeout", &limits.timeout, SHORTEST, Limits::MAXIMA.timeout),
        ("limits.start", &limits.start, SHORTEST, Limits::MAXIMA.start),
        ("lifecycle.hibernateAfter", &lifecycle.hibernate_after, Duration::ZERO, IDLE),
        ("lifecycle.expireAfter", &lifecycle.expire_after, Duration::ZERO, LIFE),
        ("lifecycle.maxAwake", &lifecycle.max_awake, Duration::ZERO, IDLE),
    ];
    times.into_iter().filter_map(|(field, time, least, most)| {
        if time.get() < least {
            return Some(format!("{field}: `{time}` is less than 1ms: write at least 1ms"));
        }
        over(field, &format!("`{time}`"), &time.get(), &most, GoDuration::from_secs(most.as_secs()))
    })
}

fn sizes(spec: &ExecutionPolicySpec) -> impl Iterator<Item = String> {
    let (limits, resources) = (&spec.limits, &spec.resources);
    let sizes: [(&str, &ByteSize, u64); 7] = [
        ("limits.output", &limits.output, Limits::MAXIMA.output),
        ("limits.command", &limits.command, Limits::MAXIMA.command),
        ("limits.stdin", &limits.stdin, Limits::MAXIMA.stdin),
        ("limits.write", &limits.write, WRITE),
        ("limits.read", &limits.read, READ),
        ("resources.memory", &resources.memory, MEMORY),
        ("resources.storage", &resources.storage, STORAGE),
    ];
    sizes
        .into_iter()
        .filter_map(|(field, size, most)| over(field, &format!("`{size}`"), &size.bytes(), &most, quantity(most)))
}

/// These errors are worded as the walk over the schema words them, which sees the same numbers in a manifest.
fn numbers(spec: &ExecutionPolicySpec) -> Vec<String> {
    let (quota, a_day) = (&spec.quota, &spec.quota.runs_per_day);
    let least_one = [
        ("limits.parallelRuns", spec.limits.parallel_runs, Limits::MAXIMA.parallel_runs),
        ("resources.cpus", spec.resources.cpus, CPUS),
    ];
    let mut errors: Vec<String> = least_one
        .iter()
        .filter(|(_, number, _)| *number == 0)
        .map(|(field, number, _)| format!("{field}: {}", too_small(number, 1)))
        .collect();
    let rest = [
        ("quota.sessions", quota.sessions, AT_ONCE),
        ("quota.concurrentRuns.default", quota.concurrent_runs.default, AT_ONCE),
        ("quota.runsPerDay.user", a_day.user.unwrap_or_default(), A_DAY),
        ("quota.runsPerDay.drive", a_day.drive.unwrap_or_default(), A_DAY),
        ("quota.runsPerDay.tenant", a_day.tenant.unwrap_or_default(), A_DAY),
    ];
    errors.extend(
        least_one
            .into_iter()
            .chain(rest)
            .filter_map(|(field, number, most)| over(field, &number.to_string(), &number, &most, most)),
    );
    errors.extend(quota.concurrent_runs.by_tier.iter().filter_map(|(tier, number)| {
        over(&format!("quota.concurrentRuns.byTier.{tier}"), &number.to_string(), number, &AT_ONCE, AT_ONCE)
    }));
    errors
}

fn lists(spec: &ExecutionPolicySpec) -> impl Iterator<Item = String> {
    let lists = [
        ("egress.allow", spec.egress.allow.len(), ENTRIES),
        ("egress.deny", spec.egress.deny.len(), ENTRIES),
        ("commands.deny", spec.commands.deny.len(), EXPRESSIONS),
        ("environment.set", spec.environment.set.len(), VARIABLES),
        ("environment.allow", spec.environment.allow.len(), VARIABLES),
        ("quota.concurrentRuns.byTier", spec.quota.concurrent_runs.by_tier.len(), TIERS),
    ];
    lists.into_iter().filter(|(_, many, most)| many > most).map(|(field, many, most)| {
        let message = too_many(many, most);
        format!("{field}: {message}")
    })
}

fn texts(spec: &ExecutionPolicySpec) -> Vec<String> {
    let mut errors = Vec::new();
    for expression in &spec.commands.deny {
        if expression.len() > EXPRESSION_BYTES {
            let (many, start) = (expression.len(), expression.chars().take(20).collect::<String>());
            errors.push(format!(
                "commands.deny: `{start}…` has {many} bytes: write at most {EXPRESSION_BYTES}, split it into several"
            ));
        }
    }
    errors
}

fn over<T: PartialOrd>(field: &str, written: &str, value: &T, most: &T, bound: impl Display) -> Option<String> {
    (value > most).then(|| format!("{field}: {}", too_large(written, bound)))
}

/// What is said of a number over its bound.
pub fn too_large(written: impl Display, most: impl Display) -> String {
    format!("{written} is more than {most}: write at most {most}")
}

/// What is said of a number under its bound.
pub fn too_small(written: impl Display, least: impl Display) -> String {
    format!("{written} is less than {least}: write at least {least}")
}

/// What is said of a list or map with too many entries.
pub fn too_many(many: impl Display, most: impl Display) -> String {
    format!("there are {many} entries: write at most {most}")
}

/// What is said of a text with too many characters.
pub fn too_long(many: impl Display, most: impl Display) -> String {
    format!("it has {many} characters: write at most {most}")
}

/// Bytes as a quantity, in the largest unit that fits.
fn quantity(bytes: u64) -> String {
    let mut units = ["Ti", "Gi", "Mi", "Ki"].into_iter().zip([40u32, 30, 20, 10]);
    let fits = units.find(|(_, shift)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    fits.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}
