//! The binary `spritesd`: parses arguments, calls the library; nothing else.

use std::io;
use std::process::ExitCode;

use clap::Parser as _;
use spritesd::cli;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    // Parts of a sandbox are this program too; they have arguments of their own and no log.
    if let Some(code) = cli::inner_part(std::env::args_os().nth(1).as_deref()) {
        return code;
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).init();
    if let Some(code) = cli::client_part(std::env::args_os()) {
        return code;
    }
    let cli = cli::Cli::parse();
    cli::main(cli)
}
