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
use crate::egress::hostname::is_invisible;
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
    /// Holds a character that nobody sees or that looks like a blank and is none, as text pasted from a page has it.
    #[error(
        "commands.deny: `{}` holds U+{:04X}, which is not seen or looks like a blank and is hardly in any command: write a blank or \
         nothing in its place, or \\x{{{:X}}} where it is meant",
        .0.escape_debug(), *.1 as u32, *.1 as u32
    )]
    Invisible(String, char),
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
            let is_strange = |c: &char| is_invisible(*c) || c.is_whitespace() && !c.is_ascii();
            if let Some(strange) = expression.chars().find(is_strange) {
                errors.push(ExpressionError::Invisible(expression.clone(), strange));
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
    pub fn denies<'s>(&'s self, command: &'s CommandText<'_>) -> Option<Denial<'s>> {
        let first = |text: &str| {
            let first = self.set.is_match(text).then(|| self.set.matches(text).into_iter().next()).flatten()?;
            self.set.patterns().get(first).map(String::as_str)
        };
        let written = first(command.written).map(|expression| Denial { expression, read: None });
        written.or_else(|| {
            let read = |line: &'s String| Some(Denial { expression: first(line)?, read: Some(line) });
            command.pipelines.iter().find_map(read)
        })
    }
}

/// A command that an expression denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Denial<'s> {
    /// The expression.
    pub expression: &'s str,
    /// The part of the command that it matches as a shell reads it, where the command as it is written does not match.
    pub read: Option<&'s str>,
}

impl std::fmt::Display for Denial<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(read) = self.read else { return write!(f, "the command matches `{}`", self.expression) };
        let shown = read.get(..read.floor_char_boundary(200)).unwrap_or_default();
        write!(f, "the command matches `{}` where a shell reads it as `{shown}`", self.expression)
    }
}

/// What in the white space of an expression lets commands pass that it is meant to deny.
fn margin(expression: &str) -> Option<ExpressionError> {
    if expression.starts_with(char::is_whitespace) {
        return Some(ExpressionError::Margin(expression.to_owned(), "begin"));
    }
    if expression.ends_with(char::is_whitespace) {
        return Some(ExpressionError::Margin(expression.to_owned(), "end"));
    }
    // With the flag `x`, white space says nothing.
    let flags =
        expression.strip_prefix("(?").and_then(|rest| rest.split_once([')', ':'])).map_or("", |(flags, _)| flags);
    let verbose =
        flags.split('-').next().is_some_and(|set| set.bytes().all(|b| b.is_ascii_alphabetic()) && set.contains('x'));
    (expression.contains('\n') && !verbose).then(|| ExpressionError::LineBreak(expression.to_owned()))
}

/// A command that was read once: what deny expressions match, and the target that it may not have.
#[derive(Debug, Clone)]
pub struct CommandText<'c> {
    written: &'c str,
    pipelines: Vec<String>,
    cut: bool,
    finding: Option<Finding>,
}

impl<'c> CommandText<'c> {
    /// Reads a command: continued lines are joined, quotes and backslashes resolved; scripts that it hands to shells and values of
    /// variables that the text itself sets are read, too.
    pub fn new(command: &'c str) -> Self {
        let effort = host::Budget::new();
        let mut analysis = Analysis::new(&effort, command.len());
        let finding = analysis.shell(command, 0).map(|hit| {
            // A refusal is read by others than who wrote the command: a password before the host is none of theirs.
            let mut word = Redactor::default().redact(&hit.word).text.into_owned();
            word.truncate(word.floor_char_boundary(200));
            Finding { zone: hit.target.zone, word, address: hit.target.name }
        });
        let (pipelines, cut) = analysis.pipelines();
        Self { written: command, pipelines, cut, finding }
    }

    /// The first target that it may not have.
    pub const fn forbidden_target(&self) -> Option<&Finding> {
        self.finding.as_ref()
    }

    /// Why it is refused without being read to its end: what is not read cannot be judged.
    pub fn unreadable(&self) -> Option<&'static str> {
        self.cut.then_some(
            "the command runs scripts within scripts, or repeats values of variables, for too long to be judged: write it out, or put \
             its scripts into files first",
        )
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

/// The first target of a command that it may not have.
#[cfg(test)]
fn forbidden_target(command: &str) -> Option<Finding> {
    CommandText::new(command).forbidden_target().cloned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[test]
    fn a_command_is_denied_by_the_first_expression_it_matches() {
        let list = DenyList::new(&["\\bnc\\b".to_owned(), "rm -rf".to_owned()]).unwrap();
        assert_eq!(list.denies(&CommandText::new("timeout 5 nc example.com 1")).unwrap().expression, "\\bnc\\b");
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

    #[rstest]
    #[case::fed("cat <<'E' | sh\nr\\m -rf x\nE")]
    #[case::said("echo 'r\\m -rf x' | sh")]
    #[case::written("cat >f <<'E'\nr\\m -rf x\nE\nsh f")]
    #[case::of_another_user("su -c 'r\\m -rf x'")]
    #[case::split("env -S 'r\\m -rf x'")]
    #[case::watched("watch 'r\\m -rf x'")]
    #[case::later("trap 'r\\m -rf x' EXIT")]
    #[case::found("find . -exec sh -c 'r\\m -rf y' \\;")]
    #[case::behind_arithmetic("(( x = 1 << 3 ))\nr\\m -rf x")]
    #[case::behind_long_values(&format!("a={}; : $a $a $a $a $a; r\\m -rf x", "y".repeat(2000)))]
    fn a_script_is_read_wherever_it_is_run(#[case] command: &str) {
        let list = DenyList::new(&[r"\brm\s+-rf\b".to_owned()]).unwrap();
        assert!(list.denies(&CommandText::new(command)).is_some(), "{:?}", CommandText::new(command));
    }

    #[rstest]
    #[case::two_commands(r"\bapt\s+install\b", "command -v apt && install -m 755 x /usr/local/bin/x")]
    #[case::a_folder(r"\bgit\s+push\b", "cd ~/src/git && push --all")]
    #[case::a_manual(r"\bgit\s+push\b", "man bash -c 'git \"push\"'")]
    fn words_of_two_commands_are_none_of_one(#[case] expression: &str, #[case] command: &str) {
        let list = DenyList::new(&[expression.to_owned()]).unwrap();
        let written = regex::Regex::new(expression).unwrap().is_match(command);
        assert!(!written && list.denies(&CommandText::new(command)).is_none(), "{:?}", CommandText::new(command));
    }

    #[test]
    fn a_refusal_says_how_the_command_was_read() {
        let list = DenyList::new(&["rm -rf".to_owned()]).unwrap();
        let text = CommandText::new("rm -rf x");
        assert_eq!(list.denies(&text).unwrap().to_string(), "the command matches `rm -rf`");
        let text = CommandText::new("echo a; r\\m -rf x");
        assert_eq!(
            list.denies(&text).unwrap().to_string(),
            "the command matches `rm -rf` where a shell reads it as `rm -rf x`"
        );
    }

    #[rstest]
    #[case::evaluated("eval \"$a\";", 10)]
    #[case::here_documents("sh <<E\n$a\nE\n", 12)]
    #[case::in_shells("sh -c \"$a\";", 12)]
    fn what_runs_itself_again_and_again_is_given_up_and_refused(#[case] piece: &str, #[case] count: usize) {
        let command = format!("a='{}'; eval \"$a\"", piece.repeat(count));
        let text = CommandText::new(&command);
        assert!(text.unreadable().is_some());
        assert!(text.pipelines.iter().map(String::len).sum::<usize>() <= 8 * command.len() + (256 << 10));
    }

    #[test]
    fn long_commands_are_read_to_their_end() {
        let script = "for f in a b c; do echo \"$f\" | sed 's/a/b/' >> out.txt; done\n".repeat(1000);
        assert!(CommandText::new(&script).unreadable().is_none());
        let nested = format!("bash -c '{}'", script.replace('\'', "\""));
        assert!(CommandText::new(&nested).unreadable().is_none());
    }

    #[rstest]
    #[case::block_scalar("\\bssh\\b\n", "ends with white space")]
    #[case::indented("  \\bssh\\b", "begins with white space")]
    #[case::no_break_space("\\bssh\\b\u{a0}", "holds U+00A0")]
    #[case::no_break_space_inside("rm\u{a0}-rf", "write a blank or nothing in its place, or \\x{A0} where it is meant")]
    #[case::zero_width("\u{feff}\\bssh\\b", "holds U+FEFF")]
    #[case::zero_width_inside("s\u{200b}sh", "holds U+200B")]
    #[case::bidirectional("a\u{202e}b", "holds U+202E")]
    #[case::negated_flag("(?i-x)\n\\bssh\\b", "has a line break")]
    #[case::two_lines("\\bssh\\b\n\\bscp\\b", "has a line break")]
    #[case::verbose_block("(?x)\n\\bssh\\b\n", "ends with white space")]
    fn white_space_that_would_let_commands_pass_is_refused(#[case] expression: &str, #[case] why: &str) {
        let errors = DenyList::new(&[expression.to_owned()]).unwrap_err();
        assert!(matches!(&errors[..], [error] if error.to_string().contains(why)), "{errors:?}");
    }

    #[test]
    fn white_space_inside_is_part_of_an_expression() {
        let list = DenyList::new(&[
            "rm -rf".to_owned(),
            "(?ix)\n \\bssh\\b # of any case\n |scp".to_owned(),
            "(?x-i:\n a\n)".to_owned(),
        ])
        .unwrap();
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
