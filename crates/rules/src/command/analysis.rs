//! The analysis: which words of a command are targets.
//!
//! What is run is followed (shells in shells, wrappers, scripts in quotes or here-documents, scripts that the same command
//! writes), what is only written, searched or compared is not. Bounded depth, linear time.

use std::collections::HashMap;

use super::lexer::{self, DEPTH, Simple, Variables};
use super::options::{self, Runs};
use super::program::{self, Use};
use super::target::{self, Target};
use super::{host, host::Budget, script};

/// A word that is a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub word: String,
    pub target: Target,
}

/// What is known while a command is read.
#[derive(Debug)]
pub(super) struct Analysis<'e> {
    variables: Variables,
    /// Texts written to files by here-documents.
    files: HashMap<String, String>,
    effort: &'e Budget,
    /// The pipelines that were read, as their programs get them.
    pipelines: Vec<String>,
    /// How many bytes of scripts may still be read: a script may be run by itself, again and again.
    to_read: usize,
    /// How many bytes of pipelines may still be kept.
    to_keep: usize,
    /// There was more than that.
    cut: bool,
}

/// What the least script counts, so that not too many are read.
const LEAST_SCRIPT: usize = 64;

/// Words of the shell that stand before a command.
const KEYWORDS: [&str; 14] =
    ["if", "then", "else", "elif", "fi", "do", "done", "while", "until", "esac", "!", "{", "}", "coproc"];

impl<'e> Analysis<'e> {
    /// For a command of so many bytes.
    pub(super) fn new(effort: &'e Budget, len: usize) -> Self {
        Self {
            variables: Variables::new(),
            files: HashMap::new(),
            effort,
            pipelines: Vec::new(),
            to_read: 16 * len + (256 << 10),
            to_keep: 8 * len + (256 << 10),
            cut: false,
        }
    }

    /// The pipelines that were read, and whether there were more than are read.
    pub(super) fn pipelines(self) -> (Vec<String>, bool) {
        (self.pipelines, self.cut)
    }

    /// Remembers pipelines as a line each: words joined by one blank, redirections, ` | ` between commands.
    fn remember(&mut self, commands: &[Simple]) {
        let mut line = String::new();
        for command in commands {
            line.push_str(&command.words.join(" "));
            for (operator, word) in &command.redirects {
                line.extend([" ", operator, " ", word]);
            }
            if command.piped {
                line.push_str(" | ");
                continue;
            }
            let line = std::mem::take(&mut line);
            match self.to_keep.checked_sub(line.len() + 1) {
                Some(left) => self.to_keep = left,
                None => self.cut = true,
            }
            if !self.cut {
                self.pipelines.push(line);
            }
        }
    }

    /// The first target of a text of shell commands.
    pub(super) fn shell(&mut self, text: &str, depth: usize) -> Option<Hit> {
        if depth > DEPTH {
            return None;
        }
        let Some(left) = self.to_read.checked_sub(text.len().max(LEAST_SCRIPT)) else {
            self.cut = true;
            return None;
        };
        self.to_read = left;
        let commands = lexer::commands(text, &mut self.variables, depth);
        self.remember(&commands);
        let mut fed: Vec<String> = Vec::new();
        for command in &commands {
            if let Some(hit) = command.inner.iter().find_map(|inner| self.shell(inner, depth + 1)) {
                return Some(hit);
            }
            if let Some(hit) = self.simple(command, &fed, depth) {
                return Some(hit);
            }
            let said = if command.piped { said(&command.words, &command.input) } else { None };
            // What is read on goes on: `echo … | tee f | sh`.
            if !command.piped {
                fed.clear();
            }
            fed.extend(said);
        }
        None
    }

    fn simple(&mut self, command: &Simple, fed: &[String], depth: usize) -> Option<Hit> {
        for (operator, word) in &command.redirects {
            if let Some(hit) = device(word, self.effort) {
                return Some(hit);
            }
            if operator.starts_with('>')
                && let Some(text) = said(&command.words, &command.input)
            {
                self.files.insert(bare(word).to_owned(), text);
            }
        }
        if let Some(hit) = proxy(&command.words, self.effort) {
            return Some(hit);
        }
        let words = Self::skip_keywords(&command.words);
        if words.first().is_some_and(|w| program::name(w) == "tee") && !command.input.is_empty() {
            for file in words.iter().skip(1).filter(|w| !w.starts_with('-')) {
                self.files.insert(bare(file).to_owned(), command.input.concat());
            }
        }
        // `sh < file` with a file that the same command wrote.
        let read = command.redirects.iter().filter(|(operator, _)| *operator == "<");
        let read: Vec<String> = read.filter_map(|(_, file)| self.files.get(bare(file)).cloned()).collect();
        let input: Vec<&String> = command.input.iter().chain(&read).chain(fed).collect();
        self.words(words, &input, depth)
    }

    /// Leaves out keywords and assignments.
    fn skip_keywords(words: &[String]) -> &[String] {
        let mut words = words;
        while let Some((first, rest)) = words.split_first() {
            if matches!(first.as_str(), "for" | "select" | "case") {
                return &[];
            }
            // `function name { … }`
            if first == "function" {
                words = rest.get(1..).unwrap_or_default();
                continue;
            }
            let assigns = first.split_once('=').is_some_and(|(name, _)| {
                !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            });
            if !assigns && !KEYWORDS.contains(&first.as_str()) {
                break;
            }
            words = rest;
        }
        words
    }

    /// The target of a program with its words.
    fn words(&mut self, words: &[String], input: &[&String], depth: usize) -> Option<Hit> {
        let (program, arguments) = words.split_first()?;
        match program::of(program) {
            Use::Text => self.text(program, arguments, depth),
            Use::Curl | Use::Wget => {
                let wget = program::of(program) == Use::Wget;
                let lists = |word: &String| {
                    matches!(word.as_str(), "--input-file" | "-")
                        || (wget && word.starts_with('-') && !word.starts_with("--") && word.contains('i'))
                        || word.starts_with("-K")
                        || word.starts_with("--config")
                };
                let read = arguments.iter().any(lists);
                let listed = input.iter().filter(|_| read).flat_map(|text| text.split_whitespace());
                let listed = listed.map(|word| word.strip_prefix("url=").unwrap_or(word).trim_matches(['"', '\'']));
                first(program::targets(arguments, wget).into_iter().chain(listed), self.effort)
                    .or_else(|| socket(arguments))
            }
            Use::Connects => {
                let command = |word: &'_ String| {
                    let option = word.strip_prefix("-o").unwrap_or(word).trim_start();
                    option
                        .strip_prefix("ProxyCommand")
                        .and_then(|text| text.strip_prefix(['=', ' ']))
                        .map(str::to_owned)
                };
                let commands = arguments.iter().filter_map(command);
                let hit = commands.into_iter().find_map(|text| self.shell(&text, depth + 1));
                hit.or_else(|| connected(program, arguments, self.effort))
            }
            Use::Client => first(program::servers(arguments), self.effort).or_else(|| urls(arguments, self.effort)),
            Use::Git => {
                let remotes = program::remotes(arguments);
                urls(remotes, self.effort)
                    .or_else(|| first(program::copies(remotes), self.effort))
                    .or_else(|| first(program::proxies(arguments), self.effort))
            }
            Use::Shell => self.run_shell(program, arguments, input, depth),
            Use::Interpreter => self.run_script(program::name(program), arguments, input, depth),
            Use::Wraps => self.wrapped(program, arguments, input, depth),
            Use::Other => self.file(program, "sh", depth).or_else(|| urls(arguments, self.effort)),
        }
    }

    /// Programs whose words are text, but for those that keep a command for later or connect by a file name.
    fn text(&mut self, program: &str, arguments: &[String], depth: usize) -> Option<Hit> {
        match program::name(program) {
            "trap" => self.shell(arguments.first()?, depth + 1),
            "alias" => {
                arguments.iter().filter_map(|w| w.split_once('=')).find_map(|(_, text)| self.shell(text, depth + 1))
            }
            "awk" | "gawk" | "mawk" => {
                let files = arguments.iter().filter_map(|w| w.split_once("/inet/")).map(|(_, rest)| rest);
                files.into_iter().find_map(|rest| first(rest.split('/').nth(2), self.effort)).or_else(|| {
                    let runs = arguments.iter().filter(|text| text.contains("system"));
                    runs.flat_map(|text| script::acts(text, "awk", self.effort)).find_map(|act| match act {
                        script::Act::Shell(text) => self.shell(&text, depth + 1),
                        script::Act::Target(..) | script::Act::Words(_) => None,
                    })
                })
            }
            _ => None,
        }
    }

    fn run_shell(&mut self, program: &str, arguments: &[String], input: &[&String], depth: usize) -> Option<Hit> {
        if program::name(program) == "eval" {
            return self.shell(&arguments.join(" "), depth + 1);
        }
        match options::shell(arguments) {
            Runs::Texts(texts) => texts.into_iter().find_map(|text| self.shell(text, depth + 1)),
            Runs::File(file) => self.file(file, "sh", depth),
            Runs::Module | Runs::Input => input.iter().find_map(|text| self.shell(text, depth + 1)),
        }
    }

    fn run_script(&mut self, program: &str, arguments: &[String], input: &[&String], depth: usize) -> Option<Hit> {
        let hit = match options::script(program, arguments) {
            Runs::Texts(texts) => self.script(&texts.join("\n"), program, depth),
            Runs::File(file) => self.file(file, program, depth),
            Runs::Module => None,
            Runs::Input => input.iter().find_map(|text| self.script(text, program, depth)),
        };
        hit.or_else(|| urls(arguments, self.effort))
    }

    fn script(&mut self, text: &str, program: &str, depth: usize) -> Option<Hit> {
        if depth >= DEPTH {
            return None;
        }
        script::acts(text, program, self.effort).into_iter().find_map(|act| match act {
            script::Act::Target(word, target) => Some(Hit { word, target }),
            script::Act::Shell(text) => self.shell(&text, depth + 1),
            script::Act::Words(words) => self.words(&words, &[], depth + 1),
        })
    }

    /// A file that the same command wrote is run.
    fn file(&mut self, file: &str, program: &str, depth: usize) -> Option<Hit> {
        if depth >= DEPTH {
            return None;
        }
        // Taken out: a file that runs itself is read once.
        let text = self.files.remove(bare(file))?;
        let hashbang = text.lines().next().filter(|line| line.starts_with("#!")).map(str::to_owned).unwrap_or_default();
        let other = ["python", "node", "perl", "ruby", "php"].into_iter().find(|name| hashbang.contains(name));
        match other.or((program != "sh").then_some(program)) {
            Some(program) => self.script(&text, program, depth + 1),
            None => self.shell(&text, depth + 1),
        }
    }

    /// Of the words of a wrapper the first that is a known program begins the command.
    fn wrapped(&mut self, program: &str, arguments: &[String], input: &[&String], depth: usize) -> Option<Hit> {
        if depth >= DEPTH {
            return None;
        }
        let find = program::name(program) == "find";
        let marks: &[&str] = if find { &["-exec", "-execdir", "-ok", "-okdir"] } else { &["--"] };
        let from = arguments.iter().position(|word| marks.contains(&word.as_str())).map_or(0, |at| at + 1);
        if from == 0 && find {
            return None;
        }
        let arguments = arguments.get(from..).unwrap_or_default();
        if program::name(program) == "env"
            && let Some(text) = options::split_string(arguments)
        {
            return self.shell(&text, depth + 1);
        }
        let before = if from == 0 { options::before_command(program, arguments) } else { 0 };
        let arguments = arguments.get(before..).unwrap_or_default();
        let known = |word: &String| program::of(word) != Use::Other && !word.is_empty() && word != ".";
        let Some(at) = arguments.iter().position(known) else {
            if program::wraps_text(program) {
                let text = arguments.iter().find(|word| word.contains(' '))?;
                return self.shell(text, depth + 1);
            }
            return urls(arguments, self.effort);
        };
        let mut words: Vec<String> = arguments.get(at..).unwrap_or_default().to_vec();
        if matches!(program::name(program), "xargs" | "parallel") {
            words.extend(input.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned));
        }
        self.words(&words, input, depth + 1)
    }
}

/// The name of a file as it is remembered.
fn bare(file: &str) -> &str {
    file.trim_start_matches("./")
}

/// What a command writes, when it is only text.
fn said(words: &[String], input: &[String]) -> Option<String> {
    let (program, arguments) = words.split_first()?;
    match program::name(program) {
        "echo" | "printf" => {
            let text =
                arguments.iter().filter(|w| !w.starts_with('-')).map(String::as_str).collect::<Vec<_>>().join(" ");
            Some(text.replace("\\n", "\n"))
        }
        "cat" | "tee" if !input.is_empty() => Some(input.concat()),
        _ => None,
    }
}

/// What is set as a proxy, for one command or for all.
fn proxy(words: &[String], effort: &Budget) -> Option<Hit> {
    let declares = ["export", "declare", "typeset", "readonly", "local"];
    let command = words.iter().position(|word| !word.contains('=')).unwrap_or(words.len());
    let is_text = words.get(command).is_some_and(|w| program::of(w) == Use::Text && !declares.contains(&w.as_str()));
    let words = if is_text { words.get(..command)? } else { words };
    let set = words.iter().filter_map(|word| word.split_once('='));
    let proxies = set.filter(|(name, _)| {
        let name = name.to_ascii_lowercase();
        name.ends_with("_proxy") && name != "no_proxy"
    });
    first(proxies.map(|(_, value)| value), effort)
}

/// The target of a program that connects to its words.
fn connected(program: &str, arguments: &[String], effort: &Budget) -> Option<Hit> {
    if !program::dials(program, arguments) {
        return urls(arguments, effort);
    }
    let name = program::name(program);
    let words = if matches!(name, "ssh" | "autossh" | "mosh") { program::destination(arguments) } else { arguments };
    let short = program::takes_short_names(program);
    // `metadata/` is a folder as `metadata` is a file.
    let is_file = |word: &str| target::is_short(word.split('/').next().unwrap_or(word));
    let hosts = program::hosts(program, words).into_iter().map(option_value).filter(|word| short || !is_file(word));
    first(hosts, effort).or_else(|| socket(arguments))
}

fn first<'w>(words: impl IntoIterator<Item = &'w str>, effort: &Budget) -> Option<Hit> {
    words.into_iter().find_map(|word| host::argument(word, effort).map(|target| Hit { word: word.to_owned(), target }))
}

/// Words that are URLs as a whole, alone or as the value of an option.
fn urls(words: &[String], effort: &Budget) -> Option<Hit> {
    let values = words.iter().map(String::as_str).map(option_value);
    values.into_iter().find_map(|word| host::url(word, effort).map(|target| Hit { word: word.to_owned(), target }))
}

/// The value of `--option=value`, else the word.
fn option_value(word: &str) -> &str {
    word.strip_prefix("--").and_then(|option| option.split_once('=')).map_or(word, |(_, value)| value)
}

/// A socket of the platform among the words: alone, or behind `=` or `:`.
fn socket(words: &[String]) -> Option<Hit> {
    let parts = words.iter().flat_map(|word| word.split(['=', ':', ',']));
    parts.into_iter().find_map(|part| target::socket(part).map(|target| Hit { word: part.to_owned(), target }))
}

/// `/dev/tcp/host/port` of bash.
fn device(word: &str, effort: &Budget) -> Option<Hit> {
    let rest = word.strip_prefix("/dev/tcp/").or_else(|| word.strip_prefix("/dev/udp/"))?;
    let target = host::argument(rest.split('/').next()?, effort)?;
    Some(Hit { word: word.to_owned(), target })
}

#[cfg(test)]
mod tests;
