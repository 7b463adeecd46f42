//! Conditions: built one per signal, merged purely.
//!
//! The transition time moves only when the status flips and is cut to whole seconds. Must not decide what is true.

use std::borrow::Cow;

use k8s_openapi::{
    apimachinery::pkg::apis::meta::v1::Condition, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Of a session or a policy: Runs may use it.
pub const READY: &str = "Ready";
/// Of a session: the Sprite's egress rules and URL were read back as demanded.
pub const LOCKED_DOWN: &str = "LockedDown";
/// Of a session: nothing that must not be reached was reached.
pub const CONTAINED: &str = "Contained";
/// Of a session: files were lost with a Sprite, until the next Run has seen it.
pub const DATA_LOST: &str = "DataLost";
/// Of a Run: it passed the gate.
pub const ADMITTED: &str = "Admitted";
/// Of a Run: its command succeeded.
pub const SUCCEEDED: &str = "Succeeded";
/// Of a Run: it is over, whatever the outcome.
pub const FINISHED: &str = "Finished";
/// Of all: the controller is at work on the spec (kstatus).
pub const RECONCILING: &str = "Reconciling";
/// Of all: the controller cannot go on by itself (kstatus).
pub const STALLED: &str = "Stalled";

/// Longest message kept in a condition, in bytes; longer ones are cut at a character.
pub const MESSAGE_MAX: usize = 32_768;

/// The three answers a condition can give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Not known.
    Unknown,
}

impl ConditionStatus {
    /// As written in `status`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<bool> for ConditionStatus {
    fn from(value: bool) -> Self {
        if value { Self::True } else { Self::False }
    }
}

/// One signal as it is now, without history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionUpdate {
    /// The condition's type, such as `Ready`.
    pub kind: &'static str,
    /// Whether it holds.
    pub truth: ConditionStatus,
    /// A `PascalCase` word.
    pub reason: &'static str,
    /// For people; may be empty.
    pub message: String,
}

impl ConditionUpdate {
    /// A signal without a message.
    pub fn new(kind: &'static str, truth: impl Into<ConditionStatus>, reason: &'static str) -> Self {
        Self { kind, truth: truth.into(), reason, message: String::new() }
    }

    /// The same signal with a message.
    #[must_use]
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        cut(&message.into(), MESSAGE_MAX).clone_into(&mut self.message);
        self
    }
}

/// The conditions of an object: a list map by `type`, in a stable order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(pub Vec<Condition>);

impl Conditions {
    /// The condition of that type.
    pub fn get(&self, kind: &str) -> Option<&Condition> {
        self.0.iter().find(|c| c.type_ == kind)
    }

    /// Whether the condition of that type is `True`.
    pub fn is_true(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|c| c.status == "True")
    }

    /// These signals as conditions; transition times are kept from `self` where the status is the same.
    #[must_use]
    pub fn merged(&self, signals: Vec<ConditionUpdate>, observed_generation: Option<i64>, now: Timestamp) -> Self {
        let merged = signals.into_iter().map(|signal| {
            let old = self.get(signal.kind).filter(|c| c.status == signal.truth.as_str());
            Condition {
                type_: signal.kind.to_owned(),
                status: signal.truth.as_str().to_owned(),
                reason: signal.reason.to_owned(),
                message: signal.message,
                observed_generation,
                last_transition_time: old.map_or_else(|| Time(whole_seconds(now)), |c| c.last_transition_time.clone()),
            }
        });
        Self(merged.collect())
    }
}

/// The longest head of `text` of at most `max` bytes that ends at a character.
pub fn cut(text: &str, max: usize) -> &str {
    text.get(..text.floor_char_boundary(max)).unwrap_or_default()
}

/// A time cut to whole seconds, as Kubernetes stores condition times.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

impl JsonSchema for Conditions {
    fn schema_name() -> Cow<'static, str> {
        "Conditions".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "array",
            "maxItems": 16,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "description": "A Kubernetes condition.",
                "required": ["type", "status", "lastTransitionTime", "reason", "message"],
                "properties": {
                    "type": {"type": "string", "maxLength": 316, "description": "Which condition this is."},
                    "status": {"type": "string", "enum": ["True", "False", "Unknown"], "description": "Whether it holds."},
                    "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0, "description": "metadata.generation that this was computed from."},
                    "lastTransitionTime": {"type": "string", "format": "date-time", "description": "When the status last changed."},
                    "reason": {"type": "string", "minLength": 1, "maxLength": 128, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", "description": "One word from the table of reasons."},
                    "message": {"type": "string", "maxLength": 32768, "description": "For people."}
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_transition_time_moves_only_when_the_status_flips() {
        let first =
            Conditions::default().merged(vec![ConditionUpdate::new("Ready", false, "Provisioning")], Some(1), at(100));
        let second = first.merged(
            vec![ConditionUpdate::new("Ready", false, "Provisioned").with_message("same status")],
            Some(2),
            at(200),
        );
        assert_eq!(second.get("Ready").unwrap().last_transition_time.0, at(100));
        assert_eq!(second.get("Ready").unwrap().reason, "Provisioned");
        let third = second.merged(vec![ConditionUpdate::new("Ready", true, "LockedDown")], Some(2), at(300));
        assert_eq!(third.get("Ready").unwrap().last_transition_time.0, at(300));
    }

    #[test]
    fn a_message_is_cut_at_a_character() {
        let long = "€".repeat(20_000);
        let signal = ConditionUpdate::new("Ready", ConditionStatus::Unknown, "Waiting").with_message(long);
        assert_eq!(signal.message.len(), 32_766);
    }

    #[test]
    fn times_are_cut_to_whole_seconds() {
        let now = Timestamp::from_millisecond(1_500).unwrap();
        assert_eq!(whole_seconds(now), at(1));
    }
}
