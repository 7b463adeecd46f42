//! A command as its programs get it: what deny expressions are matched against, beside the text as it is written.
//!
//! A line a command, its words joined by one blank, with redirections and pipes; behind them the commands within it, and those of shells
//! that it starts. Must not judge, and must not claim to know what only shows at run time.

use super::analysis::Analysis;
use super::lexer::{self, DEPTH, Simple, Variables};
use super::options::{self, Runs};
use super::program::{self, Use};

/// Longest result beyond twice the text, in bytes. Values of variables can stand in it often; what is past that is not matched.
pub(super) const SLACK: usize = 4096;

/// The commands of a text.
pub(super) fn of(text: &str) -> String {
    let mut plain = Plain { text: String::new(), longest: 2 * text.len() + SLACK };
    plain.shell(text, &mut Variables::new(), 0);
    plain.text.truncate(plain.text.trim_end_matches('\n').len());
    plain.text
}

struct Plain {
    text: String,
    longest: usize,
}

impl Plain {
    fn shell(&mut self, text: &str, variables: &mut Variables, depth: usize) {
        if depth > DEPTH || self.text.len() >= self.longest {
            return;
        }
        let commands = lexer::commands(text, variables, depth);
        for command in &commands {
            self.push(&command.words.join(" "));
            for (operator, word) in &command.redirects {
                self.push(&format!(" {operator} {word}"));
            }
            self.push(if command.piped { " | " } else { "\n" });
        }
        for command in &commands {
            let inner = command.inner.iter().cloned();
            for script in inner.chain(scripts(command)) {
                self.shell(&script, variables, depth + 1);
            }
        }
    }

    fn push(&mut self, text: &str) {
        let room = self.longest.saturating_sub(self.text.len());
        self.text.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
    }
}

/// What a command hands to a shell.
fn scripts(command: &Simple) -> Vec<String> {
    let words = Analysis::skip_keywords(&command.words);
    // Behind wrappers: `env`, `timeout 5`, `sudo`.
    let shell = words.iter().position(|word| program::of(word) == Use::Shell);
    let Some((program, arguments)) = shell.and_then(|at| words.get(at..)?.split_first()) else { return Vec::new() };
    if program::name(program) == "eval" {
        return vec![arguments.join(" ")];
    }
    match options::shell(arguments) {
        Runs::Texts(texts) => texts.into_iter().map(str::to_owned).collect(),
        Runs::Input | Runs::Module => command.input.clone(),
        Runs::File(_) => Vec::new(),
    }
}
