//! Commands of the operator itself in a guest: constants, with bounded output.
//!
//! Must not carry anything of a user's.

use std::time::Duration;

use bytes::Bytes;
use sprites::{Awake, ExecError, ExecRequest, Output};

/// Runs one of the operator's own commands, whose output is small.
pub async fn trusted(
    sprites: &sprites::Client,
    on: &Awake,
    argv: Vec<String>,
    deadline: Duration,
) -> Result<Output, ExecError> {
    let request = ExecRequest { argv, max_run_after_disconnect: Duration::from_secs(1), ..ExecRequest::default() };
    sprites.run(on, &request, Bytes::new(), 4096, deadline).await
}
