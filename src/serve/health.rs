//! `/livez`, `/readyz`, `/metrics`.
//!
//! Ready means: configuration and secrets are good, and this process either works or waits for the Lease. Must not tell
//! more than a reason.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    extract::{RawQuery, State},
    http::{HeaderName, StatusCode, header::CONTENT_TYPE},
    routing::get,
};
use tokio::{net::TcpListener, sync::watch};
use tokio_util::sync::CancellationToken;

use crate::telemetry::metrics::{self, Metrics};

/// What keeps the operator from being ready, by part; nothing: ready.
#[derive(Debug, Clone)]
pub struct Readiness {
    obstacles: watch::Sender<BTreeMap<&'static str, String>>,
}

impl Readiness {
    /// Not ready until `starting` is cleared.
    pub fn new() -> Self {
        let starting = BTreeMap::from([("start", "starting".to_owned())]);
        Self { obstacles: watch::Sender::new(starting) }
    }

    /// Says what is in the way of a part; nothing clears it.
    pub fn set(&self, part: &'static str, obstacle: Option<String>) {
        self.obstacles.send_if_modified(|all| match obstacle {
            Some(text) if all.get(part) == Some(&text) => false,
            Some(text) => {
                tracing::warn!(part, obstacle = text, "not ready");
                all.insert(part, text);
                true
            }
            None => all.remove(part).is_some(),
        });
    }

    fn report(&self) -> Result<(), String> {
        let obstacles = self.obstacles.borrow();
        if obstacles.is_empty() {
            return Ok(());
        }
        Err(obstacles.iter().fold(String::new(), |all, (part, text)| all + part + ": " + text + "\n"))
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Clone)]
struct Shared {
    readiness: Readiness,
    metrics: Arc<Metrics>,
}

/// Serves until told to stop.
pub async fn serve(
    listener: TcpListener,
    readiness: Readiness,
    metrics: Arc<Metrics>,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let routes = Router::new()
        .route("/livez", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(text))
        .with_state(Shared { readiness, metrics });
    axum::serve(listener, routes).with_graceful_shutdown(stop.cancelled_owned()).await
}

/// `?verbose` also tells what is wrong and keeps nobody from being ready: a rollout that mends it must not be blocked by it.
async fn ready(State(shared): State<Shared>, RawQuery(query): RawQuery) -> (StatusCode, String) {
    let (status, mut text) = match shared.readiness.report() {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(obstacles) => (StatusCode::SERVICE_UNAVAILABLE, obstacles),
    };
    if query.is_some_and(|query| query.split('&').any(|part| part == "verbose" || part.starts_with("verbose="))) {
        text.push_str(if shared.metrics.sprites().is_token_rejected() {
            "[-]sprites-api: it rejects the operator's token (401), or there is none: check the Secret that holds it (does not affect readiness)\n"
        } else {
            "[+]sprites-api ok\n"
        });
    }
    (status, text)
}

async fn text(State(shared): State<Shared>) -> Result<([(HeaderName, &'static str); 1], String), StatusCode> {
    shared.metrics.text().map(|text| ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text)).map_err(|error| {
        tracing::error!(%error, "metrics could not be rendered");
        StatusCode::INTERNAL_SERVER_ERROR
    })
}
