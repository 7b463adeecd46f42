//! Sleeping Sprites are left asleep by construction: a call that needs a running machine, and so would wake it, takes an
//! [`Awake`], which comes only from a read state `running` or from a deliberate wake.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use tokio::time::{Instant, sleep};

use super::call::{CallKind, Priority};
use super::client::Client;
use super::error::Error;
use super::exec::{ExecRequest, OnDrop};
use super::http::Call;
use super::response::Subject;
use super::sanitize::ProviderText;
use super::types::{Sprite, SpriteState};

/// Between two tries to wake a Sprite; the first try after a cold start was seen to fail.
const PAUSE: Duration = Duration::from_millis(500);
/// What the command that wakes may print. It prints nothing.
const WAKE_OUTPUT: usize = 1024;

/// One instance, seen awake a short while ago. Each call that it answers renews it; without any it is good for
/// [`Config::awake_for`](super::Config::awake_for), and calls are then refused as [`Error::NotAwake`] before anything is sent.
///
/// It is no lock: the Sprite may fall asleep, or be replaced, in the very next moment.
#[derive(Clone, Debug)]
pub struct Awake {
    name: Arc<str>,
    id: Arc<str>,
    seen: Arc<Mutex<Instant>>,
    check: bool,
}

impl Awake {
    fn new(sprite: &Sprite, seen: Instant) -> Self {
        let (name, id) = (sprite.name.as_str().into(), sprite.id.as_str().into());
        Self { name, id, seen: Arc::new(Mutex::new(seen)), check: false }
    }

    /// The key of every call.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The instance that was seen.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The same, for calls that must not reach another instance of that name: the id is read immediately before each call
    /// that changes something, and again after a policy is set; another one is [`Error::Replaced`]. The wire knows no
    /// precondition, so the time between that read and the call (one round trip) remains.
    #[must_use]
    pub fn checked(&self) -> Self {
        Self { check: true, ..self.clone() }
    }

    /// How long ago it was seen awake.
    pub fn age(&self) -> Duration {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    /// The same for ending something, which must not fail half way because it took its time. What happens then says
    /// nothing to who holds the first one.
    pub(super) fn for_ending(&self) -> Self {
        Self { seen: Arc::new(Mutex::new(Instant::now())), ..self.clone() }
    }

    /// It answered just now.
    pub(super) fn renew(&self) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn is_checked(&self) -> bool {
        self.check
    }
}

impl Sprite {
    /// Proof for calls that need a running machine; `None` unless the state that was read is `running`. It counts from the
    /// moment of the read.
    pub fn awake(&self) -> Option<Awake> {
        match self.status {
            SpriteState::Running => Some(Awake::new(self, self.read_at.get())),
            SpriteState::Cold | SpriteState::Warm | SpriteState::Other(_) => None,
        }
    }
}

impl Client {
    /// Reads a Sprite, and wakes it by a command that does nothing (`true`) unless it runs already. Tries until
    /// [`Config::wake_timeout`](super::Config::wake_timeout) is over: the first handshake after a cold start was seen to
    /// fail, and such a command may be repeated. What says that trying is useless ends it: absent, denied, full, replaced.
    pub async fn wake(&self, name: &str) -> Result<Awake, Error> {
        let (began, limit) = (Instant::now(), self.config().wake_timeout);
        let sprite = self.get(name).await?;
        if let Some(awake) = sprite.awake() {
            return Ok(awake);
        }
        let on = Awake::new(&sprite, Instant::now());
        let request = ExecRequest {
            argv: vec!["true".to_owned()],
            max_run_after_disconnect: Duration::from_secs(1),
            on_drop: OnDrop::Leave,
            ..ExecRequest::default()
        };
        loop {
            let left = limit.saturating_sub(began.elapsed());
            // One that hangs must leave time for another; a slow start is answered by the next one.
            let open = left.min(limit / 3);
            on.renew();
            let output = self.run_within(&on, &request, Bytes::new(), WAKE_OUTPUT, open, left).await;
            let error = match output {
                // Any exit was told by something that ran.
                Ok(output) if output.exit.is_some() => {
                    self.same_instance(&on, false).await?;
                    on.renew();
                    return Ok(on);
                }
                Ok(_) => Error::Unknown {
                    status: None,
                    sent: true,
                    retry_after: None,
                    message: ProviderText::new("the connection of the waking command was lost", None),
                    source: None,
                },
                Err(error) => error.into_error(),
            };
            if !may_wake_later(&error) || began.elapsed() + PAUSE >= limit {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    /// [`Error::Replaced`] when the name stands for another instance now.
    pub(super) async fn same_instance(&self, on: &Awake, sent: bool) -> Result<(), Error> {
        self.same_id(on.name(), on.id(), sent).await
    }

    pub(super) async fn same_id(&self, name: &str, id: &str, sent: bool) -> Result<(), Error> {
        let found = self.get(name).await?.id;
        if found == id { Ok(()) } else { Err(Error::Replaced { instance: ProviderText::new(&found, None), sent }) }
    }

    /// A call that a running machine answers.
    pub(super) fn call_in<'a>(
        &'a self,
        on: &Awake,
        kind: CallKind,
        method: Method,
        segments: &[&str],
        subject: Subject,
    ) -> Result<Call<'a>, Error> {
        self.still_awake(on)?;
        let url = self.sprite_url(on.name(), segments)?;
        let call = self.call(kind, method, url, subject).answered_by(on);
        let asked = on.is_checked() && !kind.only_reads();
        Ok(if asked { call.only(on.name(), on.id()) } else { call })
    }

    pub(super) fn still_awake(&self, on: &Awake) -> Result<(), Error> {
        let seen = on.age();
        if seen <= self.config().awake_for { Ok(()) } else { Err(Error::NotAwake { seen }) }
    }

    /// The same client, whose calls go when this kind of call would.
    pub(super) fn with_priority_of(&self, kind: CallKind) -> Self {
        self.with_priority(self.priority(kind))
    }

    /// The same client for ending things.
    pub(super) fn urgent(&self) -> Self {
        self.with_priority(Priority::Kill)
    }
}

/// Whether a Sprite that did not wake may do so in a moment.
fn may_wake_later(error: &Error) -> bool {
    match error {
        Error::Unknown { .. } | Error::Timeout { .. } | Error::Protocol { .. } | Error::Ended => true,
        Error::Absent { .. }
        | Error::Denied { .. }
        | Error::RateLimited { .. }
        | Error::Busy { .. }
        | Error::Invalid { .. }
        | Error::File { .. }
        | Error::Held { .. }
        | Error::NotAwake { .. }
        | Error::Replaced { .. }
        | Error::Token(_) => false,
    }
}
