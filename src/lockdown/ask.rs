//! Asks the runner in the guest about a Run: one of its questions, one line as an answer.
//!
//! Where the runner is missing, or something else answers in its place, a fresh copy is put there and asked once more. Code in
//! the session can replace that, too: a confirmation is the guest's word.

use std::time::Duration;

use super::{runner, trusted::trusted};
use sprites::{Awake, ExecError, Output};

/// How long an answer may take. A supervisor whose front was killed has three of these seconds to end its script.
const ANSWERED_WITHIN: Duration = Duration::from_secs(8);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskFailure {
    /// What answered is not the runner, and a fresh copy was not heard either.
    #[error("the runner in the Sprite gave no answer (exit {})", .exit.map_or_else(|| "unknown".to_owned(), |code| code.to_string()))]
    NoAnswer {
        /// The exit code of the copy, if there was one.
        exit: Option<u8>,
    },
    /// A fresh copy could not be written.
    #[error("a fresh copy of the runner could not be written ({})", .0.kind())]
    Write(#[source] sprites::Error),
    /// An exec could not be opened, or did not end.
    #[error("the runner could not be asked ({})", .0.error().kind())]
    Exec(#[from] ExecError),
}

/// Asks this question about this Run.
pub async fn ask<T>(
    sprites: &sprites::Client,
    on: &Awake,
    question: &str,
    uid: &str,
    parse: impl Fn(&str, &[u8]) -> Option<T>,
) -> Result<T, AskFailure> {
    let answer = |output: &Output| if output.exit == Some(0) { parse(uid, &output.stdout) } else { None };
    let argv = |file: String| [file.as_str(), question, uid].map(str::to_owned).to_vec();
    match trusted(sprites, on, argv(runner::path()), ANSWERED_WITHIN).await {
        Ok(output) => {
            if let Some(answer) = answer(&output) {
                return Ok(answer);
            }
            tracing::warn!(sprite = on.name(), question, exit = output.exit, "the runner is not there; asking a copy");
        }
        // What was not sent, or refused, says nothing about the guest.
        Err(error) if !error.may_have_started() => return Err(error.into()),
        Err(error) => tracing::warn!(sprite = on.name(), question, %error, "the runner did not answer; asking a copy"),
    }
    let copy = runner::copy(sprites, on).await.map_err(AskFailure::Write)?;
    let output = trusted(sprites, on, argv(copy.clone()), ANSWERED_WITHIN).await;
    // That it is still there, or that this is answered, nothing depends on.
    let _ = sprites.delete_file(on, &copy).await;
    let output = output?;
    answer(&output).ok_or(AskFailure::NoAnswer { exit: output.exit })
}
