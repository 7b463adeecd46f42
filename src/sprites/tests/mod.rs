//! The client against local servers that misbehave, byte by byte. No real service, no sandbox.

mod exec;
mod http;
mod server;

use std::time::Duration;

use secrecy::SecretString;

use super::{Client, Config, TokenSource};

pub(super) const TOKEN: &str = "org/1/2/very-secret";

/// The process-wide TLS provider, as `main` installs it. Whoever comes second finds it there.
pub(super) fn install_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

fn config(address: std::net::SocketAddr) -> Config {
    let url = format!("http://{address}").parse().unwrap();
    let mut config = Config::new(url, TokenSource::Fixed(SecretString::from(TOKEN)));
    config.call_timeout = Duration::from_secs(5);
    config.open_timeout = Duration::from_secs(5);
    config
}

fn client(address: std::net::SocketAddr) -> Client {
    install_provider();
    Client::new(config(address)).unwrap()
}
