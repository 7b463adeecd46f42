//! Key blocks: `-----BEGIN … PRIVATE KEY-----` to `-----END …-----`.
//!
//! The lines that name the block stay, its body goes; a block without an end goes on to the end of the text. A mere
//! mention of the first line, in quotes or in prose, is no block. Blocks of public things are kept.

use super::MASK;

/// Longest line that names a block.
const LONGEST_HEADER: usize = 80;

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Block {
    /// Bytes up to its body; whether it is in one line, its breaks escaped or gone.
    Private(usize, bool),
    /// Bytes up to its body.
    Public(usize),
}

/// The block that begins here.
pub(super) fn begin(text: &[u8]) -> Option<Block> {
    let dashes = text.iter().take(5).take_while(|b| **b == b'-').count();
    let rest = text.get(dashes..)?.strip_prefix(b" ").unwrap_or(text.get(dashes..)?);
    let label = rest.strip_prefix(b"BEGIN ")?;
    let label_len = label
        .iter()
        .take(LONGEST_HEADER)
        .take_while(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || **b == b' ')
        .count();
    let name = label.get(..label_len)?;
    let close = label.get(label_len..)?.iter().take(5).take_while(|b| **b == b'-').count();
    if dashes < 4 || close < 4 {
        return None;
    }
    let header = text.len() - label.len() + label_len + close;
    let body = text.get(header..)?;
    let private = name.windows(11).any(|w| w == b"PRIVATE KEY");
    if !private {
        return Some(Block::Public(header));
    }
    let blanks = body.iter().take(64).take_while(|b| matches!(b, b' ' | b'\t' | b'\r')).count();
    let body = body.get(blanks..)?;
    let escaped = body.first() == Some(&b'\\')
        && body.iter().take(8).find(|b| **b != b'\\').is_some_and(|b| matches!(b, b'n' | b'r'));
    let bare = body.first().is_some_and(u8::is_ascii_alphanumeric) && !body.starts_with(MASK.as_bytes());
    let masked = body.iter().skip_while(|b| b.is_ascii_whitespace()).take(MASK.len()).eq(MASK.as_bytes());
    let begins = escaped || (bare && super::opaque::run_len(body) >= 16) || (body.first() == Some(&b'\n') && !masked);
    begins.then_some(Block::Private(header, escaped || bare))
}

/// Bytes of a body before its end line, or before the end of the string it is in; and whether it ends there.
pub(super) fn body_len(text: &[u8], escaped: bool) -> (usize, bool) {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let rest = text.get(at..).unwrap_or_default();
        match byte {
            b'-' if rest.starts_with(b"-----END") || rest.starts_with(b"---- END") => return (at, true),
            b'"' | b'\'' if escaped => return (at, true),
            b'\\' if escaped => {
                let slashes = rest.iter().take(64).take_while(|b| **b == b'\\').count();
                if matches!(rest.get(slashes), Some(b'"' | b'\'')) {
                    return (at, true);
                }
                at += slashes;
            }
            _ => at += 1,
        }
    }
    (at.min(text.len()), false)
}

/// Bytes of the line of base64 that begins here, with the break after it: a line of a block that is kept.
pub(super) fn public_line(text: &[u8]) -> Option<usize> {
    let len = text.iter().take(80).take_while(|b| b.is_ascii_alphanumeric() || b"+/=".contains(b)).count();
    let rest = text.get(len..)?;
    let breaks = match rest.first() {
        Some(b'\n') => 1,
        Some(b'\r') => 2,
        Some(b'\\') => {
            let slashes = rest.iter().take(8).take_while(|b| **b == b'\\').count();
            if matches!(rest.get(slashes), Some(b'n' | b'r')) { slashes + 1 } else { return None }
        }
        _ => return None,
    };
    let blanks = rest.get(breaks..)?.iter().take(32).take_while(|b| **b == b' ').count();
    let line = text.get(..len)?;
    let masked = line.windows(MASK.len()).any(|w| w == MASK.as_bytes());
    (len <= 78 && !masked).then_some(len + breaks + blanks)
}
