//! Options before what a shell, an interpreter or a wrapper runs.
//!
//! Tables of the options that take a value, and reading past them. Must not judge what is run.

use super::program;

/// What a shell or an interpreter runs.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Runs<'w> {
    /// These texts, one after the other.
    Texts(Vec<&'w str>),
    /// This file.
    File(&'w str),
    /// A part of a library: its words are its own.
    Module,
    /// Its input.
    Input,
}

/// What a shell runs: `bash -o pipefail -ce TEXT`, `sh FILE`, `bash -s`.
pub(super) fn shell(arguments: &[String]) -> Runs<'_> {
    let (mut text, mut input) = (false, false);
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if matches!(word, "--rcfile" | "--init-file") {
            words.next();
        } else if word == "--" || word == "-" {
            return operand(words.next(), text, input);
        } else if word.starts_with("--") {
        } else if let Some(letters) = word.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty()) {
            let set = word.starts_with('-');
            text |= set && letters.contains('c');
            input |= set && letters.contains('s');
            if letters.ends_with(['o', 'O']) {
                words.next();
            }
        } else {
            return operand(Some(word), text, input);
        }
    }
    Runs::Input
}

fn operand(word: Option<&str>, text: bool, input: bool) -> Runs<'_> {
    match word {
        Some(word) if text => Runs::Texts(vec![word]),
        Some(word) if !input => Runs::File(word),
        Some(_) | None => Runs::Input,
    }
}

/// Letters of an interpreter: those that a text follows, those that another value follows, and those whose value is the rest
/// of the word.
fn letters(program: &str) -> (&'static str, &'static str, &'static str) {
    match program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.') {
        "python" | "pypy" | "ipython" => ("c", "WXQ", ""),
        "perl" => ("eE", "I", "MmiFxCDd"),
        "ruby" => ("e", "rICE", "FKTxiW"),
        "php" => ("rBRE", "dczSt", ""),
        "lua" => ("e", "l", ""),
        // Letters of these do not stand together.
        _ => ("", "", ""),
    }
}

/// What an interpreter runs: `python3 -Ic TEXT`, `perl -MSocket -e TEXT`, `node --eval=TEXT`, `python3 -W ignore FILE`.
pub(super) fn script<'w>(program: &str, arguments: &'w [String]) -> Runs<'w> {
    const TEXT: [&str; 9] = ["-e", "-p", "-pe", "-r", "-c", "--eval", "--print", "--run", "eval"];
    let (texts, values, glued) = letters(program);
    let mut found = Vec::new();
    let mut words = arguments.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if let Some(text) = word.strip_prefix("--eval=").or_else(|| word.strip_prefix("--print=")) {
            found.push(text);
        } else if (texts.is_empty() || word.starts_with("--")) && TEXT.contains(&word) {
            found.extend(words.next());
        } else if word == "-m" && texts == "c" {
            return Runs::Module;
        } else if word == "-" || !word.starts_with('-') {
            return match (found.is_empty(), word) {
                (false, _) => Runs::Texts(found),
                (true, "-") => Runs::Input,
                (true, file) => Runs::File(file),
            };
        } else if word == "--" {
            break;
        } else if let Some(cluster) = word.strip_prefix('-').filter(|letters| !letters.starts_with('-')) {
            let stop = cluster.char_indices().find(|(_, c)| [texts, values, glued].iter().any(|set| set.contains(*c)));
            let Some((at, letter)) = stop else { continue };
            let rest = cluster.get(at + letter.len_utf8()..).filter(|rest| !rest.is_empty());
            if texts.contains(letter) {
                found.extend(rest.or_else(|| words.next()));
            } else if rest.is_none() && values.contains(letter) {
                words.next();
            }
        }
    }
    if !found.is_empty() {
        return Runs::Texts(found);
    }
    words.next().map_or(Runs::Input, Runs::File)
}

/// A wrapper: letters of its options that a value follows, and how many operands stand before the command.
const WRAPPERS: &[(&str, &str, usize)] = &[
    ("sudo", "ughpCDRTUrt", 0),
    ("doas", "uC", 0),
    ("env", "uC", 0),
    ("timeout", "sk", 1),
    ("time", "fo", 0),
    ("nice", "n", 0),
    ("ionice", "cnpPu", 0),
    ("stdbuf", "ioe", 0),
    ("xargs", "InPLdaEs", 0),
    ("flock", "wE", 1),
    ("chroot", "", 1),
    ("watch", "n", 0),
    ("strace", "eopPsuEabSUXI", 0),
    ("ltrace", "eopsuaAlnx", 0),
    ("exec", "a", 0),
    ("taskset", "", 1),
    ("chrt", "TPD", 1),
    ("faketime", "f", 1),
    ("runuser", "ugG", 0),
    ("caffeinate", "tw", 0),
    ("xvfb-run", "efnspw", 0),
    ("proxychains", "f", 0),
    ("proxychains4", "f", 0),
];
/// Long options of wrappers that a value follows.
const LONG: &str = " user group host prompt chdir chroot role type signal kill-after unset adjustment class classdata input output error \
    max-args max-procs replace delimiter arg-file timeout wait format interval ";

/// How many words of a wrapper come before the command that it runs.
pub(super) fn before_command(wrapper: &str, arguments: &[String]) -> usize {
    let Some((_, letters, operands)) = WRAPPERS.iter().find(|(name, ..)| *name == program::name(wrapper)) else {
        return 0;
    };
    let mut left = *operands;
    let mut words = arguments.iter().map(String::as_str).enumerate();
    while let Some((at, word)) = words.next() {
        if word == "--" {
            return (at + 1 + left).min(arguments.len());
        }
        if let Some(name) = word.strip_prefix("--") {
            if !name.is_empty() && LONG.split(' ').any(|known| known == name) {
                words.next();
            }
        } else if let Some(cluster) = word.strip_prefix('-').filter(|cluster| !cluster.is_empty()) {
            // The value is the rest of the word, or the next.
            let first = cluster.char_indices().find(|(_, c)| letters.contains(*c));
            if first.is_some_and(|(at, c)| at + c.len_utf8() == cluster.len()) {
                words.next();
            }
        } else if left == 0 {
            return at;
        } else {
            left -= 1;
        }
    }
    arguments.len()
}

/// The text of `env -S TEXT`, which is read as a command.
pub(super) fn split_string(arguments: &[String]) -> Option<String> {
    arguments.iter().enumerate().find_map(|(at, word)| {
        let letters = |word: &str| word.bytes().all(|letter| b"iv0".contains(&letter));
        let short = word.strip_prefix('-').filter(|word| !word.starts_with('-')).and_then(|word| word.split_once('S'));
        let glued = short.filter(|(before, _)| letters(before)).map(|(_, text)| text);
        let text =
            glued.or_else(|| word.strip_prefix("--split-string=")).or((word == "--split-string").then_some(""))?;
        let rest = arguments.get(at + 1..).unwrap_or_default().join(" ");
        Some(format!("{text} {rest}"))
    })
}

#[cfg(test)]
mod tests;
