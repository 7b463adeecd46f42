//! Passwords in URLs: `scheme://user:password@host`.
//!
//! A password may hold `:`, `@` and `/` where a tool did not escape them. Must not take a port, or an `@` in a path, for
//! a password.

use super::value::{MaskEnd, UnquotedValue};

/// How far a URL is looked at; a password that goes on further is masked to the end of the word.
const LOOK: usize = 1024;

/// What of a URL is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Userinfo {
    /// Bytes kept from `://` on.
    pub keep: usize,
    /// Where the mask ends.
    pub until: MaskEnd,
}

/// Bytes of `://…` that can hold user, password and host.
pub(super) fn authority_len(text: &[u8]) -> usize {
    let rest = text.get(3..LOOK.min(text.len())).unwrap_or_default();
    3 + rest.iter().take_while(|b| !ends_token(**b) && !b"/?#".contains(b)).count()
}

fn ends_token(byte: u8) -> bool {
    byte.is_ascii_whitespace() || b"\"'`<>\\".contains(&byte)
}

/// Looks at `://…`.
pub(super) fn password(text: &[u8]) -> Option<Userinfo> {
    let window = text.len() >= LOOK;
    let rest = text.get(..LOOK).unwrap_or(text).strip_prefix(b"://")?;
    let token_len = rest.iter().take_while(|b| !ends_token(**b)).count();
    let token = rest.get(..token_len)?;
    let authority = token.get(..token.iter().position(|b| b"/?#".contains(b)).unwrap_or(token_len))?;
    let user = authority.iter().position(|b| *b == b':' || *b == b'@').unwrap_or(authority.len());
    match authority.get(user) {
        Some(b':') => {
            let end = password_end(token, authority.len(), user)
                .or_else(|| (window && token_len == rest.len()).then_some(token_len))?;
            let password = token.get(user + 1..end)?;
            if password.is_empty() || password == super::MASK.as_bytes() || is_placeholder(password) {
                return None;
            }
            let keep = if authority.get(..user).is_some_and(is_token) { 3 } else { 3 + user + 1 };
            let until = if end == token_len {
                MaskEnd::UnquotedValue(UnquotedValue::Word)
            } else {
                MaskEnd::Count(3 + end - keep)
            };
            Some(Userinfo { keep, until })
        }
        Some(b'@') => is_token(authority.get(..user)?).then_some(Userinfo { keep: 3, until: MaskEnd::Count(user) }),
        _ => None,
    }
}

/// A token in place of a user: long, with digits.
fn is_token(name: &[u8]) -> bool {
    let part = |b: &u8| b.is_ascii_alphanumeric() || b"_-".contains(b);
    name.len() >= 20 && name.iter().any(u8::is_ascii_digit) && name.iter().all(part)
}

/// Where the password ends: at the last `@` that a host follows.
fn password_end(token: &[u8], authority: usize, user: usize) -> Option<usize> {
    let port = token.get(user + 1..authority)?;
    let in_authority = port.iter().rposition(|b| *b == b'@').map(|at| user + 1 + at);
    if in_authority.is_none() && port.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let path = token.iter().position(|b| b"?#".contains(b)).unwrap_or(token.len());
    let last = |until: usize| {
        // None is before the user's end.
        let candidates = token.get(..until)?.iter().enumerate().filter(|(_, b)| **b == b'@');
        // The masked password of another URL in this one is not the end of ours.
        let candidates = candidates.filter(|(at, _)| {
            let before = token.get(user..*at).unwrap_or_default();
            !before.ends_with(super::MASK.as_bytes()) || !before.windows(3).any(|w| w == b"://")
        });
        candidates.map(|(at, _)| at).rfind(|at| token.get(at + 1..).is_some_and(is_host))
    };
    last(path).or(in_authority).or_else(|| last(token.len()))
}

/// Whether a host stands here: a name with a dot, `localhost`, or an address in brackets; or a name with a port.
fn is_host(text: &[u8]) -> bool {
    let len = text.iter().take_while(|b| b.is_ascii_alphanumeric() || b"-._".contains(b)).count();
    let (name, rest) = text.split_at(len);
    let port = rest.first() == Some(&b':') && rest.get(1).is_some_and(u8::is_ascii_digit);
    text.first() == Some(&b'[') || name == b"localhost" || (len > 0 && port) || name.contains(&b'.')
}

/// `$PASSWORD`, `${…}`, `<password>`, `{{…}}`, `***`, `%s`.
fn is_placeholder(password: &[u8]) -> bool {
    let named = |b: u8| b.is_ascii_alphanumeric() || b"_${}.() ".contains(&b);
    let reference = matches!(password.first(), Some(b'$' | b'{'))
        && password.iter().all(|b| named(*b))
        && !matches!(password.get(1), Some(b'0'..=b'9'));
    reference
        || password.iter().all(|b| *b == b'*')
        || password == b"%s"
        || password.iter().all(|b| matches!(b, b'x' | b'X' | b'.'))
}
