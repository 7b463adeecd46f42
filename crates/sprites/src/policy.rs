//! Network rules of a Sprite, verbatim in both directions. What they mean is decided elsewhere.

use reqwest::Method;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::{Map, Value};

use super::awake::Awake;
use super::call::CallKind;
use super::client::Client;
use super::error::Error;
use super::response::Subject;
use super::sanitize::ProviderText;

/// One rule. Compare whole rules: a field that we do not know may change what it means, so its name is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkRule {
    /// A host name, `*.suffix` or `*`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// `allow` or `deny`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// A preset: `defaults`. It only ever allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include: Option<String>,
    /// The names of fields that we do not know, sorted. Never sent.
    #[serde(skip_serializing)]
    pub unknown: Vec<String>,
}

impl<'de> Deserialize<'de> for NetworkRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::<String, Value>::deserialize(deserializer)?;
        let mut take = |name| match fields.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Err(de::Error::custom("a rule's field is no string"))
            }
        };
        Ok(Self {
            domain: take("domain")?,
            action: take("action")?,
            include: take("include")?,
            unknown: fields.into_iter().map(|(name, _)| name).collect(),
        })
    }
}

/// `rules` must be there: an answer without it must not read as "no rules", which means unrestricted.
#[derive(Serialize, Deserialize)]
struct Rules<T> {
    rules: T,
}

impl Client {
    /// The rules in force, in the service's order. An empty list means **unrestricted**.
    pub async fn network_policy(&self, on: &Awake) -> Result<Vec<NetworkRule>, Error> {
        let call = self.call_in(on, CallKind::PolicyGet, Method::GET, &NETWORK, Subject::Other)?;
        let rules: Rules<_> = call.send_for("a list of rules").await?;
        Ok(rules.rules)
    }

    /// Replaces all rules. An empty list would lift every restriction and is refused here; to allow everything, say so:
    /// `{domain: "*", action: "allow"}`. With a [checked](Awake::checked) proof the id is read before and after:
    /// [`Error::Replaced`] with `sent` means that the rules may have been set on either instance.
    pub async fn set_network_policy(&self, on: &Awake, rules: &[NetworkRule]) -> Result<(), Error> {
        if rules.is_empty() {
            return Err(Error::refused_here("an empty list of rules means unrestricted and is never sent"));
        }
        let call = self.call_in(on, CallKind::PolicySet, Method::POST, &NETWORK, Subject::Other)?;
        call.json(&Rules { rules }).send().await?;
        if !on.is_checked() {
            return Ok(());
        }
        let again = self.with_priority_of(CallKind::PolicySet).same_instance(on, true).await;
        again.map_err(|error| if error.may_have_happened() { error } else { set_but_not_seen(&error) })
    }
}

/// The second look failed in a way that would read as if the rules had not been sent.
fn set_but_not_seen(error: &Error) -> Error {
    let message = format!("the rules were sent, and the instance could not be read again: {error}");
    Error::Unknown {
        status: None,
        sent: true,
        retry_after: error.retry_after(),
        message: ProviderText::new(&message, None),
        source: None,
    }
}

const NETWORK: [&str; 2] = ["policy", "network"];

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    #[test]
    fn rules_are_sent_as_they_are_meant() {
        let rule = NetworkRule {
            domain: Some("*".to_owned()),
            action: Some("deny".to_owned()),
            unknown: vec!["ports".to_owned()],
            ..NetworkRule::default()
        };
        let sent = serde_json::to_value(Rules { rules: &[rule][..] }).unwrap();
        assert_eq!(sent, json!({"rules": [{"domain": "*", "action": "deny"}]}));
    }

    #[test]
    fn fields_of_a_later_version_are_seen() {
        let rules: Rules<Vec<NetworkRule>> = serde_json::from_value(
            json!({"rules": [{"domain": "a.b", "action": "allow", "include": null, "ports": [1]}]}),
        )
        .unwrap();
        let [rule] = rules.rules.as_slice() else { panic!() };
        assert_eq!((rule.domain.as_deref(), &rule.include), (Some("a.b"), &None));
        assert_eq!(rule.unknown, ["ports"]);
    }

    #[rstest]
    #[case::missing(json!({}))]
    #[case::null(json!({"rules": null}))]
    #[case::error_shape(json!({"error": "x"}))]
    #[case::not_objects(json!({"rules": ["*"]}))]
    #[case::not_text(json!({"rules": [{"domain": 1}]}))]
    fn an_answer_without_rules_is_not_an_empty_list(#[case] answer: Value) {
        assert!(serde_json::from_value::<Rules<Vec<NetworkRule>>>(answer).is_err());
    }
}
