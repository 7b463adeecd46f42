//! The command line of `spritesd`, and its life as a process. Parses and wires; decides nothing.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use secrecy::SecretString;
use tokio::signal::unix::{SignalKind, signal};
use tracing::error;

use super::guest::{SelfProgram, agent, launch};
use super::world_cli::{self, WorldArgs};
use super::{Config, FaultRule, Settings, StartError};

/// First argument of a process that becomes a sandbox; not for people.
pub(crate) const LAUNCH: &str = "guest-launch";
/// First argument of the agent in a sandbox; not for people.
pub(crate) const AGENT: &str = "guest-agent";

/// A local server that speaks the Sprites API; each Sprite is a sandbox on this machine.
#[derive(Debug, Parser)]
#[command(name = "spritesd", version, after_help = "`spritesd world --help`: the hosts outside of Sprites")]
pub struct Cli {
    /// Address of the API; port 0 takes a free one, which the first line on stdout tells
    #[arg(long)]
    listen: SocketAddr,
    /// Directory of everything that survives
    #[arg(long)]
    data: PathBuf,
    /// File with the bearer token clients must send
    #[arg(long)]
    token_file: PathBuf,
    /// Loopback address of the log and the scripted failures; the second line on stdout tells it
    #[arg(long)]
    admin: Option<SocketAddr>,
    /// JSON file with scripted failures
    #[arg(long)]
    faults: Option<PathBuf>,
    #[command(flatten)]
    settings: Settings,
}

/// `spritesd world …`: a client of a running server.
#[derive(Debug, Parser)]
#[command(name = "spritesd world", bin_name = "spritesd world", version)]
struct WorldCli {
    #[command(flatten)]
    args: WorldArgs,
}

/// Becomes a client of a running server if the first argument says so.
pub fn client_part(mut args: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let program = args.next()?;
    (args.next()? == "world").then(|| world_cli::main(WorldCli::parse_from(std::iter::once(program).chain(args)).args))
}

/// Plays a part of a sandbox if this process was started for one. Call first in `main`, before any thread exists.
pub fn inner_part(first: Option<&OsStr>) -> Option<ExitCode> {
    let result = match first?.to_str()? {
        LAUNCH => Err(launch::run()),
        AGENT => agent::run(),
        _ => return None,
    };
    Some(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(writeln!(io::stderr(), "spritesd: {error}"));
            ExitCode::FAILURE
        }
    })
}

/// Runs the server until SIGTERM or SIGINT.
pub fn main(cli: Cli) -> ExitCode {
    // Guests must be able to enter the folders that are made for them, whatever the starter's mask; the data folder
    // itself is closed to others by its own mode.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    match SelfProgram::current() {
        Ok(program) => serve_with(cli, program),
        Err(error) => {
            error!(%error, "cannot find this program");
            ExitCode::FAILURE
        }
    }
}

/// Runs the server with parts of itself started from `program`.
pub(crate) fn serve_with(cli: Cli, program: SelfProgram) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = runtime.map_err(StartError::Io).and_then(|runtime| runtime.block_on(run(cli, program)));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            error!(%error, "spritesd");
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli, program: SelfProgram) -> Result<(), StartError> {
    let Cli { listen, data, token_file, admin, faults, settings } = cli;
    let faults: Vec<FaultRule> = match faults {
        Some(path) => serde_json::from_slice(&read("--faults", &path)?)
            .map_err(|error| StartError::Faults(format!("{}: {error}", path.display())))?,
        None => Vec::new(),
    };
    let token = String::from_utf8_lossy(&read("--token-file", &token_file)?).trim().to_owned();
    let token = SecretString::from(token);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let suffix = settings.url_suffix.clone();
    let server = super::start(Config { listen, admin, data, token, faults, program, settings }).await?;
    announce(server.address(), server.admin_address(), &suffix)?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        error = server.failed() => error!(%error, "stopped serving"),
    }
    server.stop().await;
    Ok(())
}

/// Reads a file that a flag names.
fn read(flag: &str, path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path).map_err(|error| io::Error::new(error.kind(), format!("{flag} {}: {error}", path.display())))
}

fn announce(address: SocketAddr, admin: Option<SocketAddr>, suffix: &str) -> io::Result<()> {
    let admin = admin.map(|admin| format!("admin http://{admin}\n")).unwrap_or_default();
    let lines = format!("listening http://{address}\n{admin}{}", urls(address, suffix));
    // At once: who reads only the first line may be gone before a second write.
    let mut stdout = io::stdout().lock();
    stdout.write_all(lines.as_bytes())?;
    stdout.flush()
}

/// How the URLs of Sprites are reached, also by programs that do not resolve their names.
fn urls(address: SocketAddr, suffix: &str) -> String {
    let port = address.port();
    let host = match address.ip() {
        any if any.is_unspecified() => "127.0.0.1".into(),
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    format!(
        "sprites http://NAME.{suffix}:{port} (not resolved? curl --resolve '*:{port}:{host}', a header \
         Host: NAME.{suffix}, or --url-suffix DOMAIN)\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_says_how_urls_are_reached() {
        for (address, suffix, expected) in [
            ("127.0.0.1:8700", "localhost", ["http://NAME.localhost:8700 ", "'*:8700:127.0.0.1'"]),
            ("0.0.0.0:80", "sprites.example.org", ["http://NAME.sprites.example.org:80 ", "'*:80:127.0.0.1'"]),
            ("[::1]:8700", "localhost", ["http://NAME.localhost:8700 ", "'*:8700:[::1]'"]),
        ] {
            let line = urls(address.parse().unwrap(), suffix);
            assert!(expected.iter().all(|part| line.contains(part)) && line.lines().count() == 1, "{line}");
        }
    }
}
