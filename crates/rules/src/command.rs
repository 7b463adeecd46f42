//! Commands: the policy's deny expressions, and targets that no command may have.
//!
//! Linear time, bounded size. Defence in depth: the network and the sandbox are the walls. What docs/rules.md names as a
//! limit passes. Must not run anything.

mod analysis;
mod host;
mod lexer;
mod options;
mod program;
mod script;
mod target;

#[cfg(test)]
mod target_tests;

use regex::{RegexSet, RegexSetBuilder};
use thiserror::Error;

use self::analysis::Analysis;
pub use self::target::Zone;
use redact::Redactor;

/// Largest compiled size of all expressions of one policy, in bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// Why expressions were refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpressionError {
    /// Not an expression of this syntax.
    #[error("commands.deny: `{0}` is no regular expression of RE2 syntax (no look-around, no back-references)")]
    Form(String),
    /// Holds a character that no command has: in double quotes of YAML `\b` is one.
    #[error(
        "commands.deny: `{}` holds the control character U+{:04X}: write the expression in single quotes, where YAML leaves its \
         backslashes alone",
        .0.escape_debug(), *.1 as u32
    )]
    Control(String, char),
    /// Matches the empty text, so everything.
    #[error("commands.deny: `{0}` matches everything: suspend the policy instead")]
    Everything(String),
    /// Together too large.
    #[error("commands.deny: the expressions are too large when compiled: make them simpler or fewer")]
    Size,
}

/// The compiled deny expressions of a policy.
#[derive(Debug, Clone)]
pub struct DenyList {
    set: RegexSet,
}

impl DenyList {
    /// Compiles expressions, or names each that is wrong.
    pub fn new(expressions: &[String]) -> Result<Self, Vec<ExpressionError>> {
        let mut errors = Vec::new();
        for expression in expressions {
            if let Some(control) = expression.chars().find(|c| c.is_control() && !matches!(c, '\t' | '\n')) {
                errors.push(ExpressionError::Control(expression.clone(), control));
                continue;
            }
            match RegexSetBuilder::new([expression]).size_limit(SIZE_LIMIT).build() {
                Ok(one) if one.is_match("") => errors.push(ExpressionError::Everything(expression.clone())),
                Ok(_) => {}
                Err(regex::Error::CompiledTooBig(_)) => errors.push(ExpressionError::Size),
                Err(_) => errors.push(ExpressionError::Form(expression.clone())),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let set = RegexSetBuilder::new(expressions)
            .size_limit(SIZE_LIMIT)
            .build()
            .map_err(|_| vec![ExpressionError::Size])?;
        Ok(Self { set })
    }

    /// The first expression that a command matches.
    pub fn denies(&self, command: &str) -> Option<&str> {
        let first = self.set.matches(command).into_iter().next()?;
        self.set.patterns().get(first).map(String::as_str)
    }
}

/// A target in a command.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "the command may connect to {address} (written `{word}`), {}: take it out. Text that only mentions it (comments, search \
     patterns, quoted here-documents) is not refused; of a program that is not known any whole URL is",
    what(*.zone)
)]
pub struct Finding {
    /// Whose the target is.
    pub zone: Zone,
    /// The word as the program would get it, cut at 200 bytes, without recognisable secrets.
    pub word: String,
    /// The address or name in its plain form.
    pub address: String,
}

const fn what(zone: Zone) -> &'static str {
    match zone {
        Zone::Metadata => {
            "a metadata service of a cloud, which gives out credentials of machines and is never reachable here"
        }
        Zone::ProviderInternal => "a service inside the platform, which is never reachable from a Sprite",
    }
}

/// The first target in a command that it may not have.
pub fn forbidden_target(command: &str) -> Option<Finding> {
    let effort = host::Budget::new();
    let hit = Analysis::new(&effort).shell(command, 0)?;
    // A refusal is read by others than who wrote the command: a password before the host is none of theirs.
    let mut word = Redactor::default().redact(&hit.word).text.into_owned();
    word.truncate(word.floor_char_boundary(200));
    Some(Finding { zone: hit.target.zone, word, address: hit.target.name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_denied_by_the_first_expression_it_matches() {
        let list = DenyList::new(&["\\bnc\\b".to_owned(), "rm -rf".to_owned()]).unwrap();
        assert_eq!(list.denies("timeout 5 nc example.com 1"), Some("\\bnc\\b"));
        assert_eq!(list.denies("echo sync"), None);
    }

    #[test]
    fn a_backspace_of_yaml_is_refused() {
        let errors = DenyList::new(&["\u{8}curl\u{8}".to_owned(), "a\tb\nc".to_owned()]).unwrap_err();
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert!(error.to_string().contains("`\\u{8}curl\\u{8}` holds the control character U+0008"), "{error}");
    }

    #[test]
    fn every_bad_expression_is_named() {
        let errors =
            DenyList::new(&["(".to_owned(), ".*".to_owned(), "(a)\\1".to_owned(), "fine".to_owned()]).unwrap_err();
        assert_eq!(
            errors,
            [
                ExpressionError::Form("(".to_owned()),
                ExpressionError::Everything(".*".to_owned()),
                ExpressionError::Form("(a)\\1".to_owned())
            ]
        );
    }

    #[test]
    fn an_expression_that_grows_when_compiled_is_refused() {
        let errors = DenyList::new(&["(\\w{1000}){1000}".to_owned()]).unwrap_err();
        assert_eq!(errors, [ExpressionError::Size]);
    }
}
