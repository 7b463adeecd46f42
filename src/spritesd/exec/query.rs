//! The query of an exec call, parsed once. Pure.

use std::time::Duration;

use url::form_urlencoded;

use super::environment::{HOME, overlay};
use super::session::Command;
use crate::spritesd::duration;
use crate::spritesd::guest::protocol::Spawn;

/// How long a command without a terminal lives after its client is gone.
const AFTER_DISCONNECT: Duration = Duration::from_secs(10);
/// Bound on arguments and variables together.
const MOST_BYTES: usize = 128 * 1024;

/// What an exec call asks for.
#[derive(Debug)]
pub(crate) enum Query {
    /// Watch a session; whatever else is given is ignored.
    Attach(String),
    /// Start a command.
    Start(Command),
}

/// Parses; the error is the text of a 400.
pub(crate) fn parse(query: &str) -> Result<Query, String> {
    let (mut argv, mut env) = (Vec::new(), Vec::new());
    let (mut path, mut dir, mut id, mut stdin, mut tty) = (None, None, None, false, false);
    let mut after_disconnect = AFTER_DISCONNECT;
    let mut size = 0;
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        size += key.len() + value.len();
        let value = value.into_owned();
        if value.contains('\0') {
            return Err(format!("invalid {key}: contains NUL"));
        }
        match key.as_ref() {
            "cmd" => argv.push(value),
            "path" => path = Some(value),
            "dir" => dir = Some(value),
            "id" => id = Some(value),
            "env" => match value.split_once('=') {
                Some((name, value)) if !name.is_empty() => {
                    env.push((name.to_owned(), value.to_owned()));
                }
                Some(_) | None => return Err("invalid env: must be KEY=VALUE".into()),
            },
            "stdin" => stdin = flag(&key, &value)?,
            "tty" => tty = flag(&key, &value)?,
            "max_run_after_disconnect" => {
                after_disconnect = duration::parse(&value).ok_or("invalid max_run_after_disconnect")?;
            }
            // Sizes of terminals, client options without effect here, and what later clients may add.
            _ => {}
        }
    }
    if size > MOST_BYTES {
        return Err("command too large".into());
    }
    if let Some(id) = id.filter(|id| !id.is_empty()) {
        return Ok(Query::Attach(id));
    }
    if tty {
        return Err("tty is not supported yet".into());
    }
    let program = match path.filter(|path| !path.is_empty()).or_else(|| argv.first().cloned()) {
        Some(program) if !program.is_empty() => program,
        Some(_) | None => "bash".to_owned(),
    };
    if argv.is_empty() {
        argv.push(program.clone());
    }
    let dir = match dir.filter(|dir| !dir.is_empty()) {
        None => HOME.to_owned(),
        Some(dir) if dir.starts_with('/') => dir,
        Some(dir) => format!("{HOME}/{dir}"),
    };
    let after_disconnect = Some(after_disconnect).filter(|limit| !limit.is_zero());
    Ok(Query::Start(Command { spawn: Spawn { program, argv, dir, env: overlay(&env), stdin }, after_disconnect }))
}

fn flag(key: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" | "1" => Ok(true),
        "false" | "0" | "" => Ok(false),
        _ => Err(format!("invalid {key}: must be true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn start(query: &str) -> Command {
        match parse(query).unwrap() {
            Query::Start(command) => command,
            Query::Attach(id) => unreachable!("attaches to {id}"),
        }
    }

    #[test]
    fn a_command_with_everything() {
        let got = start(
            "cmd=ls&cmd=-l&cmd=a%20b&path=/bin/ls&dir=/tmp&env=A=1=2&stdin=true&max_run_after_disconnect=1m&cc=true",
        );
        assert_eq!(got.spawn.argv, ["ls", "-l", "a b"]);
        assert_eq!((got.spawn.program.as_str(), got.spawn.dir.as_str()), ("/bin/ls", "/tmp"));
        assert!(got.spawn.env.contains(&("A".into(), "1=2".into())) && got.spawn.stdin);
        assert_eq!(got.after_disconnect, Some(Duration::from_mins(1)));
    }

    #[test]
    fn defaults() {
        let got = start("");
        assert_eq!((got.spawn.program.as_str(), got.spawn.dir.as_str()), ("bash", "/home/sprite"));
        assert_eq!(got.spawn.argv, ["bash"]);
        assert!(!got.spawn.stdin);
        assert_eq!(got.after_disconnect, Some(AFTER_DISCONNECT));
        assert_eq!(start("max_run_after_disconnect=0").after_disconnect, None);
        assert_eq!(start("cmd=true").spawn.program, "true");
    }

    #[rstest]
    #[case("cmd=a%00b")]
    #[case("env=A")]
    #[case("env==1")]
    #[case("tty=true&cmd=sh")]
    #[case("stdin=maybe")]
    #[case("max_run_after_disconnect=soon")]
    fn refused(#[case] query: &str) {
        assert!(parse(query).is_err());
    }

    #[test]
    fn an_id_attaches() {
        assert!(matches!(parse("id=7&cmd=").unwrap(), Query::Attach(id) if id == "7"));
    }
}
