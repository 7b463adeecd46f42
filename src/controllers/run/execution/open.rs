//! Opens the exec of a Run whose start is on record: with a fresh proof and enough of the Lease, or not at all.
//!
//! Only what was not sent, or was refused for now, is tried again. Must not read anything of the command.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    super::{
        gate::{NotProved, check_live},
        gather_live,
        plan::Start,
    },
    judge::{self, Next, NotSent, Refusal},
    proved::Proved,
};
use crate::{controllers::context::Context, kubernetes::object_key::ObjectKey};
use rules::outcome::Stop;
use sprites::{Exec, ExecRequest, Priority};

/// Between looks at what may change by itself.
const PAUSE: Duration = Duration::from_millis(250);

/// What came of it.
pub enum Opened {
    /// It is open.
    Exec(Exec),
    /// The handshake was never sent, or was refused for good.
    NotSent(NotSent),
    /// It may have been.
    Unknown,
    /// It was refused as if there were no runner.
    NoRunner,
}

/// Opens the exec.
pub async fn open(
    context: &Context,
    request: &ExecRequest,
    (start, mut proved): (&Start, Proved),
    start_by: Instant,
    stop: &mut watch::Receiver<Option<Stop>>,
) -> Opened {
    // Tried again here and not below: between two tries the proof grows old, the Lease may go, a stop may come.
    let sprites = context.sprites.without_retries();
    let mut tried = 0;
    loop {
        let asked = *stop.borrow();
        let left = start_by.saturating_duration_since(Instant::now());
        let within = match judge::next(asked, proved.age(), context.lease.ensure_time_left().is_ok(), left) {
            Next::Send(within) => within,
            Next::ProveAgain => match prove_again(context, start).await {
                Ok(Some(again)) => {
                    proved = again;
                    continue;
                }
                Ok(None) => {
                    sleep(PAUSE).await;
                    continue;
                }
                Err(doubt) => return Opened::NotSent(NotSent::Never(format!("re-verifying lockdown: {doubt}"))),
            },
            Next::Wait => {
                sleep(PAUSE).await;
                continue;
            }
            Next::Not(why) => return Opened::NotSent(why),
        };
        let error = match sprites.within(within).exec(&proved.on, request).await {
            Ok(exec) => return Opened::Exec(exec),
            Err(error) => error,
        };
        tracing::warn!(%error, "an exec could not be opened");
        match judge::after_refusal(&error, tried) {
            Refusal::Again(pause) => sleep(pause).await,
            Refusal::Never(why) => return Opened::NotSent(NotSent::Never(why)),
            Refusal::Unknown => return Opened::Unknown,
            Refusal::NoRunner => return Opened::NoRunner,
        }
        tried += 1;
    }
}

/// Reads the live Sprite once more; nothing when there is no answer yet, an error when it is not as it was proved.
async fn prove_again(context: &Context, start: &Start) -> Result<Option<Proved>, String> {
    let session: &ObjectKey = &start.session.key;
    let (live, proved) = gather_live::live(context, session, &start.proof).await;
    match (check_live(start, &live), proved) {
        (Ok(()), Some(proved)) => Ok(Some(proved)),
        (Ok(()) | Err(NotProved::NoAnswer(_)), _) => Ok(None),
        (Err(NotProved::Asleep), _) => {
            // What fell asleep meanwhile is woken as before a start; until then there is no answer.
            if let Ok(on) = context.sprites.with_priority(Priority::Lockdown).wake(&start.proof.name).await {
                context.reads.woken(on);
            }
            Ok(None)
        }
        (Err(NotProved::Doubt(doubt)), _) => Err(doubt),
    }
}
