use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use rstest::rstest;

use super::*;
use crate::egress::{Demand, Mode, build};
use crate::limits::LimitError;

/// A policy with all that its terms borrow.
#[derive(Debug, Clone)]
struct Policy {
    name: &'static str,
    limits: Limits,
    egress: Ruleset,
    deny: DenyList,
    set: Vec<(String, String)>,
    allow: Vec<String>,
    quota: PolicyQuota,
    redact: bool,
}

impl Policy {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            limits: Limits::MAXIMA,
            egress: Ruleset::deny_all(),
            deny: DenyList::new(&[]).unwrap(),
            set: Vec::new(),
            allow: Vec::new(),
            quota: quota(2, None),
            redact: true,
        }
    }

    fn setting(mut self, name: &str, value: &str) -> Self {
        self.set.push((name.to_owned(), value.to_owned()));
        self
    }

    fn allowing(mut self, name: &str) -> Self {
        self.allow.push(name.to_owned());
        self
    }

    fn terms(&self) -> Terms<'_> {
        let Self { name, limits, egress, deny, set, allow, quota, redact } = self;
        Terms { name, limits, egress, deny, set, allow, quota, redact: *redact }
    }
}

fn quota(default: u32, user: Option<u32>) -> PolicyQuota {
    PolicyQuota { default, by_tier: BTreeMap::new(), user, drive: None, tenant: None }
}

fn allowlist(hosts: &[&str]) -> Ruleset {
    let allow: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    build(Demand { mode: Mode::Allowlist, allow: &allow, deny: &[], defaults: false }, false).unwrap()
}

fn variables(own: &[(&str, &str)], session: &Policy, run: &Policy) -> Result<Vec<(String, String)>, String> {
    let effective = combine(session.terms(), Some(run.terms()), None)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    effective.environment(own).map_err(|errors| format!("{errors:?}"))
}

#[test]
fn a_policy_that_demands_other_egress_than_the_sprite_has_does_not_apply() {
    let session = Policy { egress: allowlist(&["example.com", "example.org"]), ..Policy::new("wide") };
    for other in [allowlist(&["example.com"]), Ruleset::deny_all(), allowlist(&["example.net"])] {
        let run = Policy { egress: other, ..Policy::new("own") };
        let errors = combine(session.terms(), Some(run.terms()), None).unwrap_err();
        assert_eq!(errors, [CombineError::Egress { run: "own".into(), session: "wide".into() }]);
    }
    let same = Policy { egress: allowlist(&["example.org", "EXAMPLE.com."]), ..Policy::new("own") };
    assert_eq!(combine(session.terms(), Some(same.terms()), None).unwrap().egress, &session.egress);
}

#[test]
fn no_policy_passes_the_ceilings() {
    let mut wide = Policy::new("wide");
    wide.limits.timeout = Duration::from_hours(100);
    wide.limits.output = u64::MAX;
    assert_eq!(combine(wide.terms(), None, None).unwrap().limits, Limits::MAXIMA);
    assert_eq!(limits([]), Limits::MAXIMA);
}

#[test]
fn a_command_is_held_against_the_expressions_of_both() {
    let session = Policy { deny: DenyList::new(&["nc".to_owned(), "n".to_owned()]).unwrap(), ..Policy::new("s") };
    let run = Policy { deny: DenyList::new(&["^nc[ ]".to_owned()]).unwrap(), ..Policy::new("r") };
    let effective = combine(session.terms(), Some(run.terms()), None).unwrap();
    assert_eq!(
        effective
            .denies(&CommandText::new("nc example.com"))
            .map(|(policy, denial)| (policy, denial.expression.to_owned()))
            .collect::<Vec<_>>(),
        [("s", "nc".to_owned()), ("r", "^nc[ ]".to_owned())]
    );
    assert_eq!(effective.denies(&CommandText::new("echo")).count(), 0);
}

#[rstest]
// Nothing but what the session's policy sets.
#[case(Policy::new("s").setting("A", "1"), Policy::new("r"), &[], "A=1")]
// Both set the same.
#[case(Policy::new("s").setting("A", "1"), Policy::new("r").setting("A", "1"), &[], "A=1")]
// The Run's policy sets what the session's lets a Run set.
#[case(Policy::new("s").allowing("B"), Policy::new("r").setting("B", "2"), &[], "B=2")]
#[case(Policy::new("s").setting("A", "1").allowing("A"), Policy::new("r").setting("A", "2"), &[], "A=2")]
// It would widen: it is refused, not left out.
#[case(Policy::new("s"), Policy::new("r").setting("B", "2"), &[], "ExecutionPolicy r sets `B`")]
#[case(Policy::new("s").setting("A", "1"), Policy::new("r").setting("A", "2"), &[], "neither sets so nor allows")]
// A Run sets what both allow.
#[case(Policy::new("s").allowing("C"), Policy::new("r").allowing("C"), &[("C", "3")], "C=3")]
#[case(Policy::new("s").allowing("C"), Policy::new("r"), &[("C", "3")], "NotAllowed")]
#[case(Policy::new("s"), Policy::new("r").allowing("C"), &[("C", "3")], "NotAllowed")]
// What the Run's policy fixed the Run does not change.
#[case(Policy::new("s").allowing("B"), Policy::new("r").setting("B", "2"), &[("B", "3")], "NotAllowed")]
#[case(Policy::new("s").allowing("B"), Policy::new("r").setting("B", "2").allowing("B"), &[("B", "3")], "B=3")]
fn variables_come_from_both_policies_where_neither_minds(
    #[case] session: Policy,
    #[case] run: Policy,
    #[case] own: &[(&str, &str)],
    #[case] want: &str,
) {
    let got = match variables(own, &session, &run) {
        Ok(combined) => combined.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "),
        Err(error) => error,
    };
    // A refusal is told by a part of what it says.
    assert!(got == want || (!want.contains('=') && got.contains(want)), "{got}, wanted {want}");
}

#[test]
fn everything_that_keeps_two_policies_apart_is_said_at_once() {
    let run = Policy { egress: allowlist(&["example.com"]), ..Policy::new("r") }.setting("A", "1").setting("B", "2");
    assert_eq!(combine(Policy::new("s").terms(), Some(run.terms()), None).unwrap_err().len(), 3);
}

#[test]
fn slots_are_those_of_the_tier_in_each_policy_and_the_fewer_of_both() {
    let by = |tier: &str, slots: u32| BTreeMap::from([(tier.to_owned(), slots)]);
    let session = Policy { quota: PolicyQuota { by_tier: by("pro", 8), ..quota(2, Some(100)) }, ..Policy::new("s") };
    let run = Policy { quota: PolicyQuota { by_tier: by("free", 1), ..quota(4, None) }, ..Policy::new("r") };
    let of = |tier| combine(session.terms(), Some(run.terms()), tier).unwrap().quota;
    assert_eq!((of(Some("pro")).concurrent, of(Some("free")).concurrent, of(None).concurrent), (4, 1, 2));
    assert_eq!(of(None).user, Some(100), "a policy without a limit does not lift the other's");
}

#[test]
fn secrets_are_masked_when_either_wants_it() {
    let with = |redact| Policy { redact, ..Policy::new("p") };
    for (session, run, want) in [(true, true, true), (true, false, true), (false, true, true), (false, false, false)] {
        assert_eq!(combine(with(session).terms(), Some(with(run).terms()), None).unwrap().redact, want);
    }
}

/// What a Run asks for.
#[derive(Debug, Clone)]
struct Asked {
    timeout: u64,
    command: String,
    stdin: u64,
    own: Vec<(String, String)>,
    running: u64,
    today: u64,
}

/// Whether the effective policy lets it run, and with which variables of its own.
fn accepts(effective: &Effective<'_>, asked: &Asked) -> bool {
    let timeout: Result<_, LimitError> = effective.limits.timeout_for(Some(Duration::from_secs(asked.timeout)));
    let own: Vec<_> = asked.own.iter().map(pair).collect();
    timeout.is_ok()
        && Limits::check_size("command", asked.command.len() as u64, effective.limits.command).is_none()
        && Limits::check_size("stdin", asked.stdin, effective.limits.stdin).is_none()
        && effective.denies(&CommandText::new(&asked.command)).next().is_none()
        && effective.environment(&own).is_ok()
        && asked.running < u64::from(effective.quota.concurrent)
        && effective.quota.user.is_none_or(|most| asked.today < u64::from(most))
}

fn policies(name: &'static str) -> impl Strategy<Value = Policy> {
    let names = || prop::collection::btree_set("[AB]{1,2}", 0..4);
    let egress = prop_oneof![Just(Ruleset::deny_all()), Just(allowlist(&["example.com"]))];
    let numbers = (1u64..6, 0u64..8, 0u64..8, 0u32..4, prop::option::of(0u32..4));
    let expressions = prop::collection::vec("[ab]{1,2}", 0..2);
    (numbers, names(), names(), egress, expressions, any::<bool>(), "[12]").prop_map(
        move |((timeout, command, stdin, slots, user), set, allow, egress, deny, redact, value)| Policy {
            limits: Limits { timeout: Duration::from_secs(timeout), command, stdin, ..Limits::MAXIMA },
            egress,
            deny: DenyList::new(&deny).unwrap(),
            set: set.into_iter().map(|name| (name, value.clone())).collect(),
            allow: allow.into_iter().collect(),
            quota: quota(slots, user),
            redact,
            ..Policy::new(name)
        },
    )
}

fn runs() -> impl Strategy<Value = Asked> {
    let own = prop::collection::btree_map("[AB]{1,2}", "[123]", 0..2);
    (1u64..6, "[abc]{1,6}", 0u64..8, own, 0u64..3, 0u64..3).prop_map(
        |(timeout, command, stdin, own, running, today)| Asked {
            timeout,
            command,
            stdin,
            own: own.into_iter().collect(),
            running,
            today,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn what_either_policy_forbids_is_forbidden(session in policies("s"), run in policies("r"), asked in runs()) {
        let alone = |policy: &Policy| accepts(&combine(policy.terms(), None, None).unwrap(), &asked);
        match combine(session.terms(), Some(run.terms()), None) {
            Err(errors) => prop_assert!(!errors.is_empty()),
            Ok(effective) => {
                prop_assert_eq!(effective.egress.hash(), run.egress.hash());
                prop_assert!(effective.redact || !(session.redact || run.redact));
                if accepts(&effective, &asked) {
                    prop_assert!(alone(&session) && alone(&run));
                }
            }
        }
    }

    /// Every variable that a command gets is one that the session's policy sets so, or lets be set.
    #[test]
    fn no_variable_gets_in_past_the_sessions_policy(session in policies("s"), run in policies("r"), asked in runs()) {
        let own: Vec<_> = asked.own.iter().map(pair).collect();
        let Ok(effective) = combine(session.terms(), Some(run.terms()), None) else { return Ok(()) };
        for variable in effective.environment(&own).into_iter().flatten() {
            prop_assert!(session.set.contains(&variable) || session.allow.contains(&variable.0), "{:?}", variable);
            let mine = asked.own.contains(&variable) && !session.set.contains(&variable) && !run.set.contains(&variable);
            prop_assert!(!mine || run.allow.contains(&variable.0), "{:?}", variable);
        }
    }

    /// The other way round: what both allow alone is not refused for nothing.
    #[test]
    fn what_both_policies_allow_is_allowed(session in policies("s"), run in policies("r"), asked in runs()) {
        let alone = |policy: &Policy| accepts(&combine(policy.terms(), None, None).unwrap(), &asked);
        if let Ok(effective) = combine(session.terms(), Some(run.terms()), None)
            && alone(&session) && alone(&run)
        {
            prop_assert!(accepts(&effective, &asked));
        }
    }
}
