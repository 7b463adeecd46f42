//! The scanner: at each place of a text, what a reader would see there first.
//!
//! In this order: what is masked already; the scheme of an HTTP authorization; a name with a value (JSON, YAML, shell,
//! options, parameters of URLs, passwords in URLs); well-known tokens; key blocks; long opaque runs. A word is taken as a
//! whole, so that nothing is found in the middle of one. Must not look beyond the place it is given.

use super::argument;
use super::data::{self, Data};
use super::value::{self, MaskEnd};
use super::window::{Pass, Place, Step};
use super::{MASK, Rule, WINDOW_LOOKAHEAD, address, class, opaque, pem, plain, shape};

/// What the scanner is in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Ordinary text.
    #[default]
    Text,
    /// Behind a mask, up to where it ends.
    Masked(MaskEnd),
    /// A run that is kept, with these bytes beside letters and digits.
    Kept(&'static [u8]),
    /// The body of a key block that is kept.
    Public,
    /// Lines of base64, no longer than that, which are kept.
    Data(usize),
}

/// A program whose options take secrets, in the line that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    /// `-u user:password`
    User,
    /// `-p password`
    Password,
    /// The same after `login`.
    Registry,
    /// `-ppassword`
    Glued,
    /// Either of both.
    Either,
    /// `-a password`
    Auth,
}

/// The pass that finds secrets by what they look like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scanner {
    pub(super) mode: Mode,
    /// So many bytes from here on are part of a run that is not opaque.
    judged: usize,
    /// So many bytes from here on could belong to one token.
    reach: usize,
    pub(super) program: Option<Program>,
    /// So many bytes from here a password of a URL, or behind a user, begins.
    pub(super) password: Option<(usize, MaskEnd)>,
    /// So many bytes from here on are of a URL before its path.
    authority: usize,
}

/// The most that is dropped in one step.
const LIMIT: usize = WINDOW_LOOKAHEAD - 160;

impl Pass for Scanner {
    fn ahead(&self) -> usize {
        WINDOW_LOOKAHEAD
    }

    fn step(&mut self, place: Place<'_>) -> Step {
        let plain = if self.is_idle() { plain::len(place, self.program) } else { 0 };
        if plain == 0 {
            return self.look(place);
        }
        self.authority = self.authority.saturating_sub(plain);
        Step::Keep(plain)
    }
}

impl Scanner {
    /// The step without the shortcut over ordinary text.
    pub(super) fn look(&mut self, place: Place<'_>) -> Step {
        if let Some((0, until)) = self.password.take_if(|(distance, _)| *distance == 0) {
            return self.mask(0, until, Rule::UrlPassword);
        }
        let step = self.decide(place);
        let count = match step {
            Step::Keep(count) | Step::Drop(count) => count.max(1),
            Step::Mask(count, ..) => count,
            Step::Old => MASK.len(),
        };
        // As the machine goes on: to the end of a character.
        let parted = place.ahead.iter().skip(count).take_while(|byte| matches!(byte, 0x80..=0xbf)).count();
        let count = count + parted;
        self.judged = if matches!(step, Step::Keep(_)) { self.judged.saturating_sub(count) } else { 0 };
        self.reach = if matches!(step, Step::Keep(_)) { self.reach.saturating_sub(count) } else { 0 };
        self.authority = self.authority.saturating_sub(count);
        // What went over its begin has masked it, or is no URL.
        self.password = self.password.and_then(|(distance, until)| Some((distance.checked_sub(count)?, until)));
        step
    }

    /// Whether what is here is decided by the text alone.
    fn is_idle(&self) -> bool {
        let counts = self.judged == 0 && self.reach == 0 && self.password.is_none();
        counts && matches!(self.mode, Mode::Text)
    }

    fn decide(&mut self, place: Place<'_>) -> Step {
        match self.mode {
            Mode::Text => {}
            Mode::Masked(until) => {
                if let Some(count) = self.drop(until, place) {
                    return Step::Drop(count);
                }
                self.mode = Mode::Text;
            }
            Mode::Kept(alphabet) => {
                let count = shape::run(place.ahead, alphabet);
                if count > 0 {
                    return Step::Keep(count);
                }
                self.mode = Mode::Text;
            }
            Mode::Data(width) => {
                let line = data::line(place.ahead, width);
                if !line.is_some_and(|(_, whole)| whole) {
                    self.mode = Mode::Text;
                }
                if let Some((count, _)) = line {
                    return Step::Keep(count);
                }
            }
            Mode::Public => {
                if let Some(count) = pem::public_line(place.ahead) {
                    return Step::Keep(count);
                }
                self.mode = Mode::Text;
            }
        }
        self.text(place)
    }

    /// How many bytes belong to what is masked; nothing when it ends here.
    fn drop(&mut self, until: MaskEnd, place: Place<'_>) -> Option<usize> {
        let text = place.ahead;
        let count = match until {
            MaskEnd::Quote(quote, slashes) => value::quoted_len(text, quote, slashes),
            MaskEnd::Tripled(quote) => text.windows(3).position(|w| w == [quote; 3]).unwrap_or(text.len()),
            MaskEnd::UnquotedValue(bare) => bare.len(text),
            MaskEnd::Header => text.iter().position(|b| b"\n\"'".contains(b) || *b == b'\\').unwrap_or(text.len()),
            MaskEnd::Line => value::line_len(text),
            MaskEnd::Block(indent) => value::block_len(text, indent),
            MaskEnd::Element => text.iter().position(|b| *b == b'<').unwrap_or(text.len()),
            MaskEnd::Run(alphabet) => {
                text.iter().take_while(|b| b.is_ascii_alphanumeric() || alphabet.contains(b)).count()
            }
            MaskEnd::Count(count) => {
                self.mode = Mode::Text;
                return Some(count);
            }
            MaskEnd::Base64 => data::key_len(text),
            MaskEnd::Key { escaped } => pem::body_len(text, escaped).0,
        };
        // What is more than one byte long could be cut by the window: its last bytes are left for the next step.
        (count > 0).then(|| if count > LIMIT { cut(text, LIMIT) } else { count })
    }

    fn text(&mut self, place: Place<'_>) -> Step {
        let text = place.ahead;
        if text.starts_with(MASK.as_bytes()) {
            return Step::Old;
        }
        match text.first() {
            Some(b'\n') => {
                self.program = None;
                Step::Keep(1)
            }
            Some(b'-') => self.listed(place).unwrap_or_else(|| self.dashes(place)),
            // The name before it is a scheme, and none of a secret.
            Some(b':') if text.starts_with(b"://") && is_scheme(place.behind) => {
                self.authority = address::authority_len(text);
                self.url(place).unwrap_or(Step::Keep(1))
            }
            // The user of a URL is no name of what follows it: the password is masked as such, up to the host.
            Some(b':') if matches!(self.password, Some((1, _))) => Step::Keep(1),
            Some(b':' | b'=') => {
                let given = self.assignment(place).or_else(|| self.credentials(place)).or_else(|| self.source(place));
                given.unwrap_or(Step::Keep(1))
            }
            Some(b'>') => self.element(place).unwrap_or(Step::Keep(1)),
            Some(b' ' | b'\t') => self.argument(place).unwrap_or(Step::Keep(1)),
            Some(b',') => self.setter(place).unwrap_or(Step::Keep(1)),
            Some(b'%') => self.assignment(place).unwrap_or(Step::Keep(escape_len(text))),
            Some(b'\\' | 0x1b) => Step::Keep(escape_len(text)),
            Some(b'/') if text.starts_with(b"/9j/") => self.keep(b"+/="),
            Some(byte) if byte.is_ascii_alphanumeric() || *byte == b'_' => self.word(place),
            _ => Step::Keep(1),
        }
    }

    pub(super) fn mask(&mut self, keep: usize, until: MaskEnd, rule: Rule) -> Step {
        self.mode = Mode::Masked(until);
        Step::Mask(keep, rule, "")
    }

    pub(super) fn keep(&mut self, alphabet: &'static [u8]) -> Step {
        self.mode = Mode::Kept(alphabet);
        Step::Keep(1)
    }

    fn dashes(&mut self, place: Place<'_>) -> Step {
        match pem::begin(place.ahead) {
            Some(pem::Block::Private(header, escaped)) => self.mask(header, MaskEnd::Key { escaped }, Rule::PrivateKey),
            Some(pem::Block::Public(header)) => {
                self.mode = Mode::Public;
                let breaks = place.ahead.get(header..).unwrap_or_default();
                let escaped = if breaks.first() == Some(&b'\\') { escape_len(breaks) } else { 1 };
                Step::Keep(header + escaped)
            }
            // A ruler is passed at once, up to where the dashes of a block could stand.
            None => {
                let dashes = place.ahead.iter().take(64).take_while(|b| **b == b'-').count();
                Step::Keep(dashes.saturating_sub(5).max(1))
            }
        }
    }

    /// `scheme://`: the user is read as any text, the password is masked when it comes.
    fn url(&mut self, place: Place<'_>) -> Option<Step> {
        let found = address::password(place.ahead)?;
        self.password = Some((found.keep, found.until));
        Some(Step::Keep(3))
    }

    /// `user:password@tcp(host)`
    fn source(&mut self, place: Place<'_>) -> Option<Step> {
        let len = argument::data_source(place.ahead)?;
        place.behind.last().filter(|byte| class::is(**byte, class::NAME))?;
        let given = value::plausible(&argument::known(), place.ahead.get(1..=len)?, false, &[]);
        given.then(|| self.mask(1, MaskEnd::Count(len), Rule::UrlPassword))
    }

    /// A word begins here.
    fn word(&mut self, place: Place<'_>) -> Step {
        let text = place.ahead;
        let len = shape::until_mask(text.get(..word_len(text)).unwrap_or_default());
        let word = text.get(..len).unwrap_or_default();
        if self.reach == 0 {
            self.reach = shape::reach(text);
        }
        let long = self.reach >= shape::SHORTEST;
        let known = self.scheme(word, text).or_else(|| {
            // The head of a `data:` URL may be shorter than a token.
            if long || word == b"data" { self.harmless(word, text) } else { None }
        });
        if let Some(step) = known {
            return step;
        }
        if let Some(step) = self.attached_option(word, place) {
            return step;
        }
        if long && let Some((keep, until)) = shape::find(text) {
            return self.mask(keep, until, Rule::TokenShape);
        }
        if self.judged == 0 {
            let mut run = text.get(..opaque::run_len(text)).unwrap_or_default();
            // The slash before a path stays: without it the path would be read as user and password.
            let in_url = self.authority > 0;
            if in_url {
                run = run.split(|b| *b == b'/').next().unwrap_or(run);
            }
            let run = run.get(..shape::until_mask(run)).unwrap_or_default();
            if opaque::is_opaque(run, place.behind) && !is_call(run, text) && !is_encoded_word(run, place) {
                match data::of(run, text).filter(|_| !in_url) {
                    Some(Data::Run) => return self.keep(b"+/_-="),
                    Some(Data::Lines(width)) => {
                        self.mode = Mode::Data(width);
                        return Step::Keep(pem::public_line(text).unwrap_or(run.len()));
                    }
                    None if data::is_key(run) => return self.mask(0, MaskEnd::Base64, Rule::PrivateKey),
                    None => {}
                }
                let until = if in_url { MaskEnd::Run(b"+_-") } else { MaskEnd::Run(b"+/_-=") };
                return self.mask(0, until, Rule::OpaqueRun);
            }
            self.judged = run.len();
        }
        self.program = program(word, self.program).or(self.program);
        Step::Keep(len)
    }
}

/// Whether a run is the text of an encoded word of a mail's header: `=?utf-8?b?…?=` (RFC 2047).
fn is_encoded_word(run: &[u8], place: Place<'_>) -> bool {
    let behind = place.behind;
    let base64 = behind.ends_with(b"?b?") || behind.ends_with(b"?B?");
    base64 && place.ahead.get(run.len()..).is_some_and(|after| after.starts_with(b"?="))
}

/// Whether a run is the name of a function that is called or declared.
fn is_call(run: &[u8], text: &[u8]) -> bool {
    let name = run.first().is_some_and(u8::is_ascii_alphabetic)
        && run.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let after = text.get(run.len()..).unwrap_or_default();
    name && after.iter().take(16).find(|byte| **byte != b' ') == Some(&b'(')
}

/// Whether `://` after this makes it the scheme of a URL.
fn is_scheme(behind: &[u8]) -> bool {
    behind.last().is_some_and(u8::is_ascii_alphanumeric)
}

/// A place near `limit` that parts neither backslashes from what they escape nor quotes that are doubled.
fn cut(text: &[u8], limit: usize) -> usize {
    let head = text.get(..limit).unwrap_or(text);
    let apart = |at: usize| [at.wrapping_sub(1), at].iter().all(|at| !matches!(text.get(*at), Some(b'\\' | b'\'')));
    (1..=head.len()).rev().find(|at| apart(*at)).unwrap_or(head.len())
}

fn word_len(text: &[u8]) -> usize {
    class::len(text, class::WORD)
}

pub(super) fn program(word: &[u8], known: Option<Program>) -> Option<Program> {
    match word {
        b"login" if known == Some(Program::Registry) => Some(Program::Password),
        b"curl" | b"wget" | b"http" | b"xh" => Some(Program::User),
        b"sshpass" => Some(Program::Either),
        b"mongosh" | b"mongo" => Some(Program::Password),
        b"docker" | b"podman" | b"helm" | b"az" | b"buildah" | b"crane" => Some(Program::Registry),
        b"mysql" | b"mysqldump" | b"mariadb" | b"mysqladmin" | b"7z" => Some(Program::Glued),
        b"redis" => Some(Program::Auth),
        _ => None,
    }
}

/// Bytes of an escape: `\n`, `\u0000`, `%2F`, a sequence that colours a terminal.
pub(super) fn escape_len(text: &[u8]) -> usize {
    let hex =
        |from: usize, to: usize| text.get(from..to).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    match (text.first(), text.get(1)) {
        (Some(b'%'), _) if hex(1, 3) => 3,
        // A line break in JSON that is nested in JSON.
        (Some(b'\\'), Some(b'\\')) => {
            let slashes = text.iter().take(8).take_while(|b| **b == b'\\').count();
            if matches!(text.get(slashes), Some(b'n' | b'r' | b't')) { slashes + 1 } else { 2 }
        }
        (Some(b'\\'), Some(b'u')) if hex(2, 6) => 6,
        (Some(b'\\'), Some(b'x')) if hex(2, 4) => 4,
        (Some(b'\\'), Some(b'n' | b'r' | b't' | b'b' | b'f')) => 2,
        (Some(0x1b), Some(b'[')) => {
            2 + text
                .get(2..)
                .unwrap_or_default()
                .iter()
                .take(24)
                .take_while(|b| b.is_ascii_digit() || **b == b';')
                .count()
                + 1
        }
        _ => 1,
    }
}
