//! The operator's binary: parse arguments, install the TLS provider, call the library; nothing else.

use std::{
    fs::File,
    io::{IsTerminal, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Parser;
use sprite_operator::{
    app,
    cli::{Cli, Command, ExplainArgs, RunArgs},
    explain::{self, Format, Kind, PolicyReport, Strictness},
};

fn main() -> ExitCode {
    // Before any client is made: with no provider installed, building one panics.
    let _ = rustls::crypto::ring::default_provider().install_default();
    match Cli::parse().command {
        Command::Run(args) => run(&args),
        Command::Crds { dir } => crds(dir.as_deref()),
        Command::Explain(args) => explained(&args),
    }
}

fn explained(args: &ExplainArgs) -> ExitCode {
    match judged(args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nothing is left to do about a closed stderr.
            let _ = writeln!(std::io::stderr(), "sprite-operator: {error}");
            ExitCode::from(2)
        }
    }
}

/// Reads a file, or stdin for `-`.
fn read_with<T>(path: &Path, read: impl FnOnce(Box<dyn Read>) -> std::io::Result<T>) -> Result<T, String> {
    let input: std::io::Result<Box<dyn Read>> = if path == Path::new("-") {
        Ok(Box::new(std::io::stdin()))
    } else {
        File::open(path).map(|file| Box::new(file) as _)
    };
    input.and_then(read).map_err(|error| format!("{}: {error}", path.display()))
}

/// Whether there is no complaint.
fn judged(args: &ExplainArgs) -> Result<bool, String> {
    let read = |path: &Path| read_with(path, explain::manifest_text);
    let default = if std::io::stdout().is_terminal() { Format::Table } else { Format::Json };
    let format = args.output.unwrap_or(default);
    let mut stdout = std::io::stdout().lock();
    if (args.raw || args.diff) && args.kind != Kind::Text {
        return Err("--raw and --diff are for `explain text`".to_owned());
    }
    if args.strict && args.kind != Kind::Policy {
        return Err("--strict is for `explain policy`".to_owned());
    }
    if args.raw && args.file.is_some() {
        return Err("explain text: name a FILE or give --raw, not both".to_owned());
    }
    let most = if args.kind == Kind::Run { explain::RUN_POLICIES } else { 1 };
    if args.policy.len() > most {
        return Err(format!(
            "--policy stands there {} times: give it at most once, for `explain run` twice (the session's, then the Run's own)",
            args.policy.len()
        ));
    }
    if args.policy.iter().chain(&args.file).filter(|path| path.as_path() == Path::new("-")).count() > 1 {
        return Err("stdin can be read once: name a file in place of one `-`".to_owned());
    }
    let under = |file: &PathBuf| {
        let text = read(file)?;
        PolicyReport::read(&text, args.allow_open_egress).map_err(|error| format!("{}: {error}", file.display()))
    };
    match (args.kind, &args.file, args.policy.first()) {
        (Kind::Text, _, Some(_)) => Err("explain text: redaction needs no policy; leave --policy out".to_owned()),
        (Kind::Text, None, None) if args.diff && !args.raw => {
            Err("explain text: --diff needs a FILE, or --raw for the text on stdin".to_owned())
        }
        (Kind::Text, file, None) if args.raw || file.is_some() => {
            let path = file.as_deref().unwrap_or(Path::new("-"));
            let text = read_with(path, explain::bytes_of)?;
            explain::text(&text, args.diff, &mut stdout, &mut std::io::stderr()).map_err(|error| error.to_string())?;
            Ok(true)
        }
        (Kind::Policy, Some(file), None) => {
            let text = read(file)?;
            let strictness = Strictness { open_allowed: args.allow_open_egress, strict: args.strict };
            explain::policy(&text, strictness, &mut stdout, &mut std::io::stderr(), format)
                .map_err(|error| format!("{}: {error}", file.display()))
        }
        (Kind::Policy, None, _) => Err("explain policy: name the manifest, or - for stdin".to_owned()),
        (Kind::Policy, Some(_), Some(_)) => {
            Err("explain policy: the manifest is the argument; leave --policy out".to_owned())
        }
        (Kind::Run, Some(file), _) => {
            let policies = args.policy.iter().map(under).collect::<Result<_, _>>()?;
            explain::run(&read(file)?, policies, &mut stdout, &mut std::io::stderr(), format)
                .map_err(|error| format!("{}: {error}", file.display()))
        }
        (Kind::Run, None, _) => Err("explain run: name the manifest, or - for stdin".to_owned()),
        (_, Some(_), _) => {
            Err("items come on stdin, one a line; a policy to judge them under is named with --policy".to_owned())
        }
        (kind, None, policy) => {
            let report = policy.map(under).transpose()?;
            let judged = explain::items(kind, report.as_ref(), std::io::stdin().lock(), &mut stdout, format)
                .map_err(|error| error.to_string())?;
            if judged == 0 {
                // Perhaps what should have written them failed.
                let note = "sprite-operator: there was no item on stdin: write one a line, such as \"example.com\"";
                let _ = writeln!(std::io::stderr(), "{note}");
            }
            Ok(true)
        }
    }
}

fn run(args: &RunArgs) -> ExitCode {
    sprite_operator::telemetry::logs::init(args.log_json);
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
