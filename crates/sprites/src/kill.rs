//! Ending commands that are known by a mark in their arguments. Ids are process ids on the real service and get reused, so
//! they are looked up immediately before each signal, and what is gone is told by the list of sessions alone.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::awake::Awake;
use super::client::Client;
use super::error::Error;
use super::sessions::ExecSession;

/// How long the list may still show a session whose end was reported.
const SETTLE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What a kill by mark led to.
#[derive(Debug)]
pub enum Killed {
    /// No session carried the mark.
    Nothing,
    /// The list shows none with the mark any more.
    Confirmed {
        /// How many were signalled.
        sessions: usize,
    },
    /// Whether they are gone is not known, or they are not.
    Unconfirmed {
        /// How many are still listed; `None` when the list could not be read.
        left: Option<usize>,
        /// What went wrong, if anything did.
        error: Option<Error>,
    },
}

impl Client {
    /// The sessions whose arguments contain each of these words, as whole words. Without words there are none.
    pub async fn find_marked(&self, on: &Awake, mark: &[&str]) -> Result<Vec<ExecSession>, Error> {
        let mut sessions = self.exec_sessions(on).await?;
        sessions.retain(|session| is_marked(&session.command, mark));
        Ok(sessions)
    }

    /// Signals every session that carries the mark, SIGKILL follows after `grace`, and looks whether they are gone. An error
    /// means that nothing was sent; what a signal itself was answered with stands in [`Killed::Unconfirmed`].
    pub async fn kill_marked(&self, on: &Awake, mark: &[&str], signal: &str, grace: Duration) -> Result<Killed, Error> {
        let client = self.urgent();
        client.still_awake(on)?;
        if on.is_checked() {
            client.same_instance(on, false).await?;
        }
        let found = client.find_marked(on, mark).await?;
        if found.is_empty() {
            return Ok(Killed::Nothing);
        }
        let ending = on.for_ending();
        let mut failure = None;
        for session in &found {
            match client.kill(&ending, &session.id, signal, grace).await {
                Ok(_) => on.renew(),
                // Ended in between.
                Err(error) if error.is_absent() => {}
                // What was sent may have worked all the same: the list will tell.
                Err(error) => failure = Some(error),
            }
        }
        let settled = Instant::now() + SETTLE;
        loop {
            let left = client.find_marked(&ending, mark).await.map(|left| left.len());
            if matches!(left, Ok(0)) {
                return Ok(Killed::Confirmed { sessions: found.len() });
            }
            if Instant::now() >= settled {
                return Ok(match left {
                    Ok(left) => Killed::Unconfirmed { left: Some(left), error: failure },
                    Err(error) => Killed::Unconfirmed { left: None, error: Some(error) },
                });
            }
            sleep(LOOK_AGAIN).await;
        }
    }
}

/// An empty mark would be everyone's, so it is nobody's.
fn is_marked(command: &str, mark: &[&str]) -> bool {
    !mark.is_empty() && mark.iter().all(|word| command.split_ascii_whitespace().any(|part| part == *word))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::whole("/bin/bash -c so-run 7f3a 12", &["so-run", "7f3a"], true)]
    #[case::part_of_a_word("/bin/bash -c so-run 7f3a4 12", &["so-run", "7f3a"], false)]
    #[case::one_missing("/bin/bash -c 7f3a", &["so-run", "7f3a"], false)]
    #[case::lines("bash -c\nso-run\n7f3a", &["so-run", "7f3a"], true)]
    #[case::no_mark("bash", &[], false)]
    #[case::empty_word("bash  x", &[""], false)]
    fn a_mark_is_whole_words(#[case] command: &str, #[case] mark: &[&str], #[case] expected: bool) {
        assert_eq!(is_marked(command, mark), expected);
    }
}
