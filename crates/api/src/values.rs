//! Values with a unit that arrive as text: durations and sizes.
//!
//! Parsed once, exactly: what cannot be represented is an error, never rounded. The text is kept as it was written, so
//! an object that is written back says what its author said. Must not know which field it is used for.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

/// Why a duration was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DurationError {
    /// Not of the form of Go's `time.ParseDuration`.
    #[error("`{0}` is no duration: write a number with a unit, such as 30s, 5m or 1h30m (units: ns us ms s m h)")]
    Form(String),
    /// Negative durations have no meaning anywhere in this API.
    #[error("`{0}` is negative: write a duration of zero or more")]
    Negative(String),
    /// A part of a nanosecond.
    #[error("`{0}` is finer than a nanosecond: write whole nanoseconds, such as 1ns")]
    Precision(String),
    /// More than 292 years.
    #[error("`{0}` is too long to be represented: write at most 2562047h")]
    Range(String),
}

/// A span of time written as Go writes it (`30s`, `1h30m`); see <https://pkg.go.dev/time#ParseDuration>.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GoDuration {
    text: String,
    value: Duration,
}

impl GoDuration {
    /// The span itself.
    pub const fn get(&self) -> Duration {
        self.value
    }

    /// A span of whole seconds, written in the largest unit that fits.
    pub fn from_secs(seconds: u64) -> Self {
        let text = match seconds {
            s if s > 0 && s % 3600 == 0 => format!("{}h", s / 3600),
            s if s > 0 && s % 60 == 0 => format!("{}m", s / 60),
            s => format!("{s}s"),
        };
        Self { text, value: Duration::from_secs(seconds) }
    }
}

impl From<Duration> for GoDuration {
    /// Written in the largest unit in which it is whole; longer than Go can write, the longest that it can.
    fn from(value: Duration) -> Self {
        let value = value.min(Duration::from_nanos(i64::MAX.unsigned_abs()));
        let text = match value.subsec_nanos() {
            0 => return Self::from_secs(value.as_secs()),
            n if n % 1_000_000 == 0 => format!("{}ms", value.as_millis()),
            n if n % 1_000 == 0 => format!("{}us", value.as_micros()),
            _ => format!("{}ns", value.as_nanos()),
        };
        Self { text, value }
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, DurationError> {
        let form = || DurationError::Form(text.to_owned());
        let range = || DurationError::Range(text.to_owned());
        let unsigned = text.strip_prefix('+').unwrap_or(text);
        if unsigned.starts_with('-') {
            return Err(DurationError::Negative(text.to_owned()));
        }
        if unsigned == "0" {
            return Ok(Self { text: text.to_owned(), value: Duration::ZERO });
        }
        let mut rest = unsigned;
        let mut nanos: u128 = 0;
        while !rest.is_empty() {
            let digits = |s: &str| s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
            let (whole, after) = rest.split_at(digits(rest));
            let (fraction, after) = match after.strip_prefix('.') {
                Some(tail) => tail.split_at(digits(tail)),
                None => ("", after),
            };
            if whole.is_empty() && fraction.is_empty() {
                return Err(form());
            }
            let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
            let (unit, after) = after.split_at(unit_len);
            let unit: u128 = match unit {
                "ns" => 1,
                "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "m" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                _ => return Err(form()),
            };
            let scaled = scale(whole, fraction, unit).map_err(|lost| match lost {
                Lost::Fraction => DurationError::Precision(text.to_owned()),
                Lost::Size => range(),
            })?;
            nanos = nanos.checked_add(scaled).ok_or_else(range)?;
            rest = after;
        }
        if unsigned.is_empty() {
            return Err(form());
        }
        // Go's own bound: what does not fit 63 bits of nanoseconds is refused there too.
        let nanos = i64::try_from(nanos).map_err(|_| range())?;
        Ok(Self { text: text.to_owned(), value: Duration::from_nanos(nanos.unsigned_abs()) })
    }
}

/// What of a number cannot be kept.
enum Lost {
    /// Digits behind the point.
    Fraction,
    /// It is too large.
    Size,
}

/// `whole.fraction × unit`, exactly.
fn scale(whole: &str, fraction: &str, unit: u128) -> Result<u128, Lost> {
    let parse = |s: &str| if s.is_empty() { Some(0) } else { s.parse::<u128>().ok() };
    let fraction = fraction.trim_end_matches('0');
    // So many digits that they do not fit are finer than any unit.
    let part = u32::try_from(fraction.len())
        .ok()
        .and_then(|digits| 10u128.checked_pow(digits))
        .zip(parse(fraction).and_then(|part| part.checked_mul(unit)))
        .and_then(|(power, part)| (part % power == 0).then(|| part / power))
        .ok_or(Lost::Fraction)?;
    parse(whole).and_then(|whole| whole.checked_mul(unit)?.checked_add(part)).ok_or(Lost::Size)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Why a size was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Not a Kubernetes quantity.
    #[error("`{0}` is no size: write bytes as an integer, or a quantity such as 64Ki or 1Mi")]
    Form(String),
    /// Negative, a fraction of a byte, or more than 2^63-1.
    #[error("`{0}` is not a whole number of bytes between 0 and 2^63-1")]
    Range(String),
}

/// A number of bytes, written as an integer or as a Kubernetes quantity (`64Ki`, `1.5Mi`, `1E6`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByteSize {
    text: SizeText,
    bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum SizeText {
    Integer(i64),
    Quantity(String),
}

impl ByteSize {
    /// The size in bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl FromStr for ByteSize {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let bytes = parse_quantity(text)?;
        Ok(Self { text: SizeText::Quantity(text.to_owned()), bytes })
    }
}

fn parse_quantity(text: &str) -> Result<u64, SizeError> {
    let form = || SizeError::Form(text.to_owned());
    let range = || SizeError::Range(text.to_owned());
    let unsigned = text.strip_prefix('+').unwrap_or(text);
    let negative = unsigned.starts_with('-');
    let unsigned = unsigned.strip_prefix('-').unwrap_or(unsigned);
    let number_len = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_len);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(form());
    }
    // A decimal exponent as (power of ten, divisor): quantities may also be smaller than one.
    let (unit, divisor): (u128, u128) = match suffix {
        "" => (1, 1),
        "n" => (1, 1_000_000_000),
        "u" => (1, 1_000_000),
        "m" => (1, 1_000),
        "k" => (1_000, 1),
        "M" => (1_000_000, 1),
        "G" => (1_000_000_000, 1),
        "T" => (1_000_000_000_000, 1),
        "P" => (1_000_000_000_000_000, 1),
        "E" => (1_000_000_000_000_000_000, 1),
        "Ki" => (1 << 10, 1),
        "Mi" => (1 << 20, 1),
        "Gi" => (1 << 30, 1),
        "Ti" => (1 << 40, 1),
        "Pi" => (1 << 50, 1),
        "Ei" => (1 << 60, 1),
        exponent => {
            let digits = exponent.strip_prefix(['e', 'E']).ok_or_else(form)?;
            let power: i32 = digits.parse().map_err(|_| form())?;
            let ten = 10u128.checked_pow(power.unsigned_abs()).ok_or_else(range)?;
            if power < 0 { (1, ten) } else { (ten, 1) }
        }
    };
    let scaled = scale(whole, fraction, unit).map_err(|_| range())?;
    if scaled % divisor != 0 || (negative && scaled != 0) {
        return Err(range());
    }
    i64::try_from(scaled / divisor).map(i64::unsigned_abs).map_err(|_| range())
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.text {
            SizeText::Integer(n) => write!(f, "{n}"),
            SizeText::Quantity(text) => f.write_str(text),
        }
    }
}

impl Serialize for ByteSize {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.text.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match SizeText::deserialize(deserializer)? {
            SizeText::Integer(n) => {
                let bytes = u64::try_from(n).map_err(|_| de::Error::custom(SizeError::Range(n.to_string())))?;
                Ok(Self { text: SizeText::Integer(n), bytes })
            }
            SizeText::Quantity(text) => text.parse().map_err(de::Error::custom),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("30s", 30_000_000_000)]
    #[case("1h30m", 5_400_000_000_000)]
    #[case("1.5h", 5_400_000_000_000)]
    #[case("100ms", 100_000_000)]
    #[case("0", 0)]
    #[case("0s", 0)]
    #[case("+5s", 5_000_000_000)]
    #[case(".5s", 500_000_000)]
    #[case("1\u{b5}s", 1_000)]
    fn a_go_duration_is_read_exactly(#[case] text: &str, #[case] nanos: u64) {
        assert_eq!(text.parse::<GoDuration>().unwrap().get(), Duration::from_nanos(nanos));
    }

    #[rstest]
    #[case(Duration::from_secs(30), "30s")]
    #[case(Duration::from_hours(2), "2h")]
    #[case(Duration::from_millis(1500), "1500ms")]
    #[case(Duration::from_micros(7), "7us")]
    #[case(Duration::new(1, 1), "1000000001ns")]
    #[case(Duration::ZERO, "0s")]
    #[case(Duration::MAX, "9223372036854775807ns")]
    fn a_span_is_written_as_what_is_read_as_the_same(#[case] span: Duration, #[case] text: &str) {
        let written = GoDuration::from(span);
        assert_eq!(written.to_string(), text);
        assert_eq!(text.parse::<GoDuration>().unwrap(), written);
    }

    #[rstest]
    #[case("")]
    #[case("30")]
    #[case("s")]
    #[case("5 s")]
    #[case("1d")]
    #[case("1.2.3s")]
    #[case("PT30S")]
    #[case("inf")]
    fn what_go_would_not_read_is_refused_with_what_to_write(#[case] text: &str) {
        let error = text.parse::<GoDuration>().unwrap_err();
        assert!(matches!(error, DurationError::Form(_)), "{error}");
        assert!(error.to_string().contains("such as 30s"));
    }

    #[test]
    fn durations_are_never_negative_and_never_rounded() {
        assert!(matches!("-1s".parse::<GoDuration>(), Err(DurationError::Negative(_))));
        for fine in ["0.5ns", "1.0000000001s", "0.1234567890123456789012345678901234567890h"] {
            assert!(matches!(fine.parse::<GoDuration>(), Err(DurationError::Precision(_))), "{fine}");
        }
        for long in ["9999999999h", "2562047h9999h", "99999999999999999999999999999999999999999s"] {
            assert!(matches!(long.parse::<GoDuration>(), Err(DurationError::Range(_))), "{long}");
        }
    }

    #[rstest]
    #[case("64k", 64_000)]
    #[case("1Mi", 1_048_576)]
    #[case("1.5Mi", 1_572_864)]
    #[case("1E6", 1_000_000)]
    #[case("1E", 1_000_000_000_000_000_000)]
    #[case("1048576", 1_048_576)]
    #[case("0", 0)]
    #[case("1000m", 1)]
    fn a_quantity_is_read_exactly(#[case] text: &str, #[case] bytes: u64) {
        assert_eq!(text.parse::<ByteSize>().unwrap().bytes(), bytes);
    }

    #[rstest]
    #[case("")]
    #[case("64KB")]
    #[case("Ki")]
    #[case("1 Mi")]
    #[case("0x10")]
    #[case("1.2.3")]
    fn what_is_no_quantity_is_refused(#[case] text: &str) {
        assert!(matches!(text.parse::<ByteSize>(), Err(SizeError::Form(_))), "{text}");
    }

    #[rstest]
    #[case("-1")]
    #[case("0.5")]
    #[case("1500m")]
    #[case("16Ei")]
    #[case("1e40")]
    fn what_is_no_whole_number_of_bytes_is_refused(#[case] text: &str) {
        assert!(matches!(text.parse::<ByteSize>(), Err(SizeError::Range(_))), "{text}");
    }

    #[test]
    fn the_text_is_written_back_as_it_came() {
        for json in ["\"1024Ki\"", "1048576"] {
            let size: ByteSize = serde_json::from_str(json).unwrap();
            assert_eq!(size.bytes(), 1_048_576);
            assert_eq!(serde_json::to_string(&size).unwrap(), json);
        }
        let span: GoDuration = serde_json::from_str("\"60m\"").unwrap();
        assert_eq!(serde_json::to_string(&span).unwrap(), "\"60m\"");
        assert!(serde_json::from_str::<ByteSize>("1.5").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in "\\PC*") {
            let _ = text.parse::<GoDuration>();
            let _ = text.parse::<ByteSize>();
        }

        #[test]
        fn whole_seconds_read_back_as_themselves(seconds in 0u64..1_000_000) {
            let span = GoDuration::from_secs(seconds);
            prop_assert_eq!(span.to_string().parse::<GoDuration>().unwrap().get(), Duration::from_secs(seconds));
        }
    }
}
