//! Ordinary text: how many bytes there are from a place on at which the scanner would do nothing.
//!
//! Most text is of this kind, and is passed at once in place of a step for each word. A shortcut, never a decision: where
//! something could begin it ends, and the scanner looks; so the output is the same with and without it, which a test
//! checks. Must not look further ahead than [`MARGIN`], or results would depend on how the text was cut.

use super::argument::{DEFINING, data_source};
use super::key::{self, TYPES};
use super::scan::Program;
use super::window::Place;
use super::{MASK, WINDOW_LOOKAHEAD, class, scan, shape};

/// What is looked at beyond a place.
const MARGIN: usize = 64;

/// Bytes that are kept from here on, where the scanner is in nothing.
pub(super) fn len(place: Place<'_>, program: Option<Program>) -> usize {
    let text = place.ahead;
    let limit = if text.len() < WINDOW_LOOKAHEAD { text.len() } else { WINDOW_LOOKAHEAD - MARGIN };
    // The name that ends at a place may have begun before this one.
    let open = place.behind.last().is_some_and(|byte| class::is(*byte, class::NAME));
    let mut at = 0;
    while at < limit {
        let Some(first) = text.get(at) else { break };
        // The line of a program ends.
        if class::is(*first, class::PLAIN) && (*first != b'\n' || program.is_none()) {
            at += 1;
            continue;
        }
        let (Some(before), Some(rest)) = (text.get(..at), text.get(at..)) else { break };
        let count = match first {
            byte if class::is(*byte, class::WORD) => word(rest, program),
            b' ' | b'\t' => usize::from(!argument(before, open, place.behind)),
            // A bullet of a line that an option may stand above.
            b'-' if rest.starts_with(b"- ") && bullet(key::trim_end(before, b" ")) => 0,
            b'-' => usize::from(!rest.starts_with(b"----")),
            b'/' => usize::from(!rest.starts_with(b"/9j/")),
            b':' if rest.starts_with(b"://") || data_source(rest).is_some() => 0,
            b':' | b'=' | b',' | b'>' => usize::from(!named(before, open)),
            b'\\' | 0x1b => scan::escape_len(rest),
            _ => 0,
        };
        if count == 0 {
            break;
        }
        at += count;
    }
    at
}

/// Bytes of a word that is too short for a token and means nothing by itself; none where it may mean something.
fn word(text: &[u8], program: Option<Program>) -> usize {
    let token = text.get(..shape::SHORTEST).unwrap_or(text);
    let len = class::len(token, class::WORD);
    if token.get(len).is_none_or(|byte| class::is(*byte, class::TOKEN))
        && class::len(token, class::TOKEN) >= shape::SHORTEST
    {
        return 0;
    }
    let word = token.get(..len).unwrap_or_default();
    let masked = len >= MASK.len() && word.contains(&b'R');
    let scheme = match len {
        4 => word == b"data",
        5 => word == b"FlyV1" || word.eq_ignore_ascii_case(b"basic"),
        6 => word.eq_ignore_ascii_case(b"bearer"),
        _ => false,
    };
    // What may stand attached_option to a letter option.
    let attached_option = match program {
        Some(Program::Glued | Program::Either) => word.starts_with(b"p"),
        Some(Program::User) => word.starts_with(b"u"),
        Some(Program::Password | Program::Registry | Program::Auth) | None => false,
    };
    if masked || scheme || attached_option || scan::program(word, program).is_some() { 0 } else { len }
}

/// Whether a blank after this could have an argument after it.
fn argument(before: &[u8], open: bool, behind: &[u8]) -> bool {
    let name = before.get(before.len() - class::tail_len(before, class::NAME)..).unwrap_or_default();
    if open && name.len() == before.len() {
        return true;
    }
    if name.len() < 2 {
        return false;
    }
    // Behind a line break that is escaped, too.
    let asks = name.starts_with(b"-")
        || name.get(1) == Some(&b'-')
            && before.get(..before.len() - name.len()).is_some_and(|text| text.ends_with(b"\\"))
        || (name.len() == 2 && name.eq_ignore_ascii_case(b"by"))
        || (name.len() == 8 && name.eq_ignore_ascii_case(b"password"));
    asks || {
        let previous = key::trim_end(before.get(..before.len() - name.len()).unwrap_or_default(), b" ");
        let defines = |text: &[u8]| DEFINING.iter().any(|word| text.ends_with(word));
        match previous.last() {
            None => defines(key::trim_end(behind, b" ")),
            // The longest of these words has 7 letters, and may have begun before this place.
            Some(b'V' | b'G' | b'e' | b'x' | b't') => previous.len() < 7 || defines(previous),
            Some(_) => false,
        }
    }
}

/// Whether a line may begin behind this.
fn bullet(before: &[u8]) -> bool {
    before.last().is_none_or(|byte| *byte == b'\n') || before.ends_with(b"\\n")
}

/// Whether the last name before a sign could be that of a secret.
fn named(before: &[u8], open: bool) -> bool {
    let gap = before.iter().rev().take_while(|byte| b" \t?+]\"'\\".contains(byte)).count();
    let inner = before.get(..before.len() - gap).unwrap_or_default();
    let name = inner.get(inner.len() - class::tail_len(inner, class::NAME)..).unwrap_or_default();
    if name.len() == inner.len() && (open || inner.is_empty()) {
        return true;
    }
    let value = name.ends_with(b"alue") || name.ends_with(b"VALUE");
    value || key::may_name(name) || TYPES.iter().any(|known| known.as_bytes() == name)
}
