//! Logs: to stderr, human by default, JSON lines on request. stdout is never logged to.

use tracing_subscriber::EnvFilter;

/// Starts logging; a second call does nothing. `RUST_LOG` filters, in the form of `tracing-subscriber`.
pub fn init(json: bool) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info,kube=warn"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let started = if json { builder.json().try_init() } else { builder.try_init() };
    drop(started);
}
