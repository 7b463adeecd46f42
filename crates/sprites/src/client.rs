//! The client: its connections, its token, its URLs, and the options that a clone of it carries.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::call::{CallKind, Priority};
use super::config::{Config, ConfigError};
use super::error::Error;
use super::http::Call;
use super::limiter::Limiter;
use super::response::Subject;
use super::token::Tokens;
use super::transport::{Transport, Transports};

/// A client of the Sprites API. Cheap to clone; clones share connections, the token and the account's limiter.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    options: Options,
}

/// What one handle does differently from another.
#[derive(Clone, Copy, Debug, Default)]
struct Options {
    priority: Option<Priority>,
    once: bool,
    within: Option<Duration>,
    sent_within: Option<Duration>,
}

struct Inner {
    config: Config,
    transports: Transports,
    tokens: Tokens,
    limiter: Limiter,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.config().url.as_str())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Checks the configuration; sends nothing. The process's TLS provider must be installed before.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(ConfigError::NoTlsProvider);
        }
        let inner = Inner {
            transports: Transports::new(&config)?,
            tokens: Tokens::new(config.token.clone()),
            limiter: Limiter::new(config.limits),
            config,
        };
        Ok(Self { inner: Arc::new(inner), options: Options::default() })
    }

    /// The same client, whose calls all have this priority. Otherwise each kind of call has its own: kill and restart,
    /// delete, the setting of rules, execs and files, reads, lists.
    #[must_use]
    pub fn with_priority(&self, priority: Priority) -> Self {
        Self { options: Options { priority: Some(priority), ..self.options }, ..self.clone() }
    }

    /// The same client, which attempts each call once. Otherwise a call is made again where that is safe: when no
    /// connection was made, when it only reads, and when it was refused with 429.
    #[must_use]
    pub fn without_retries(&self) -> Self {
        Self { options: Options { once: true, ..self.options }, ..self.clone() }
    }

    /// The same client, whose calls end within this time each, the wait for their turn included. An exec that could not be
    /// sent by then is [`NotStarted`](super::ExecError::NotStarted); one that was sent and not answered is `Unknown`.
    #[must_use]
    pub fn within(&self, limit: Duration) -> Self {
        Self { options: Options { within: Some(limit), ..self.options }, ..self.clone() }
    }

    /// For ending what a caller left behind: first of all, and without the caller's own haste.
    pub(super) fn for_ending(&self) -> Self {
        Self { options: Options { priority: Some(Priority::Kill), ..Options::default() }, ..self.clone() }
    }

    /// The same client, whose attempts are not begun later than this after the call was made: for callers who may do
    /// something only for a while. One that was begun may take its own time to be answered.
    #[must_use]
    pub fn sent_within(&self, limit: Duration) -> Self {
        Self { options: Options { sent_within: Some(limit), ..self.options }, ..self.clone() }
    }

    /// How long after the call was made its attempts may begin.
    pub(super) fn begins_within(&self, whole: Duration) -> Duration {
        self.options.sent_within.map_or(whole, |limit| limit.min(whole))
    }

    /// The deadline of a whole call whose single attempt may take `timeout`.
    pub(super) fn whole(&self, timeout: Duration) -> Duration {
        self.options.within.unwrap_or_else(|| self.config().operation_timeout.max(timeout))
    }

    pub(super) fn retries(&self) -> bool {
        !self.options.once
    }

    pub(super) fn priority(&self, kind: CallKind) -> Priority {
        self.options.priority.unwrap_or(kind.priority())
    }

    pub(super) fn limiter(&self) -> &Limiter {
        &self.inner.limiter
    }

    pub(super) fn transport(&self) -> Arc<Transport> {
        self.inner.transports.current(self.config())
    }

    pub(super) fn config(&self) -> &Config {
        &self.inner.config
    }

    /// `/v1/sprites` and the segments below it, each percent-encoded. `.` and `..` would climb: the URL library drops them.
    pub(super) fn url(&self, segments: &[&str]) -> Result<Url, Error> {
        if segments.iter().any(|segment| matches!(*segment, "" | "." | "..")) {
            return Err(Error::refused_here("an empty or climbing path segment"));
        }
        let mut url = self.config().url.clone();
        url.path_segments_mut()
            .map_err(|()| Error::refused_here("the Sprites URL cannot have a path"))?
            .pop_if_empty()
            .extend(["v1", "sprites"])
            .extend(segments);
        Ok(url)
    }

    /// The URL of a Sprite or something below it. The name is checked: it is the key to whose machine is meant.
    pub(super) fn sprite_url(&self, name: &str, segments: &[&str]) -> Result<Url, Error> {
        if !is_sprite_name(name) {
            return Err(Error::refused_here("the Sprite's name is no DNS label"));
        }
        let mut all = vec![name];
        all.extend(segments);
        self.url(&all)
    }

    /// The service refused the token: read it again next time.
    pub(super) fn forget_token(&self) {
        self.inner.tokens.forget();
    }

    /// A file that gives nothing must not hold a call for ever.
    pub(super) async fn token_within(&self, limit: Duration) -> Result<SecretString, Error> {
        match tokio::time::timeout(limit, self.inner.tokens.current()).await {
            Ok(token) => Ok(token?),
            Err(_) => Err(Error::Timeout { after: limit, sent: false }),
        }
    }

    pub(super) fn call(&self, kind: CallKind, method: Method, url: Url, subject: Subject) -> Call<'_> {
        Call::new(self, kind, method, url, subject)
    }
}

/// The only line that exposes the token. Header values marked sensitive are not printed by the libraries below.
pub(super) fn bearer(token: &SecretString) -> HeaderValue {
    let mut value =
        HeaderValue::try_from(format!("Bearer {}", token.expose_secret())).unwrap_or(HeaderValue::from_static("")); // visible ASCII, checked when it was read
    value.set_sensitive(true);
    value
}

fn is_sprite_name(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&name.len()) && name.bytes().all(inner) && !name.starts_with('-') && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::install_provider;
    use super::super::token::TokenSource;
    use super::*;

    fn client(url: &str) -> Client {
        install_provider();
        let token = TokenSource::Fixed(SecretString::from("very-secret"));
        Client::new(Config::new(Url::parse(url).unwrap(), token)).unwrap()
    }

    #[test]
    fn a_prefix_of_the_base_url_is_kept() {
        for base in ["http://localhost/api", "http://localhost/api/"] {
            let url = client(base).sprite_url("so-1", &["exec", "1/2 3"]).unwrap();
            assert_eq!(url.as_str(), "http://localhost/api/v1/sprites/so-1/exec/1%2F2%203");
        }
    }

    #[test]
    fn debug_shows_no_token() {
        let client = client("http://localhost");
        assert!(!format!("{client:?} {:?}", client.config()).contains("very-secret"));
    }

    #[test]
    fn no_segment_leaves_its_sprite() {
        let client = client("http://localhost");
        proptest!(|(name in "[a-z0-9./%-]{0,8}", segment in any::<String>())| {
            if let Ok(url) = client.sprite_url(&name, &["exec", &segment]) {
                let expected = format!("/v1/sprites/{name}/exec/");
                prop_assert!(url.path().starts_with(&expected));
                prop_assert_eq!(url.path_segments().unwrap().count(), 5);
                prop_assert!(url.query().is_none() && url.fragment().is_none());
            }
        });
    }
}
