//! What a running command is listened to for: a stop, what is stored of the output, what a file operation says of itself.

use tokio::sync::watch;

use super::work::Work;
use crate::controllers::context::Context;
use api::run_status::FileResult;
use rules::{
    outcome::{Outcome, Stop},
    output::{Capture, Captured},
};
use runner_protocol::FileReport;

/// Waits until somebody asks for a stop; an error means that nobody can any more.
pub async fn stop_requested(stop: &mut watch::Receiver<Option<Stop>>) -> Stop {
    match stop.wait_for(Option::is_some).await.map(|reason| *reason) {
        Ok(Some(reason)) => reason,
        Ok(None) | Err(_) => std::future::pending().await,
    }
}

/// What an execution comes to.
pub struct Collected {
    /// How it ended.
    pub outcome: Outcome,
    /// What is to be stored; nothing of an operation that reads nothing.
    pub captured: Option<Captured>,
    /// The file, of an operation that succeeded.
    pub file: Option<FileResult>,
}

/// Redacts what an execution sent. Beside the other tasks: redaction of a full cap may take some milliseconds.
pub async fn collect(
    context: &Context,
    capture: Capture,
    recognised: bool,
    work: &Work,
    outcome: Outcome,
) -> Collected {
    let redactor = context.redactor(recognised);
    let received = capture.received();
    // What could not be looked through is not stored.
    let withheld = |error: tokio::task::JoinError| {
        tracing::error!(%error, "output could not be redacted and is withheld");
        Captured::withheld(received)
    };
    let Work::File { path, done, reads } = work else {
        let stored = tokio::task::spawn_blocking(move || capture.finish(&redactor)).await;
        return Collected { outcome, captured: Some(stored.unwrap_or_else(withheld)), file: None };
    };
    let stored = tokio::task::spawn_blocking(move || {
        let (captured, said) = capture.finish_file(&redactor);
        let report = FileReport::parse(&said);
        let said = redactor.redact(String::from_utf8_lossy(&said).trim_end()).text.into_owned();
        (captured, report, said)
    });
    let (captured, report, said) =
        stored.await.unwrap_or_else(|error| (withheld(error), None, "its output could not be redacted".to_owned()));
    let file = report.map(|report| FileResult { path: path.clone(), bytes: report.size });
    Collected {
        outcome: outcome.of_file(done, &said),
        captured: Some(captured).filter(|_| *reads && report.is_some()),
        file,
    }
}
