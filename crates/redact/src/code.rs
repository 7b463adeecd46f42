//! What stands behind the name of a secret in programs and is none: numbers, expressions, paths, words for secrets.
//!
//! Recognises each by its form. Must mask a text when it is not certain that the text is code.

use super::key;

/// A number that no secret is: in decimals of three digits at the most, in hexadecimals of C of eight, with the signs of an expression.
pub(super) fn is_small_number(value: &str) -> bool {
    let value = value.trim_start_matches(['(', '-', '+', '~']).trim_end_matches([')', ';', ',']);
    // A bit of an enumeration: `1<<3`.
    if let Some((one, by)) = value.split_once("<<") {
        return !by.contains("<<") && is_small_number(one) && is_small_number(by);
    }
    let plain = value.trim_end_matches(['u', 'U', 'l', 'L']);
    match plain.strip_prefix("0x").or_else(|| plain.strip_prefix("0X")) {
        Some(digits) => (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => (1..=3).contains(&plain.len()) && plain.bytes().all(|b| b.is_ascii_digit()),
    }
}

/// A call, an index, a member: code, not text.
pub(super) fn is_expression(value: &str, after: &[u8]) -> bool {
    let head = value.split(['(', '[', '<', '{']).next().unwrap_or_default();
    if value.ends_with('-') && after.starts_with(b">") {
        return true;
    }
    let opens = head.len() < value.len() || matches!(after.first(), Some(b'(' | b'[' | b'<' | b'{'));
    let path = |text: &str| {
        // `:crypto.random(` of Elixir.
        let start = text.starts_with(|c: char| c.is_ascii_alphabetic() || "_&*:".contains(c));
        start && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:&*>-!?".contains(&b))
    };
    let member = value.contains('.') || value.contains("->") || value.contains("::");
    let segments = value.split(['.', ':', '>', '-']).filter(|s| !s.is_empty());
    let plain = segments.clone().all(|s| s.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_'));
    (opens && path(head)) || (member && plain && path(value) && segments.count() > 1 && !holds_jumble(value))
}

/// Behind `= `, a negation, `!headers.authorization;`, or the first of a list, `[listener.fileno(), other]`: a name of letters that is
/// called, or one with a member, and what goes on behind it.
pub(super) fn is_negation_or_list(text: &[u8]) -> bool {
    let line = text.get(..text.iter().position(|byte| *byte == b'\n').unwrap_or(text.len())).unwrap_or_default();
    let Some((sign @ (b'!' | b'['), rest)) = line.split_first() else { return false };
    let len = rest.iter().take_while(|byte| byte.is_ascii_alphabetic() || b"_.".contains(byte)).count();
    let (path, after) = rest.split_at_checked(len).unwrap_or_default();
    let names = path.split(|byte| *byte == b'.');
    if names.clone().any(<[u8]>::is_empty) {
        return false;
    }
    match after.first() {
        Some(b'(') => after.contains(&b')'),
        // A negation in its line alone could be a password of a file of settings.
        Some(next) => names.count() > 1 && if *sign == b'!' { b";,) " } else { &b",]"[..] }.contains(next),
        None => false,
    }
}

/// The value of `credentials: kEnumerableProperty,`.
pub(super) fn is_property(value: &[u8]) -> bool {
    let capital = value.iter().any(u8::is_ascii_uppercase);
    value.first().is_some_and(u8::is_ascii_lowercase) && capital && value.iter().all(u8::is_ascii_alphabetic)
}

/// No word of a name is longer.
const LONGEST_WORD: usize = 14;

/// Whether letters are words, as in names of code: none very long, and not very short ones alone.
pub(super) fn is_words(name: &str) -> bool {
    let words = key::words(name);
    let letters: usize = words.iter().map(String::len).sum();
    words.iter().all(|word| word.len() <= LONGEST_WORD) && (words.len() < 4 || letters * 2 >= words.len() * 7)
}

/// Whether a part of a path of names is long and no name: letters of a token.
pub(super) fn holds_jumble(path: &str) -> bool {
    path.contains('.') && path.split('.').any(|part| part.len() >= 16 && !is_words(part))
}

/// Behind `= `, where a shell has no blank, a constant: `SEC_ERROR_BASE`; or what is assigned once more: `a = b = c`.
pub(super) fn is_assigned(value: &[u8], after: &[u8]) -> bool {
    let plain = value.strip_suffix(b";").unwrap_or(value);
    let constant = plain.contains(&b'_')
        && plain.first().is_some_and(u8::is_ascii_uppercase)
        && plain.iter().all(|byte| byte.is_ascii_uppercase() || *byte == b'_');
    let name = value.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.".contains(byte));
    let jumble = || std::str::from_utf8(value).is_ok_and(holds_jumble);
    constant || name && value.contains(&b'.') && after.starts_with(b" = ") && !jumble()
}

/// A longer name is rare, a phrase is not.
const LONGEST_NAME: usize = 24;

/// `user, password = split(url)`: names alone stand before the sign and behind it.
pub(super) fn is_unpacked(behind: &[u8], value: &[u8], after: &[u8]) -> bool {
    let line = key::tail(behind, |byte| byte != b'\n');
    let names =
        line.contains(&b',') && line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_., \t".contains(byte));
    let name = value.len() <= LONGEST_NAME
        && value.iter().all(|byte| byte.is_ascii_lowercase() || *byte == b'_')
        && std::str::from_utf8(value).is_ok_and(is_words);
    names && name && matches!(after.first(), None | Some(b'\n' | b'\r'))
}

/// In backquotes, a path of a program: `runs::starts`.
pub(super) fn is_path(value: &[u8]) -> bool {
    let segment = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_lowercase())
            && part.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    std::str::from_utf8(value).is_ok_and(|value| value.contains("::") && value.split("::").all(segment))
}

/// In quotes, where no person chose it: a colour.
pub(super) fn is_colour(value: &str) -> bool {
    let digits = value.strip_prefix('#').unwrap_or_default();
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// In quotes: a word for a secret, as in `KDF_PARAM_PASSWORD "pass"`; the kind of a block of PEM; a regular expression; a scheme
/// with a reference behind it.
pub(super) fn is_word(value: &str) -> bool {
    let word = value.eq_ignore_ascii_case("pass");
    let block = value.ends_with(" PRIVATE KEY")
        && value.bytes().all(|byte| byte.is_ascii_uppercase() || b" 0123456789".contains(&byte));
    let expression = value.starts_with("(?:");
    word || block || expression || is_scheme_of_reference(value)
}

/// `Basic ${…}`, `Bearer ${token}`: where the reference is all that follows, or a call in it. Texts in it are masked alone.
fn is_scheme_of_reference(value: &str) -> bool {
    let rest = value.strip_prefix("Basic ").or_else(|| value.strip_prefix("Bearer "));
    let inner = rest.and_then(|rest| rest.strip_prefix("${"));
    inner.is_some_and(|inner| match inner.split_once('}') {
        Some((name, behind)) => {
            behind.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.()'\":".contains(&b))
        }
        None => is_expression(inner, b""),
    })
}
