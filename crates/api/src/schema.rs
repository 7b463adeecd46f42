//! Schemas of values with a unit: what derives cannot say.
//!
//! Must not hold rules of one resource; those stand beside its fields.

use std::time::Duration;

use schemars::{Schema, json_schema};

use crate::{bounds, values::GoDuration};

/// The form of a duration: Go's, and only what is a whole number of nanoseconds.
pub const DURATION: &str = r"^[+]?(0|(([0-9]+(\.[0-9]{0,6})?|\.[0-9]{1,6})(ms|s|m|h)|[0-9]+(ns|us|µs|μs))+)$";

/// A duration of at most `max`; zero is allowed only when `zero` says so.
pub fn duration(max: Duration, zero: bool) -> Schema {
    let max = GoDuration::from_secs(max.as_secs());
    let low = if zero { "0s".to_owned() } else { format!("{}ms", bounds::SHORTEST.as_millis()) };
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": 32,
        "pattern": DURATION,
        "x-kubernetes-validations": [{
            "rule": format!("duration(self) <= duration('{max}') && duration(self) >= duration('{low}')"),
            "message": format!("write a duration such as 30s, 5m or 1h30m: at least {low}, at most {max}"),
        }],
    })
}

/// The form of a size that is written as text: a Kubernetes quantity.
pub const QUANTITY: &str =
    r"^[+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?(0?[0-9]|1[0-8]))?$";

/// A size of at most `max` bytes: an integer, or a Kubernetes quantity that is a whole number of bytes.
pub fn size(max: u64) -> Schema {
    // The rounded number is taken off exactly, so a fraction is refused, however the float was rounded.
    let rule = format!(
        "type(self) == int ? self >= 0 && self <= {max} : isQuantity(self) && !quantity(self).isLessThan(quantity('0')) \
         && !quantity(self).isGreaterThan(quantity('{max}')) \
         && quantity(self).sub(int(quantity(self).asApproximateFloat() + 0.5)).compareTo(quantity('0')) == 0"
    );
    json_schema!({
        "x-kubernetes-int-or-string": true,
        "maxLength": 32,
        "pattern": QUANTITY,
        "x-kubernetes-validations": [{
            "rule": rule,
            "message": format!(
                "write whole bytes as an integer or a quantity such as 64Ki: at least 0, at most {}",
                human(max)
            ),
        }],
    })
}

fn human(bytes: u64) -> String {
    match bytes {
        b if b % (1 << 40) == 0 => format!("{}Ti", b >> 40),
        b if b % (1 << 30) == 0 => format!("{}Gi", b >> 30),
        b if b % (1 << 20) == 0 => format!("{}Mi", b >> 20),
        b if b % (1 << 10) == 0 => format!("{}Ki", b >> 10),
        b => b.to_string(),
    }
}
