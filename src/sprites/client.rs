//! The client: its connections, its token, its URLs. No redirects, no retries, no proxies of the environment: what is sent,
//! where, and how often, is decided by the caller alone.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Method, RequestBuilder};
use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::answer::Subject;
use super::config::{Config, ConfigError};
use super::error::Error;
use super::http::Call;
use super::token::Tokens;

/// A connection that is not there in this time will not be.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A client of the Sprites API. Cheap to clone; clones share connections and the token.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    calls: reqwest::Client,
    /// For execs: never a pooled connection, whose silent death would leave it unknown whether a command was started.
    execs: reqwest::Client,
    tokens: Tokens,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("url", &self.config().url.as_str()).finish_non_exhaustive()
    }
}

impl Client {
    /// Checks the configuration; sends nothing. The process's TLS provider must be installed before.
    pub fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(ConfigError::NoTlsProvider);
        }
        // Always before the deadline of the whole: then a timeout tells whether anything was sent.
        let connect_timeout = CONNECT_TIMEOUT.min(config.open_timeout.min(config.call_timeout) / 2);
        let builder = || {
            let builder = reqwest::Client::builder()
                .user_agent(concat!("sprite-operator/", env!("CARGO_PKG_VERSION")))
                .redirect(reqwest::redirect::Policy::none())
                .retry(reqwest::retry::never())
                .referer(false)
                .no_proxy()
                .connect_timeout(connect_timeout);
            // Plain http needs no root certificates, and must work where an image has none.
            if config.url.scheme() == "http" { builder.tls_certs_only([]) } else { builder }
        };
        let calls = builder().pool_idle_timeout(Duration::from_secs(30));
        let execs = builder().pool_max_idle_per_host(0);
        Ok(Self {
            inner: Arc::new(Inner {
                calls: calls.build().map_err(ConfigError::Http)?,
                execs: execs.build().map_err(ConfigError::Http)?,
                tokens: Tokens::new(config.token.clone()),
                config,
            }),
        })
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

    pub(super) async fn token(&self) -> Result<SecretString, Error> {
        Ok(self.inner.tokens.current().await?)
    }

    /// A request for an exec's own connection, with the token on it.
    pub(super) fn exec_request(&self, url: Url, token: &SecretString) -> RequestBuilder {
        self.inner.execs.get(url).header(AUTHORIZATION, bearer(token))
    }

    pub(super) fn call(&self, method: Method, url: Url, subject: Subject) -> Call<'_> {
        Call::new(self, self.inner.calls.request(method, url), subject)
    }
}

/// The URL with these parameters, percent-encoded.
pub(super) fn with_query<'a>(mut url: Url, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Url {
    url.query_pairs_mut().extend_pairs(pairs);
    url
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
