//! What scripts are answered: rules of a test, the first that fits. Pure but for the counters.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::duration;

/// What is told with every refusal.
const HINT: &str = "write a list, for example [{\"match\": \"part of the script\", \"code\": 3, \"stdout\": \"text\", \
                    \"stderr\": \"text\", \"delay\": \"200ms\", \"count\": 1}]; all fields are optional, without match it is any \
                    script";

/// One scripted answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnswerRule {
    /// Part of the script; any if absent.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    matching: Option<String>,
    /// Exit code.
    #[serde(default)]
    code: u8,
    /// What is written, standard output first.
    #[serde(default)]
    stdout: String,
    #[serde(default)]
    stderr: String,
    /// How long it then goes on running, e.g. `200ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    delay: Option<String>,
    /// How many scripts it answers; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// How many it has answered; set by the server.
    #[serde(default)]
    hits: u64,
}

/// What one script is answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) code: u8,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) delay: Duration,
}

/// The rules in force; a script that none fits succeeds at once and says nothing.
#[derive(Debug, Default)]
pub(crate) struct Answers(Mutex<Vec<AnswerRule>>);

impl Answers {
    /// Replaces all rules by those of a JSON list; refuses them all, with the reason, if one makes no sense.
    pub(crate) fn replace(&self, json: &[u8]) -> Result<(), String> {
        let rules: Vec<AnswerRule> = serde_json::from_slice(json).map_err(|error| format!("{error}: {HINT}"))?;
        for (index, rule) in rules.iter().enumerate() {
            rule.check().map_err(|why| format!("rule {index}: {why}: {HINT}"))?;
        }
        *self.lock() = rules.into_iter().map(|rule| AnswerRule { hits: 0, ..rule }).collect();
        Ok(())
    }

    /// The rules with their hits.
    pub(crate) fn rules(&self) -> Vec<AnswerRule> {
        self.lock().clone()
    }

    /// What this script is answered.
    pub(super) fn meet(&self, script: &[u8]) -> Answer {
        let mut rules = self.lock();
        if rules.is_empty() {
            return Answer::default();
        }
        let script = String::from_utf8_lossy(script);
        match rules.iter_mut().find(|rule| rule.fits(&script)) {
            None => Answer::default(),
            Some(rule) => {
                rule.hits += 1;
                Answer {
                    code: rule.code,
                    stdout: rule.stdout.clone(),
                    stderr: rule.stderr.clone(),
                    delay: rule.delay.as_deref().and_then(duration::parse).unwrap_or_default(),
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<AnswerRule>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AnswerRule {
    fn check(&self) -> Result<(), &'static str> {
        if self.count == Some(0) {
            return Err("count is 0: it would answer nothing");
        }
        if self.delay.as_deref().is_some_and(|text| duration::parse(text).is_none()) {
            return Err("delay is no duration");
        }
        Ok(())
    }

    fn fits(&self, script: &str) -> bool {
        self.count.is_none_or(|count| self.hits < count)
            && self.matching.as_deref().is_none_or(|part| script.contains(part))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn the_first_rule_that_fits_and_is_not_used_up_answers() {
        let answers = Answers::default();
        assert_eq!(answers.meet(b"anything"), Answer::default());
        let rules = r#"[{"match":"b","code":3,"delay":"200ms","count":1},{"match":"a","stdout":"out"},{"code":7}]"#;
        answers.replace(rules.as_bytes()).unwrap();
        let answer = answers.meet(b"a b");
        assert_eq!((answer.code, answer.delay), (3, Duration::from_millis(200)));
        assert_eq!(answers.meet(b"a b").stdout, "out");
        assert_eq!(answers.meet(b"b \xff").code, 7);
        assert_eq!(answers.rules().iter().map(|rule| rule.hits).collect::<Vec<_>>(), [1, 1, 1]);
        // What is told can be sent again.
        let told = serde_json::to_vec(&answers.rules()).unwrap();
        answers.replace(&told).unwrap();
        assert_eq!(answers.meet(b"b").code, 3);
    }

    #[rstest]
    #[case::no_json("")]
    #[case::no_list(r#"{"code":3}"#)]
    #[case::a_code_beyond_a_byte(r#"[{"code":300}]"#)]
    #[case::another_field(r#"[{"exit":3}]"#)]
    #[case::no_duration(r#"[{"delay":"soon"}]"#)]
    #[case::never(r#"[{"count":0}]"#)]
    fn nonsense_is_refused_with_what_may_be_written(#[case] json: &str) {
        let answers = Answers::default();
        answers.replace(br#"[{"code":5}]"#).unwrap();
        let why = answers.replace(json.as_bytes()).unwrap_err();
        assert!(why.contains("[{\"match\": \"part of the script\""), "{why}");
        assert_eq!(answers.meet(b"").code, 5, "what was in force stays");
    }
}
