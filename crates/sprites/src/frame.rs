//! The messages of an exec socket without a terminal. Pure: bytes in, meaning out. Knows no sockets, no
//! time, and never invents an exit code.

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::Value;

/// The most that one stdin frame carries; the page advises at most 32 KiB a frame.
pub(super) const STDIN_CHUNK: usize = 32 * 1024 - 1;
/// No incoming message may be larger.
pub(super) const MESSAGE_CAP: usize = 10 * 1024 * 1024;

/// A text message is some hundred bytes.
const TEXT_CAP: usize = 64 * 1024;

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const EXIT: u8 = 3;
const STDIN_EOF: u8 = 4;

/// What a message means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    Stdout(Bytes),
    Stderr(Bytes),
    /// The exit frame: the end, and the only certain exit code.
    Exit(u8),
    /// The text twin of the exit frame, which servers send after it, or in place of it.
    ExitText(u8),
    /// The session's id. Comes first after a start and after an attach.
    Session(String),
    /// A stream number or text type that we do not know: left alone, counted.
    UnknownKind,
    /// Nothing in it, or nothing for us: debug lines, ports.
    Nothing,
}

/// The peer broke the protocol where guessing on would invent a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Violation(pub &'static str);

/// A binary message.
pub(super) fn binary(message: &Bytes) -> Result<Meaning, Violation> {
    let Some(&kind) = message.first() else {
        return Ok(Meaning::Nothing);
    };
    let payload = message.slice(1..);
    match kind {
        STDOUT | STDERR if payload.is_empty() => Ok(Meaning::Nothing),
        STDOUT => Ok(Meaning::Stdout(payload)),
        STDERR => Ok(Meaning::Stderr(payload)),
        EXIT => match *payload {
            [code] => Ok(Meaning::Exit(code)),
            // Some client reads a missing byte as 0. A success that nobody reported is the worst answer there is.
            [] => Err(Violation("an exit frame without a code")),
            _ => Err(Violation("an exit frame of more than one byte")),
        },
        _ => Ok(Meaning::UnknownKind),
    }
}

/// A text message. Broken JSON is nothing: text only informs, and a debug line must not end a command.
pub(super) fn text(message: &str) -> Meaning {
    // Long ones are not the protocol's, and a tree of their values would take many times their size.
    let short = Some(message).filter(|message| message.len() <= TEXT_CAP);
    let Some(Ok(Value::Object(object))) = short.map(serde_json::from_str) else {
        return Meaning::UnknownKind;
    };
    match object.get("type").and_then(Value::as_str) {
        Some("session_info") => object.get("session_id").and_then(id).map_or(Meaning::Nothing, Meaning::Session),
        Some("exit") => object
            .get("exit_code")
            .and_then(Value::as_u64)
            .and_then(|code| u8::try_from(code).ok())
            .map_or(Meaning::Nothing, Meaning::ExitText),
        Some("debug" | "port_opened" | "port_closed") => Meaning::Nothing,
        Some(_) | None => Meaning::UnknownKind,
    }
}

/// An id: a string, in older versions a number. Never empty.
pub(super) fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Standard input, as frames of at most [`STDIN_CHUNK`] bytes each.
pub(super) fn stdin(data: &Bytes) -> impl Iterator<Item = Bytes> + use<> {
    let mut rest = data.clone();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let chunk = rest.split_to(rest.len().min(STDIN_CHUNK));
        let mut frame = BytesMut::with_capacity(chunk.len() + 1);
        frame.put_u8(STDIN);
        frame.put_slice(&chunk);
        Some(frame.freeze())
    })
}

/// The end of standard input.
pub(super) fn stdin_end() -> Bytes {
    Bytes::from_static(&[STDIN_EOF])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::stdout(b"\x01out", Ok(Meaning::Stdout(Bytes::from_static(b"out"))))]
    #[case::stderr(b"\x02err", Ok(Meaning::Stderr(Bytes::from_static(b"err"))))]
    #[case::zero(b"\x03\x00", Ok(Meaning::Exit(0)))]
    #[case::git(b"\x03\x80", Ok(Meaning::Exit(128)))]
    #[case::max(b"\x03\xff", Ok(Meaning::Exit(255)))]
    #[case::empty(b"", Ok(Meaning::Nothing))]
    #[case::empty_stdout(b"\x01", Ok(Meaning::Nothing))]
    #[case::from_the_wrong_side(b"\x00in", Ok(Meaning::UnknownKind))]
    #[case::eof_from_the_wrong_side(b"\x04", Ok(Meaning::UnknownKind))]
    #[case::unknown_stream(b"\x7fxx", Ok(Meaning::UnknownKind))]
    fn binary_messages(#[case] message: &'static [u8], #[case] meaning: Result<Meaning, Violation>) {
        assert_eq!(binary(&Bytes::from_static(message)), meaning);
    }

    #[rstest]
    #[case::no_code(b"\x03")]
    #[case::four_bytes(b"\x03\x00\x00\x00\x07")]
    #[case::two_bytes(b"\x03\x00\x00")]
    #[case::digits(b"\x0300")]
    fn an_exit_frame_of_another_length_is_no_exit(#[case] message: &'static [u8]) {
        assert!(binary(&Bytes::from_static(message)).is_err());
    }

    #[rstest]
    #[case::session(r#"{"type":"session_info","session_id":"1234","tty":false}"#, Meaning::Session("1234".into()))]
    #[case::session_as_number(r#"{"type":"session_info","session_id":1234}"#, Meaning::Session("1234".into()))]
    #[case::session_without_id(r#"{"type":"session_info","session_id":""}"#, Meaning::Nothing)]
    #[case::exit(r#"{"type":"exit","exit_code":7}"#, Meaning::ExitText(7))]
    #[case::exit_too_large(r#"{"type":"exit","exit_code":256}"#, Meaning::Nothing)]
    #[case::exit_negative(r#"{"type":"exit","exit_code":-1}"#, Meaning::Nothing)]
    #[case::exit_as_text(r#"{"type":"exit","exit_code":"0"}"#, Meaning::Nothing)]
    #[case::exit_missing(r#"{"type":"exit"}"#, Meaning::Nothing)]
    #[case::exit_fraction(r#"{"type":"exit","exit_code":0.5}"#, Meaning::Nothing)]
    #[case::debug(r#"{"type":"debug","msg":"keepalive"}"#, Meaning::Nothing)]
    #[case::port(r#"{"type":"port_opened","port":80}"#, Meaning::Nothing)]
    #[case::new_type(r#"{"type":"surprise"}"#, Meaning::UnknownKind)]
    #[case::garbage("not json", Meaning::UnknownKind)]
    #[case::array("[]", Meaning::UnknownKind)]
    fn text_messages(#[case] message: &str, #[case] meaning: Meaning) {
        assert_eq!(text(message), meaning);
    }

    proptest! {
        #[test]
        fn only_one_shape_is_an_exit(message in proptest::collection::vec(any::<u8>(), 0..64)) {
            let meaning = binary(&Bytes::from(message.clone()));
            match meaning {
                Ok(Meaning::Exit(code)) => prop_assert_eq!(message, vec![EXIT, code]),
                Err(_) => prop_assert!(message[0] == EXIT && message.len() != 2),
                Ok(_) => prop_assert!(message.first() != Some(&EXIT)),
            }
        }

        #[test]
        fn any_text_is_survived(message in any::<String>()) {
            let _ = text(&message);
        }

        #[test]
        fn stdin_is_whole_and_in_order(data in proptest::collection::vec(any::<u8>(), 0..100_000)) {
            let data = Bytes::from(data);
            let mut joined = Vec::new();
            for frame in stdin(&data) {
                prop_assert!(frame[0] == STDIN && frame.len() > 1 && frame.len() <= STDIN_CHUNK + 1);
                joined.extend_from_slice(&frame[1..]);
            }
            prop_assert_eq!(joined, data.to_vec());
        }
    }
}
