//! Input on its way to a command: bounded, so that a client that writes faster than its command reads has to wait.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::frames::Input;
use super::session::Session;
use super::stream::Descriptor;

/// How much input may wait for a program that does not read. Above it the client's socket is not read either.
const INPUT_BUDGET: u32 = 8 << 20;

/// Where input is given.
pub(super) struct Inbox {
    queue: mpsc::UnboundedSender<(Input, Option<OwnedSemaphorePermit>)>,
    budget: Arc<Semaphore>,
}

/// Where it is taken; dropped, nobody reads any more.
pub(crate) struct Inputs {
    queue: mpsc::UnboundedReceiver<(Input, Option<OwnedSemaphorePermit>)>,
    budget: Arc<Semaphore>,
    /// Of what was taken last.
    unread: Option<OwnedSemaphorePermit>,
}

/// Both ends.
pub(super) fn inputs() -> (Inbox, Inputs) {
    let (sender, queue) = mpsc::unbounded_channel();
    let budget = Arc::new(Semaphore::new(INPUT_BUDGET as usize));
    (Inbox { queue: sender, budget: Arc::clone(&budget) }, Inputs { queue, budget, unread: None })
}

impl Inbox {
    /// Gives input; waits while too much of it is unread. False when nobody reads any more.
    pub(super) async fn give(&self, input: Input) -> bool {
        let permit = match &input {
            Input::Data(data) => {
                let wanted = u32::try_from(data.len()).unwrap_or(u32::MAX).min(INPUT_BUDGET);
                match Arc::clone(&self.budget).acquire_many_owned(wanted).await {
                    Ok(permit) => Some(permit),
                    Err(_) => return false,
                }
            }
            Input::End => None,
        };
        self.queue.send((input, permit)).is_ok()
    }
}

impl Inputs {
    /// What comes next; what came before counts as read from then on.
    pub(crate) async fn next(&mut self) -> Option<Input> {
        let (input, permit) = self.queue.recv().await?;
        self.unread = permit;
        Some(input)
    }
}

impl Drop for Inputs {
    fn drop(&mut self) {
        self.budget.close();
    }
}

/// Writes the input to a program until one of them ends.
pub(super) async fn feed(session: Arc<Session>, mut inputs: Inputs, mut stdin: Option<Descriptor>) {
    let feeding = async {
        while let Some(input) = inputs.next().await {
            match (input, stdin.as_mut()) {
                (Input::Data(data), Some(pipe)) => {
                    if pipe.write_all(&data).await.is_err() {
                        stdin = None;
                    }
                }
                (Input::End, _) => stdin = None,
                // Closed by the program: swallow the rest.
                (Input::Data(_), None) => {}
            }
        }
    };
    tokio::select! {
        () = feeding => {}
        _ = session.wait() => {}
    }
}
