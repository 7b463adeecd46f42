//! What is asked of exec, as pairs of a query or the arguments of a control message, parsed once. Pure.

use std::time::Duration;

use serde_json::{Map, Value};
use url::form_urlencoded;

use super::environment::{HOME, overlay};
use super::session::Command;
use super::stream::Size;
use crate::duration;
use crate::guest::protocol::{LARGEST_PACKET, Spawn};

/// How long a command without a terminal lives after its client is gone.
const AFTER_DISCONNECT: Duration = Duration::from_secs(10);
/// Bound on arguments and variables together.
const MOST_BYTES: usize = 128 * 1024;
/// Room for what surrounds a command on its way into the guest.
const ENVELOPE: usize = 1024;

/// What an exec call asks for.
#[derive(Debug)]
pub(crate) enum Query {
    /// Watch a session; whatever else is given is ignored.
    Attach(String),
    /// Start a command.
    Start(Command),
}

/// Parses a query; the error is the text of a 400.
pub(crate) fn parse(query: &str) -> Result<Query, String> {
    from_pairs(form_urlencoded::parse(query.as_bytes()).into_owned())
}

/// Reads the arguments of a control message: strings, numbers, booleans, and lists of those.
pub(crate) fn from_arguments(arguments: &Map<String, Value>) -> Result<Query, String> {
    let mut pairs = Vec::new();
    for (key, value) in arguments {
        match value {
            Value::Null => {}
            Value::Array(values) => {
                for value in values {
                    pairs.push((key.clone(), plain(key, value)?));
                }
            }
            value @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => {
                pairs.push((key.clone(), plain(key, value)?));
            }
        }
    }
    from_pairs(pairs)
}

fn plain(key: &str, value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err(format!("invalid {key}: must be a string")),
    }
}

fn from_pairs(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Query, String> {
    let (mut argv, mut env) = (Vec::new(), Vec::new());
    let (mut path, mut dir, mut id, mut stdin, mut tty) = (None, None, None, false, false);
    let mut after_disconnect = None;
    let mut size = Size::default();
    let mut bytes = 0;
    for (key, value) in pairs {
        bytes += key.len() + value.len();
        if value.contains('\0') {
            return Err(format!("invalid {key}: contains NUL"));
        }
        match key.as_str() {
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
            "rows" => size.rows = side(&key, &value, Size::default().rows)?,
            "cols" => size.cols = side(&key, &value, Size::default().cols)?,
            "max_run_after_disconnect" => {
                after_disconnect = Some(duration::parse(&value).ok_or("invalid max_run_after_disconnect")?);
            }
            // Client options without effect here, and what later clients may add.
            _ => {}
        }
    }
    if bytes > MOST_BYTES {
        return Err("command too large".into());
    }
    if let Some(id) = id.filter(|id| !id.is_empty()) {
        return Ok(Query::Attach(id));
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
    // A terminal is a place to come back to.
    let after_disconnect = after_disconnect.unwrap_or(if tty { Duration::ZERO } else { AFTER_DISCONNECT });
    let after_disconnect = Some(after_disconnect).filter(|limit| !limit.is_zero());
    let spawn = Spawn { program, argv, dir, env: overlay(&env), stdin: stdin || tty, terminal: tty };
    // Escaped on its way, it may be larger than it looks.
    if serde_json::to_vec(&spawn).is_ok_and(|packet| packet.len() > LARGEST_PACKET - ENVELOPE) {
        return Err("command too large".into());
    }
    Ok(Query::Start(Command { spawn, after_disconnect, terminal: tty.then_some(size) }))
}

fn side(key: &str, value: &str, default: u16) -> Result<u16, String> {
    match value.parse::<u16>() {
        _ if value.is_empty() => Ok(default),
        Ok(0) => Ok(default),
        Ok(side) => Ok(side),
        Err(_) => Err(format!("invalid {key}: must be a number up to 65535")),
    }
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
    #[case("cmd=sh&tty=true&rows=x")]
    #[case("cmd=sh&tty=true&cols=70000")]
    #[case("stdin=maybe")]
    #[case("max_run_after_disconnect=soon")]
    fn refused(#[case] query: &str) {
        assert!(parse(query).is_err());
    }

    #[test]
    fn a_terminal_has_a_size_and_lives_on() {
        let got = start("cmd=bash&tty=true");
        assert_eq!((got.terminal, got.after_disconnect), (Some(Size { rows: 24, cols: 80 }), None));
        assert!(got.spawn.terminal && got.spawn.stdin);
        let got = start("cmd=bash&tty=true&rows=50&cols=0&max_run_after_disconnect=1s");
        assert_eq!(got.terminal, Some(Size { rows: 50, cols: 80 }));
        assert_eq!(got.after_disconnect, Some(Duration::from_secs(1)));
        assert_eq!(start("cmd=bash&rows=5").terminal, None);
    }

    #[test]
    fn arguments_of_a_control_message_may_be_of_any_plain_type() {
        let parse = |text: &str| from_arguments(serde_json::from_str::<Value>(text).unwrap().as_object().unwrap());
        let text = r#"{"cmd":["ls","-l"],"tty":true,"rows":50,"cols":"100","stdin":"true","env":["A=1"],"path":"","dir":null}"#;
        let Query::Start(got) = parse(text).unwrap() else { unreachable!() };
        assert_eq!((got.spawn.argv.len(), got.terminal), (2, Some(Size { rows: 50, cols: 100 })));
        assert!(matches!(parse(r#"{"cmd":[""],"id":"7"}"#).unwrap(), Query::Attach(id) if id == "7"));
        for bad in [r#"{"cmd":[["a"]]}"#, r#"{"dir":{}}"#, r#"{"tty":"maybe"}"#, r#"{"env":[1]}"#] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_does_not_fit_into_a_packet_is_too_large() {
        assert!(parse(&format!("cmd=echo&cmd={}", "x".repeat(120_000))).is_ok());
        assert!(parse(&format!("cmd=echo&cmd={}", "x".repeat(140_000))).is_err());
        assert!(parse(&format!("cmd=echo&cmd={}", "%01".repeat(100_000))).is_err());
    }

    #[test]
    fn an_id_attaches() {
        assert!(matches!(parse("id=7&cmd=").unwrap(), Query::Attach(id) if id == "7"));
    }
}
