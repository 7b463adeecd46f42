//! The bytes of non-TTY exec: one type byte, then the payload. Pure.

use bytes::Bytes;

/// No output frame is larger, type byte included.
pub(crate) const LARGEST_FRAME: usize = 32 * 1024;

const STDIN: u8 = 0x00;
const STDOUT: u8 = 0x01;
const STDERR: u8 = 0x02;
const EXIT: u8 = 0x03;
const STDIN_EOF: u8 = 0x04;

/// Where output came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// What a client may send in binary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Input {
    Data(Bytes),
    End,
}

/// A frame of output; `data` must fit in one.
pub(crate) fn output(stream: Stream, data: &[u8]) -> Bytes {
    let kind = match stream {
        Stream::Stdout => STDOUT,
        Stream::Stderr => STDERR,
    };
    let mut frame = Vec::with_capacity(data.len() + 1);
    frame.push(kind);
    frame.extend_from_slice(data);
    frame.into()
}

/// Whether an output frame is of standard output.
pub(crate) fn is_stdout(frame: &[u8]) -> bool {
    frame.first() == Some(&STDOUT)
}

/// The last frame.
pub(crate) fn exit(code: u8) -> Bytes {
    vec![EXIT, code].into()
}

/// Reads a client's frame; none when it is no input.
pub(crate) fn input(mut frame: Bytes) -> Option<Input> {
    match frame.first() {
        Some(&STDIN) => Some(Input::Data(frame.split_off(1))),
        Some(&STDIN_EOF) => Some(Input::End),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_on_the_wire() {
        assert_eq!(output(Stream::Stdout, b"a")[..], [1, b'a']);
        assert_eq!(output(Stream::Stderr, b"")[..], [2]);
        assert_eq!(exit(255)[..], [3, 255]);
        assert_eq!(input(Bytes::from_static(&[4])), Some(Input::End));
        assert_eq!(input(Bytes::from_static(&[0])), Some(Input::Data(Bytes::new())));
        assert_eq!(input(Bytes::from_static(&[1, 2])), None);
        assert_eq!(input(Bytes::new()), None);
    }

    proptest! {
        #[test]
        fn input_is_kept_byte_for_byte(data: Vec<u8>) {
            let frame: Bytes = [&[0], &data[..]].concat().into();
            prop_assert_eq!(input(frame), Some(Input::Data(data.into())));
        }
    }
}
