//! What the guest kept of a command's output. Must not decide what of it is stored.

use std::time::Duration;

use crate::controllers::context::Context;
use rules::output::{Source, Spool};
use runner_protocol::{Record, spool};
use sprites::{Awake, Priority};
use tokio::time::timeout;

/// How long it may take where the end is known already.
const READ_WITHIN: Duration = Duration::from_secs(5);
/// The longest stream that is read, where no record says how long it is.
const LONGEST: u64 = 1 << 20;

/// Reads both streams of a command that is over, if this instance is still awake.
pub async fn read(
    context: &Context,
    sprite: &str,
    instance: &str,
    uid: &str,
    record: Option<&Record>,
) -> Option<Spool> {
    let read = async {
        let live = context.sprites.with_priority(Priority::Exec).get(sprite).await.ok()?;
        let on = live.awake().filter(|on| on.id() == instance)?;
        of(context, &on, uid, record).await.ok()
    };
    timeout(READ_WITHIN, read).await.ok().flatten()
}

/// Reads both streams. A file that is not there is empty: a command may have removed it.
pub async fn of(context: &Context, on: &Awake, uid: &str, record: Option<&Record>) -> Result<Spool, sprites::Error> {
    let one = async |source| {
        let written = record.and_then(|record| match source {
            Source::Stdout => record.stdout,
            Source::Stderr => record.stderr,
        });
        // Nothing was written: nothing is read.
        if written.is_some_and(|counts| counts.written == 0) {
            return Ok(Vec::new());
        }
        match context.sprites.read_file(on, &spool(uid, source), LONGEST).await {
            Ok(bytes) => Ok(bytes.to_vec()),
            Err(error) if error.is_missing_file() => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    };
    Ok(Spool { stdout: one(Source::Stdout).await?, stderr: one(Source::Stderr).await? })
}
