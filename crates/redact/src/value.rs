//! Values: where one begins and ends, and whether it may be a secret.
//!
//! A reference to a secret (`$TOKEN`, `{{ password }}`), a type, a call or the name of another value is none. In doubt it
//! is one. Must not look further than the place it is given.

use super::code::{self, is_expression, is_small_number};
use super::key::{self, Key, Kind};
use super::{MASK, class, opaque, shape};

/// How far a value is looked at; where it ends is found while it is dropped.
pub(super) const LOOK: usize = 512;

/// Where a mask ends: what is dropped up to there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MaskEnd {
    /// A closing quote after so many backslashes, or the end of the line.
    Quote(u8, usize),
    /// Three quotes of this kind.
    Tripled(u8),
    /// A blank, a quote, or another byte that ends a word of this kind.
    UnquotedValue(UnquotedValue),
    /// The end of the line or the quotes round it.
    Header,
    /// The end of the line.
    Line,
    /// The end of a block that is indented further than this.
    Block(usize),
    /// A `<`.
    Element,
    /// The end of a run of letters, digits and these.
    Run(&'static [u8]),
    /// So many bytes.
    Count(usize),
    /// The end line of a private key; in a string also the end of the string.
    Key {
        /// The key is in one line, its line breaks escaped.
        escaped: bool,
    },
    /// Base64 in one or more lines.
    Base64,
}

/// What ends a value without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnquotedValue {
    /// A blank or a quote: a token, of which commas may be part.
    Word,
    /// Also `,;&)}]<>|`: a value among others.
    Item,
    /// Also `&` and `#`: a parameter of a URL.
    Query,
    /// A blank: the value of a line of its own.
    Line,
    /// `;` or a quote, not a blank: a setting of a connection string.
    Setting,
}

impl UnquotedValue {
    /// How many bytes of a value there are before it ends, and whether it ends there for certain.
    pub(super) fn len(self, text: &[u8]) -> usize {
        let mut at = 0;
        while let Some(byte) = text.get(at) {
            match byte {
                b'\n' | b'\r' => break,
                b' ' | b'\t' if self != Self::Setting => break,
                b';' if self == Self::Setting => break,
                b'"' | b'\'' | b'`' if self != Self::Line => break,
                b'\\' => match escape(text.get(at..).unwrap_or_default()) {
                    Some(len) => {
                        at += len;
                        continue;
                    }
                    None => break,
                },
                b',' | b';' | b')' | b'}' | b']' | b'<' | b'>' | b'|' if self == Self::Item => break,
                b'&' if matches!(self, Self::Item | Self::Query) => break,
                b'#' | b'<' | b'>' if self == Self::Query => break,
                b'%' if self == Self::Query && text.get(at..).is_some_and(|rest| rest.starts_with(b"%26")) => break,
                b';' | b'&' | b'|' if self == Self::Line && text.get(at + 1).is_none_or(u8::is_ascii_whitespace) => {
                    break;
                }
                b'&' | b'|' if self == Self::Line && text.get(at + 1) == Some(byte) => break,
                _ => {}
            }
            at += 1;
        }
        at.min(text.len())
    }
}

/// Bytes of an escape that belong to a value: a pair; none where it is an escaped quote or line break.
fn escape(text: &[u8]) -> Option<usize> {
    let slashes = text.iter().take(64).take_while(|b| **b == b'\\').count();
    match text.get(slashes) {
        Some(b'"' | b'\'') => None,
        Some(b'n' | b'r' | b't') if slashes == 1 => None,
        _ => Some(2),
    }
}

/// How a value begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opening {
    /// Bytes before the value itself: blanks, a prefix, quotes.
    pub skip: usize,
    /// The quote and the backslashes before it.
    pub quote: Option<(u8, usize)>,
    /// The quote stands three times.
    pub tripled: bool,
}

/// Finds the begin of a value.
pub(super) fn open(text: &[u8], lines: bool) -> Opening {
    let blank = |b: &&u8| matches!(**b, b' ' | b'\t') || (lines && matches!(**b, b'\n' | b'\r'));
    let blanks = text.iter().take(256).take_while(blank).count();
    let rest = text.get(blanks..).unwrap_or_default();
    // `f"…"`, `rb"…"`, `$'…'`, `@"…"`
    let prefix = rest.iter().take(2).take_while(|b| b"frbuRFBU$@&".contains(b)).count();
    let slashes = |at: usize| rest.get(at..).unwrap_or_default().iter().take(64).take_while(|b| **b == b'\\').count();
    for at in [prefix, 0] {
        let slashes = slashes(at);
        if let Some(quote @ (b'"' | b'\'' | b'`')) = rest.get(at + slashes) {
            let after = rest.get(at + slashes..).unwrap_or_default();
            let tripled = slashes == 0 && after.starts_with(&[*quote; 3]);
            let skip = blanks + at + slashes + if tripled { 3 } else { 1 };
            return Opening { skip, quote: Some((*quote, slashes)), tripled };
        }
    }
    Opening { skip: blanks, quote: None, tripled: false }
}

/// Bytes of a quoted value before its closing quote or the end of the line.
pub(super) fn quoted_len(text: &[u8], quote: u8, depth: usize) -> usize {
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'\n' => break,
            b if *b == quote && depth == 0 => match text.get(at + 1..) {
                // YAML and SQL double a quote that is meant, a shell leaves the quotes for it.
                Some(rest) if quote == b'\'' && at > 0 && rest.starts_with(b"'") => at += 2,
                Some(rest) if quote == b'\'' && rest.starts_with(b"\\''") => at += 4,
                _ => break,
            },
            // The string round the value ends.
            b'"' if depth > 0 => break,
            b'"' if quote != b'"' && ends_string(text.get(at + 1..).unwrap_or_default()) => break,
            b'\\' => {
                let slashes = text.get(at..).unwrap_or_default().iter().take_while(|b| **b == b'\\').count();
                let quoted = text.get(at + slashes) == Some(&quote);
                let ends = quote != b'"' && text.get(at + slashes) == Some(&b'"');
                if ends && (depth > 0 || ends_string(text.get(at + slashes + 1..).unwrap_or_default())) {
                    break;
                }
                if quoted && slashes < depth {
                    break;
                }
                // A backslash at the end, `\\"`: not the value's quote, but that of a string round it.
                let round = |level: &usize| *level < depth && slashes % (2 * level + 2) == *level;
                if let Some(level) = [0, 1, 3, 7].into_iter().find(round).filter(|_| quoted && quote == b'"') {
                    return at + slashes - level;
                }
                if quoted && slashes % (2 * depth + 2) == depth {
                    return at + slashes - depth;
                }
                // An escaped quote is the value's own.
                at += slashes + usize::from(quoted);
            }
            _ => at += 1,
        }
    }
    at.min(text.len())
}

/// Whether a `"` before this ends a string of JSON.
fn ends_string(after: &[u8]) -> bool {
    after.first().is_none_or(|b| b",:}]\n\\".contains(b))
}

/// Whether a `"` before this is the end of a string of JSON, and opens no value: what goes on there is JSON.
pub(super) fn closes(after: &[u8]) -> bool {
    let next = after.get(1);
    match after.first() {
        None => true,
        Some(b']' | b'}') => next.is_none_or(|byte| b",]} \t\r\n".contains(byte)),
        Some(b',' | b':') => next.is_none_or(|byte| b" \t\r\n\"[{-0123456789tfn".contains(byte)),
        Some(_) => false,
    }
}

/// Words that stand for a value or say something about one.
const KEYWORDS: &str = " and any arg args argument as bool boolean bytes const created data default denied disabled does empty \
    enabled enter error expired failed false file flag for from generated has hash hidden if in include \
    incorrect input int integer invalid is it key known let line match mismatch missing must name \
    new nil no none not null number object of off omit on option optional options or password provided raw \
    redacted required response result self sensitive set should str string text the this to too true \
    type unchanged undefined unexpected unknown unset use used using valid value var void was will \
    with wrong yes you your ";
/// Those of them that a phrase may begin with.
const CODE_WORDS: [&str; 5] = ["argument", "as", "flag", "if", "options"];
/// Longer than any of them.
const LONGEST_KEYWORD: usize = 12;

fn is_keyword(word: &str) -> bool {
    word.len() <= LONGEST_KEYWORD && KEYWORDS.split(' ').any(|known| !known.is_empty() && known == word)
}

/// Parts of names: a value that holds one is the name of another value.
const NAMING: [&str; 11] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "api_key",
    "privatekey",
    "private_key",
    "credential",
    "pwd",
];

/// Whether a value may be a secret.
pub(super) fn plausible(key: &Key, value: &[u8], quoted: bool, after: &[u8]) -> bool {
    // Where what is looked at ends, a character may be parted.
    let value =
        std::str::from_utf8(value).or_else(|end| std::str::from_utf8(value.get(..end.valid_up_to()).unwrap_or(b"")));
    let Ok(value) = value else { return true };
    // Before a host it is the password of a URL, before a backslash a header ended there.
    let masked = value.strip_prefix(MASK).is_some_and(|rest| rest.is_empty() || rest.starts_with(['@', '\\']));
    // Where brackets end a value, they end it inside.
    let bracketed = !quoted && after.starts_with(b"]") && is_placeholder(&format!("{value}]"));
    if value.is_empty() || masked || bracketed || is_reference(value) {
        return false;
    }
    // `kubectl describe secret` tells how long each is.
    if !quoted && value.bytes().all(|b| b.is_ascii_digit()) && after.starts_with(b" bytes") {
        return false;
    }
    // Names of parts of a system, sizes, bits: `VK_PASSWORD = 0x10`, `(1 << 2)`.
    if !quoted && is_small_number(value) {
        return false;
    }
    // `/etc/nsswitch.conf` says where to look.
    if key.name == "passwd" && !quoted && value.split_whitespace().next().is_some_and(|word| SOURCES.contains(&word)) {
        return false;
    }
    // A working directory; a file that holds them, as in `GOOGLE_APPLICATION_CREDENTIALS`.
    if (key.name == "pwd" && value.starts_with(['/', '~']))
        || (key.name.ends_with("credentials") && value.starts_with('/'))
    {
        return false;
    }
    // A collection begins: `secret: {secretName: x}`.
    if !quoted && value.starts_with(['{', '[']) && value.ends_with(':') {
        return false;
    }
    let colour = key.kind == Kind::Machine && !key.loud && code::is_colour(value);
    if quoted && (code::is_word(value) || colour) {
        return false;
    }
    // The quote closed something: `log('token:', token)`.
    if quoted && [", ", ")", ","].iter().any(|p| value.starts_with(p)) {
        return false;
    }
    let lower = value.to_ascii_lowercase();
    let word = lower.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    // What is aside of the word could else be a value of its own, masked alone: four bytes are none.
    let said = is_keyword(word) && value.len() - word.len() <= 4;
    if said || word.is_empty() && value.len() < 4 || is_repeated(value) {
        return false;
    }
    if value.bytes().any(|b| matches!(b, b' ' | 9..=13 | 128..)) && value.contains(char::is_whitespace) {
        // A sentence about the secret, not the secret.
        let sentence =
            value.split_whitespace().filter(|w| w.chars().all(|c| c.is_alphabetic() || ".,?!:'".contains(c))).count();
        let about = value.split_whitespace().any(|word| speaks_of_a_secret(word, key.loud));
        // A phrase may be a password: only what begins or speaks as prose about one is none.
        let prose = match key.kind {
            // What a setting is given is its value, whatever it says.
            Kind::Human if key.setting => false,
            Kind::Human => {
                let first = lower.split_whitespace().next();
                about || first.is_some_and(|word| is_keyword(word) && !CODE_WORDS.contains(&word))
            }
            Kind::Machine | Kind::Authorization | Kind::Cookie => true,
        };
        // A mask may stand where words of the sentence stood.
        return !(prose && (sentence >= 2 || value.contains(MASK)));
    }
    // A digest is public where it is called one, and a key elsewhere.
    if matches!(value.len(), 40 | 64) && value.bytes().all(|b| b.is_ascii_hexdigit()) {
        return true;
    }
    let digit = value.bytes().any(|b| b.is_ascii_digit());
    let name = value.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.:$>".contains(&b));
    // `password: Secret77`: alone in its line a name of a person's secret is followed by a value.
    let chosen = digit && key.kind == Kind::Human && key.line;
    let naming = name && !chosen && names_a_secret(&lower, key.loud) && !(digit && value.len() > 24);
    if quoted {
        return (!naming || digit) && (key.kind == Kind::Human || key.query || is_random_enough(value, digit));
    }
    if naming && !(key.loud && digit) || is_expression(value, after) {
        return false;
    }
    // A short plain word is no token, whatever the name's letters: `API_TOKEN=bailu`.
    let word = value.len() < 12 && value.bytes().all(|b| b.is_ascii_alphabetic());
    if key.query || key.loud && (key.kind == Kind::Human || key.flag || !word) {
        return true;
    }
    if value.bytes().all(|b| b.is_ascii_digit()) && (value.len() < 4 || key.kind == Kind::Machine) {
        return false;
    }
    match key.kind {
        Kind::Human => {
            digit || !name || value.contains('-') || code::holds_jumble(value) || is_whole(key, value, after)
        }
        Kind::Machine => is_random_enough(value, digit),
        Kind::Authorization | Kind::Cookie => true,
    }
}

/// Where a system looks for users.
const SOURCES: [&str; 9] = ["files", "compat", "db", "systemd", "nis", "nisplus", "ldap", "sss", "hesiod"];

/// A plain word for a secret. Only one that no rule masks counts: else the text would read otherwise the second time.
fn speaks_of_a_secret(word: &str, loud: bool) -> bool {
    let word = word.trim_matches(|c: char| ".,;:!?'\"()`".contains(c));
    let head = word.strip_prefix(|c: char| c.is_ascii_uppercase()).unwrap_or(word);
    let plain = word.len() <= 24 && head.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    plain && names_a_secret(&word.to_ascii_lowercase(), loud)
}

/// Whether a part of a word is that of a name. Behind a name in capitals `private_key` is none: no type stands there.
fn names_a_secret(word: &str, loud: bool) -> bool {
    NAMING.iter().any(|name| word.contains(name) && !(loud && *name == "private_key"))
}

/// A plain word is taken for a password where it is all that is said: `password: hunter`, not `token: unexpected end`.
fn is_whole(key: &Key, value: &str, after: &[u8]) -> bool {
    let ends = after.iter().find(|b| !matches!(b, b' ' | b'\t' | b'\r')).is_none_or(|b| b"\n,}#&".contains(b));
    let typed = value.starts_with(|c: char| c.is_ascii_uppercase())
        && !value.ends_with(|c: char| c.is_ascii_uppercase())
        && code::is_words(value);
    // `a.user, a.password = user, password` in code.
    let member = key.item && !key.first && key.name.contains('.');
    value.len() > 2 && ((key.first || key.item) && ends && !typed && !member)
}

/// Long enough, and not a plain word. A mask in it does not count: what it stands for did not make a secret of it either.
fn is_random_enough(value: &str, digit: bool) -> bool {
    let value = value.replace(MASK, "");
    let upper = value.bytes().skip(1).filter(u8::is_ascii_uppercase).count();
    let lower = value.bytes().any(|b| b.is_ascii_lowercase());
    // `CertificateIssuerPrivateKeyTypes`: words that are joined.
    let joined = value.trim_start_matches('_').bytes().all(|b| b.is_ascii_alphabetic()) && upper * 4 <= value.len();
    if joined {
        return false;
    }
    let short = value.len() < 6;
    let words = value.bytes().all(|b| b.is_ascii_lowercase() || b"_-.".contains(&b)) && !code::holds_jumble(&value);
    !short && (digit || (upper > 3 && lower && value.len() >= 12) || (value.len() >= 24 && !words))
}

/// `$NAME`, `${…}`, `$(…)`, `{{…}}`, `{name}`, `<…>`, `%s`, `:name`, `***`.
///
/// What begins like one and goes on with a token or with letters beyond ASCII is none: masked in part, it would read otherwise.
pub(super) fn is_reference(value: &str) -> bool {
    let named = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic() || "_{(".contains(c));
    let ends_name =
        |rest: &str| rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"_{}()[].:?>-\"' $/@&=".contains(&b));
    if let Some(rest) = value.strip_prefix('$') {
        let shouted = !rest.bytes().any(|b| b.is_ascii_lowercase());
        let digits = rest.bytes().any(|b| b.is_ascii_digit());
        if rest.len() == 1 && rest.starts_with(|c: char| c.is_ascii_digit() || "@#*?".contains(c)) {
            return true;
        }
        return rest.starts_with(['{', '(', '$']) || (named(rest) && ends_name(rest) && (shouted || !digits));
    }
    let all = |c: char| value.chars().all(|d| d == c);
    value.starts_with("{{")
        || (value.starts_with('{') && value.ends_with('}') && ends_name(value))
        || value.starts_with("#{")
        || (value.starts_with('<') && (value.ends_with('>') || value.len() < 3))
        || value.starts_with("%(")
        || is_placeholder(value)
        || value.split([':', '/', '@']).all(|part| matches!(part, "%s" | "%d"))
        || matches!(value, "same-origin" | "include" | "omit")
        || matches!(value, "%s" | "%d" | "%v" | "%q" | "{}" | "?" | "...")
        || value.starts_with("%env(")
        || matches!(value, "process.env" | "os.environ" | "import.meta")
        || [
            "env:",
            "env.",
            "file:",
            "vault:",
            "op://",
            "arn:aws:",
            "secretref:",
            "process.env.",
            "process.env[",
            "process.env?",
            "os.environ.",
            "os.environ[",
            "config.",
            "var.",
            "self.",
            "this.",
            "args.",
            "opts.",
            "import.meta.",
            "ENV[",
        ]
        .iter()
        .any(|p| value.starts_with(p) && value.is_ascii() && !holds_token(value.as_bytes()))
        || value.trim_start_matches(':').bytes().all(|b| b == b'*')
        || all('x')
        || all('X')
        || all('.')
        || all('-')
        || all('•')
        || all('?')
}

/// What programs write in place of a secret, in brackets: `[FILTERED]`, `(hidden)`.
const PLACEHOLDERS: [&str; 9] =
    ["filtered", "redacted", "masked", "hidden", "removed", "secret", "omitted", "sanitized", "scrubbed"];

fn is_placeholder(value: &str) -> bool {
    let inner = value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let inner = inner.or_else(|| value.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')));
    inner.is_some_and(|inner| PLACEHOLDERS.contains(&&*inner.to_ascii_lowercase()))
}

/// The same, each sign of it encoded as in a part of a URL: `%7Btoken%7D`.
pub(super) fn is_encoded_reference(value: &[u8]) -> bool {
    let signs = [("%24", "$"), ("%7B", "{"), ("%7D", "}"), ("%3C", "<"), ("%3E", ">"), ("%2A", "*")];
    let encoded = std::str::from_utf8(value).ok().filter(|value| value.starts_with('%'));
    encoded.is_some_and(|value| {
        let decoded = signs.iter().fold(value.to_owned(), |text, (escape, sign)| {
            text.replace(escape, sign).replace(&escape.to_ascii_lowercase(), sign)
        });
        !decoded.contains('%') && is_reference(&decoded)
    })
}

/// Whether a token stands in it, with other bytes before or behind.
pub(super) fn holds_token(text: &[u8]) -> bool {
    let begins =
        |at: &usize| at.checked_sub(1).and_then(|at| text.get(at)).is_none_or(|byte| !class::is(*byte, class::WORD));
    let token = |at: usize| {
        text.get(at..).is_some_and(|rest| {
            shape::find(rest).is_some() || opaque::is_opaque(rest, text.get(..at).unwrap_or_default())
        })
    };
    (0..text.len()).filter(begins).any(token)
}

fn is_repeated(value: &str) -> bool {
    let mut chars = value.chars();
    let first = chars.next();
    value.len() > 2 && chars.all(|c| Some(c) == first)
}

/// Bytes of the line from here on.
pub(super) fn line_len(text: &[u8]) -> usize {
    text.iter().position(|b| *b == b'\n').unwrap_or(text.len())
}

/// Bytes of a block that is indented further than its name: whole lines, as many as are there.
pub(super) fn block_len(text: &[u8], indent: usize) -> usize {
    let mut at = line_len(text);
    while let Some(rest) = text.get(at + 1..) {
        let blanks = rest.iter().take_while(|b| **b == b' ').count();
        let ends = matches!(rest.get(blanks), Some(b) if *b != b'\n' && *b != b'\r');
        if rest.is_empty() || (ends && blanks <= indent) {
            break;
        }
        at += 1 + line_len(rest);
    }
    at.min(text.len())
}

/// The name of an element whose tag ends at the end of the text, if it is that of a secret: `<password>`.
pub(super) fn element(behind: &[u8]) -> Option<&[u8]> {
    let name = key::tail(behind, |b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    let before = behind.get(..behind.len() - name.len())?;
    let kind = key::kind(std::str::from_utf8(name).ok()?, false)?;
    (before.ends_with(b"<") && matches!(kind, Kind::Human | Kind::Machine)).then_some(name)
}

/// The quote of a string of JSON behind so many backslashes.
pub(super) fn quote(slashes: usize) -> &'static str {
    // Each backslash that is meant is two, four or eight, as deep as it stands, before those of the quote.
    match slashes {
        n if n % 2 == 0 => "\"",
        n if n % 4 == 1 => "\\\"",
        n if n % 8 == 3 => "\\\\\\\"",
        _ => "",
    }
}
