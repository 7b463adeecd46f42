//! The operator's binary: parse arguments, install the TLS provider, call the library; nothing else.

use std::{io::Write, process::ExitCode};

use clap::Parser;
use sprite_operator::{
    api, app,
    cli::{Cli, Command, RunArgs},
};

fn main() -> ExitCode {
    // Before any client is made: with no provider installed, building one panics.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Cli::parse().command {
        Command::Run(args) => run(&args),
        Command::Crds { dir } => crds(dir.as_deref()),
    }
}

fn run(args: &RunArgs) -> ExitCode {
    sprite_operator::telemetry::init(args.log_json);
    let config = match args.check() {
        Ok(config) => config,
        Err(errors) => return fail(&errors.join("\n")),
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string()),
    };
    match runtime.block_on(app::run(config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

fn crds(dir: Option<&std::path::Path>) -> ExitCode {
    let written = api::crds().map_err(|e| e.to_string()).and_then(|crds| {
        for (file, crd) in crds {
            let yaml = api::to_yaml(&crd).map_err(|e| e.to_string())?;
            match dir {
                Some(dir) => std::fs::write(dir.join(file), yaml).map_err(|e| format!("{file}: {e}"))?,
                None => write!(std::io::stdout(), "---\n{yaml}").map_err(|e| e.to_string())?,
            }
        }
        Ok(())
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn fail(error: &str) -> ExitCode {
    // Nothing is left to do about a closed stderr.
    let _ = writeln!(std::io::stderr(), "sprite-operator: {error}");
    ExitCode::FAILURE
}
