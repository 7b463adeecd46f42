//! What no policy may pass, whatever schema it was stored under. Pure.
//!
//! The numbers are those of `api::bounds`, as in the schema; a test compares both. Must not say what an entry may be; that is the rules'.

use std::{fmt::Display, time::Duration};

use api::{
    ExecutionPolicySpec, bounds,
    values::{ByteSize, GoDuration},
};

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
        ("limits.timeout", &limits.timeout, bounds::SHORTEST, bounds::TIMEOUT),
        ("limits.start", &limits.start, bounds::SHORTEST, bounds::START),
        ("lifecycle.hibernateAfter", &lifecycle.hibernate_after, Duration::ZERO, bounds::IDLE),
        ("lifecycle.expireAfter", &lifecycle.expire_after, Duration::ZERO, bounds::LIFE),
        ("lifecycle.maxAwake", &lifecycle.max_awake, Duration::ZERO, bounds::IDLE),
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
        ("limits.output", &limits.output, bounds::OUTPUT),
        ("limits.command", &limits.command, bounds::COMMAND),
        ("limits.stdin", &limits.stdin, bounds::STDIN),
        ("limits.write", &limits.write, bounds::WRITE),
        ("limits.read", &limits.read, bounds::READ),
        ("resources.memory", &resources.memory, bounds::MEMORY),
        ("resources.storage", &resources.storage, bounds::STORAGE),
    ];
    sizes
        .into_iter()
        .filter_map(|(field, size, most)| over(field, &format!("`{size}`"), &size.bytes(), &most, quantity(most)))
}

/// These errors are worded as the walk over the schema words them, which sees the same numbers in a manifest.
fn numbers(spec: &ExecutionPolicySpec) -> Vec<String> {
    let (quota, a_day) = (&spec.quota, &spec.quota.runs_per_day);
    let least_one = [
        ("limits.parallelRuns", spec.limits.parallel_runs, bounds::PARALLEL_RUNS),
        ("resources.cpus", spec.resources.cpus, bounds::CPUS),
    ];
    let mut errors: Vec<String> = least_one
        .iter()
        .filter(|(_, number, _)| *number == 0)
        .map(|(field, number, _)| format!("{field}: {}", too_small(number, 1)))
        .collect();
    let rest = [
        ("quota.sessions", quota.sessions, bounds::AT_ONCE),
        ("quota.concurrentRuns.default", quota.concurrent_runs.default, bounds::AT_ONCE),
        ("quota.runsPerDay.user", a_day.user.unwrap_or_default(), bounds::A_DAY),
        ("quota.runsPerDay.drive", a_day.drive.unwrap_or_default(), bounds::A_DAY),
        ("quota.runsPerDay.tenant", a_day.tenant.unwrap_or_default(), bounds::A_DAY),
    ];
    errors.extend(
        least_one
            .into_iter()
            .chain(rest)
            .filter_map(|(field, number, most)| over(field, &number.to_string(), &number, &most, most)),
    );
    errors.extend(quota.concurrent_runs.by_tier.iter().filter_map(|(tier, number)| {
        over(
            &format!("quota.concurrentRuns.byTier.{tier}"),
            &number.to_string(),
            number,
            &bounds::AT_ONCE,
            bounds::AT_ONCE,
        )
    }));
    errors
}

fn lists(spec: &ExecutionPolicySpec) -> impl Iterator<Item = String> {
    let lists = [
        ("egress.allow", spec.egress.allow.len(), bounds::EGRESS_ENTRIES),
        ("egress.deny", spec.egress.deny.len(), bounds::EGRESS_ENTRIES),
        ("commands.deny", spec.commands.deny.len(), bounds::EXPRESSIONS),
        ("environment.set", spec.environment.set.len(), bounds::VARIABLES),
        ("environment.allow", spec.environment.allow.len(), bounds::VARIABLES),
        ("quota.concurrentRuns.byTier", spec.quota.concurrent_runs.by_tier.len(), bounds::TIERS),
    ];
    lists.into_iter().filter(|(_, many, most)| many > most).map(|(field, many, most)| {
        let message = too_many(many, most);
        format!("{field}: {message}")
    })
}

fn texts(spec: &ExecutionPolicySpec) -> Vec<String> {
    let mut errors = Vec::new();
    for expression in &spec.commands.deny {
        if expression.len() > bounds::EXPRESSION_BYTES {
            let (many, start) = (expression.len(), expression.chars().take(20).collect::<String>());
            errors.push(format!(
                "commands.deny: `{start}…` has {many} bytes: write at most {}, split it into several",
                bounds::EXPRESSION_BYTES
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
