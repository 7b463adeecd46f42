//! The connections below all calls: TLS, trust, proxies, redirects. Sends nothing itself.
//!
//! Redirects are never followed, to whatever host: an API does not move in the middle of a call, and the token must not.
//! Proxies of the environment are ignored unless asked for. A file of certificate authorities is read again when it
//! changes; while what stands in it cannot be read, the last good one counts.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::{Certificate, ClientBuilder};
use tokio::time::Instant;
use tracing::warn;

use super::config::{Config, ConfigError, is_loopback};
use super::file_fingerprint::Stamp;

/// How often the file of authorities is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often the kernel asks whether an idle peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(10);
/// Sent bytes that nobody acknowledges for so long end a connection.
const DEAD: Duration = Duration::from_secs(30);
/// Bundles of a whole system are some 250 KiB.
const MAX_CA_FILE: u64 = 4 * 1024 * 1024;

/// A pair of HTTP clients with the same trust.
#[derive(Debug)]
pub(super) struct Transport {
    pub(super) calls: reqwest::Client,
    /// For execs and kills: never a pooled connection, whose silent death would leave it unknown whether a command was started.
    pub(super) execs: reqwest::Client,
}

pub(super) struct Transports {
    current: Mutex<Current>,
}

struct Current {
    transport: Arc<Transport>,
    stamp: Option<Stamp>,
    looked: Instant,
}

impl Transports {
    pub(super) fn new(config: &Config) -> Result<Self, ConfigError> {
        let (authorities, stamp) = match &config.ca_file {
            Some(path) => {
                let stamp = Stamp::of(path).ok();
                (Some(read(path)?), stamp)
            }
            None => (None, None),
        };
        let transport = Arc::new(build(config, authorities.as_deref())?);
        Ok(Self { current: Mutex::new(Current { transport, stamp, looked: Instant::now() }) })
    }

    /// The connections to use now. Looks at the file of authorities at most once a second.
    pub(super) fn current(&self, config: &Config) -> Arc<Transport> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = &config.ca_file
            && current.looked.elapsed() >= LOOK
        {
            current.looked = Instant::now();
            let stamp = Stamp::of(path).ok();
            if stamp.is_some() && stamp != current.stamp {
                match read(path).and_then(|authorities| build(config, Some(&authorities))) {
                    Ok(transport) => {
                        current.transport = Arc::new(transport);
                        current.stamp = stamp;
                    }
                    Err(error) => {
                        // Said once; the next change is tried again.
                        current.stamp = stamp;
                        warn!(%error, "the file of certificate authorities changed and cannot be used");
                    }
                }
            }
        }
        Arc::clone(&current.transport)
    }
}

fn build(config: &Config, authorities: Option<&[Certificate]>) -> Result<Transport, ConfigError> {
    // Always before the deadline of the whole: then a timeout tells whether anything was sent.
    let connect = config.connect_timeout.min(config.open_timeout.min(config.call_timeout) / 2);
    let builder = || {
        let builder = ClientBuilder::new()
            .user_agent(concat!("sprite-operator/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .tcp_keepalive(KEEPALIVE)
            .tcp_keepalive_interval(KEEPALIVE)
            .tcp_keepalive_retries(2)
            .tcp_user_timeout(DEAD)
            .connect_timeout(connect);
        // The token of a plain http URL to this machine would leave it in clear text.
        let stays = config.url.scheme() == "http" && is_loopback(&config.url);
        let builder = if config.proxy_from_environment && !stays { builder } else { builder.no_proxy() };
        match authorities {
            Some(certificates) => builder.tls_certs_only(certificates.iter().cloned()),
            // Plain http needs no root certificates, and must work where an image has none.
            None if config.url.scheme() == "http" => builder.tls_certs_only([]),
            None => builder,
        }
    };
    Ok(Transport {
        calls: builder().pool_idle_timeout(Duration::from_secs(30)).build().map_err(ConfigError::Http)?,
        execs: builder().pool_max_idle_per_host(0).build().map_err(ConfigError::Http)?,
    })
}

/// The authorities of a PEM file: at least one.
fn read(path: &Path) -> Result<Vec<Certificate>, ConfigError> {
    let failed = |source| ConfigError::CaFile { path: path.to_owned(), source };
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > MAX_CA_FILE {
        return Err(ConfigError::CaForm { path: path.to_owned() });
    }
    let bytes = std::fs::read(path).map_err(failed)?;
    let certificates = Certificate::from_pem_bundle(&bytes).unwrap_or_default();
    if certificates.is_empty() { Err(ConfigError::CaForm { path: path.to_owned() }) } else { Ok(certificates) }
}
