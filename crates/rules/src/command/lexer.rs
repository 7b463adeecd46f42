//! A lexer of shell words: what a shell would pass to each program, as far as the text alone says.
//!
//! Quotes, escapes, `$'…'`, joined pieces, comments, here-documents, redirections, substitutions and variables that the
//! same text sets. Not a shell: what only shows at run time (globs, files, answers of programs) is not known. Linear time,
//! bounded depth. Must not judge.

mod here;

use std::collections::HashMap;

use self::here::Document;

/// How deep commands are looked for inside commands.
pub(super) const DEPTH: usize = 8;
/// Longest word that values are put into, in bytes. What is written is looked at whatever its length.
const LONGEST: usize = 256 << 10;

/// Stands between the fields of a value while its word is read.
const FIELD: char = '\u{1f}';

/// What `printf` makes of its words: each `%s` or `%d` is the next one.
fn printed(words: &[&str]) -> String {
    let Some((format, values)) = words.split_first() else { return String::new() };
    let mut values = values.iter();
    let mut pieces = format.split('%');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let rest = piece.strip_prefix(['s', 'd', 'i']);
        if rest.is_some() {
            text.extend(values.next().copied());
        }
        text.push_str(rest.unwrap_or(piece));
    }
    text
}

/// The value of a loop's variable. Where a word may be a host or a URL, all are put in as a shell's braces, which stand for each of
/// them inside of quotes and of other text too: `"http://$h/"`.
fn each(values: &[String]) -> String {
    let host =
        |value: &String| value.contains(['.', ':']) || value.len() > 7 && value.bytes().all(|b| b.is_ascii_digit());
    let braces = values.len() > 1 && values.iter().any(host);
    if braces && !values.iter().any(|value| value.is_empty() || value.contains(['{', '}', ',', ' ', '\t', '\n'])) {
        format!("{{{}}}", values.join(","))
    } else {
        values.join(" ")
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// One command: a program with its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Simple {
    /// Words as the program gets them.
    pub words: Vec<String>,
    /// Where its input and output go.
    pub redirects: Vec<(&'static str, String)>,
    /// Bodies of here-documents and here-strings.
    pub input: Vec<String>,
    /// Its output goes to the next command.
    pub piped: bool,
    /// Texts of commands inside its words.
    pub inner: Vec<String>,
}

/// Variables that the text sets.
pub(super) type Variables = HashMap<String, String>;

/// Reads a text.
pub(super) struct Lexer<'t, 'v> {
    text: &'t str,
    at: usize,
    variables: &'v mut Variables,
    depth: usize,
    /// How many bytes of values may still be put in.
    budget: usize,
    commands: Vec<Simple>,
    current: Simple,
    /// A word that comes could still be an assignment.
    assigning: bool,
    /// Here-documents whose bodies come after the line.
    pending: Vec<Document>,
}

/// Splits a text into commands.
pub(super) fn commands(text: &str, variables: &mut Variables, depth: usize) -> Vec<Simple> {
    Lexer::new(text, variables, depth, 1024 + 16 * text.len()).run()
}

impl<'t, 'v> Lexer<'t, 'v> {
    fn new(text: &'t str, variables: &'v mut Variables, depth: usize, budget: usize) -> Self {
        Self {
            text,
            at: 0,
            variables,
            depth,
            budget,
            commands: Vec::new(),
            current: Simple::default(),
            assigning: true,
            pending: Vec::new(),
        }
    }

    fn run(mut self) -> Vec<Simple> {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' => self.at += 1,
                '\n' => {
                    self.at += 1;
                    self.end(false);
                    self.here_documents();
                }
                '#' => self.skip_line(),
                '(' if self.arithmetic() > 0 => {
                    self.at += self.arithmetic();
                    self.end(false);
                }
                ';' | '(' | ')' => {
                    self.at += 1;
                    self.end(false);
                }
                '&' | '|' => self.operator(c),
                '<' | '>' => self.redirect(),
                _ => {
                    if self.rest().starts_with("\\\n") {
                        self.at += 2;
                    } else {
                        self.argument();
                    }
                }
            }
        }
        self.end(false);
        self.commands
    }

    /// Bytes of `(( … ))`, whose `<<` begins no here-document; none where it is a shell in a shell.
    fn arithmetic(&self) -> usize {
        let Some(inner) = self.rest().strip_prefix("((") else { return 0 };
        let signs = |c: char| c.is_ascii_alphanumeric() || "_ \t+-*/%<>=!&|^~?:,$[]#".contains(c);
        let len = inner.find(|c| !signs(c)).unwrap_or(inner.len());
        if inner.get(len..).is_some_and(|rest| rest.starts_with("))")) { len + 4 } else { 0 }
    }

    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn skip_line(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    fn operator(&mut self, c: char) {
        self.at += 1;
        if c == '&' && self.peek() == Some('>') {
            self.redirect();
            return;
        }
        // The second sign of `|&` ends a command that is none.
        let doubled = self.peek() == Some(c);
        self.at += usize::from(doubled);
        self.end(c == '|' && !doubled);
    }

    /// Ends a command.
    fn end(&mut self, piped: bool) {
        let mut command = std::mem::take(&mut self.current);
        self.assigning = true;
        // `for u in a b`: each of them.
        let keyword = command.words.iter().position(|word| word == "for" || word == "select").filter(|at| *at < 3);
        if let Some([name, _, values @ ..]) = keyword.and_then(|at| command.words.get(at + 1..)) {
            self.variables.insert(name.clone(), each(values));
        }
        command.piped = piped;
        let waits = self.pending.iter().any(|document| document.command == self.commands.len());
        if !command.words.is_empty() || !command.redirects.is_empty() || !command.inner.is_empty() || waits {
            self.commands.push(command);
        } else if piped && let Some(last) = self.commands.last_mut() {
            // `( … ) | next`
            last.piped = true;
        }
    }

    fn argument(&mut self) {
        let from = self.at;
        let (word, quoted) = self.word();
        // Digits before a redirection name a stream.
        if !quoted && word.bytes().all(|b| b.is_ascii_digit()) && matches!(self.peek(), Some('<' | '>')) {
            return;
        }
        if self.at == from {
            self.at += self.peek().map_or(1, char::len_utf8);
        }
        let whole = word.replace(FIELD, " ");
        self.assign(&whole);
        // An assignment is not split, other words are where a value without quotes has blanks.
        if word.contains(FIELD) && !whole.split_once('=').is_some_and(|(name, _)| is_name(name)) {
            for field in word.split(FIELD).filter(|field| !field.is_empty()) {
                self.push(field.to_owned());
            }
        } else {
            self.push(whole);
        }
    }

    fn push(&mut self, word: String) {
        let declares = ["export", "declare", "local", "readonly", "typeset"];
        self.assigning &= word.contains('=') || declares.contains(&word.as_str()) || word.starts_with('-');
        self.current.words.push(word);
    }

    /// Remembers `NAME=value`.
    fn assign(&mut self, word: &str) {
        if let Some((name, value)) = word.split_once('=')
            && self.assigning
            && is_name(name)
        {
            self.variables.insert(name.to_owned(), value.to_owned());
        }
    }

    fn redirect(&mut self) {
        let operators = ["<<<", "<<-", "<<", "<>", "<&", "<", ">>", ">&", ">|", ">"];
        let Some(operator) = operators.into_iter().find(|operator| self.rest().starts_with(operator)) else {
            self.at += 1;
            return;
        };
        self.at += operator.len();
        if self.peek() == Some('(') {
            return;
        }
        while matches!(self.peek(), Some(' ' | '\t')) {
            self.at += 1;
        }
        let (word, quoted) = self.word();
        match operator {
            "<<" | "<<-" => self.pending.push(Document {
                delimiter: word,
                tabs: operator == "<<-",
                literal: quoted,
                command: self.commands.len(),
            }),
            "<<<" => self.current.input.push(word),
            _ => self.current.redirects.push((operator, word)),
        }
    }

    /// Reads a word; whether some of it was quoted.
    fn word(&mut self) -> (String, bool) {
        let mut word = String::new();
        let mut quoted = false;
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' | '\r' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')' => break,
                '\'' => {
                    self.at += 1;
                    quoted = true;
                    let len = self.rest().find('\'').unwrap_or(self.rest().len());
                    word.push_str(self.rest().get(..len).unwrap_or_default());
                    self.at = (self.at + len + 1).min(self.text.len());
                }
                '"' => {
                    self.at += 1;
                    quoted = true;
                    self.double(&mut word);
                }
                '\\' => {
                    self.at += 1;
                    quoted = true;
                    match self.take() {
                        Some('\n') | None => {}
                        Some(c) => word.push(c),
                    }
                }
                '$' => self.dollar(&mut word, false),
                '`' => self.backtick(&mut word),
                c => {
                    word.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
        (word, quoted)
    }

    fn double(&mut self, word: &mut String) {
        while let Some(c) = self.peek() {
            match c {
                '"' => {
                    self.at += 1;
                    return;
                }
                '\\' => {
                    self.at += 1;
                    match self.take() {
                        Some('\n') | None => {}
                        Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                        Some(c) => word.extend(['\\', c]),
                    }
                }
                '$' => self.dollar(word, true),
                '`' => self.backtick(word),
                c => {
                    word.push(c);
                    self.at += c.len_utf8();
                }
            }
        }
    }

    fn dollar(&mut self, word: &mut String, in_quotes: bool) {
        self.at += 1;
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let inner = self.parenthesis();
                self.substitute(&inner, word);
            }
            Some('{') => {
                let len = self.rest().find('}').unwrap_or(self.rest().len());
                let inner = self.rest().get(1..len).unwrap_or_default().to_owned();
                self.at = (self.at + len + 1).min(self.text.len());
                let name: String = inner.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                let rest = inner.get(name.len()..).unwrap_or_default();
                let rest = rest.strip_prefix(':').unwrap_or(rest);
                // `${x:-word}`, `${x:=word}`, `${x:+word}`: what the word runs may be run, whatever the variable holds.
                let default = rest.strip_prefix(['-', '=', '+']).unwrap_or_default();
                let (default, commands) = self.expanded(default);
                self.current.inner.extend(commands);
                let set = self.variables.get(&name).filter(|_| !rest.starts_with('+'));
                let sets = rest.starts_with('=') && set.is_none() && !name.is_empty();
                let value = set.cloned().unwrap_or(default);
                self.append(word, &value, !in_quotes);
                if sets {
                    self.variables.insert(name, value);
                }
            }
            Some('\'') if !in_quotes => {
                self.at += 1;
                self.escaped(word);
            }
            Some('"') if !in_quotes => {}
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let name: String = self.rest().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
                self.at += name.len();
                if let Some(value) = self.variables.get(&name).cloned() {
                    self.append(word, &value, !in_quotes);
                }
            }
            Some('0'..='9' | '@' | '*' | '#' | '?' | '!' | '-') => self.at += 1,
            _ => word.push('$'),
        }
    }

    /// `$'…'`
    fn escaped(&mut self, word: &mut String) {
        while let Some(c) = self.take() {
            match c {
                '\'' => return,
                '\\' => match self.take() {
                    Some('n') => word.push('\n'),
                    Some('t') => word.push('\t'),
                    Some('r') => word.push('\r'),
                    Some('x') => self.code(word, 16, 2),
                    Some('u') => self.code(word, 16, 4),
                    Some('U') => self.code(word, 16, 8),
                    Some('0'..='7') => {
                        self.at -= 1;
                        self.code(word, 8, 3);
                    }
                    Some(c) => word.push(c),
                    None => {}
                },
                c => word.push(c),
            }
        }
    }

    fn code(&mut self, word: &mut String, radix: u32, most: usize) {
        let digits: String = self.rest().chars().take(most).take_while(|c| c.is_digit(radix)).collect();
        self.at += digits.len();
        word.extend(u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32));
    }

    /// The text up to the parenthesis that closes.
    fn parenthesis(&mut self) -> String {
        let from = self.at;
        let mut open = 1;
        while let Some(c) = self.take() {
            match c {
                '(' => open += 1,
                ')' => {
                    open -= 1;
                    if open == 0 {
                        return self.text.get(from..self.at - 1).unwrap_or_default().to_owned();
                    }
                }
                '\\' => {
                    self.take();
                }
                '\'' => self.at += self.rest().find('\'').map_or(0, |len| len + 1),
                _ => {}
            }
        }
        self.text.get(from..).unwrap_or_default().to_owned()
    }

    fn backtick(&mut self, word: &mut String) {
        self.at += 1;
        let mut inner = String::new();
        while let Some(c) = self.take() {
            match c {
                '`' => break,
                '\\' => inner.extend(self.take()),
                c => inner.push(c),
            }
        }
        self.substitute(&inner, word);
    }

    /// A command in a word: what `echo` and `printf` write is part of it, other answers are not known.
    fn substitute(&mut self, inner: &str, word: &mut String) {
        if self.depth >= DEPTH {
            return;
        }
        if inner.len() < 1024
            && let [only] = commands(inner, self.variables, DEPTH).as_slice()
            && let Some((program, words)) = only.words.split_first()
            && matches!(program.as_str(), "echo" | "printf")
        {
            let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
            let text = if program == "printf" { printed(&words) } else { words.join(" ") };
            self.append(word, &text, false);
        }
        self.current.inner.push(inner.to_owned());
    }

    /// Adds a value, as long as all values together stay in proportion to the text: one may hold another many times.
    fn append(&mut self, word: &mut String, value: &str, split: bool) {
        if word.len() + value.len() <= LONGEST && value.len() <= self.budget {
            self.budget -= value.len();
            word.extend(value.chars().map(|c| if split && c.is_ascii_whitespace() { FIELD } else { c }));
        }
    }
}

#[cfg(test)]
mod tests;
