//! Classes of bytes, looked up: the scanner asks for them at every byte.

/// Letters, digits and `_`: a word.
pub(super) const WORD: u8 = 1;
/// Also `+/-`: a run that could be base64.
pub(super) const RUN: u8 = 2;
/// Also `.=:~,`: any token.
pub(super) const TOKEN: u8 = 4;
/// Letters, digits and `_.-`: a name.
pub(super) const NAME: u8 = 8;
/// Nothing begins here, whatever stands round it.
pub(super) const PLAIN: u8 = 16;

static CLASSES: [u8; 256] = classes();

#[expect(clippy::indexing_slicing, reason = "evaluated when compiled; the index of a table of 256 is a byte")]
const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0_u8;
    loop {
        table[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => WORD | RUN | TOKEN | NAME,
            b'-' => RUN | TOKEN | NAME,
            b'+' => RUN | TOKEN | PLAIN,
            b'/' => RUN | TOKEN,
            b'.' => TOKEN | NAME | PLAIN,
            b'~' => TOKEN | PLAIN,
            b'=' | b':' | b',' => TOKEN,
            b' ' | b'\t' | b'>' | b'%' | b'\\' | 0x1b => 0,
            _ => PLAIN,
        };
        if byte == u8::MAX {
            return table;
        }
        byte += 1;
    }
}

/// Whether a byte is of a class.
pub(super) fn is(byte: u8, class: u8) -> bool {
    CLASSES.get(usize::from(byte)).is_some_and(|classes| classes & class != 0)
}

/// How many bytes of a class the text begins with.
pub(super) fn len(text: &[u8], class: u8) -> usize {
    text.iter().position(|byte| !is(*byte, class)).unwrap_or(text.len())
}

/// How many bytes of a class the text ends with.
pub(super) fn tail_len(text: &[u8], class: u8) -> usize {
    text.iter().rev().position(|byte| !is(*byte, class)).unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_has_these_bytes() {
        let letters: Vec<u8> = (b'0'..=b'9').chain(b'A'..=b'Z').chain(b'a'..=b'z').collect();
        for (class, signs) in [(WORD, "_"), (RUN, "_+/-"), (TOKEN, "_+/-.=:~,"), (NAME, "_-.")] {
            for byte in 0..=u8::MAX {
                let expected = letters.contains(&byte) || signs.as_bytes().contains(&byte);
                assert_eq!(is(byte, class), expected, "{class} {byte}");
            }
        }
        for byte in 0..=u8::MAX {
            let begins = letters.contains(&byte) || b"_-/=:, \t>%\\\x1b".contains(&byte);
            assert_eq!(is(byte, PLAIN), !begins, "{byte}");
        }
    }
}
