//! What a running command is listened to for: a stop, and what of the output is stored.

use tokio::sync::watch;

use crate::controllers::context::Context;
use rules::{
    outcome::Stop,
    output::{Capture, Captured},
};

/// Waits until somebody asks for a stop; an error means that nobody can any more.
pub async fn stop_requested(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|reason| *reason) {
        Ok(Some(reason)) => reason,
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

/// What is to be stored of the output. Beside the other tasks: redaction of a full cap may take some milliseconds.
pub async fn store(context: &Context, capture: Capture, recognised: bool) -> Captured {
    let redactor = context.redactor(recognised);
    let received = capture.received();
    let stored = tokio::task::spawn_blocking(move || capture.finish(&redactor)).await;
    stored.unwrap_or_else(|error| {
        // What could not be looked through is not stored.
        tracing::error!(%error, "output could not be redacted and is withheld");
        Captured::withheld(received)
    })
}
