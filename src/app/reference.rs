//! `docs/metrics.md`: the metrics and the reasons of Events, rendered from the code that writes them.
//!
//! Must not say anything that the code does not say.

use std::{collections::BTreeSet, fmt::Write as _};

use prometheus::proto::{LabelPair, Metric, MetricFamily, MetricType};

use crate::{
    controllers::{error::RESULTS, run, session, triggers},
    lockdown::apply::OUTCOMES,
    telemetry::metrics::Metrics,
};
use api::reasons::{PolicyReason, RunPhase, RunReason, SessionReason};

const HEAD: &str = "\
<!-- Generated from src; do not edit. Rewrite it with: make crds -->
# Metrics and Events

`GET /metrics` at `--listen`. Series with the label values below exist from the start; those of rarer outcomes (`denied`, `rate_limited`, `timeout` …) come with the first of their kind. The usual `process_*` metrics are there, too.

";

/// The page.
pub fn metrics() -> Result<String, prometheus::Error> {
    let metrics = Metrics::new(
        &RESULTS,
        &OUTCOMES.map(SessionReason::as_str),
        &session::TOLD.map(|(reason, _)| reason.as_str()),
    )?;
    let mut out = HEAD.to_owned();
    out.push_str("| Metric | Type | Labels | What it tells |\n|---|---|---|---|\n");
    for family in metrics.families() {
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} |",
            family.name(),
            type_of(&family),
            labels(&family).join("; "),
            family.help()
        );
    }
    out.push_str("\n## Events\n\nEvents inform; tenants can forge them, so they are no evidence.\n\n");
    out.push_str("| Object | Reason | Type | What it means |\n|---|---|---|---|\n");
    let mut row = |object: &str, reason: &str, meaning: &str, warning: bool| {
        let kind = if warning { "Warning" } else { "Normal" };
        let _ = writeln!(out, "| {object} | `{reason}` | {kind} | {meaning} |");
    };
    for reason in RunReason::ALL.iter().filter(|reason| reason.is_terminal()) {
        // Refusals are warnings whatever their reason; a policy that is suspended refuses and stops.
        let phase = if reason.is_denial() { RunPhase::Denied } else { RunPhase::Failed };
        row("Run", reason.as_str(), reason.meaning(), run::is_warning(phase, *reason));
        if *reason == RunReason::PolicySuspended {
            row("Run that is Denied", reason.as_str(), reason.meaning(), run::is_warning(RunPhase::Denied, *reason));
        }
    }
    for (reason, warning) in session::TOLD {
        row("SandboxSession", reason.as_str(), reason.meaning(), warning);
    }
    // That a policy is suspended is in its conditions, no Event yet.
    for reason in PolicyReason::ALL.iter().filter(|reason| **reason != PolicyReason::Suspended) {
        row("ExecutionPolicy", reason.as_str(), reason.meaning(), *reason != PolicyReason::Valid);
    }
    for (_, reason, note) in triggers::SWITCH {
        row("ConfigMap `sprite-operator-switch`", reason, note, reason != "SwitchOn");
    }
    Ok(out)
}

fn type_of(family: &MetricFamily) -> &'static str {
    match family.get_field_type() {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "untyped",
    }
}

/// Each label with its values, as far as they are known from the start; the version is any.
fn labels(family: &MetricFamily) -> Vec<String> {
    let pairs = || family.get_metric().iter().flat_map(Metric::get_label);
    let names: BTreeSet<&str> = pairs().map(LabelPair::name).collect();
    let values = |name: &str| {
        let pairs = pairs().filter(|pair| pair.name() == name);
        pairs.map(|pair| format!("`{}`", pair.value())).collect::<BTreeSet<_>>()
    };
    let shown = |name: &&str| match *name {
        "version" => "`version`".to_owned(),
        name => format!("`{name}`: {}", values(name).into_iter().collect::<Vec<_>>().join(", ")),
    };
    names.iter().map(shown).collect()
}
