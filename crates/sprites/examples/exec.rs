//! Runs a command in a Sprite that exists and prints what it prints; its exit code is ours, 125 when there is none.
//!
//! `cargo run --example exec -- URL TOKEN_FILE SPRITE COMMAND [ARGUMENT]...`
#![allow(clippy::print_stderr, reason = "a program for people")]

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use sprite_operator_sprites::{Client, Config, ExecEvent, ExecRequest, TokenSource};

#[tokio::main]
async fn main() -> ExitCode {
    run().await.unwrap_or_else(|error| {
        eprintln!("exec: {error}");
        ExitCode::from(125)
    })
}

async fn run() -> Result<ExitCode, Box<dyn Error>> {
    // Without it a client cannot be made. It fails only when there is one already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: exec URL TOKEN_FILE SPRITE COMMAND [ARGUMENT]...");
    let (url, token, sprite) = (next()?, next()?, next()?);
    let argv: Vec<String> = arguments.collect();

    let client = Client::new(Config::new(url.parse()?, TokenSource::File(token.into())))?;
    let request = ExecRequest { argv, max_run_after_disconnect: Duration::from_secs(10), ..ExecRequest::default() };
    let awake = client.wake(&sprite).await?;
    let mut exec = client.exec(&awake, &request).await?;
    loop {
        match exec.next().await {
            ExecEvent::Session { id } => eprintln!("session {id}"),
            ExecEvent::Stdout(data) => std::io::stdout().write_all(&data)?,
            ExecEvent::Stderr(data) => std::io::stderr().write_all(&data)?,
            ExecEvent::Exit(code) => return Ok(ExitCode::from(code)),
            ExecEvent::Lost(reason) => return Err(format!("outcome unknown: {reason}").into()),
        }
    }
}
