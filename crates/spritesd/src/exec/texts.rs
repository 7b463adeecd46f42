//! The JSON messages of exec, both ways. Pure.

use axum::extract::ws::{CloseFrame, Message, close_code};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::frames::{self, Stream};
use super::session::Session;
use super::signals;
use super::stream::Size;

/// Says nothing but that the server is there; clients ignore it.
pub(crate) const KEEPALIVE: &str = r#"{"type":"debug","msg":"keepalive"}"#;

/// The first message about a session; the numbers clients tell it by are strings.
pub(crate) fn session_info(session: &Session) -> String {
    info(session.id, &session.command, session.created.as_second(), session.terminal())
}

fn info(id: u32, command: &str, created: i64, terminal: Option<Size>) -> String {
    let size = terminal.unwrap_or(Size { rows: 0, cols: 0 });
    json!({
        "type": "session_info", "session_id": id.to_string(), "command": command, "created": created,
        "cols": size.cols, "rows": size.rows, "is_owner": true, "tty": terminal.is_some(),
    })
    .to_string()
}

/// How the end of a command is told, after all its output.
pub(crate) fn exit(code: u8, is_terminal: bool) -> Message {
    if is_terminal {
        Message::text(json!({ "type": "exit", "exit_code": code }).to_string())
    } else {
        Message::Binary(frames::exit(code))
    }
}

/// What a client hears of a command that could not be started: what a shell would have said.
pub(crate) fn refusal(command: &str, text: &str, code: u8, terminal: Option<Size>) -> [Message; 3] {
    // There is no process; zero is the id of none.
    let info = info(0, command, jiff::Timestamp::now().as_second(), terminal);
    let line = match terminal {
        Some(_) => Bytes::from(format!("{text}\r\n")),
        None => frames::output(Stream::Stderr, format!("{text}\n").as_bytes()),
    };
    [Message::text(info), Message::Binary(line), exit(code, terminal.is_some())]
}

/// A close that says all went well.
pub(crate) fn normal_close() -> Message {
    close(close_code::NORMAL, "")
}

/// A close with a reason.
pub(crate) fn close(code: u16, reason: &str) -> Message {
    Message::Close(Some(CloseFrame { code, reason: reason.into() }))
}

/// What a client may tell a session besides input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Signal(i32),
    Resize(Size),
}

#[derive(Deserialize)]
struct ClientText {
    r#type: String,
    signal: Option<String>,
    rows: Option<Value>,
    cols: Option<Value>,
}

/// Reads a client's message; none when it says nothing to a session.
pub(crate) fn told(text: &[u8]) -> Option<Told> {
    let text: ClientText = serde_json::from_slice(text).ok()?;
    match text.r#type.as_str() {
        "signal" => Some(Told::Signal(signals::number(text.signal.as_deref()?)?)),
        "resize" => Some(Told::Resize(Size { rows: side(&text.rows?)?, cols: side(&text.cols?)? })),
        _ => None,
    }
}

fn side(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|side| *side > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[test]
    fn the_session_id_is_a_string() {
        let parsed: Value = serde_json::from_str(&info(7, "true", 1, None)).unwrap();
        assert_eq!(
            (&parsed["session_id"], &parsed["type"], &parsed["tty"]),
            (&json!("7"), &json!("session_info"), &json!(false))
        );
        let parsed: Value = serde_json::from_str(&info(7, "true", 1, Some(Size::default()))).unwrap();
        assert_eq!((&parsed["rows"], &parsed["cols"], &parsed["tty"]), (&json!(24), &json!(80), &json!(true)));
    }

    #[rstest]
    #[case(r#"{"type":"signal","signal":"SIGINT"}"#, Some(Told::Signal(2)))]
    #[case(r#"{"type":"signal","signal":"NONE"}"#, None)]
    #[case(r#"{"type":"signal"}"#, None)]
    #[case(r#"{"type":"resize","rows":50,"cols":"100"}"#, Some(Told::Resize(Size { rows: 50, cols: 100 })))]
    #[case(r#"{"type":"resize","rows":0,"cols":1}"#, None)]
    #[case(r#"{"type":"resize","rows":70000,"cols":1}"#, None)]
    #[case(r#"{"type":"resize","rows":-1,"cols":1}"#, None)]
    #[case(r#"{"type":"other"}"#, None)]
    #[case("[]", None)]
    #[case("", None)]
    fn messages_of_clients(#[case] text: &str, #[case] expected: Option<Told>) {
        assert_eq!(told(text.as_bytes()), expected);
    }

    proptest! {
        #[test]
        fn nothing_a_client_says_panics(text: Vec<u8>) {
            let _ = told(&text);
        }
    }
}
