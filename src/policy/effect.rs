//! What a policy asks for that this version does not do. Pure.

use serde_json::Value;

use api::values::{ByteSize, GoDuration};
use api::{ExecutionPolicySpec, WITHOUT_EFFECT};

/// Fields that are set to another value than their default and have no effect, as in `quota.runsPerDay.user`.
pub fn without_effect(spec: &ExecutionPolicySpec) -> Vec<String> {
    let (Ok(spec), Ok(default)) = (serde_json::to_value(spec), serde_json::to_value(ExecutionPolicySpec::default()))
    else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for field in WITHOUT_EFFECT {
        let pointer = format!("/{}", field.replace('.', "/"));
        differences(spec.pointer(&pointer), default.pointer(&pointer), field, &mut found);
    }
    found
}

fn differences(value: Option<&Value>, default: Option<&Value>, field: &str, found: &mut Vec<String>) {
    match (value, default) {
        (Some(value), Some(default)) if is_same(value, default) => {}
        (Some(Value::Object(fields)), default) => {
            for (name, value) in fields {
                let default = default.and_then(|default| default.get(name));
                differences(Some(value), default, &format!("{field}.{name}"), found);
            }
        }
        (Some(_), _) => found.push(field.to_owned()),
        (None, _) => {}
    }
}

/// Whether two values mean the same, such as `1024Mi` and `1Gi`.
fn is_same(a: &Value, b: &Value) -> bool {
    fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
        serde_json::from_value(value.clone()).ok()
    }
    let sizes = || Some(read::<ByteSize>(a)?.bytes() == read::<ByteSize>(b)?.bytes());
    let spans = || Some(read::<GoDuration>(a)?.get() == read::<GoDuration>(b)?.get());
    a == b || a.is_string() && b.is_string() && sizes().or_else(spans).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn of(spec: &str) -> Vec<String> {
        without_effect(&serde_saphyr::from_str(spec).unwrap())
    }

    #[rstest]
    #[case::nothing("{}", &[])]
    #[case::defaults("{quota: {sessions: 10}, containment: {probe: FreshInstance}}", &[])]
    #[case::what_has_an_effect("{limits: {timeout: 5s}, egress: {mode: DenyAll}, audit: {events: Anomalies}}", &[])]
    #[case::defaults_in_other_units("{resources: {memory: 1024Mi, storage: 2048Mi}, lifecycle: {hibernateAfter: 300s}}", &[])]
    #[case::one("{audit: {failure: Closed}}", &["audit.failure"])]
    #[case::part("{resources: {cpus: 2, memory: 1Gi}}", &["resources.cpus"])]
    #[case::deep("{quota: {runsPerDay: {user: 5}, concurrentRuns: {byTier: {pro: 4}}}}", &["quota.concurrentRuns.byTier.pro", "quota.runsPerDay.user"])]
    #[case::several("{lifecycle: {expireAfter: 1h, onWiden: Relock, processesAfterRun: Keep}}", &["lifecycle.expireAfter", "lifecycle.onWiden"])]
    fn fields_that_are_set_and_do_nothing_are_named(#[case] spec: &str, #[case] fields: &[&str]) {
        assert_eq!(of(spec), fields);
    }

    #[test]
    fn every_field_of_the_list_exists() {
        let default = serde_json::to_value(ExecutionPolicySpec::default()).unwrap();
        for field in WITHOUT_EFFECT {
            assert!(default.pointer(&format!("/{}", field.replace('.', "/"))).is_some(), "{field}");
        }
    }
}
