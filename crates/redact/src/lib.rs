//! Redaction: recognisable secrets in text are replaced by [`MASK`] before the text is stored, logged or cut.
//!
//! A reading has two passes, each a machine that decides at every place from a bounded stretch of text before it and [`WINDOW_LOOKAHEAD`] bytes
//! after it: first the registered values, then the scanner of [`scan`]. A text is read again until nothing changes, so that redaction is
//! idempotent. Linear time. Must not claim to find a secret that was disguised on purpose, and must not give a match back to anybody.

#![cfg_attr(test, allow(clippy::wildcard_enum_match_arm, reason = "a test names what it expects"))]

mod address;
mod argument;
mod assignment;
mod authorization;
mod bytes;
mod class;
mod code;
mod data;
mod harmless;
mod key;
mod opaque;
mod pem;
mod plain;
mod registered;
mod scan;
mod shape;
mod template;
mod trace;
mod value;
mod window;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;

use self::registered::Registered;
use self::scan::Scanner;
use self::trace::Trace;
use self::window::Machine;

pub use self::registered::{RegisterError, SHORTEST as SHORTEST_REGISTERED};

/// What stands in place of a secret. A plain word: it is valid where a JSON string, a YAML scalar, a shell word or a part
/// of a URL was, and no pass takes it for a secret.
pub const MASK: &str = "REDACTED";

/// How many bytes a decision may look ahead. What is longer is decided by its head, and masked to its end.
pub const WINDOW_LOOKAHEAD: usize = 4096;

/// How much text after a cut is enough to decide all before it: what both passes look ahead together, and a second reading.
pub const LOOKAHEAD: usize = 3 * WINDOW_LOOKAHEAD;

/// A text that changes in so many readings is masked as a whole. None is known that changes in more than two.
const READINGS: usize = 8;

/// Why something was masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A registered value, or a simple encoding of it.
    Registered,
    /// Credentials of an HTTP authorization or cookie header.
    Authorization,
    /// The value given to a name such as `password` or `API_KEY`.
    Assignment,
    /// The password in a URL.
    UrlPassword,
    /// A token whose shape is well known.
    TokenShape,
    /// The body of a private key block.
    PrivateKey,
    /// A long run of characters that looks random.
    OpaqueRun,
}

impl Rule {
    /// The name used in documentation and by the dry run.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "Registered",
            Self::Authorization => "Authorization",
            Self::Assignment => "Assignment",
            Self::UrlPassword => "UrlPassword",
            Self::TokenShape => "TokenShape",
            Self::PrivateKey => "PrivateKey",
            Self::OpaqueRun => "OpaqueRun",
        }
    }
}

/// How often each rule masked something.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits(BTreeMap<Rule, usize>);

impl Hits {
    /// How many masks were set.
    pub fn total(&self) -> usize {
        self.0.values().sum()
    }

    /// Rules that masked something, each with how often.
    pub fn iter(&self) -> impl Iterator<Item = (Rule, usize)> + '_ {
        self.0.iter().map(|(rule, count)| (*rule, *count))
    }

    fn count(&mut self, rule: Rule) {
        *self.0.entry(rule).or_default() += 1;
    }

    fn add(&mut self, other: &Self) {
        for (rule, count) in other.iter() {
            *self.0.entry(rule).or_default() += count;
        }
    }
}

/// Text without its recognisable secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted<'t> {
    /// The text; borrowed when nothing was masked.
    pub text: Cow<'t, str>,
    /// What was masked.
    pub hits: Hits,
}

/// What one reading gives.
struct Reading {
    text: String,
    hits: Hits,
    /// Whether another one would change nothing.
    settled: bool,
}

/// Finds secrets by shape and by registered value.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    registered: Option<Registered>,
    registered_only: bool,
}

impl Redactor {
    /// A redactor that also masks these values, wherever they stand. Values shorter than [`SHORTEST_REGISTERED`] are not
    /// registered: masking them would make text unreadable without hiding anything.
    pub fn new<S: AsRef<str>>(values: &[S]) -> Result<Self, RegisterError> {
        Ok(Self { registered: Registered::new(values)?, registered_only: false })
    }

    /// The same, but for secrets that are found by their shape: only registered values are masked.
    #[must_use]
    pub fn registered_only(&self) -> Self {
        Self { registered_only: true, ..self.clone() }
    }

    /// Redacts bytes that may be no text. Where they go on beyond what is given (`more`), only what is certain without the rest
    /// comes back, as it comes out of the whole: all but the last [`LOOKAHEAD`] bytes, or fewer; still fewer where a second reading changes
    /// something. What only a mask beyond the end changes in a third reading is not seen: nothing is known that does.
    pub fn redact_bytes(&self, bytes: &[u8], more: bool) -> (Vec<u8>, Hits) {
        let text = bytes::to_text(bytes);
        let Redacted { text, hits } = self.settle(&text, !more);
        (bytes::to_bytes(&text), hits)
    }

    /// Redacts a whole text. To redact what comes out changes nothing.
    pub fn redact<'t>(&self, text: &'t str) -> Redacted<'t> {
        self.settle(text, true)
    }

    /// Reads until nothing changes. If the text is not the `last` of it, each reading gives only what is certain.
    fn settle<'t>(&self, text: &'t str, last: bool) -> Redacted<'t> {
        let mut text = Cow::Borrowed(text);
        let mut hits = Hits::default();
        for _ in 0..READINGS {
            let reading = self.read(&text, last);
            if !last || reading.hits.total() > 0 {
                text = Cow::Owned(reading.text);
            }
            hits.add(&reading.hits);
            if reading.settled {
                if !last {
                    // A mask beyond the end may change these in the next reading.
                    let certain = text.floor_char_boundary(text.len().saturating_sub(WINDOW_LOOKAHEAD));
                    text.to_mut().truncate(certain);
                }
                return Redacted { text, hits };
            }
        }
        Redacted { text: Cow::Borrowed(MASK), hits }
    }

    /// Reads once.
    fn read(&self, text: &str, last: bool) -> Reading {
        let mut hits = Hits::default();
        let mut first = Cow::Borrowed(text);
        if let Some(registered) = &self.registered {
            let mut out = String::new();
            Machine::new(registered.pass()).run(text, last, &mut out, &mut hits, &mut ());
            first = Cow::Owned(out);
        }
        let made = |text: &str| self.registered.as_ref().is_some_and(|registered| registered.is_made_by_quotes(text));
        if self.registered_only {
            let settled = !made(&first);
            return Reading { text: first.into_owned(), hits, settled };
        }
        let mut out = String::new();
        let mut trace = Trace::default();
        Machine::new(Scanner::default()).run(&first, last, &mut out, &mut hits, &mut trace);
        let settled = trace.is_settled(&out, last) && !made(&out);
        Reading { text: out, hits, settled }
    }
}
