//! Metrics, prefix `sprite_operator_`. Labels are closed vocabularies.
//!
//! Must not take a name, a command or an error text.

use std::time::Duration;

use prometheus::{
    Encoder, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};

/// Every metric of the operator.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    reconciles: HistogramVec,
    runs: IntCounterVec,
    start_latency: HistogramVec,
    executions: IntGauge,
    lockdowns: IntCounterVec,
    events_lost: IntCounter,
    leading: IntGauge,
}

impl Metrics {
    /// Registers every metric.
    pub fn new() -> Result<Self, prometheus::Error> {
        let registry = Registry::new_custom(Some("sprite_operator".to_owned()), None)?;
        let seconds = |name: &str, help: &str| {
            HistogramOpts::new(name, help)
                .buckets(vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0])
        };
        let metrics = Self {
            reconciles: HistogramVec::new(
                seconds("reconcile_duration_seconds", "How long reconciles took, by kind and result."),
                &["kind", "result"],
            )?,
            runs: IntCounterVec::new(Opts::new("runs_finished_total", "Runs that finished, by reason."), &["reason"])?,
            start_latency: HistogramVec::new(
                seconds("run_start_seconds", "From a Run's creation to the start of its command."),
                &[],
            )?,
            executions: IntGauge::new("executions", "Commands that are running or being adopted.")?,
            lockdowns: IntCounterVec::new(Opts::new("lockdowns_total", "Lockdowns tried, by result."), &["result"])?,
            events_lost: IntCounter::new("events_lost_total", "Events that could not be published.")?,
            leading: IntGauge::new("leading", "1 while this process holds the Lease.")?,
            registry,
        };
        let registry = &metrics.registry;
        registry.register(Box::new(metrics.reconciles.clone()))?;
        registry.register(Box::new(metrics.runs.clone()))?;
        registry.register(Box::new(metrics.start_latency.clone()))?;
        registry.register(Box::new(metrics.executions.clone()))?;
        registry.register(Box::new(metrics.lockdowns.clone()))?;
        registry.register(Box::new(metrics.events_lost.clone()))?;
        registry.register(Box::new(metrics.leading.clone()))?;
        Ok(metrics)
    }

    /// The metrics of the Sprites client, under the same prefix.
    pub fn sprites(&self) -> Result<sprites::Metrics, prometheus::Error> {
        sprites::Metrics::register(&self.registry)
    }

    /// A reconcile ended.
    pub fn reconciled(&self, kind: &str, result: &str, took: Duration) {
        self.reconciles.with_label_values(&[kind, result]).observe(took.as_secs_f64());
    }

    /// A Run finished.
    pub fn run_finished(&self, reason: &str) {
        self.runs.with_label_values(&[reason]).inc();
    }

    /// A Run's command was started so long after its creation.
    pub fn run_started(&self, after: Duration) {
        self.start_latency.with_label_values::<&str>(&[]).observe(after.as_secs_f64());
    }

    /// Commands running or being adopted.
    pub fn set_executions(&self, count: usize) {
        self.executions.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// A lockdown was tried.
    pub fn lockdown(&self, result: &str) {
        self.lockdowns.with_label_values(&[result]).inc();
    }

    /// An Event could not be published.
    pub fn event_lost(&self) {
        self.events_lost.inc();
    }

    /// Whether this process holds the Lease.
    pub fn set_leading(&self, leading: bool) {
        self.leading.set(i64::from(leading));
    }

    /// The text form of Prometheus.
    pub fn text(&self) -> Result<String, prometheus::Error> {
        let mut bytes = Vec::new();
        TextEncoder::new().encode(&self.registry.gather(), &mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
