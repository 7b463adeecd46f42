//! What a client is made from, and what it refuses to be made from. No default here can reach a public service.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use url::{Host, Url};

use super::limiter::Limits;
use super::metrics::Metrics;
use super::token::TokenSource;

/// Where the Sprites API is, who we are, and how long we wait.
#[derive(Clone, Debug)]
pub struct Config {
    /// The API's base, for example `https://api.sprites.dev`. A path is kept as a prefix; `/v1` is added.
    pub url: Url,
    /// The bearer token of the organisation.
    pub token: TokenSource,
    /// How often a running exec is pinged. Default 15 s.
    pub ping_interval: Duration,
    /// How long an exec's peer may send nothing at all, not even a pong, until it counts as dead. Default 45 s.
    pub dead_after: Duration,
    /// Deadline of making a connection, TLS included. Default 10 s.
    pub connect_timeout: Duration,
    /// Deadline of one attempt of a call, its body included. Default 30 s.
    pub call_timeout: Duration,
    /// Deadline of creating a Sprite. Default 120 s.
    pub create_timeout: Duration,
    /// Deadline of opening an exec in a Sprite that is awake. Default 15 s.
    pub open_timeout: Duration,
    /// Deadline of waking a Sprite: 1 to 12 s were seen from cold, and more. Default 90 s.
    pub wake_timeout: Duration,
    /// Deadline of a whole call: waiting for its turn, every attempt and the pauses between; that of a single attempt if
    /// that is longer. Default 60 s.
    pub operation_timeout: Duration,
    /// How long a Sprite that was seen awake is taken to be: the platform lets one sleep after about 30 s without
    /// activity. Default 30 s.
    pub awake_for: Duration,
    /// How much may be under way at once, for all clones of the client together.
    pub limits: Limits,
    /// PEM file of the certificate authorities to trust, in place of the system's. Read again when it changes.
    pub ca_file: Option<PathBuf>,
    /// Honour `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`. Default no.
    pub proxy_from_environment: bool,
    /// Where calls are counted.
    pub metrics: Option<Metrics>,
    /// Allow plain `http` to another machine. The token then crosses the network in clear text.
    pub allow_plain_http: bool,
}

impl Config {
    /// The defaults of the vendor's own clients.
    pub fn new(url: Url, token: TokenSource) -> Self {
        Self {
            url,
            token,
            ping_interval: Duration::from_secs(15),
            dead_after: Duration::from_secs(45),
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(30),
            create_timeout: Duration::from_mins(2),
            open_timeout: Duration::from_secs(15),
            wake_timeout: Duration::from_secs(90),
            operation_timeout: Duration::from_mins(1),
            awake_for: Duration::from_secs(30),
            limits: Limits::default(),
            ca_file: None,
            proxy_from_environment: false,
            metrics: None,
            allow_plain_http: false,
        }
    }

    /// Refuses what would fail later, or leak the token.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let url = &self.url;
        match url.scheme() {
            "https" => {}
            "http" if self.allow_plain_http || is_loopback(url) => {}
            "http" => return Err(ConfigError::PlainHttp),
            _ => return Err(ConfigError::Scheme),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ConfigError::Credentials);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(ConfigError::Query);
        }
        let intervals = [
            self.ping_interval,
            self.dead_after,
            self.connect_timeout,
            self.call_timeout,
            self.create_timeout,
            self.open_timeout,
            self.wake_timeout,
            self.operation_timeout,
            self.awake_for,
        ];
        if intervals.contains(&Duration::ZERO) {
            return Err(ConfigError::ZeroDuration);
        }
        if self.dead_after <= self.ping_interval {
            return Err(ConfigError::DeadBeforePing);
        }
        Ok(())
    }
}

pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Why a client cannot be made. Nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Only `https` and, to this machine, `http`.
    #[error("the Sprites URL must start with https:// or http://")]
    Scheme,
    /// `http` to another machine without `allow_plain_http`.
    #[error(
        "the Sprites URL is plain http to another machine, so the token would be readable on the way: use https, or allow plain http (allow_plain_http, --allow-plain-http)"
    )]
    PlainHttp,
    /// A user name or password in the URL.
    #[error("the Sprites URL must not hold a user name or password")]
    Credentials,
    /// A query or fragment in the URL.
    #[error("the Sprites URL must not hold a query or fragment")]
    Query,
    /// Every interval must be longer than nothing.
    #[error("durations of the Sprites client must be longer than zero")]
    ZeroDuration,
    /// A peer cannot answer a ping that was not sent yet.
    #[error("dead_after must be longer than ping_interval")]
    DeadBeforePing,
    /// `main` installs rustls' ring provider before it makes a client.
    #[error("no TLS provider is installed in this process")]
    NoTlsProvider,
    /// The file of certificate authorities cannot be read.
    #[error("the file of certificate authorities {} cannot be read", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// It holds none.
    #[error("{} holds no certificates: write PEM blocks of the authorities to trust", path.display())]
    CaForm {
        /// The file.
        path: PathBuf,
    },
    /// The HTTP library refused, for example because no root certificates could be read.
    #[error("the HTTP client cannot be made")]
    Http(#[source] reqwest::Error),
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use secrecy::SecretString;

    use super::*;

    fn config(url: &str) -> Config {
        let token = TokenSource::Fixed(SecretString::from("secret-token"));
        Config::new(Url::parse(url).unwrap(), token)
    }

    #[rstest]
    #[case::public("https://api.sprites.dev", true)]
    #[case::prefix("https://proxy.example.com/sprites/", true)]
    #[case::loopback4("http://127.0.0.1:8080", true)]
    #[case::loopback4_other("http://127.9.9.9", true)]
    #[case::loopback6("http://[::1]:8080", true)]
    #[case::localhost("http://localhost:8080", true)]
    #[case::plain("http://10.0.0.7:8080", false)]
    #[case::looks_local("http://localhost.example.com", false)]
    #[case::looks_loopback("http://127.0.0.1.example.com", false)]
    #[case::scheme("ftp://127.0.0.1", false)]
    #[case::userinfo("https://user:pw@api.sprites.dev", false)]
    #[case::query("https://api.sprites.dev/?a=b", false)]
    fn only_urls_that_keep_the_token_private_are_taken(#[case] url: &str, #[case] ok: bool) {
        assert_eq!(config(url).check().is_ok(), ok);
    }

    #[test]
    fn plain_http_to_another_machine_must_be_asked_for() {
        let mut config = config("http://10.0.0.7:8080");
        config.allow_plain_http = true;
        assert!(config.check().is_ok());
    }

    #[test]
    fn a_ping_comes_before_death() {
        let mut config = config("https://api.sprites.dev");
        config.dead_after = config.ping_interval;
        assert!(matches!(config.check(), Err(ConfigError::DeadBeforePing)));
    }
}
