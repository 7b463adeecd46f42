//! What an adopter must know of a command: where it was started, under which limits, how long its end is looked for. Pure.

use std::{sync::Arc, time::Duration};

use api::{
    Run,
    execution_policy::{OnLimit, Redact},
    values::GoDuration,
};
use k8s_openapi::jiff::Timestamp;
use rules::{combine, outcome::Stop};

use super::{super::observed::Observed, work::Work};
use crate::policy::view::PolicyView;

/// What an adopter must know of a Run's limits.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Its run time.
    pub timeout: Duration,
    /// Its output cap.
    pub output: u64,
    /// Whether it is stopped there.
    pub stop_at_output: bool,
    /// Whether recognisable secrets are masked in what is stored.
    pub redact: bool,
}

/// The limits of a Run that is found running: those that were recorded when it started.
pub fn limits(o: &Observed) -> Limits {
    let execution = o.run.status.as_ref().and_then(|status| status.execution.as_ref());
    let recorded = execution.and_then(|execution| {
        let timeout = execution.timeout.as_ref()?.get();
        // Runners of older operators always stopped it.
        let stop_at_output = execution.on_limit.unwrap_or(OnLimit::Kill) == OnLimit::Kill;
        let redact = execution.redact? != Redact::Off;
        Some(Limits { timeout, output: execution.output_limit?, stop_at_output, redact })
    });
    recorded.unwrap_or_else(|| of_policies(o))
}

/// Of a Run that an older operator started: what its policies say now.
fn of_policies(o: &Observed) -> Limits {
    let of = |policy: &'_ PolicyView| match policy {
        PolicyView::Ready(compiled) => Some(Arc::clone(compiled)),
        PolicyView::NotFound(_) | PolicyView::NotReady(..) => None,
    };
    let policies: Vec<_> = std::iter::once(&o.session_policy).chain(o.run_policy.as_ref()).filter_map(of).collect();
    let tightest = combine::limits(policies.iter().map(|policy| &policy.limits));
    let asked = o.run.spec.timeout.as_ref().map(GoDuration::get);
    // Without any policy: what a policy that says nothing would give, and nothing unmasked.
    let known = !policies.is_empty();
    Limits {
        timeout: asked.unwrap_or(if known { tightest.timeout } else { Duration::from_secs(30) }),
        output: if known { tightest.output } else { 64 << 10 },
        stop_at_output: true,
        redact: !known || policies.iter().any(|policy| policy.redact),
    }
}

/// How long an end is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecoveryWindow {
    /// Within the bound of a Run: its timeout and 30 s.
    Short,
    /// After an outage that bound may have passed long ago.
    AfterOutage,
}

/// Where a command was started: from status, or from whoever started it just now.
#[derive(Debug, Clone)]
pub struct Place {
    /// Name of the session.
    pub session: String,
    /// UID of the session.
    pub session_uid: String,
    /// The instance.
    pub instance: String,
    /// When the start was recorded, before the command was sent.
    pub started_at: Timestamp,
}

impl Place {
    /// What a Run's status says.
    pub fn on_record(run: &Run, now: Timestamp) -> Self {
        let status = run.status.clone().unwrap_or_default();
        let session = status.session.unwrap_or_default();
        let started = status.execution.and_then(|execution| execution.started_at);
        Self {
            session: session.name,
            session_uid: session.uid,
            instance: status.sprite.unwrap_or_default().id,
            started_at: started.map_or(now, |at| at.0),
        }
    }
}

/// What was seen of a command before its connection was lost.
#[derive(Debug, Clone, Default)]
pub struct SeenBefore {
    /// The code of its exit frame.
    pub exit: Option<u8>,
    /// Whether its start marker was seen: then a missing guard was taken away, and says nothing.
    pub started: bool,
    /// From marker to exit frame.
    pub took: Option<Duration>,
    /// Why it was told to stop.
    pub stop: Option<Stop>,
    /// What its runner said before it started anything.
    pub refusal: Option<String>,
}

/// A command to be adopted.
#[derive(Debug, Clone)]
pub struct RecoveryRequest {
    /// Where it was started.
    pub place: Place,
    /// Its limits.
    pub limits: Limits,
    /// What kind of work it is.
    pub work: Work,
    /// How long its end is looked for.
    pub window: RecoveryWindow,
    /// What is known of it already.
    pub seen: SeenBefore,
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;
    use crate::controllers::run::fixtures::{NOW, at, in_phase, named, observed, policy, run};
    use api::{
        reasons::RunPhase,
        run_status::{Execution, SessionIdentity, SpriteIdentity},
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn missing() -> PolicyView {
        PolicyView::NotFound("x".to_owned())
    }

    /// Doubt masks, and gives no more time than a policy that says nothing.
    #[rstest]
    #[case("the session's policy", policy("s", "{limits: {timeout: 20s, output: 1Ki}}"), None, None, (20, 1024, true))]
    #[case("what the Run asked for", policy("s", "{limits: {timeout: 20s}}"), None, Some("5s"), (5, 64 << 10, true))]
    #[case("the tighter of two", policy("s", "{limits: {timeout: 20s, output: 1Ki}}"), Some(policy("r", "{limits: {timeout: 40s, output: 2Ki}}")), None, (20, 1024, true))]
    #[case("neither masks", policy("s", "{output: {redact: 'Off'}}"), Some(policy("r", "{output: {redact: 'Off'}}")), None, (30, 64 << 10, false))]
    #[case("one of two masks", policy("s", "{output: {redact: 'Off'}}"), Some(policy("r", "{}")), None, (30, 64 << 10, true))]
    #[case("the session's is gone", missing(), Some(policy("r", "{limits: {timeout: 7s}, output: {redact: 'Off'}}")), None, (7, 64 << 10, false))]
    #[case("both are gone", missing(), Some(missing()), None, (30, 64 << 10, true))]
    #[case("both are gone, and it asked", missing(), None, Some("10m"), (600, 64 << 10, true))]
    #[case("broken is as good as gone", PolicyView::NotReady("x".into(), "y".into()), None, None, (30, 64 << 10, true))]
    fn limits_of_a_command_found_running_are_those_of_its_policies_now(
        #[case] name: &str,
        #[case] session_policy: PolicyView,
        #[case] run_policy: Option<PolicyView>,
        #[case] asked: Option<&str>,
        #[case] (timeout, output, redact): (u64, u64, bool),
    ) {
        let mut spec = json!({"session": {"name": "s"}, "bash": {"command": "true"}});
        if let Some(asked) = asked {
            spec["timeout"] = json!(asked);
        }
        let limits = limits(&Observed { session_policy, run_policy, ..observed(run(spec)) });
        assert_eq!((limits.timeout.as_secs(), limits.output, limits.redact), (timeout, output, redact), "{name}");
    }

    /// Policies may have changed since, or gone: an adopter goes by what was recorded.
    #[rstest]
    #[case("a policy that gave it ten minutes is gone", missing())]
    #[case("it was tightened", policy("s", "{limits: {timeout: 1s, output: 1Ki}}"))]
    #[case("it was widened", policy("s", "{limits: {timeout: 50m, output: 100Ki}, output: {redact: 'Off'}}"))]
    fn limits_of_a_command_are_those_it_started_with(#[case] name: &str, #[case] session_policy: PolicyView) {
        let mut run = in_phase(named(), RunPhase::Running);
        run.status.as_mut().unwrap().execution = Some(Execution {
            timeout: Some("10m".parse().unwrap()),
            output_limit: Some(7),
            redact: Some(Redact::Recognised),
            on_limit: Some(OnLimit::Truncate),
            ..Execution::default()
        });
        let of = |run: &Run| limits(&Observed { session_policy: session_policy.clone(), ..observed(run.clone()) });
        let recorded = of(&run);
        assert_eq!((recorded.timeout.as_secs(), recorded.output, recorded.redact), (600, 7, true), "{name}");
        assert!(!recorded.stop_at_output, "{name}");
        // A record that was cut is none.
        run.status.as_mut().unwrap().execution.as_mut().unwrap().redact = None;
        assert_ne!(of(&run).timeout.as_secs(), 600, "{name}");
        run.status.as_mut().unwrap().execution.as_mut().unwrap().redact = Some(Redact::Off);
        assert!(!of(&run).redact, "{name}");
    }

    #[test]
    fn the_place_of_a_command_is_what_its_status_says_and_never_another() {
        let mut run = in_phase(named(), RunPhase::Running);
        let bare = Place::on_record(&run, at(NOW));
        // Nothing of it matches any session or Sprite.
        assert_eq!((bare.session_uid.as_str(), bare.instance.as_str(), bare.started_at), ("", "", at(NOW)));
        let status = run.status.as_mut().unwrap();
        status.session = Some(SessionIdentity { name: "s".into(), uid: "session-uid".into() });
        status.sprite = Some(SpriteIdentity { id: "i".into() });
        status.execution = Some(Execution { started_at: Some(Time(at(NOW - 40))), ..Execution::default() });
        let place = Place::on_record(&run, at(NOW));
        assert_eq!((place.session.as_str(), place.session_uid.as_str()), ("s", "session-uid"));
        assert_eq!((place.instance.as_str(), place.started_at), ("i", at(NOW - 40)));
    }
}
