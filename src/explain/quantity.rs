//! Items with a unit: sizes, spans of time, counts. PURE.
//!
//! What the API server refuses in every field is refused; under a policy a span of time is the `timeout` of a Run.

use std::time::Duration;

use serde_json::json;

use super::item::Input;
use super::judge::Judgement;
use super::manifest::PolicyReport;
use super::shape;
use crate::policy::bounds;
use api::execution_policy::ExecutionPolicySpec;
use api::reasons::RunReason;
use api::values::{ByteSize, DurationError, GoDuration, SizeError};
use rules::limits::Limits;

/// The largest size that any field takes: `resources.storage`, 16Ti.
const LARGEST_SIZE: u64 = 1 << 44;
const SIZE: &str = "write an integer or a quantity such as 64Ki, at most 16Ti";
/// The largest count that any field takes: `quota.runsPerDay`.
const LARGEST_COUNT: u64 = 10_000_000;

fn refuse(rule: &str, message: impl Into<String>) -> Judgement {
    Judgement::refuse(RunReason::InvalidSpec.as_str(), rule, message)
}

/// What holds where nothing is written.
fn absent(
    field: &str,
    policy: Option<&PolicyReport>,
    value: impl Fn(&ExecutionPolicySpec) -> serde_json::Value,
) -> Judgement {
    if let Some(policy) = policy {
        return Judgement::accept("Policy", value(&policy.spec), format!("{field} of the policy"));
    }
    Judgement::accept("Default", value(&ExecutionPolicySpec::default()), format!("the default of {field}"))
}

pub(super) fn size(input: &Input, policy: Option<&PolicyReport>) -> Judgement {
    let bytes = match input {
        Input::Absent => {
            return absent("limits.output", policy, |spec| json!(spec.limits.output.bytes()));
        }
        Input::Text(text) => match text.parse::<ByteSize>() {
            Ok(size) => match shape::form("resources.storage", text) {
                Some(wrong) => return refuse("Form", wrong),
                None => size.bytes(),
            },
            Err(SizeError::Form(text)) => {
                return refuse("Form", SizeError::Form(shape::shown(&text)).to_string());
            }
            Err(SizeError::Range(text)) => {
                return refuse("Range", format!("{}: {SIZE}", SizeError::Range(shape::shown(&text))));
            }
        },
        Input::Number(number) => match whole(number.get()) {
            Some(bytes) => bytes,
            None if number.get().starts_with('-') => {
                return refuse("Range", format!("{} is negative: {SIZE}", shape::shown(number.get())));
            }
            None => {
                let number = shape::shown(number.get());
                return refuse("Type", format!("{number} is no whole number of bytes: {SIZE}; {}", shape::EXPONENT));
            }
        },
        Input::Entries(_) => return refuse("Type", "a list is no size: write one value"),
    };
    if bytes > LARGEST_SIZE {
        let bytes = match input {
            Input::Number(number) => shape::shown(number.get()),
            Input::Text(_) | Input::Absent | Input::Entries(_) => bytes.to_string(),
        };
        return refuse("Range", format!("{bytes} bytes are more than any field takes (16Ti): write a smaller size"));
    }
    let message = if bytes == 0 { "0 allows nothing; it never means without limit" } else { "" };
    Judgement::accept("Quantity", bytes, message)
}

pub(super) fn duration(input: &Input, policy: Option<&PolicyReport>) -> Judgement {
    match input {
        Input::Absent => absent("limits.timeout", policy, |spec| seconds(spec.limits.timeout.get())),
        Input::Text(text) => match text.parse::<GoDuration>() {
            Ok(span) => match shape::form("lifecycle.expireAfter", text) {
                Some(wrong) => refuse("Form", wrong),
                None => match policy.and_then(|policy| policy.limits.as_ref()) {
                    Some(limits) => timeout(&span, limits),
                    None => any_duration(&span),
                },
            },
            Err(error) => match error {
                DurationError::Form(text) => refuse("Form", DurationError::Form(shape::shown(&text)).to_string()),
                DurationError::Negative(text) => {
                    refuse("Negative", DurationError::Negative(shape::shown(&text)).to_string())
                }
                DurationError::Precision(text) => {
                    refuse("Range", DurationError::Precision(shape::shown(&text)).to_string())
                }
                DurationError::Range(text) => {
                    let text = shape::shown(&text);
                    refuse("Range", format!("`{text}` is more than any field takes: write at most 8760h"))
                }
            },
        },
        Input::Number(number) => {
            let number = shape::shown(number.get());
            let seconds = Some(format!("{number}s")).filter(|text| text.parse::<GoDuration>().is_ok());
            let such = seconds.as_deref().unwrap_or("30s");
            refuse("Type", format!("{number} has no unit: write a string such as \"{such}\""))
        }
        Input::Entries(_) => refuse("Type", "a list is no duration: write one value"),
    }
}

/// Of any field.
fn any_duration(span: &GoDuration) -> Judgement {
    if span.get() > api::bounds::LIFE {
        return refuse("Range", format!("`{span}` is more than any field takes: write at most 8760h"));
    }
    let message = if span.get().is_zero() {
        "0 is no time at all: refused as a timeout, at once as ttlAfterFinished; it never means without limit"
    } else {
        ""
    };
    Judgement::accept("GoDuration", seconds(span.get()), message)
}

/// Of `timeout` of a Run, under a policy that is in force.
fn timeout(span: &GoDuration, limits: &Limits) -> Judgement {
    if span.get() < api::bounds::SHORTEST {
        return refuse("Range", format!("timeout: {}; 0 never means without limit", bounds::too_small(span, "1ms")));
    }
    match limits.timeout_for(Some(span.get())) {
        Ok(allowed) => Judgement::accept("GoDuration", seconds(allowed), ""),
        Err(error) => {
            let message = format!("{error} (limits.timeout)");
            Judgement::refuse(RunReason::LimitExceeded.as_str(), "Timeout", message)
        }
    }
}

/// A number that is written as digits alone, the largest there is if it is larger. A fraction or an exponent is none, as for the API
/// server.
fn whole(number: &str) -> Option<u64> {
    number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().unwrap_or(u64::MAX))
}

fn seconds(duration: Duration) -> serde_json::Value {
    if duration.subsec_nanos() == 0 { json!(duration.as_secs()) } else { json!(duration.as_secs_f64()) }
}

pub(super) fn count(input: &Input, policy: Option<&PolicyReport>) -> Judgement {
    match input {
        Input::Absent => absent("limits.parallelRuns", policy, |spec| json!(spec.limits.parallel_runs)),
        Input::Number(number) => match whole(number.get()) {
            Some(count) if count <= LARGEST_COUNT => {
                let message = if count == 0 { "0 allows none; it never means without limit" } else { "" };
                Judgement::accept("Integer", count, message)
            }
            Some(_) => refuse(
                "Range",
                format!("{} is more than any count takes ({LARGEST_COUNT}): write less", shape::shown(number.get())),
            ),
            None => refuse(
                "Form",
                format!(
                    "{} is no whole number between 0 and {LARGEST_COUNT}: write digits alone, such as 4",
                    shape::shown(number.get())
                ),
            ),
        },
        Input::Text(text) => {
            refuse("Type", format!("\"{}\" is a string: write an integer without quotes", shape::shown(text)))
        }
        Input::Entries(_) => refuse("Type", "a list is no count: write one value"),
    }
}
