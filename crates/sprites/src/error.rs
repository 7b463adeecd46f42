//! What can go wrong when the Sprites API is asked, told apart by what the caller may conclude from it.

use std::time::Duration;

use super::sanitize::ProviderText;
use super::token::TokenError;

/// Which limit a 429 speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitReason {
    /// `concurrent_sprite_limit_exceeded`: the account is full. Waiting alone does not help, letting Sprites go does.
    Capacity,
    /// `sprite_creation_rate_limited`: too many creates in a while.
    CreationRate,
    /// Any other, or none given.
    Other,
}

/// Why the limiter did not let a call go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeldReason {
    /// The queue is full.
    #[error("too many calls are waiting already")]
    Full,
    /// The service asked everyone to wait for longer than this call may.
    #[error("the service asked for a pause that outlasts this call")]
    Paused,
    /// The call's turn did not come within its deadline.
    #[error("its turn did not come in time")]
    Late,
}

/// An answer that is not the one asked for, or none.
///
/// `Display` never holds the token or a whole body; text of the other side is in `message`, cut and escaped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 404, or the 500 that the service was seen to send in its place: there is no such Sprite, session or sub-resource.
    /// The service has sent this for Sprites that existed, so one alone is no proof.
    #[error("not found: {message}")]
    Absent {
        /// What the service said.
        message: ProviderText,
    },
    /// 401 or 403. Says nothing about existence.
    #[error("denied with status {status}: {message}")]
    Denied {
        /// 401 or 403.
        status: u16,
        /// What the service said.
        message: ProviderText,
    },
    /// 429.
    #[error("limited ({reason:?}): {message}")]
    RateLimited {
        /// How long the service asks us to wait; at most 10 minutes. `None` when it said nothing usable.
        retry_after: Option<Duration>,
        /// Which limit.
        reason: LimitReason,
        /// What the service said.
        message: ProviderText,
    },
    /// 409: something of that name exists, or the thing is in the wrong state. This request did nothing.
    #[error("conflict: {message}")]
    Busy {
        /// What the service said.
        message: ProviderText,
    },
    /// The request itself is wrong, and will be next time: 400, 422 and other 4xx, or refused here before it was sent.
    #[error("invalid request: {message}")]
    Invalid {
        /// The status, or `None` when we refused it ourselves.
        status: Option<u16>,
        /// What is wrong with it.
        message: ProviderText,
    },
    /// A file call failed for the file's sake; the Sprite itself answered.
    #[error("file error {code}: {message}")]
    File {
        /// `ENOENT`, `EACCES`, `EISDIR` and so on.
        code: ProviderText,
        /// What the service said.
        message: ProviderText,
    },
    /// 5xx, a broken connection, an answer of something that is not the API: says nothing about anything.
    #[error("no usable answer ({}): {message}", status.map_or("no status".to_owned(), |status| format!("status {status}")))]
    Unknown {
        /// The status, if there was one.
        status: Option<u16>,
        /// Whether the request may have reached the service.
        sent: bool,
        /// How long the service asks us to wait (503); at most 10 minutes.
        retry_after: Option<Duration>,
        /// What was said, or what broke.
        message: ProviderText,
        /// The transport's own error; its text holds no URL.
        #[source]
        source: Option<reqwest::Error>,
    },
    /// A success whose content is not what the protocol says. What was asked for may have happened.
    #[error("protocol violation: {what}")]
    Protocol {
        /// What was expected, in our words.
        what: &'static str,
    },
    /// No answer in time.
    #[error("no answer within {after:?}")]
    Timeout {
        /// How long we waited.
        after: Duration,
        /// Whether the request may have reached the service.
        sent: bool,
    },
    /// Not sent: the account's limiter did not let it go.
    #[error("not sent: {reason}")]
    Held {
        /// Why not.
        reason: HeldReason,
        /// How long the service asked everyone to wait, as far as that is not over yet.
        retry_after: Option<Duration>,
    },
    /// Not sent: the Sprite is not known to be awake any more, and this call could wake it. Read it again, or wake it.
    #[error("not sent: the Sprite was last seen awake {seen:?} ago; read its state again, or wake it")]
    NotAwake {
        /// How long ago it was seen awake.
        seen: Duration,
    },
    /// The name stands for another instance than the one that was meant.
    #[error("the Sprite was replaced: its name stands for another instance now")]
    Replaced {
        /// The instance that was found.
        instance: ProviderText,
        /// Whether the request was sent before that was seen; it may have reached either instance.
        sent: bool,
    },
    /// There is no token to send; nothing was sent.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The exec this was meant for is over, or its standard input was closed before.
    #[error("the exec has ended or its standard input is closed")]
    Ended,
}

impl Error {
    /// The service said that it does not exist. (A missing *file* is [`Error::File`].)
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }

    /// The account is full: nothing new starts until a Sprite is let go.
    pub fn is_capacity(&self) -> bool {
        matches!(self, Self::RateLimited { reason: LimitReason::Capacity, .. })
    }

    /// A file call found no such file, while the Sprite answered.
    pub fn is_missing_file(&self) -> bool {
        matches!(self, Self::File { code, .. } if code.as_str() == "ENOENT")
    }

    /// A short fixed word for a metrics label.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "absent",
            Self::Denied { .. } => "denied",
            Self::RateLimited { reason: LimitReason::Capacity, .. } => "capacity",
            Self::RateLimited { .. } => "rate_limited",
            Self::Busy { .. } => "busy",
            Self::Invalid { .. } => "invalid",
            Self::File { .. } => "file",
            Self::Unknown { .. } => "unknown",
            Self::Protocol { .. } => "protocol",
            Self::Timeout { .. } => "timeout",
            Self::Held { .. } => "held",
            Self::NotAwake { .. } => "not_awake",
            Self::Replaced { .. } => "replaced",
            Self::Token(_) => "token",
            Self::Ended => "ended",
        }
    }

    /// Whether the service takes our token: `Some(false)` when it rejects it (401), or there is none to send. `None` when this
    /// says nothing of the token: such an answer may come from something in front of the API, or there was none.
    pub const fn accepts_token(&self) -> Option<bool> {
        match self {
            Self::Denied { status: 401, .. } | Self::Token(_) => Some(false),
            Self::Absent { .. }
            | Self::RateLimited { reason: LimitReason::Capacity | LimitReason::CreationRate, .. }
            | Self::Busy { .. }
            | Self::File { .. }
            | Self::Replaced { .. } => Some(true),
            // A proxy says 403, too.
            Self::Denied { .. }
            | Self::RateLimited { .. }
            | Self::Invalid { .. }
            | Self::Unknown { .. }
            | Self::Protocol { .. }
            | Self::Timeout { .. }
            | Self::Held { .. }
            | Self::NotAwake { .. }
            | Self::Ended => None,
        }
    }

    /// How long the service asks us to wait; at most 10 minutes, never zero.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. }
            | Self::Unknown { retry_after, .. }
            | Self::Held { retry_after, .. } => *retry_after,
            Self::Absent { .. }
            | Self::Denied { .. }
            | Self::Busy { .. }
            | Self::Invalid { .. }
            | Self::File { .. }
            | Self::Protocol { .. }
            | Self::Timeout { .. }
            | Self::NotAwake { .. }
            | Self::Replaced { .. }
            | Self::Token(_)
            | Self::Ended => None,
        }
    }

    /// Whether what was asked for may have been done all the same. `false` is certain: an effect did not happen.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Absent { .. }
            | Self::Denied { .. }
            | Self::RateLimited { .. }
            | Self::Busy { .. }
            | Self::Invalid { .. }
            | Self::Held { .. }
            | Self::NotAwake { .. }
            | Self::Token(_) => false,
            // A write can fail half way.
            Self::File { .. } | Self::Protocol { .. } | Self::Ended => true,
            Self::Unknown { sent, .. } | Self::Timeout { sent, .. } | Self::Replaced { sent, .. } => *sent,
        }
    }

    /// What a look before a call met: the call itself was not sent.
    pub(super) fn of_a_look_before(self) -> Self {
        match self {
            Self::Unknown { status, sent: _, retry_after, message, source } => {
                Self::Unknown { status, sent: false, retry_after, message, source }
            }
            Self::Timeout { after, sent: _ } => Self::Timeout { after, sent: false },
            Self::Protocol { what } => Self::Unknown {
                status: None,
                sent: false,
                retry_after: None,
                message: ProviderText::new(what, None),
                source: None,
            },
            other @ (Self::Absent { .. }
            | Self::Denied { .. }
            | Self::RateLimited { .. }
            | Self::Busy { .. }
            | Self::Invalid { .. }
            | Self::File { .. }
            | Self::Held { .. }
            | Self::NotAwake { .. }
            | Self::Replaced { .. }
            | Self::Token(_)
            | Self::Ended) => other,
        }
    }

    pub(super) fn refused_here(message: &str) -> Self {
        Self::Invalid { status: None, message: ProviderText::new(message, None) }
    }

    /// From the transport. The URL is dropped from the text: it may name Sprites and arguments.
    pub(super) fn transport(error: reqwest::Error, after: Duration) -> Self {
        let error = error.without_url();
        let sent = !(error.is_connect() || error.is_builder());
        if error.is_timeout() {
            return Self::Timeout { after, sent };
        }
        Self::Unknown {
            status: None,
            sent,
            retry_after: None,
            message: ProviderText::new(&with_causes(&error), None),
            source: Some(error),
        }
    }
}

/// The HTTP library's own text says only "error sending request"; what happened stands below it.
fn with_causes(error: &reqwest::Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// How the start of an exec failed, told apart by whether the command may run.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// No connection was made, or nothing was asked of it: the command never started. Trying again is safe.
    #[error("exec not started: {0}")]
    NotStarted(Error),
    /// An HTTP answer other than 101. The command did not start if [`Error::may_have_happened`] of the inner error is
    /// `false`; a 5xx can come from a proxy after the command was started.
    #[error("exec refused: {0}")]
    Refused(Error),
    /// The request was sent and no usable answer came: the command may be running.
    #[error("exec has an unknown outcome: {0}")]
    Unknown(Error),
}

impl ExecError {
    /// What happened on the wire.
    pub fn error(&self) -> &Error {
        match self {
            Self::NotStarted(error) | Self::Refused(error) | Self::Unknown(error) => error,
        }
    }

    /// What happened on the wire, taken out.
    pub fn into_error(self) -> Error {
        match self {
            Self::NotStarted(error) | Self::Refused(error) | Self::Unknown(error) => error,
        }
    }

    /// Whether the command may have been started. `false` is certain.
    pub fn may_have_started(&self) -> bool {
        match self {
            Self::NotStarted(_) => false,
            Self::Refused(error) => error.may_have_happened(),
            Self::Unknown(_) => true,
        }
    }
}
