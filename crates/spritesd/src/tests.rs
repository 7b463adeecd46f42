//! Behaviour of a whole server on loopback with real sandboxes, seen through raw clients: nothing of the crate's own
//! client takes part. Needs bubblewrap and the right to make namespaces.

mod attach;
mod checkpoints;
mod control;
mod exec;
mod faults;
mod files;
mod files_change;
mod hangups;
mod http_exec;
mod instant;
mod isolation;
mod kill;
mod lifecycle;
mod limits;
mod network;
mod ports;
mod proxy;
mod raw;
mod restart;
mod root;
mod services;
mod services_logs;
mod signals;
mod sprites;
pub(crate) mod support;
mod tty;
mod url;
mod watch;

/// The server starts parts of itself from its own program. Here that is the test program, which plays them through
/// these entries; without the server's request they do nothing.
mod entries {
    use crate::cli;
    use clap::Parser as _;

    #[test]
    #[ignore = "a part of a sandbox, started by the server"]
    fn launch() {
        if std::env::var_os(crate::guest::launch::PLAN).is_some() {
            cli::inner_part(Some(crate::LAUNCH.as_ref()));
            std::process::exit(1);
        }
    }

    #[test]
    #[ignore = "a part of a sandbox, started by the server"]
    fn agent() {
        if std::process::id() == 1 {
            cli::inner_part(Some(crate::AGENT.as_ref()));
            std::process::exit(0);
        }
    }

    #[test]
    #[ignore = "a server process, started by a test that kills it"]
    fn server() {
        if let Ok(arguments) = std::env::var(super::support::ARGUMENTS) {
            let arguments: Vec<String> = serde_json::from_str(&arguments).unwrap();
            cli::serve_with(cli::Cli::parse_from(arguments), super::support::program());
            std::process::exit(0);
        }
    }
}
