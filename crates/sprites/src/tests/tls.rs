//! Trust: certificates that are right, wrong, renewed and replaced; names that do not resolve; proxies.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use rstest::rstest;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use secrecy::SecretString;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::super::{Client, Config, ConfigError, Error, ExecError, ExecEvent, ExecRequest, TokenSource};
use super::server::{self, Requests, json, switching};
use super::{TOKEN, install_provider, on};

const SPRITE: &str = r#"{"id":"sprite-1","name":"so-1","status":"running"}"#;

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn file(&self, directory: &Path) -> PathBuf {
        let path = directory.join("authorities.pem");
        std::fs::write(&path, &self.pem).unwrap();
        path
    }

    /// What a server of this name shows.
    fn server(&self, name: &str, expired: bool) -> Arc<ServerConfig> {
        install_provider();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        Arc::new(config.with_single_cert(vec![certificate.der().clone()], key).unwrap())
    }
}

/// A server over TLS that answers GET of a Sprite, and any exec with exit 7. What it shows can be replaced.
struct Secure {
    address: SocketAddr,
    shows: Arc<Mutex<Arc<ServerConfig>>>,
    requests: Requests,
}

impl Secure {
    async fn start(shows: Arc<ServerConfig>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shows, requests) = (Arc::new(Mutex::new(shows)), Requests::default());
        let (showing, seen) = (Arc::clone(&shows), requests.clone());
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let acceptor = TlsAcceptor::from(Arc::clone(&*showing.lock().unwrap()));
                // Refused by the client, most of the time.
                let Ok(mut stream) = acceptor.accept(stream).await else { continue };
                let mut request = String::new();
                while !request.ends_with("\r\n\r\n") {
                    let Ok(byte @ 1..) = stream.read_u8().await else { break };
                    request.push(char::from(byte));
                }
                let upgrade = server::header(&request, "sec-websocket-key").is_some();
                let answer = if upgrade {
                    // The head, and the exit frame right behind it.
                    [switching(&request), vec![0x82, 2, 3, 7]].concat()
                } else {
                    json(200, SPRITE)
                };
                seen.lock().unwrap().push(request);
                let _ = stream.write_all(&answer).await;
                let _ = stream.shutdown().await;
            }
        });
        Self { address, shows, requests }
    }

    fn config(&self, authorities: Option<PathBuf>) -> Config {
        install_provider();
        let url = format!("https://{}", self.address).parse().unwrap();
        Config { ca_file: authorities, ..Config::new(url, TokenSource::Fixed(SecretString::from(TOKEN))) }
    }

    fn client(&self, authorities: Option<PathBuf>) -> Client {
        Client::new(self.config(authorities)).unwrap().without_retries()
    }
}

fn command() -> ExecRequest {
    ExecRequest { argv: vec!["true".to_owned()], ..ExecRequest::default() }
}

#[tokio::test]
async fn a_given_authority_is_trusted_for_calls_and_execs() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    let secure = Secure::start(authority.server("127.0.0.1", false)).await;
    let client = secure.client(Some(authority.file(directory.path())));
    assert_eq!(client.get("so-1").await.unwrap().id, "sprite-1");
    let mut exec = client.exec(&on("so-1"), &command()).await.unwrap();
    assert_eq!(exec.next().await, ExecEvent::Exit(7));
    let requests = secure.requests.lock().unwrap();
    assert!(requests.iter().all(|request| server::header(request, "authorization").is_some()));
}

#[rstest]
#[case::another_authority("127.0.0.1", false, false)]
#[case::another_name("sprites.example.com", false, true)]
#[case::expired("127.0.0.1", true, true)]
#[tokio::test]
async fn a_certificate_that_is_wrong_is_told_nothing(#[case] name: &str, #[case] expired: bool, #[case] known: bool) {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    let secure = Secure::start(authority.server(name, expired)).await;
    let trusted = if known { authority } else { Authority::new() };
    let client = secure.client(Some(trusted.file(directory.path())));
    let error = client.get("so-1").await.unwrap_err();
    assert!(matches!(error, Error::Unknown { sent: false, .. }), "{error}");
    let error = client.exec(&on("so-1"), &command()).await.unwrap_err();
    assert!(matches!(error, ExecError::NotStarted(_)), "{error:?}");
    assert!(secure.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn the_system_does_not_trust_just_anyone() {
    let secure = Secure::start(Authority::new().server("127.0.0.1", false)).await;
    let error = secure.client(None).get("so-1").await.unwrap_err();
    assert!(matches!(error, Error::Unknown { sent: false, .. }), "{error}");
    assert!(secure.requests.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_renewed_certificate_is_taken_without_a_word() {
    let (authority, directory) = (Authority::new(), tempfile::tempdir().unwrap());
    let secure = Secure::start(authority.server("127.0.0.1", false)).await;
    let client = secure.client(Some(authority.file(directory.path())));
    client.get("so-1").await.unwrap();
    *secure.shows.lock().unwrap() = authority.server("127.0.0.1", false);
    client.get("so-1").await.unwrap();
    client.exec(&on("so-1"), &command()).await.unwrap();
}

/// Asks again until the file was looked at once more, which happens once a second.
async fn until(client: &Client, good: bool) {
    let asking = async {
        while client.get("so-1").await.is_ok() != good {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asking).await.unwrap();
}

#[tokio::test]
async fn a_replaced_file_of_authorities_is_read_again_and_a_broken_one_is_not_used() {
    let (old, new, directory) = (Authority::new(), Authority::new(), tempfile::tempdir().unwrap());
    let secure = Secure::start(old.server("127.0.0.1", false)).await;
    let path = old.file(directory.path());
    let client = secure.client(Some(path.clone()));
    client.get("so-1").await.unwrap();

    *secure.shows.lock().unwrap() = new.server("127.0.0.1", false);
    assert!(client.get("so-1").await.is_err());
    // As a Secret mount does it: renamed into place.
    std::fs::write(directory.path().join("next"), &new.pem).unwrap();
    std::fs::rename(directory.path().join("next"), &path).unwrap();
    until(&client, true).await;

    std::fs::write(&path, "no certificate").unwrap();
    // Longer than it takes to be looked at.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    client.get("so-1").await.unwrap();
    std::fs::write(&path, &old.pem).unwrap();
    until(&client, false).await;
}

#[rstest]
#[case::missing(None)]
#[case::empty(Some(""))]
#[case::something_else(Some("-----BEGIN NOTHING-----"))]
fn a_file_without_authorities_is_named(#[case] content: Option<&str>) {
    install_provider();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("authorities.pem");
    if let Some(content) = content {
        std::fs::write(&path, content).unwrap();
    }
    let token = TokenSource::Fixed(SecretString::from(TOKEN));
    let config = Config::new("https://sprites.example.com".parse().unwrap(), token);
    let error = Client::new(Config { ca_file: Some(path), ..config }).unwrap_err();
    assert!(matches!(error, ConfigError::CaFile { .. } | ConfigError::CaForm { .. }), "{error}");
    assert!(error.to_string().contains("authorities.pem"));
}

#[tokio::test]
async fn a_name_that_does_not_resolve_has_started_nothing() {
    install_provider();
    let token = TokenSource::Fixed(SecretString::from(TOKEN));
    let config = Config::new("https://sprites.invalid".parse().unwrap(), token);
    let client = Client::new(config).unwrap().without_retries();
    let error = client.get("so-1").await.unwrap_err();
    assert!(!error.may_have_happened() && error.to_string().contains("dns"), "{error}");
    let error = client.exec(&on("so-1"), &command()).await.unwrap_err();
    assert!(matches!(error, ExecError::NotStarted(_)), "{error:?}");
}

/// What the test program is told when it plays a client with variables of a proxy.
const PLAY: &str = "SPRITES_TEST_PROXY";

/// No test: a client whose environment names a proxy, in a process of its own, since variables are the whole process's.
#[tokio::test]
#[ignore = "played in a process of its own"]
async fn a_client_behind_a_proxy() {
    let Ok(honoured) = std::env::var(PLAY) else { return };
    install_provider();
    let token = TokenSource::Fixed(SecretString::from(TOKEN));
    let config = Config {
        proxy_from_environment: honoured == "yes",
        allow_plain_http: true,
        ..Config::new("http://sprites.invalid".parse().unwrap(), token)
    };
    let client = Client::new(config).unwrap().without_retries();
    assert_eq!(client.get("so-1").await.is_ok(), honoured == "yes");
}

#[rstest]
#[case::ignored("no")]
#[case::asked_for("yes")]
#[tokio::test]
async fn proxies_of_the_environment_are_used_only_if_asked_for(#[case] honoured: &str) {
    let (address, requests) = server::http(|_| json(200, SPRITE)).await;
    let played = tokio::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "tests::tls::a_client_behind_a_proxy"])
        .env(PLAY, honoured)
        .env("HTTP_PROXY", format!("http://{address}"))
        .env("http_proxy", format!("http://{address}"))
        .env_remove("NO_PROXY")
        .env_remove("no_proxy")
        .kill_on_drop(true)
        .output();
    let output = played.await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    // A part that nobody found would have done nothing, successfully.
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    let requests = requests.lock().unwrap();
    let through = requests.iter().filter(|request| request.starts_with("GET http://sprites.invalid/v1/sprites/so-1 "));
    assert_eq!((through.count(), requests.len()), if honoured == "yes" { (1, 1) } else { (0, 0) });
}
