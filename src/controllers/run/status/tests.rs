//! The tables of a Run's status: what each step writes, keeps and leaves out.

use api::{
    conditions::{ConditionUpdate, Conditions},
    reasons::{Evidence, WaitingCause},
};
use redact::Redactor;
use rstest::rstest;
use rules::output::{Capture, Detail, Source, shape};
use runner_protocol::{Cause, Guard, Record};

use super::*;
use crate::controllers::{
    driver::Next,
    run::{
        decide::decide,
        fixtures::{NOW, at, named, observed},
        plan::{Plan, Waiting},
    },
};
use rules::outcome::{Seen, Stop, Verdict, judge};

fn wait(cause: WaitingCause, message: &str, until: i64) -> Wait {
    Wait { waiting: Waiting::new(cause, message), until: at(until), next: Next::Change }
}

fn start() -> Start {
    let Plan::Start(start) = decide(&observed(named())) else { panic!("not started") };
    *start
}

/// Status and reason of each condition, in a line.
fn told(status: &RunStatus) -> Vec<String> {
    let line = |c: &k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| {
        format!("{} {} {}", c.type_, c.status, c.reason)
    };
    status.conditions.0.iter().map(line).collect()
}

fn running_run() -> Run {
    let run = named();
    Run { status: Some(running(&run, &start(), at(NOW))), ..run }
}

fn ended(code: u8, stop: Option<Stop>) -> Outcome {
    let by = if stop.is_some() { Cause::Stop } else { Cause::Script };
    let ran = std::time::Duration::ZERO;
    let record = Record { code, by, ran, ended: 0, remaining: 0, stdout: None, stderr: None };
    judged(&Seen { exit: Some(code), started: true, stop, line: Some(record), ..Seen::default() })
}

fn fenced(guard: &Guard) -> Outcome {
    judged(&Seen { guard: Some(guard), ..Seen::default() })
}

fn judged(seen: &Seen<'_>) -> Outcome {
    let Verdict::Final(outcome) = judge(seen) else { panic!("not final") };
    outcome
}

fn end(outcome: Outcome) -> Finished {
    Finished {
        outcome,
        captured: None,
        file: None,
        incomplete: false,
        id: Some("17".to_owned()),
        finished_at: at(NOW + 9),
        duration_ms: Some(8_000),
    }
}

/// Columns and `kubectl wait` read these; each phase says all five, and one story.
#[rstest]
#[case("waiting", waiting(&named(), &wait(WaitingCause::Queued, "x", NOW), at(NOW)), ["Unknown Queued", "Unknown Waiting", "False Waiting", "True Waiting", "False Waiting"])]
#[case("running", running(&named(), &start(), at(NOW)), ["True Started", "Unknown Started", "False Started", "True Started", "False Started"])]
#[case("denied", finished_early(&named(), &Outcome::denied(RunReason::TooLarge, "x"), at(NOW)), ["False TooLarge", "False TooLarge", "True TooLarge", "False TooLarge", "False TooLarge"])]
#[case("never started in time", finished_early(&named(), &Outcome::start_deadline("x"), at(NOW)), ["False StartDeadlineExceeded", "False StartDeadlineExceeded", "True StartDeadlineExceeded", "False StartDeadlineExceeded", "False StartDeadlineExceeded"])]
#[case("exited 0", finished(&running_run(), &end(ended(0, None)), Some(Detail::Whole), at(NOW)), ["True Started", "True Completed", "True Completed", "False Completed", "False Completed"])]
#[case("exited 3", finished(&running_run(), &end(ended(3, None)), Some(Detail::Whole), at(NOW)), ["True Started", "False NonZeroExit", "True NonZeroExit", "False NonZeroExit", "False NonZeroExit"])]
#[case("unknown", finished(&running_run(), &end(Outcome::unknown("x")), Some(Detail::Whole), at(NOW)), ["True Started", "Unknown OutcomeUnknown", "True OutcomeUnknown", "False OutcomeUnknown", "False OutcomeUnknown"])]
fn each_step_says_all_conditions(#[case] name: &str, #[case] status: RunStatus, #[case] expected: [&str; 5]) {
    let types = ["Admitted", "Succeeded", "Finished", "Reconciling", "Stalled"];
    let expected: Vec<_> = types.iter().zip(expected).map(|(kind, rest)| format!("{kind} {rest}")).collect();
    let order = |lines: &mut Vec<String>| lines.sort();
    let (mut lines, mut expected) = (told(&status), expected);
    order(&mut lines);
    order(&mut expected);
    assert_eq!(lines, expected, "{name}");
    assert_eq!(status.conditions.is_true("Finished"), status.phase.unwrap().is_terminal(), "{name}");
}

/// A write is made once a cause: the text holds no countdown, and a later look writes the same.
#[test]
fn a_wait_is_written_the_same_as_long_as_its_cause_is() {
    let first = waiting(&named(), &wait(WaitingCause::SessionNotReady, "s is not ready", NOW + 300), at(NOW));
    let run = Run { status: Some(first.clone()), ..named() };
    let later = |cause, message| waiting(&run, &wait(cause, message, NOW + 300), at(NOW + 60));
    assert_eq!(later(WaitingCause::SessionNotReady, "s is not ready"), first);
    assert_ne!(later(WaitingCause::Queued, "s is not ready"), first);
    assert_ne!(later(WaitingCause::SessionNotReady, "s is not ready (Lost)"), first);
    assert_eq!(first.message.as_deref(), Some("SessionNotReady: s is not ready; until 1970-01-12T13:51:40Z"));
}

#[test]
fn running_carries_the_charge_the_proof_and_the_start() {
    let status = running(&named(), &start(), at(NOW));
    assert_eq!(status.admission.as_ref().map(|admission| admission.at.0), Some(at(NOW)));
    assert_eq!(status.sprite.as_ref().map(|sprite| sprite.id.as_str()), Some("i"));
    assert!(status.lockdown_token.as_ref().is_some_and(|token| token.starts_with("i:")));
    assert_eq!(status.session.map(|session| (session.name, session.uid)), Some(("s".into(), "session-uid".into())));
    let execution = status.execution.unwrap();
    assert_eq!(execution.started_at, Some(Time(at(NOW))));
    // Its timeout of 30 s, and 30 s around it.
    assert_eq!(
        (execution.timeout.unwrap().to_string().as_str(), execution.latest_end),
        ("30s", Some(Time(at(NOW + 60))))
    );
    assert_eq!((execution.output_limit, execution.redact), (Some(64 << 10), Some(Redact::Recognised)));
    // The exec's id comes with the end: the platform gives it later.
    assert_eq!(
        (status.exit_code, status.output, status.policy.map(|policy| policy.name)),
        (None, None, Some("default".into()))
    );
}

/// What never started is not charged; everything else that ran is, whatever became of it.
#[rstest]
#[case("it ran", ended(0, None), true)]
#[case("it ran and failed", ended(137, None), true)]
#[case("it was cancelled while it ran", ended(143, Some(Stop::Cancel)), true)]
#[case("nobody knows", Outcome::unknown("x"), true)]
#[case("started, without a record", fenced(&Guard::Started), true)]
#[case("it never started", Outcome::not_started("x"), false)]
#[case("fenced", fenced(&Guard::Never), false)]
#[case("cancelled before", Outcome::stopped_before_start(Stop::Cancel), false)]
fn the_charge_goes_back_only_where_nothing_started(
    #[case] name: &str,
    #[case] outcome: Outcome,
    #[case] charged: bool,
) {
    let evidence = outcome.evidence;
    let status = finished(&running_run(), &end(outcome), Some(Detail::Whole), at(NOW + 10));
    assert_eq!(status.admission.is_some(), charged, "{name}");
    // Where it was started stays on record.
    assert_eq!(status.sprite.map(|sprite| sprite.id).as_deref(), Some("i"), "{name}");
    let execution = status.execution.unwrap();
    assert_eq!((execution.started_at, execution.finished_at), (Some(Time(at(NOW))), Some(Time(at(NOW + 9)))), "{name}");
    assert_eq!((execution.id.as_deref(), execution.evidence), (Some("17"), Some(evidence)), "{name}");
    assert!(
        execution.timeout.is_some() && execution.latest_end.is_some() && execution.output_limit.is_some(),
        "{name}"
    );
    assert_eq!(status.exit_code.is_some(), evidence != Evidence::None, "{name}");
}

fn captured(output: &[u8]) -> Captured {
    let mut capture = Capture::unmarked(shape(4 << 20, true));
    capture.push(Source::Stdout, output);
    capture.finish(&Redactor::default())
}

#[rstest]
#[case("text", b"out", Some(Detail::Whole), Some("out"), None)]
#[case("bytes", b"o\xff", Some(Detail::Whole), Some("o\u{fffd}"), Some("b/8="))]
#[case("less room", b"o\xff", Some(Detail::Exact), None, Some("b/8="))]
#[case("no room", b"out", None, None, None)]
#[case("nothing was written", b"", Some(Detail::Whole), None, None)]
fn output_is_stored_or_said_not_to_be(
    #[case] name: &str,
    #[case] written: &[u8],
    #[case] detail: Option<Detail>,
    #[case] text: Option<&str>,
    #[case] base64: Option<&str>,
) {
    let finished = Finished { captured: Some(captured(written)), incomplete: true, ..end(ended(0, None)) };
    let output = super::finished(&running_run(), &finished, detail, at(NOW)).output.unwrap();
    assert_eq!((output.stdout.text.as_deref(), output.stdout.base64.as_deref()), (text, base64), "{name}");
    assert_eq!(output.stdout.lossy, text.is_some() && base64.is_some(), "{name}");
    // How much there was is said also without it.
    assert_eq!((output.stdout.bytes, output.stored), (written.len() as u64, detail.is_some()), "{name}");
    assert!(output.incomplete && !output.redacted && output.redactions == 0, "{name}");
}

#[test]
fn how_many_secrets_were_masked_is_told() {
    let token = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    let captured = captured(format!("{token} and {token}").as_bytes());
    let finished = Finished { captured: Some(captured), ..end(ended(0, None)) };
    let output = super::finished(&running_run(), &finished, Some(Detail::Whole), at(NOW)).output.unwrap();
    assert_eq!(
        (output.redacted, output.redactions, output.stdout.text.as_deref()),
        (true, 2, Some("REDACTED and REDACTED"))
    );
}

#[test]
fn the_least_status_still_ends_a_run_for_whoever_waits_and_nothing_more() {
    let least = least(&running_run(), &Outcome::denied(RunReason::InvalidSpec, "x".repeat(5000)), at(NOW));
    assert_eq!(told(&least), ["Finished True InvalidSpec"]);
    assert_eq!(
        (least.phase, least.reason, least.message),
        (Some(RunPhase::Denied), Some(RunReason::InvalidSpec), None)
    );
}

#[test]
fn a_message_is_cut_at_its_bound_and_between_characters() {
    let outcome = Outcome::denied(RunReason::InvalidSpec, "ä".repeat(MESSAGE_MAX));
    let message = finished_early(&named(), &outcome, at(NOW)).message.unwrap();
    assert_eq!(message.len(), MESSAGE_MAX);
    let odd = Outcome::denied(RunReason::InvalidSpec, format!("x{}", "ä".repeat(MESSAGE_MAX)));
    assert_eq!(finished_early(&named(), &odd, at(NOW)).message.unwrap().len(), MESSAGE_MAX - 1);
}

#[test]
fn an_object_fits_with_a_status_up_to_what_the_server_stores() {
    let with = |bytes: usize| {
        let captured = captured(&"x ".repeat(bytes / 2 + 1).as_bytes()[..bytes]);
        let finished = Finished { captured: Some(captured), ..end(ended(0, None)) };
        let run = running_run();
        fits(&run, &super::finished(&run, &finished, Some(Detail::Whole), at(NOW)))
    };
    assert!(with(128 << 10));
    assert!(!with(2 << 20));
    // Fits up to some size and not above it: no size between is refused by itself.
    let limit =
        (0..21).map(|bit| 1usize << (20 - bit)).fold(0, |low, step| if with(low + step) { low + step } else { low });
    assert!(with(limit) && !with(limit + 1));
}

#[test]
fn a_time_of_transition_stays_where_the_status_of_a_condition_does() {
    let denied = vec![ConditionUpdate::new("Finished", true, "Completed")];
    let run = Run {
        status: Some(RunStatus {
            conditions: Conditions::default().merged(denied, None, at(1)),
            ..RunStatus::default()
        }),
        ..named()
    };
    let status = finished_early(&run, &Outcome::denied(RunReason::TooLarge, "x"), at(NOW));
    assert_eq!(status.conditions.get("Finished").unwrap().last_transition_time.0, at(1));
    assert_eq!(status.conditions.get("Succeeded").unwrap().last_transition_time.0, at(NOW));
}
