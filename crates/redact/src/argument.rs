//! Values that follow a blank or stand in an argument: options, SQL, `.netrc`, Dockerfiles, setters, attributes.
//!
//! Where a program takes a secret behind a letter (`-u`, `-p`), only in a line that names the program. Must not guess from
//! a letter alone.

use super::authorization::kept_of_cookies;
use super::key::{self, Key, Kind};
use super::scan::{Program, Scanner};
use super::value::{self, MaskEnd, UnquotedValue};
use super::window::{LOOKBEHIND, Place, Step};
use super::{Rule, class};

/// Words that a name and its value follow.
pub(super) const DEFINING: [&[u8]; 7] = [b"ENV", b"ARG", b"#define", b"setx", b"set", b"-gx", b"-Ux"];

/// How far a user is looked at that a password follows.
const USER: usize = 256;

impl Scanner {
    /// A blank with the option or the word before it that a secret follows.
    pub(super) fn argument(&mut self, place: Place<'_>) -> Option<Step> {
        let last = place.behind.get(place.behind.len() - class::tail_len(place.behind, class::NAME)..)?;
        let last = key::unescaped(last, place.behind);
        if last.len() < 2 || last.len() > 64 {
            return None;
        }
        let before = place.behind.get(..place.behind.len() - last.len())?;
        let password = last.eq_ignore_ascii_case(b"password");
        let by = last.eq_ignore_ascii_case(b"by");
        let previous = key::trim_end(before, b" \t");
        let defined = DEFINING.iter().any(|word| previous.ends_with(word));
        if !last.starts_with(b"-") && !password && !by && !defined {
            return None;
        }
        let opening = value::open(place.ahead, false);
        let content = place.ahead.get(opening.skip..)?;
        let content = content.get(..value::LOOK).unwrap_or(content);
        // `["x --token "], 1, "x"`: the quote ends a string.
        if opening.quote == Some((b'"', 0)) && value::closes(content) {
            return None;
        }
        if last.starts_with(b"-") {
            return self.option(last, &opening, content, place);
        }
        // C writes a text in quotes: what has none is a number, a name or an expression.
        if opening.quote.is_none() && previous.ends_with(b"define") {
            return None;
        }
        // In backquotes it is code in prose.
        if matches!(opening.quote, Some((b'`', _))) || content.starts_with(b"`") {
            return None;
        }
        // In prose something else may be identified by a text.
        let account = || {
            let line = key::tail(previous, |b| b != b'\n').to_ascii_lowercase();
            [&b"user"[..], b"grant", b"role", b"account"]
                .iter()
                .any(|word| line.windows(word.len()).any(|w| w == *word))
        };
        let identified = by && key::trim_breaks(before).to_ascii_lowercase().ends_with(b"identified");
        let word = content.iter().take_while(|b| !b"\"'".contains(b)).all(u8::is_ascii_alphabetic);
        let told = |quote| quote == b'\'' || !word || last.starts_with(b"B") || account() || sets_password(place);
        let sql = opening.quote.is_some_and(|(quote, _)| password || identified && told(quote));
        let netrc = password && {
            let login = key::tail(previous, |b| !b.is_ascii_whitespace());
            let line = key::trim_end(previous.get(..previous.len() - login.len())?, b" \t");
            let above = previous.strip_suffix(b"\n").map(|text| key::tail(text, |b| b != b'\n').trim_ascii_start());
            line.ends_with(b"login") || above.is_some_and(|line| line.starts_with(b"login "))
        };
        if !sql && !netrc && !defined {
            return None;
        }
        let key =
            key::preceding_key(place.behind, place.begins).filter(|k| matches!(k.kind, Kind::Human | Kind::Machine));
        if !sql && key.is_none() {
            return None;
        }
        let loud = Key { loud: true, kind: Kind::Human, ..key.unwrap_or_else(known) };
        self.given(&loud, &opening, content, UnquotedValue::Word)
    }

    /// `- --password` with the value in the next line, as in the arguments of a container.
    pub(super) fn listed(&mut self, place: Place<'_>) -> Option<Step> {
        let item = place.ahead.strip_prefix(b"-").filter(|item| item.starts_with(b" "))?;
        let line = key::trim_end(place.behind, b" ");
        let above = key::trim_breaks(line);
        if above.len() == line.len() {
            return None;
        }
        let key = key::preceding_key(above, false).filter(|key| key.flag && !key.query)?;
        let name = key::tail(above, |b| class::is(b, class::NAME) || b"\\\"'".contains(&b));
        above.get(..above.len() - name.len())?.ends_with(b"- ").then_some(())?;
        let opening = value::open(item, false);
        let content = item.get(opening.skip..)?;
        if content.starts_with(b"-") && opening.quote.is_none() {
            return None;
        }
        let content = content.get(..value::LOOK).unwrap_or(content);
        let (len, until) = value_until(&opening, content, UnquotedValue::Word);
        // Alone in its line: else it is prose.
        let rest = key::trim_end(content.get(len..value::line_len(content)).unwrap_or_default(), b" \r\"'");
        // A line may end in a string of JSON.
        (rest.is_empty() || matches!(rest.first(), Some(b'\\' | b'"' | b'\''))).then_some(())?;
        value::plausible(&key, content.get(..len)?, opening.quote.is_some(), content.get(len..)?)
            .then(|| self.mask(1 + opening.skip, until, Rule::Assignment))
    }

    fn option(&mut self, last: &[u8], opening: &value::Opening, content: &[u8], place: Place<'_>) -> Option<Step> {
        if content.starts_with(b"-") && opening.quote.is_none() {
            return None;
        }
        // A column of a text that tells of options.
        if opening.quote.is_none() && opening.skip >= 3 {
            return None;
        }
        if last == b"--cookie" || last == b"-b" && self.program == Some(Program::User) {
            let keep = opening.skip + kept_of_cookies(content)?;
            let (_, until) = value_until(opening, content, UnquotedValue::Word);
            return Some(self.mask(keep, until, Rule::Authorization));
        }
        let named = matches!(last, b"--user" | b"--proxy-user" | b"-U" | b"-a" | b"--auth");
        let letters = !last.starts_with(b"--") && last.len() <= 6 && last.ends_with(b"u");
        let user = self.program == Some(Program::User) && (named || letters);
        if user {
            let (whole, until) = value_until(opening, content, UnquotedValue::Word);
            let head = content.get(..whole.min(USER))?;
            let name = head.iter().take_while(|b| !b.is_ascii_whitespace() && !b":\"'".contains(b)).count();
            if name == USER {
                // No user is so long, and where it ends is not seen: all of it goes.
                return Some(self.mask(opening.skip, until, Rule::Assignment));
            }
            // What stands here may be a URL, which has its own user and password.
            let secret = content.get(name..)?.strip_prefix(b":").filter(|rest| !rest.starts_with(b"//"))?;
            let (len, until) = value_until(opening, secret, UnquotedValue::Word);
            let found = secret.get(..len)?;
            value::plausible(&known(), found, opening.quote.is_some(), secret.get(len..)?).then_some(())?;
            // The user is read as any text: it may be a token.
            self.password = Some((opening.skip + name + 1, until));
            return Some(Step::Keep(1));
        }
        let password = matches!(self.program, Some(Program::Password | Program::Either));
        let short = password && last == b"-p" || self.program == Some(Program::Auth) && last == b"-a";
        if short {
            return self.given(&known(), opening, content, UnquotedValue::Word);
        }
        let key = key::preceding_key(place.behind, place.begins)?;
        matches!(key.kind, Kind::Human | Kind::Machine).then_some(())?;
        self.given(&key, opening, content, UnquotedValue::Word)
    }

    /// Masks a value that is certainly meant as one.
    fn given(&mut self, key: &Key, opening: &value::Opening, content: &[u8], bare: UnquotedValue) -> Option<Step> {
        let (len, until) = value_until(opening, content, bare);
        let found = content.get(..len)?;
        value::plausible(key, found, opening.quote.is_some(), content.get(len..)?)
            .then(|| self.mask(opening.skip, until, Rule::Assignment))
    }

    /// `-psecret` of mysql, `-uname:secret` of curl.
    pub(super) fn attached_option(&mut self, word: &[u8], place: Place<'_>) -> Option<Step> {
        let text = place.ahead;
        let opens = place.behind.ends_with(b" -") || place.behind.ends_with(b"\t-");
        let (user, name) = match (self.program, word.first()) {
            (Some(Program::Glued), Some(b'p')) => (false, 1),
            // What it runs has options of its own.
            (Some(Program::Either), Some(b'p')) if place.behind.ends_with(b"sshpass -") => (false, 1),
            (Some(Program::User), Some(b'u')) if opens => (true, word.len() + 1),
            _ => return None,
        };
        let secret = text.get(name..).filter(|_| !user || text.get(word.len()) == Some(&b':')).unwrap_or_default();
        let len = UnquotedValue::Word.len(secret);
        let found = secret.get(..len)?;
        let url = user && secret.starts_with(b"//");
        let given = opens && len >= 3 && !url && value::plausible(&known(), found, false, &[]);
        let until = MaskEnd::UnquotedValue(UnquotedValue::Word);
        if user {
            // Behind the letter the user begins, and is read as any text: it may be a token.
            self.password = given.then_some((name, until)).or(self.password);
            return Some(Step::Keep(1));
        }
        given.then(|| self.mask(name, until, Rule::Assignment))
    }

    /// `setenv("API_KEY", "…")`
    pub(super) fn setter(&mut self, place: Place<'_>) -> Option<Step> {
        let key = key::preceding_key(place.behind, place.begins)
            .filter(|key| key.quoted && (key.item || key.flag && key.first))?;
        let opening = value::open(place.ahead.get(1..)?, true);
        let (quote, slashes) = opening.quote?;
        let content = place.ahead.get(1 + opening.skip..)?;
        let found = content.get(..value::quoted_len(content, quote, slashes))?;
        let digit = found.iter().any(u8::is_ascii_digit) && found.len() >= 6;
        (digit && value::plausible(&key, found, true, &[]))
            .then(|| self.mask(1 + opening.skip, MaskEnd::Quote(quote, slashes), Rule::Assignment))
    }
}

/// Whether the statement of SQL up to here is one that gives an account a password, as far as it is in sight.
fn sets_password(place: Place<'_>) -> bool {
    let statement = key::tail(place.behind, |byte| byte != b';').to_ascii_lowercase();
    // Behind the mask of another account of the statement.
    let masked = !place.begins && place.behind.len() < LOOKBEHIND && statement.len() == place.behind.len();
    let listed = || statement.iter().find(|byte| !b"\\\"'".contains(byte)) == Some(&b',');
    let mut words = statement.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let objects = [&b"user"[..], b"users", b"role", b"login", b"link", b"account", b"password"];
    let verbs = [&b"create"[..], b"alter", b"set", b"replace"];
    let granted = words.clone().any(|word| word == b"grant");
    granted
        || masked && listed()
        || words.any(|word| verbs.contains(&word)) && words.any(|word| objects.contains(&word))
}

/// How far the password of a data source name is looked at.
const DSN: usize = 48;

/// The password in `:password@tcp(`, as drivers of Go take it.
pub(super) fn data_source(text: &[u8]) -> Option<usize> {
    let rest = text.strip_prefix(b":")?;
    // A glance tells it of most text.
    if rest.first().is_none_or(|byte| b" \"':\t\n[{".contains(byte)) {
        return None;
    }
    let rest = rest.get(..rest.len().min(DSN)).filter(|rest| rest.contains(&b'@'))?;
    let word = rest.iter().take(DSN).take_while(|b| !b.is_ascii_whitespace() && !b"\"'`\\".contains(b)).count();
    let networks = [&b"@tcp("[..], b"@tcp6(", b"@unix("];
    // The last `@` counts, as for the driver.
    (1..word).rfind(|at| rest.get(*at..).is_some_and(|text| networks.iter().any(|name| text.starts_with(name))))
}

/// How long a value is, and where its mask ends.
fn value_until(opening: &value::Opening, content: &[u8], bare: UnquotedValue) -> (usize, MaskEnd) {
    match opening.quote {
        Some((quote, slashes)) => (value::quoted_len(content, quote, slashes), MaskEnd::Quote(quote, slashes)),
        None => (bare.len(content), MaskEnd::UnquotedValue(bare)),
    }
}

/// The name in `- name: API_KEY` and `{"name": "API_KEY", "value":`, whose value comes: of the environment of containers, of tags,
/// of stacks (`ParameterKey`). What the parameter store of AWS calls a `SecureString` is one whatever its name.
pub(super) fn sibling(behind: &[u8]) -> Option<Key> {
    let blank = key::trim_breaks;
    let (inner, quote) = unquoted(blank(behind));
    let labels = [&b"ParameterValue"[..], b"value", b"Value"];
    let before = labels.iter().find_map(|word| inner.strip_suffix(*word))?;
    let before = opened(before, quote);
    let before = blank(before);
    let before = blank(before.strip_suffix(b",").unwrap_or(before));
    let (inner, name_quote) = unquoted(before);
    let slashes = inner_slashes(behind);
    let secret = Key { quoted: quote.is_some(), json: quote == Some(b'"'), slashes, ..known() };
    if inner.ends_with(b"SecureString") {
        return Some(secret);
    }
    let name = inner.get(inner.len() - class::tail_len(inner, class::NAME)..)?;
    let before = opened(inner.get(..inner.len() - name.len())?, name_quote);
    let before = blank(blank(before).strip_suffix(b":")?);
    let (label, label_quote) = unquoted(before);
    let rest =
        [&b"ParameterKey"[..], b"name", b"Name", b"key", b"Key"].iter().find_map(|word| label.strip_suffix(*word))?;
    let alone = label_quote.is_some() || !rest.last().is_some_and(|byte| class::is(*byte, class::NAME));
    let kind = key::kind(std::str::from_utf8(name).ok()?, false)?;
    alone.then_some(Key { kind, ..secret })
}

/// Without the quote at its end and the backslashes before it.
fn unquoted(text: &[u8]) -> (&[u8], Option<u8>) {
    match text.split_last() {
        Some((quote @ (b'"' | b'\''), rest)) => (key::trim_end(rest, b"\\"), Some(*quote)),
        _ => (text, None),
    }
}

/// Without the quote that opens what was taken off.
fn opened(text: &[u8], quote: Option<u8>) -> &[u8] {
    let Some(quote) = quote else { return text };
    key::trim_end(text.strip_suffix(&[quote]).unwrap_or(text), b"\\")
}

/// Backslashes before the quote at the end: how deep the JSON is nested.
fn inner_slashes(text: &[u8]) -> usize {
    let inner = key::trim_end(text, b" \t").strip_suffix(b"\"").unwrap_or_default();
    inner.len() - key::trim_end(inner, b"\\").len()
}

/// The name in `key="ApiKey" value`, whose value comes.
pub(super) fn attribute(behind: &[u8]) -> Option<Key> {
    let before = key::trim_end(behind.strip_suffix(b"value").or_else(|| behind.strip_suffix(b"VALUE"))?, b" ");
    // In a string of JSON its quotes are escaped.
    let text = key::trim_end(before.strip_suffix(b"\"")?, b"\\");
    let name = key::tail(text, |b| b.is_ascii_alphanumeric() || b"_.-:".contains(&b));
    let tag = key::trim_end(text.get(..text.len() - name.len())?.strip_suffix(b"\"")?, b"\\").strip_suffix(b"=")?;
    let names = [&b" key"[..], b" name", b" Key", b" Name"].iter().any(|word| tag.ends_with(word));
    let kind = key::kind(std::str::from_utf8(name).ok()?, false)?;
    names.then(|| Key { kind, ..known() })
}

/// `-passin pass` of openssl.
pub(super) fn passed(behind: &[u8]) -> Option<Key> {
    let options = [&b"-passin pass"[..], b"-passout pass", b"-pass pass"];
    options.iter().any(|option| behind.ends_with(option)).then(known)
}

/// The key of a value that stands at a known place.
pub(super) fn known() -> Key {
    Key {
        kind: Kind::Human,
        name: String::new(),
        quoted: false,
        json: false,
        slashes: 0,
        loud: true,
        flag: true,
        query: false,
        first: false,
        line: false,
        item: false,
        open: None,
        setting: false,
        indexed: false,
        comment: false,
        indent: 0,
    }
}
