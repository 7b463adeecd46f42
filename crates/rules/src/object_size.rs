//! Whether an object still fits the store: its size as the API server writes it, counted and not guessed.
//!
//! The API server keeps custom resources as JSON as Go's encoding/json writes it, which spells some characters longer than
//! others do; etcd takes requests of 1.5 MiB by default. Must not cut anything: it only counts.

use std::io;

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter};

/// The largest object that is offered, in bytes: 1.4 MiB. The rest of etcd's limit is for what the request adds.
pub const OBJECT_MAX: usize = 1_468_006;
/// Room kept for the status when a Run is admitted, in bytes.
pub const STATUS_ROOM: usize = 256 << 10;

/// Whether an object of this size leaves room for its status.
pub const fn has_room_for_status(size: usize) -> bool {
    size.saturating_add(STATUS_ROOM) <= OBJECT_MAX
}

/// Whether an object of this size can be stored.
pub const fn fits(size: usize) -> bool {
    size <= OBJECT_MAX
}

/// Bytes of an object as the API server stores it; nothing where it cannot be written as JSON.
pub fn stored_size<T: Serialize>(object: &T) -> Option<usize> {
    let mut counter = Counter(0);
    object.serialize(&mut serde_json::Serializer::with_formatter(&mut counter, AsGo)).ok()?;
    Some(counter.0)
}

/// Bytes of a text inside a JSON string, without the quotes around it.
pub fn escaped_size(text: &str) -> usize {
    text.chars().map(char_size).sum()
}

const fn char_size(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        // Go writes \b and \f so since 1.22, and six characters before.
        '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => 6,
        c => c.len_utf8(),
    }
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes as much as Go would; what it writes is not read.
struct AsGo;

impl Formatter for AsGo {
    fn write_string_fragment<W: io::Write + ?Sized>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        writer.write_all(fragment.as_bytes())?;
        writer.write_all(" ".repeat(escaped_size(fragment).saturating_sub(fragment.len())).as_bytes())
    }

    fn write_char_escape<W: io::Write + ?Sized>(&mut self, writer: &mut W, escape: CharEscape) -> io::Result<()> {
        let size = match escape {
            CharEscape::Quote
            | CharEscape::ReverseSolidus
            | CharEscape::Solidus
            | CharEscape::LineFeed
            | CharEscape::CarriageReturn
            | CharEscape::Tab => 2,
            CharEscape::Backspace | CharEscape::FormFeed | CharEscape::AsciiControl(_) => 6,
        };
        writer.write_all(" ".repeat(size).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    #[rstest]
    #[case("plain", 5)]
    #[case("\u{20ac}", 3)]
    #[case("\u{1f600}", 4)]
    #[case("\"\\\n\r\t", 10)]
    #[case("<>&", 18)]
    #[case("\0\u{1f}\u{8}\u{c}", 24)]
    #[case("\u{2028}\u{2029}", 12)]
    #[case("\u{7f}/", 2)]
    fn a_text_takes_as_many_bytes_as_go_writes(#[case] text: &str, #[case] bytes: usize) {
        assert_eq!(escaped_size(text), bytes);
        assert_eq!(stored_size(&text), Some(bytes + 2), "the same inside an object, with its quotes");
    }

    #[test]
    fn an_object_is_as_long_as_its_json() {
        let object = json!({"spec": {"a": [1, true, null, "x"], "b": 1.5}, "status": {}});
        assert_eq!(stored_size(&object), Some(object.to_string().len()));
    }

    #[test]
    fn an_admitted_object_leaves_room_for_its_status() {
        assert_eq!((OBJECT_MAX, STATUS_ROOM), (1_468_006, 262_144));
        assert!(has_room_for_status(OBJECT_MAX - STATUS_ROOM) && !has_room_for_status(OBJECT_MAX - STATUS_ROOM + 1));
        assert!(fits(OBJECT_MAX) && !fits(OBJECT_MAX + 1));
        assert!(!has_room_for_status(usize::MAX));
    }

    proptest! {
        #[test]
        fn counting_a_text_inside_an_object_or_alone_is_the_same(text in "\\PC*|[\\x00-\\x7f\u{2028}]*") {
            prop_assert_eq!(stored_size(&text), Some(escaped_size(&text) + 2));
            prop_assert!(escaped_size(&text) >= text.len());
        }
    }
}
