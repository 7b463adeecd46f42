//! Commands: the policy's deny expressions, and targets that no command may have.
//!
//! Linear time, bounded size. Defence in depth: the network and the sandbox are the walls. What docs/rules.md names as a
//! limit passes. Must not run anything.

mod analysis;
mod host;
mod lexer;
mod options;
mod plain;
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
    /// White space at an end, as a block of YAML leaves it there: the expression would match hardly any command.
    #[error(
        "commands.deny: `{}` {}s with white space, which a command hardly ever has there: write the expression on one line, in single \
         quotes, and `\\s` or `[ ]` where white space is meant",
        .0.escape_debug(), .1
    )]
    Margin(String, &'static str),
    /// A line break inside: two expressions in one item, most likely.
    #[error(
        "commands.deny: `{}` has a line break, which only a command with the same line break would match: write one expression an \
         item, and `\\n` where a line break is meant",
        .0.escape_debug()
    )]
    LineBreak(String),
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
            if let Some(error) = margin(expression) {
                errors.push(error);
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

    /// The first expression that a command matches, as it is written or as its programs get it.
    pub fn denies(&self, command: &CommandText<'_>) -> Option<&str> {
        let first = |text: &str| self.set.matches(text).into_iter().next();
        let first = first(command.written).or_else(|| first(&command.plain))?;
        self.set.patterns().get(first).map(String::as_str)
    }
}

/// What in the white space of an expression lets commands pass that it is meant to deny.
fn margin(expression: &str) -> Option<ExpressionError> {
    // Byte order marks and zero-width spaces are seen as little as blanks.
    let blank = |c: char| c.is_whitespace() || matches!(c, '\u{200b}' | '\u{2060}' | '\u{feff}');
    if expression.starts_with(blank) {
        return Some(ExpressionError::Margin(expression.to_owned(), "begin"));
    }
    if expression.ends_with(blank) {
        return Some(ExpressionError::Margin(expression.to_owned(), "end"));
    }
    // With the flag `x`, white space says nothing.
    let flags = expression.strip_prefix("(?").and_then(|rest| rest.split_once(')')).map_or("", |(flags, _)| flags);
    let verbose = flags.bytes().all(|b| b.is_ascii_alphabetic()) && flags.contains('x');
    (expression.contains('\n') && !verbose).then(|| ExpressionError::LineBreak(expression.to_owned()))
}

/// A command, as deny expressions see it.
#[derive(Debug, Clone)]
pub struct CommandText<'c> {
    written: &'c str,
    plain: String,
}

impl<'c> CommandText<'c> {
    /// Reads a command: continued lines are joined, quotes and backslashes resolved, scripts in shells in shells and values of
    /// variables that the text itself sets are put in.
    pub fn new(command: &'c str) -> Self {
        Self { written: command, plain: plain::of(command) }
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
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_command_is_denied_by_the_first_expression_it_matches() {
        let list = DenyList::new(&["\\bnc\\b".to_owned(), "rm -rf".to_owned()]).unwrap();
        assert_eq!(list.denies(&CommandText::new("timeout 5 nc example.com 1")), Some("\\bnc\\b"));
        assert_eq!(list.denies(&CommandText::new("echo sync")), None);
    }

    #[rstest]
    #[case::continued_line("rm \\\n-rf x")]
    #[case::continued_word("r\\\nm -rf x")]
    #[case::quotes("r\"m\" '-rf' x")]
    #[case::backslashes("\\r\\m -r\\f x")]
    #[case::escapes("rm $'-\\x72f' x")]
    #[case::variable("what=rm; $what -rf x")]
    #[case::several_blanks("rm\t \t-rf x")]
    #[case::in_a_shell("bash -c 'r\"m\" -rf x'")]
    #[case::in_a_shell_in_a_shell("env sh -c \"sh -c 'r\\\\m -rf x'\"")]
    #[case::fed_to_a_shell("bash <<'E'\nr\\m -rf x\nE")]
    #[case::substituted("echo $(r\"m\" -rf x)")]
    #[case::evaluated("eval r\"m\" -rf x")]
    #[case::behind_a_pipe("true | r'm' -rf x")]
    fn an_expression_matches_what_the_program_gets(#[case] command: &str) {
        let list = DenyList::new(&[r"\brm\s+-rf\b".to_owned()]).unwrap();
        assert!(list.denies(&CommandText::new(command)).is_some(), "{:?}", CommandText::new(command));
    }

    #[test]
    fn pipes_and_redirections_stand_in_what_is_matched() {
        let list = DenyList::new(&[r"curl .*\|\s*sh$".to_owned(), "> /etc/passwd".to_owned()]).unwrap();
        assert!(list.denies(&CommandText::new("curl example.com |\\\n s\"h\"")).is_some());
        assert!(list.denies(&CommandText::new("echo x >/etc/'passwd'")).is_some());
        assert!(list.denies(&CommandText::new("curl example.com; ls sh")).is_none());
    }

    #[test]
    fn what_is_matched_grows_no_more_than_the_text() {
        let value = "x".repeat(1000);
        let text = format!("a={value}; {}", "echo $a$a$a$a; ".repeat(2000));
        assert!(CommandText::new(&text).plain.len() <= 2 * text.len() + plain::SLACK);
        let nested = format!("{}true{}", "sh -c \"$(".repeat(500), ")\"".repeat(500));
        assert!(CommandText::new(&nested).plain.len() <= 2 * nested.len() + plain::SLACK);
    }

    #[rstest]
    #[case::block_scalar("\\bssh\\b\n", "ends with white space")]
    #[case::indented("  \\bssh\\b", "begins with white space")]
    #[case::no_break_space("\\bssh\\b\u{a0}", "ends with white space")]
    #[case::zero_width("\u{feff}\\bssh\\b", "begins with white space")]
    #[case::two_lines("\\bssh\\b\n\\bscp\\b", "has a line break")]
    #[case::verbose_block("(?x)\n\\bssh\\b\n", "ends with white space")]
    fn white_space_that_would_let_commands_pass_is_refused(#[case] expression: &str, #[case] why: &str) {
        let errors = DenyList::new(&[expression.to_owned()]).unwrap_err();
        assert!(matches!(&errors[..], [error] if error.to_string().contains(why)), "{errors:?}");
    }

    #[test]
    fn white_space_inside_is_part_of_an_expression() {
        let list = DenyList::new(&["rm -rf".to_owned(), "(?ix)\n \\bssh\\b # of any case\n |scp".to_owned()]).unwrap();
        assert!(list.denies(&CommandText::new("SSH example.com")).is_some());
        assert!(list.denies(&CommandText::new("rm -rf x")).is_some());
    }

    #[test]
    fn a_backspace_of_yaml_is_refused() {
        let errors = DenyList::new(&["\u{8}curl\u{8}".to_owned(), "a\tb".to_owned()]).unwrap_err();
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
