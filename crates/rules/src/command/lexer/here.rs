//! Here-documents: their bodies, and what a shell puts into them or runs in them. Must not judge.

use super::{DEPTH, Lexer};

/// A here-document that a line named.
pub(super) struct Document {
    pub delimiter: String,
    /// Tabs before its lines are stripped.
    pub tabs: bool,
    /// Nothing in it is put in or run: its delimiter is quoted.
    pub literal: bool,
    /// Which command's input it is.
    pub command: usize,
}

impl Lexer<'_, '_> {
    /// Reads the bodies of here-documents that the line named.
    pub(super) fn here_documents(&mut self) {
        for Document { delimiter, tabs, literal, command } in std::mem::take(&mut self.pending) {
            let from = self.at;
            let mut to = self.text.len();
            while self.at < self.text.len() {
                let len = self.rest().find('\n').unwrap_or(self.rest().len());
                let line = self.rest().get(..len).unwrap_or_default();
                let line = if tabs { line.trim_start_matches('\t') } else { line };
                let start = self.at;
                self.at = (self.at + len + 1).min(self.text.len());
                if line.trim_end_matches('\r') == delimiter {
                    to = start;
                    break;
                }
            }
            let body = self.text.get(from..to).unwrap_or_default();
            let (body, inner) = if literal { (body.to_owned(), Vec::new()) } else { self.expanded(body) };
            if let Some(command) = self.commands.get_mut(command) {
                command.input.push(body);
                command.inner.extend(inner);
            }
        }
    }

    /// A text in which values are put in and commands are run, as in the body of a here-document; and those commands.
    pub(super) fn expanded(&mut self, text: &str) -> (String, Vec<String>) {
        if self.depth >= DEPTH || !text.contains(['$', '`', '\\']) {
            return (text.to_owned(), Vec::new());
        }
        let mut lexer = Lexer::new(text, self.variables, self.depth + 1, self.budget);
        let mut body = String::new();
        while let Some(c) = lexer.take() {
            match c {
                '\\' => match lexer.take() {
                    Some('\n') | None => {}
                    Some(c @ ('\\' | '$' | '`')) => body.push(c),
                    Some(c) => body.extend(['\\', c]),
                },
                '$' => {
                    lexer.at -= 1;
                    lexer.dollar(&mut body, true);
                }
                '`' => {
                    lexer.at -= 1;
                    lexer.backtick(&mut body);
                }
                c => body.push(c),
            }
        }
        self.budget = lexer.budget;
        (body, lexer.current.inner)
    }
}
