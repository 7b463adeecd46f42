//! A short command of our own, run to its end: for probes, proofs and wake-ups. Not for anything a user wrote: it knows no
//! start marker, no guard and no spool.

use std::time::Duration;

use bytes::Bytes;

use super::awake::Awake;
use super::client::Client;
use super::error::{Error, ExecError};
use super::exec::{ExecEvent, ExecRequest, LostReason};

/// What a command printed and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// The head of standard output.
    pub stdout: Vec<u8>,
    /// The head of standard error.
    pub stderr: Vec<u8>,
    /// The exit code; `None` when the connection was lost before it came.
    pub exit: Option<u8>,
    /// Why it was lost, when it was.
    pub lost: Option<LostReason>,
    /// There was more output than the limit.
    pub truncated: bool,
}

impl Client {
    /// Runs a command with `stdin` as its whole input and keeps at most `limit` bytes of both streams together. When
    /// `deadline` is over the result is [`ExecError::Unknown`] and the command is ended, like that of a dropped [`Exec`](super::Exec):
    /// see [`ExecRequest::on_drop`].
    pub async fn run(
        &self,
        on: &Awake,
        request: &ExecRequest,
        stdin: Bytes,
        limit: usize,
        deadline: Duration,
    ) -> Result<Output, ExecError> {
        let open = self.config().open_timeout;
        self.run_within(on, request, stdin, limit, open, deadline).await
    }

    pub(super) async fn run_within(
        &self,
        on: &Awake,
        request: &ExecRequest,
        stdin: Bytes,
        limit: usize,
        open: Duration,
        deadline: Duration,
    ) -> Result<Output, ExecError> {
        let request = ExecRequest { stdin: !stdin.is_empty(), ..request.clone() };
        let running = async {
            let mut exec = self.exec_within(on, &request, open).await?;
            if request.stdin {
                // A command that ended without reading its input has ended well enough: its exit is what counts.
                let _ = exec.send_stdin(stdin).await;
                let _ = exec.close_stdin().await;
            }
            let mut output = Output::default();
            loop {
                let room = limit.saturating_sub(output.stdout.len() + output.stderr.len());
                let (stream, data) = match exec.next().await {
                    ExecEvent::Session { .. } => continue,
                    ExecEvent::Stdout(data) => (&mut output.stdout, data),
                    ExecEvent::Stderr(data) => (&mut output.stderr, data),
                    ExecEvent::Exit(code) => {
                        output.exit = Some(code);
                        return Ok(output);
                    }
                    ExecEvent::Lost(reason) => {
                        output.lost = Some(reason);
                        return Ok(output);
                    }
                };
                stream.extend_from_slice(data.get(..room.min(data.len())).unwrap_or_default());
                output.truncated |= data.len() > room;
            }
        };
        match tokio::time::timeout(deadline, running).await {
            Ok(result) => result,
            Err(_) => Err(ExecError::Unknown(Error::Timeout { after: deadline, sent: true })),
        }
    }
}
