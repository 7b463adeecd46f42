//! Metrics, prefix `sprite_operator_`, by the conventions of Prometheus: base units, `_total`, `_seconds`, `_in_flight`.
//!
//! Labels are closed vocabularies: words of the API as they are written there (`reason`, `phase`, `kind`), others in small letters. Every
//! series exists from the start, so that `rate()` sees the first of its kind. Must not take a name, a command or an error text.

use std::time::Duration;

use prometheus::{
    HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, TextEncoder,
    process_collector::ProcessCollector, proto::MetricFamily,
};

use api::reasons::{RunPhase, RunReason, SessionPhase, SessionReason};

/// The text form of Prometheus, with its version.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the series begin with.
pub const PREFIX: &str = "sprite_operator";

/// Kinds that are reconciled.
const KINDS: [&str; 3] = ["ExecutionPolicy", "Run", "SandboxSession"];

/// Every metric of the operator.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// Without our prefix: what every process tells of itself.
    process: Registry,
    sprites: sprites::Metrics,
    reconciles: HistogramVec,
    runs_finished: IntCounterVec,
    runs: IntGaugeVec,
    sessions: IntGaugeVec,
    sessions_not_ready: IntGaugeVec,
    session_transitions: IntCounterVec,
    policies: IntGaugeVec,
    start_latency: HistogramVec,
    run_duration: HistogramVec,
    executions: IntGauge,
    lockdowns: IntCounterVec,
    events_lost: IntCounter,
    leading: IntGauge,
    switch_on: IntGauge,
    switch_frozen: IntGauge,
}

impl Metrics {
    /// Registers every metric. `results` and `lockdowns` are the words that reconciles and lockdowns end with, `transitions` those
    /// of sessions that are counted.
    pub fn new(results: &[&str], lockdowns: &[&str], transitions: &[&str]) -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(Some(PREFIX.to_owned()), None)?;
        let process = Registry::new();
        process.register(Box::new(ProcessCollector::for_self()))?;
        let seconds = |name: &str, help: &str| {
            HistogramOpts::new(name, help)
                .buckets(vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0])
        };
        let long = |name: &str, help: &str| {
            HistogramOpts::new(name, help)
                .buckets(vec![0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0])
        };
        let gauge = |name: &str, help: &str| -> Result<IntGauge, prometheus::Error> {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        let gauges = |name: &str, help: &str, label: &str| -> Result<IntGaugeVec, prometheus::Error> {
            let gauges = IntGaugeVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(gauges.clone()))?;
            Ok(gauges)
        };
        let counters = |name: &str, help: &str, label: &str| -> Result<IntCounterVec, prometheus::Error> {
            let counters = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(counters.clone()))?;
            Ok(counters)
        };
        let histograms = |options: HistogramOpts, labels: &[&str]| -> Result<HistogramVec, prometheus::Error> {
            let histograms = HistogramVec::new(options, labels)?;
            registry.register(Box::new(histograms.clone()))?;
            Ok(histograms)
        };
        let metrics = Self {
            sprites: sprites::Metrics::register(&registry)?,
            reconciles: histograms(
                seconds("reconcile_duration_seconds", "How long reconciles took."),
                &["kind", "result"],
            )?,
            runs_finished: counters("runs_finished_total", "Runs that finished.", "reason")?,
            runs: gauges("runs", "Runs that exist, as last counted.", "phase")?,
            sessions: gauges("sessions", "SandboxSessions that exist, as last counted.", "phase")?,
            sessions_not_ready: gauges(
                "session_not_ready_seconds",
                "How long the session that waits longest has not been ready for this reason, as this process saw it; 0 when none waits.",
                "reason",
            )?,
            session_transitions: counters(
                "session_transitions_total",
                "Transitions of sessions that people wait for or must know of.",
                "reason",
            )?,
            policies: gauges("policies", "ExecutionPolicies that exist, as last counted.", "ready")?,
            start_latency: histograms(
                seconds("run_start_duration_seconds", "From the creation of a Run to the start of its command."),
                &[],
            )?,
            run_duration: histograms(long("run_duration_seconds", "How long commands ran."), &[])?,
            executions: gauge("executions_in_flight", "Commands that run or are being adopted.")?,
            lockdowns: counters("lockdowns_total", "Lockdowns that were tried.", "reason")?,
            events_lost: IntCounter::new("events_lost_total", "Events that could not be published.")?,
            leading: gauge("leading", "1 while this process holds the Lease.")?,
            switch_on: gauge("switch_on", "1 while the cluster-wide switch is on.")?,
            switch_frozen: gauge("switch_frozen", "1 while the cluster-wide switch cannot be read.")?,
            registry: registry.clone(),
            process,
        };
        registry.register(Box::new(metrics.events_lost.clone()))?;
        gauges("build_info", "1, with the version of the operator.", "version")?
            .with_label_values(&[env!("CARGO_PKG_VERSION")])
            .set(1);
        metrics.begin(results, lockdowns, transitions);
        Ok(metrics)
    }

    /// Every series, at zero.
    fn begin(&self, results: &[&str], lockdowns: &[&str], transitions: &[&str]) {
        for kind in KINDS {
            for result in results {
                drop(self.reconciles.with_label_values(&[kind, result]));
            }
        }
        for reason in RunReason::ALL.iter().filter(|reason| reason.is_terminal()) {
            drop(self.runs_finished.with_label_values(&[reason.as_str()]));
        }
        for reason in lockdowns {
            drop(self.lockdowns.with_label_values(&[*reason]));
        }
        for reason in transitions {
            drop(self.session_transitions.with_label_values(&[*reason]));
        }
        drop(self.start_latency.with_label_values::<&str>(&[]));
        drop(self.run_duration.with_label_values::<&str>(&[]));
        self.set_policies(0, 0);
        self.set_runs(|_| 0);
        self.set_sessions(|_| 0);
        self.set_sessions_not_ready(|_| 0);
    }

    /// The metrics of the Sprites client, under the same prefix.
    pub fn sprites(&self) -> sprites::Metrics {
        self.sprites.clone()
    }

    /// A reconcile ended.
    pub fn reconciled(&self, kind: &str, result: &str, took: Duration) {
        self.reconciles.with_label_values(&[kind, result]).observe(took.as_secs_f64());
    }

    /// A Run finished.
    pub fn run_finished(&self, reason: &str) {
        self.runs_finished.with_label_values(&[reason]).inc();
    }

    /// A Run's command was started so long after its creation.
    pub fn run_started(&self, after: Duration) {
        self.start_latency.with_label_values::<&str>(&[]).observe(after.as_secs_f64());
    }

    /// A Run's command ran so long.
    pub fn run_took(&self, duration: Duration) {
        self.run_duration.with_label_values::<&str>(&[]).observe(duration.as_secs_f64());
    }

    /// Runs that exist, by phase.
    pub fn set_runs(&self, count: impl Fn(RunPhase) -> usize) {
        for phase in RunPhase::ALL {
            self.runs.with_label_values(&[phase.as_str()]).set(signed(count(*phase)));
        }
    }

    /// Sessions that exist, by phase.
    pub fn set_sessions(&self, count: impl Fn(SessionPhase) -> usize) {
        for phase in SessionPhase::ALL {
            self.sessions.with_label_values(&[phase.as_str()]).set(signed(count(*phase)));
        }
    }

    /// Seconds for which the session that waits longest has not been ready, by why it is not now.
    pub fn set_sessions_not_ready(&self, seconds: impl Fn(SessionReason) -> i64) {
        for reason in SessionReason::ALL {
            self.sessions_not_ready.with_label_values(&[reason.as_str()]).set(seconds(*reason));
        }
    }

    /// A session's condition Ready took this reason.
    pub fn session_transition(&self, reason: &str) {
        self.session_transitions.with_label_values(&[reason]).inc();
    }

    /// Policies that are ready, and those that are not.
    pub fn set_policies(&self, ready: usize, others: usize) {
        self.policies.with_label_values(&["true"]).set(signed(ready));
        self.policies.with_label_values(&["false"]).set(signed(others));
    }

    /// Commands running or being adopted.
    pub fn set_executions(&self, count: usize) {
        self.executions.set(signed(count));
    }

    /// A lockdown was tried.
    pub fn lockdown(&self, reason: &str) {
        self.lockdowns.with_label_values(&[reason]).inc();
    }

    /// An Event could not be published.
    pub fn event_lost(&self) {
        self.events_lost.inc();
    }

    /// Whether this process holds the Lease.
    pub fn set_leading(&self, leading: bool) {
        self.leading.set(i64::from(leading));
    }

    /// Where the switch stands.
    pub fn set_switch(&self, on: bool, frozen: bool) {
        self.switch_on.set(i64::from(on));
        self.switch_frozen.set(i64::from(frozen));
    }

    /// Every family of ours, for the documentation.
    pub fn families(&self) -> Vec<MetricFamily> {
        self.registry.gather()
    }

    /// The text form of Prometheus.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        let mut families = self.families();
        families.extend(self.process.gather());
        TextEncoder::new().encode_to_string(&families)
    }
}

fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
