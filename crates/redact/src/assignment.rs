//! Values given to names: in JSON, YAML, code and shells, parameters of URLs, connection strings, elements of XML.
//!
//! Finds the sign, the name before it and the value behind it; what a name is says [`key`], whether a value may be a secret
//! says [`value`]. Must not look beyond the place it is given.

use super::argument::{attribute, passed, sibling};
use super::code;
use super::key::{self, Key, Kind};
use super::scan::{Mode, Scanner};
use super::value::{self, MaskEnd, UnquotedValue};
use super::window::{Place, Step};
use super::{MASK, Rule};

impl Scanner {
    /// `=`, `:`, `:=`, `=>`, `==` with the name of a secret before it.
    pub(super) fn assignment(&mut self, place: Place<'_>) -> Option<Step> {
        let text = place.ahead;
        // `=` in a part of a URL that is encoded once more.
        let encoded = text.starts_with(b"%3D") || text.starts_with(b"%3d");
        // In `PASSWORD=:x` the colon is of the value.
        let of_value = text.starts_with(b"=:");
        let sign = match text {
            _ if encoded => 3,
            _ if of_value => 1,
            _ => text.iter().take(3).take_while(|b| b":=>".contains(b)).count(),
        };
        let signs = text.get(..sign)?;
        if sign == 0 || signs.starts_with(b"::") || signs.ends_with(b":") && sign > 1 {
            return None;
        }
        // In `arn:aws:secretsmanager:…:secret:name` it is a kind of resource.
        if signs == b":"
            && key::tail(place.behind, |b| b.is_ascii_alphanumeric() || b":-".contains(&b)).starts_with(b"arn:")
        {
            return None;
        }
        let key = key::preceding_key(place.behind, place.begins)
            .or_else(|| attribute(place.behind).filter(|_| signs == b"="))
            .or_else(|| passed(place.behind).filter(|_| signs == b":"))
            .or_else(|| sibling(place.behind).filter(|_| signs == b":"))?;
        // Elsewhere what follows is a placeholder of SQL, a symbol, or how a text of Python is filled.
        if of_value && !(key.loud && key.line) {
            return None;
        }
        let key = Key { query: key.query || encoded, ..key };
        let after = text.get(sign..)?;
        let colon = signs == b":";
        let compared = signs.starts_with(b"==");
        // In code: a shell has no blank there, and what is given to an option or a name in capitals is a value.
        let assigned = signs == b"=" && after.starts_with(b" ") && !key.loud && !key.query;
        if assigned && code::is_negation_or_list(after.get(..value::LOOK).unwrap_or(after).trim_ascii_start()) {
            return None;
        }
        match key.kind {
            Kind::Authorization => self.authorization(&key, sign, after),
            Kind::Cookie => self.cookie(sign, after, colon),
            Kind::Human | Kind::Machine => self.value(&key, signs, after, compared, place.behind),
        }
    }

    fn value(&mut self, key: &Key, signs: &[u8], after: &[u8], compared: bool, behind: &[u8]) -> Option<Step> {
        let colon = signs == b":";
        let opening = value::open(after, colon && key.quoted);
        let content = after.get(opening.skip..)?;
        // Whether it is a secret shows in its head.
        let content = content.get(..value::LOOK).unwrap_or(content);
        let keep = signs.len() + opening.skip;
        if let Some((quote, slashes)) = opening.quote {
            // In a line of its own: else the string round it may be one of JSON, whose end counts.
            let tripled = opening.tripled && (quote == b'"' || key.line);
            let len = if tripled {
                let end = content.windows(3).position(|w| w == [quote; 3]).unwrap_or(content.len());
                end.min(64)
            } else {
                value::quoted_len(content, quote, slashes)
            };
            let found = content.get(..len)?;
            // `assert 'secret' == 'hunter'`: what is compared with a text is another text.
            if ends(key, content, (quote, slashes)) || compared && key.quoted && !key.indexed {
                return None;
            }
            if quote == b'`' && key.kind == Kind::Machine && code::is_path(found) {
                return None;
            }
            let until = if tripled { MaskEnd::Tripled(quote) } else { MaskEnd::Quote(quote, slashes) };
            return value::plausible(key, found, true, &[]).then(|| {
                // `"old" -> "new"` of a plan: both are secrets.
                if content.get(len..).is_some_and(|rest| rest.starts_with(b"\" -> \"")) {
                    self.password = Some((keep + len + 6, until));
                }
                self.mask(keep, until, Rule::Assignment)
            });
        }
        if compared || colon && key.json && (content.starts_with(b"[") || content.starts_with(b"{")) {
            return None;
        }
        if colon && matches!(content.first(), Some(b'|' | b'>')) {
            return self.block(key, keep, content);
        }
        // `x.password = (p).next + 1` in code: a shell has no blank there.
        let blank = signs == b"=" && opening.skip > 0;
        if blank && content.starts_with(b"(") {
            return None;
        }
        let bare = if key.query {
            UnquotedValue::Query
        } else if key.setting && signs == b"=" {
            UnquotedValue::Setting
        } else if key.loud && key.line && !colon {
            UnquotedValue::Line
        } else {
            UnquotedValue::Item
        };
        let len = bare.len(content);
        let (found, rest) = content.split_at_checked(len)?;
        if blank && (code::is_assigned(found, rest) || code::is_unpacked(behind, found, rest)) {
            return None;
        }
        let object = key.name == "credentials" && key::trim_end(behind, b" \t").ends_with(b"credentials");
        if colon && object && rest.first() == Some(&b',') && code::is_property(found) {
            return None;
        }
        // `PASSWORD=:$NAME`, and what a part of a URL holds encoded, may be references.
        let given = if signs == b"=" { found.strip_prefix(b":").unwrap_or(found) } else { found };
        if key.query && value::is_encoded_reference(found) {
            return None;
        }
        // ` * @SAE_PASSWORD: attribute for passing a password` of a comment.
        let about = colon && key.comment && rest.first() == Some(&b' ');
        if about {
            return None;
        }
        if !value::plausible(key, given, false, rest) {
            return colon.then(|| self.phrase(key, keep, content)).flatten();
        }
        if colon && key.json {
            return Some(self.dressed(key, keep, UnquotedValue::Item, Rule::Assignment));
        }
        let phrase = colon && key.line && !key.quoted && key.kind == Kind::Human && !rest.starts_with(b"\\");
        let until = if phrase && !rest.starts_with(b" #") && !rest.starts_with(b"\r") {
            MaskEnd::Line
        } else {
            MaskEnd::UnquotedValue(bare)
        };
        Some(self.mask(keep, until, Rule::Assignment))
    }

    /// In JSON a number has no quotes, a mask must.
    pub(super) fn dressed(&mut self, key: &Key, keep: usize, bare: UnquotedValue, rule: Rule) -> Step {
        self.mode = Mode::Masked(MaskEnd::UnquotedValue(bare));
        Step::Mask(keep, rule, value::quote(key.slashes))
    }

    /// `password: correct horse battery` in a line of its own.
    fn phrase(&mut self, key: &Key, keep: usize, content: &[u8]) -> Option<Step> {
        // Behind a name in quotes an expression stands more often.
        if !key.line || key.quoted || key.kind != Kind::Human {
            return None;
        }
        let line = content.get(..value::line_len(content))?.trim_ascii_end();
        let end = line.windows(2).position(|w| w == b" #").unwrap_or(line.len());
        let phrase = line.get(..end)?.trim_ascii_end();
        let words = phrase.contains(&b' ')
            && !phrase.ends_with(b" bytes")
            && phrase.iter().all(|b| b.is_ascii_alphanumeric() || b" -_!?.".contains(b));
        (words && value::plausible(key, phrase, false, &[]))
            .then(|| self.mask(keep, MaskEnd::Count(phrase.len()), Rule::Assignment))
    }

    /// `password: |` with the value in the lines below.
    fn block(&mut self, key: &Key, keep: usize, content: &[u8]) -> Option<Step> {
        let head = content.iter().take(4).take_while(|b| b"|>+-0123456789".contains(b)).count();
        let lines = content.get(head..)?.strip_prefix(b"\n")?;
        let indent = lines.iter().take_while(|b| **b == b' ').count();
        let masked = lines.get(indent..)?.starts_with(MASK.as_bytes());
        let nested = lines.get(indent..)?.starts_with(b"-----");
        (key.first && indent > key.indent && !masked && !nested)
            .then(|| self.mask(keep + head + 1 + indent, MaskEnd::Block(key.indent), Rule::Assignment))
    }

    /// `<password>…</password>`
    pub(super) fn element(&mut self, place: Place<'_>) -> Option<Step> {
        let name = value::element(place.behind)?;
        let content = place.ahead.get(1..)?;
        let len = content.iter().position(|b| *b == b'<').unwrap_or(content.len());
        let (found, rest) = content.split_at_checked(len)?;
        let closes = rest.strip_prefix(b"</").is_some_and(|rest| rest.starts_with(name));
        // Two strings of a list hold the tags, not one the element.
        let parted = found.windows(2).any(|w| matches!(w, b"\"," | b"\":" | b"\"}" | b"\"]"));
        let old = found == MASK.as_bytes() || found.starts_with(b"$");
        let given = closes && !parted && !old && !found.trim_ascii().is_empty();
        given.then(|| self.mask(1, MaskEnd::Element, Rule::Assignment))
    }
}

/// Whether a quote before this ends a string in which the name stands, and opens no value: `["?sig="], 1, "x"`,
/// `print("Password: " + word)`.
fn ends(key: &Key, content: &[u8], (quote, slashes): (u8, usize)) -> bool {
    if key.quoted {
        return key.json && quote == b'"' && slashes < key.slashes;
    }
    let opened = slashes == 0 && key.open == Some(quote);
    (quote == b'"' && value::closes(content)) || opened && content.starts_with(b" ")
}
