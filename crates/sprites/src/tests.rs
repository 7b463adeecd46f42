//! The client against local servers that misbehave, byte by byte. No real service, no sandbox.

mod exec;
mod http;
mod lab;
mod server;
mod tls;
mod wire;

use std::time::Duration;

use secrecy::SecretString;

use super::types::WireSprite;
use super::{Awake, Client, Config, Sprite, TokenSource};

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

/// A client that attempts everything once.
fn client(address: std::net::SocketAddr) -> Client {
    retrying(address).without_retries()
}

fn retrying(address: std::net::SocketAddr) -> Client {
    install_provider();
    Client::new(config(address)).unwrap()
}

/// Proof that this Sprite, instance `sprite-1`, is awake.
fn on(name: &str) -> Awake {
    let wire = serde_json::json!({"id": "sprite-1", "name": name, "status": "running"});
    let sprite = Sprite::try_from(serde_json::from_value::<WireSprite>(wire).unwrap()).unwrap();
    sprite.awake().unwrap()
}
