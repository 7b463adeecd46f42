//! Credentials of HTTP headers: `Authorization`, `Cookie`, and a scheme that no header names.
//!
//! The scheme stays readable, what follows it goes. Must not take prose about a scheme for one.

use super::key::{self, Key, Kind};
use super::scan::Scanner;
use super::value::{self, MaskEnd, UnquotedValue};
use super::window::{Place, Step};
use super::{MASK, Rule, shape, template};

impl Scanner {
    pub(super) fn authorization(&mut self, key: &Key, sign: usize, after: &[u8]) -> Option<Step> {
        let opening = value::open(after, key.quoted);
        let content = after.get(opening.skip..)?;
        let word = content.iter().take(32).take_while(|b| b.is_ascii_alphanumeric() || b"-_".contains(b)).count();
        let blanks = content.get(word..)?.iter().take(8).take_while(|b| **b == b' ').count();
        let scheme = content.get(..word)?;
        // Without parameters it is read as a scheme that nobody knows.
        let digest = scheme.eq_ignore_ascii_case(b"digest");
        if digest && let Some(step) = self.digest(sign + opening.skip + word, content.get(word..)?) {
            return Some(step);
        }
        let known = blanks > 0 && is_scheme(scheme);
        // A scheme that nobody knows: with one word behind it, it is no sentence.
        let odd = !known && blanks > 0 && word > 0 && is_one_word(content.get(word + blanks..)?);
        let skip = if known || odd { word + blanks } else { 0 };
        let secret = content.get(skip..)?;
        let bare = if key.quoted && opening.quote.is_none() { UnquotedValue::Item } else { UnquotedValue::Word };
        let len = bare.len(secret);
        let found = secret.get(..len)?;
        let loud = Key { loud: known, kind: if known { Kind::Authorization } else { Kind::Machine }, ..key.clone() };
        if !value::plausible(&loud, found, opening.quote.is_some() && known, secret.get(len..)?) {
            return None;
        }
        if key.json && opening.quote.is_none() && sign == 1 {
            // A collection is no value: what is in it has quotes of its own.
            if content.starts_with(b"[") || content.starts_with(b"{") {
                return None;
            }
            return Some(self.dressed(key, sign + opening.skip, UnquotedValue::Item, Rule::Authorization));
        }
        let one = scheme.eq_ignore_ascii_case(b"bearer") || scheme.eq_ignore_ascii_case(b"basic");
        let until = if one || !known { MaskEnd::UnquotedValue(bare) } else { MaskEnd::Header };
        Some(self.mask(sign + opening.skip + skip, until, Rule::Authorization))
    }

    /// `Digest username="bob", response="…"`: what is signed stays, the signature is masked when it comes.
    fn digest(&mut self, before: usize, parameters: &[u8]) -> Option<Step> {
        let parameters = parameters.get(..value::LOOK).unwrap_or(parameters);
        let name = b"response=";
        let at = parameters.windows(name.len()).position(|window| window == name)? + name.len();
        let quotes = parameters.get(at..)?.iter().take(8).take_while(|b| b"\\\"".contains(b)).count();
        let found = parameters.get(at + quotes..)?;
        let len = found.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
        let given = len >= 6 && !found.starts_with(MASK.as_bytes());
        given.then(|| {
            self.password = Some((before + at + quotes, MaskEnd::Run(b"")));
            Step::Keep(1)
        })
    }

    pub(super) fn cookie(&mut self, sign: usize, after: &[u8], colon: bool) -> Option<Step> {
        let opening = value::open(after, false);
        let keep = kept_of_cookies(after.get(opening.skip..)?).filter(|_| colon)?;
        Some(self.mask(sign + opening.skip + keep, MaskEnd::Header, Rule::Authorization))
    }

    /// `Bearer …` and `Basic …` where no header is named.
    pub(super) fn scheme(&mut self, word: &[u8], text: &[u8]) -> Option<Step> {
        let bearer = word.eq_ignore_ascii_case(b"bearer") || word == b"FlyV1";
        if !bearer && !word.eq_ignore_ascii_case(b"basic") {
            return None;
        }
        let rest = text.get(word.len()..)?;
        let blanks = rest.iter().take(8).take_while(|b| **b == b' ').count();
        let after = rest.get(blanks..)?;
        // What is joined in a template: its texts are secrets, its variables none.
        if let Some(inner) = after.strip_prefix(b"${").filter(|_| blanks > 0) {
            let (from, until) = template::texts(inner)?;
            self.password = Some((word.len() + blanks + 2 + from, until));
            return Some(Step::Keep(word.len()));
        }
        let run = |more: &[u8]| after.iter().take_while(|b| b.is_ascii_alphanumeric() || more.contains(b)).count();
        let len = if bearer {
            run(b"-._~+/=,")
        } else {
            // Padding ends base64, whatever is attached_option to it.
            let digits = run(b"+/");
            digits + after.get(digits..)?.iter().take(2).take_while(|b| **b == b'=').count()
        };
        let len = shape::until_mask(after.get(..len)?);
        let token = after.get(..len)?;
        let digit = token.iter().any(u8::is_ascii_digit);
        let mixed = token.iter().any(u8::is_ascii_uppercase) && token.iter().any(u8::is_ascii_lowercase);
        let fits = if bearer { len >= 8 && (digit || (len >= 20 && mixed)) } else { is_basic(token) };
        let refers = std::str::from_utf8(token).is_ok_and(value::is_reference);
        (blanks > 0 && fits && !refers)
            .then(|| self.mask(word.len() + blanks, MaskEnd::Run(b"-._~+/=,"), Rule::Authorization))
    }
}

/// Whether the value ends with its first word.
fn is_one_word(text: &[u8]) -> bool {
    let rest = text.get(UnquotedValue::Word.len(text)..).unwrap_or_default();
    rest.first().is_none_or(|byte| !matches!(byte, b' ' | b'\t'))
}

fn is_scheme(word: &[u8]) -> bool {
    const SCHEMES: [&[u8]; 13] = [
        b"bearer",
        b"basic",
        b"token",
        b"negotiate",
        b"ntlm",
        b"apikey",
        b"api-key",
        b"key",
        b"flyv1",
        b"hawk",
        b"aws4-hmac-sha256",
        b"genie-key",
        b"dpop",
    ];
    SCHEMES.iter().any(|scheme| word.eq_ignore_ascii_case(scheme))
}

impl Scanner {
    /// `"auth": "…"` of Docker's configuration: user and password in base64.
    pub(super) fn credentials(&mut self, place: Place<'_>) -> Option<Step> {
        let name = key::trim_end(key::trim_end(place.behind, b" ").strip_suffix(b"\"")?, b"\\");
        let open = name.strip_suffix(b"auth")?.ends_with(b"\"");
        let opening = value::open(place.ahead.get(1..)?, true);
        let (quote, slashes) = opening.quote.filter(|_| open)?;
        let keep = 1 + opening.skip;
        let content = place.ahead.get(keep..)?;
        let found = content.get(..value::quoted_len(content, quote, slashes))?;
        is_basic(found).then(|| self.mask(keep, MaskEnd::Quote(quote, slashes), Rule::Authorization))
    }
}

/// Cookies are looked at so far.
const COOKIES: usize = 512;

/// How much of `theme=dark; sid=…` is kept: up to the first value that is long enough for a secret. All behind it goes.
pub(super) fn kept_of_cookies(content: &[u8]) -> Option<usize> {
    let content = content.get(..COOKIES + value::LOOK).unwrap_or(content);
    let mut at = 0;
    while at < COOKIES {
        let pair = content.get(at..)?;
        let len = pair.iter().take(128).take_while(|b| b.is_ascii_alphanumeric() || b"_.-".contains(b)).count();
        let (name, rest) = pair.split_at_checked(len)?;
        let (equals, found) = rest.split_first()?;
        if name.is_empty() || *equals != b'=' {
            return None;
        }
        let old = found.starts_with(MASK.as_bytes());
        let token = name.starts_with(b"-") || value::holds_token(name);
        // What stands in place of a name may be a token itself, or an option with its value.
        if !old && UnquotedValue::Word.len(found) >= 6 {
            return Some(if token { at } else { at + len + 1 });
        }
        let value = found.iter().take_while(|b| !b.is_ascii_whitespace() && !b";\"'\\".contains(b)).count();
        let blanks = found.get(value..)?.strip_prefix(b";")?.iter().take_while(|b| **b == b' ').count();
        if token {
            return None;
        }
        at += len + 1 + value + 1 + blanks;
    }
    None
}

/// Whether it is `user:password` in base64.
fn is_basic(token: &[u8]) -> bool {
    use base64::{
        Engine,
        engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig},
        engine::{DecodePaddingMode, general_purpose::PAD},
    };
    let config: GeneralPurposeConfig =
        PAD.with_decode_padding_mode(DecodePaddingMode::Indifferent).with_decode_allow_trailing_bits(true);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, config);
    // A multiple of four: what is cut is base64 all the same.
    let text = token.get(..512).unwrap_or(token);
    let decoded = engine.decode(text).unwrap_or_default();
    // `echo` ends it with a line break.
    let plain = decoded.trim_ascii_end();
    token.len() >= 6 && plain.contains(&b':') && plain.iter().all(|b| *b >= 0x20)
}
