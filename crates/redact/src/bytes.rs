//! Bytes that may be no text: each that is no UTF-8 stands as one character of its own while the text is redacted, and
//! comes back as the byte it was. Must not change anything else.

use std::borrow::Cow;

/// Byte `b` stands as this and `b`, in the private use area: no text means anything by it.
const FIRST: u32 = 0xf700;

fn stands_for_a_byte(c: char) -> bool {
    (FIRST..=FIRST + 0xff).contains(&u32::from(c))
}

/// A text that stands for the bytes.
pub(super) fn to_text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && !text.chars().any(stands_for_a_byte)
    {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    let stand_in = |byte: u8, text: &mut String| text.extend(char::from_u32(FIRST + u32::from(byte)));
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if stands_for_a_byte(c) {
                // Such a character of the text's own stands as its bytes.
                c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| stand_in(byte, &mut text));
            } else {
                text.push(c);
            }
        }
        chunk.invalid().iter().for_each(|byte| stand_in(*byte, &mut text));
    }
    Cow::Owned(text)
}

/// The bytes that a text of [`to_text`] stands for.
pub(super) fn to_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match u8::try_from(u32::from(c).wrapping_sub(FIRST)) {
            Ok(byte) => bytes.push(byte),
            Err(_) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case(b"plain")]
    #[case(b"\xff\xfe\0a\0")]
    #[case(b"cut \xe2\x82")]
    #[case("\u{f700}\u{f7ff}\u{f6ff}\u{f800}".as_bytes())]
    #[case(b"\xef\x9c\x80\xef\x9c")]
    fn bytes_come_back_as_they_were(#[case] bytes: &[u8]) {
        assert_eq!(to_bytes(&to_text(bytes)), bytes);
    }

    #[test]
    fn text_stands_for_itself_beside_bytes_that_are_none() {
        assert_eq!(to_text("password \u{1f600}\u{fffd}".as_bytes()), "password \u{1f600}\u{fffd}");
        assert_eq!(to_text(b"a\xff\xf0\x9f\x98\x80b"), "a\u{f7ff}\u{1f600}b");
    }

    proptest! {
        #[test]
        fn any_bytes_come_back(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0xef), Just(0x9c), Just(0x80)], 0..80)) {
            prop_assert_eq!(to_bytes(&to_text(&bytes)), bytes);
        }
    }
}
