//! `spritesd world`: puts hosts into the world of a running server, lists them, and runs programs there, such as the
//! servers of those hosts. Talks to the server's admin address; enters the namespace by itself, as the superuser.

use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::process::CommandExt as _;
use std::process::{Command as Program, ExitCode};
use std::time::Duration;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use tracing::error;
use url::Url;

use super::network::Host;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// In the place of a name: none.
const NO_NAME: &str = "-";

/// Hosts outside of Sprites: add, list, run servers there.
#[derive(Debug, Args)]
pub struct WorldArgs {
    /// The server's admin address, as in the second line of its output
    #[arg(long, env = "SPRITESD_ADMIN", value_parser = admin_url, value_name = "ADDR")]
    admin: Url,
    #[command(subcommand)]
    command: WorldCommand,
}

/// The admin's URL, also without its scheme, as the server's own flag takes it.
fn admin_url(text: &str) -> Result<Url, url::ParseError> {
    if text.contains("://") { text.parse() } else { format!("http://{text}").parse() }
}

#[derive(Debug, Subcommand)]
enum WorldCommand {
    /// Add a host; the same again changes nothing
    Add {
        /// Host name that resolves to the address; `-` for none
        name: String,
        /// IPv4 or IPv6 address
        addr: IpAddr,
    },
    /// Print all hosts, a name and an address a line
    List,
    /// Run a program in the world's network, as a server of one of its hosts
    Exec {
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        argv: Vec<String>,
    },
}

/// What `GET /world` answers.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WorldView {
    /// The process whose network namespace is the world.
    pub(crate) pid: u32,
    /// Sorted.
    pub(crate) hosts: Vec<Host>,
}

#[derive(Debug, thiserror::Error)]
enum WorldError {
    #[error("the server cannot be asked: {0}")]
    Http(#[from] reqwest::Error),
    #[error("the server refused ({status}): {text}")]
    Refused { status: http::StatusCode, text: String },
    #[error("the admin address is no base of a URL: {0}")]
    Address(#[from] url::ParseError),
    #[error("the program cannot be started: {0}")]
    Exec(io::Error),
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Does what was asked for; `exec` becomes the program.
pub fn main(args: WorldArgs) -> ExitCode {
    // Nothing is encrypted here, but the client wants to know how it would be.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.map_err(WorldError::Io).and_then(|runtime| runtime.block_on(run(args))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "spritesd world");
            ExitCode::FAILURE
        }
    }
}

async fn run(WorldArgs { admin, command }: WorldArgs) -> Result<(), WorldError> {
    // The server is on loopback; a proxy could not reach it.
    let client = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
    let url = admin.join("/world")?;
    match command {
        WorldCommand::Add { name, addr } => {
            let host = Host { name: (name != NO_NAME).then_some(name), addr };
            answer(client.post(url).json(&host)).await?;
        }
        WorldCommand::List => {
            let view: WorldView = answer(client.get(url)).await?.json().await?;
            let mut stdout = io::stdout().lock();
            for Host { name, addr } in view.hosts {
                writeln!(stdout, "{} {addr}", name.as_deref().unwrap_or(NO_NAME))?;
            }
            stdout.flush()?;
        }
        WorldCommand::Exec { argv } => {
            let view: WorldView = answer(client.get(url)).await?.json().await?;
            let mut program = Program::new("nsenter");
            program.arg(format!("--net=/proc/{}/ns/net", view.pid)).arg("--").args(argv);
            return Err(WorldError::Exec(program.exec()));
        }
    }
    Ok(())
}

async fn answer(request: reqwest::RequestBuilder) -> Result<reqwest::Response, WorldError> {
    let response = request.send().await?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    Err(WorldError::Refused { status, text: response.text().await? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::extract::State;
    use axum::routing::get;
    use axum::{Json, Router};
    use clap::Parser;
    use std::sync::{Arc, Mutex, Once};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        world: WorldArgs,
    }

    type Seen = Arc<Mutex<Vec<String>>>;

    /// An address like the admin's, that remembers what it was sent.
    async fn admin() -> (String, Seen) {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let view = || async { Json(WorldView { pid: 1, hosts: Vec::new() }) };
        let add = |State(seen): State<Seen>, body: String| async move {
            let refused = body.contains("127.0.0.1");
            seen.lock().unwrap().push(body);
            if refused { Err((http::StatusCode::BAD_REQUEST, "no such host can be")) } else { Ok(()) }
        };
        let seen = Seen::default();
        let router = Router::new().route("/world", get(view).post(add)).with_state(Arc::clone(&seen));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (url, seen)
    }

    async fn world(admin: &str, arguments: &[&str]) -> Result<(), WorldError> {
        let arguments = [&["spritesd", "--admin", admin], arguments].concat();
        run(Cli::try_parse_from(arguments).unwrap().world).await
    }

    #[tokio::test]
    async fn hosts_are_sent_as_they_are_written() {
        let (admin, seen) = admin().await;
        world(&admin, &["add", "a.example", "203.0.113.7"]).await.unwrap();
        world(&admin, &["add", "-", "2001:db8::7"]).await.unwrap();
        world(&admin, &["list"]).await.unwrap();
        let refused = world(&admin, &["add", "a.example", "127.0.0.1"]).await.unwrap_err();
        assert!(refused.to_string().contains("no such host can be"), "{refused}");
        let seen = seen.lock().unwrap();
        assert_eq!(seen[..2], [r#"{"name":"a.example","addr":"203.0.113.7"}"#, r#"{"addr":"2001:db8::7"}"#]);
    }

    #[test]
    fn programs_keep_their_own_flags() {
        let parse =
            |arguments: &[&str]| Cli::try_parse_from([&["spritesd", "--admin", "http://[::1]:1"], arguments].concat());
        let cli = parse(&["exec", "--", "python3", "-m", "http.server", "--bind", "203.0.113.7"]).ok().unwrap();
        assert!(matches!(cli.world.command, WorldCommand::Exec { argv } if argv[1..3] == ["-m", "http.server"]));
        assert!(parse(&["exec"]).is_err());
        assert!(parse(&["add", "a.example", "nowhere"]).is_err());
    }
}
