//! Texts in other languages (Python, JavaScript, Perl, Ruby, PHP): their strings, and what is done with each.
//!
//! A string counts when all of it is a URL or a host and it is given to a call that connects, or set to a variable of a text
//! that makes such calls. What is printed, compared or listed is a mention. No parser: a reader of strings and calls.

use super::host::{self, Budget};
use super::target::{self, Target};

/// Calls that connect to a URL.
const FETCHING: &str = " urlopen urlretrieve request get post put delete head patch options fetch axios got needle superagent websocket \
    websocketclient file_get_contents fopen curl_init curl_setopt open httpx aiohttp session client get_response getstore getprint \
    mirror stream download start query goto ";
/// Calls that connect to a host.
const DIALLING: &str = " connect connect_ex create_connection open_connection createconnection httpconnection httpsconnection socket \
    gethostbyname gethostbyname_ex getaddrinfo lookup resolve resolve4 resolve6 fsockopen tcpsocket udpsocket dial sendto ping ";
/// Those of them that take nothing but a host: a word such as `metadata` is none elsewhere (`sqlite3.connect("metadata")`).
const RESOLVING: &str = " create_connection open_connection createconnection httpconnection httpsconnection gethostbyname \
    gethostbyname_ex getaddrinfo fsockopen tcpsocket udpsocket ";
/// Calls that run a command.
const RUNNING: &str = " system popen run call check_call check_output getoutput getstatusoutput exec execsync spawn spawnsync \
    execfile execfilesync shell_exec passthru proc_open qx create_subprocess_shell create_subprocess_exec execa $ ";
/// Calls whose strings are text.
const TEXT: &str = " print printf puts p println log info warn error debug echo write writelines say die raise assert assertequal \
    assert_eq expect equal tobe it test describe append push add includes startswith endswith replace match search compile \
    split join format dumps stringify urlparse urlsplit ";
/// Names of what a connection is made to.
const HOST_KEYS: [&str; 9] =
    ["host", "hostname", "url", "uri", "baseurl", "href", "socketpath", "peeraddr", "peerhost"];
/// Words that show that a text connects to something.
const SIGNS: [&str; 18] = [
    "urlopen",
    "requests",
    "fetch(",
    "httpx",
    "aiohttp",
    "socket",
    "Socket",
    "http.client",
    "axios",
    "http.get",
    "https.get",
    "http.request",
    "curl_exec",
    "file_get_contents",
    "LWP",
    "Net::HTTP",
    "open-uri",
    "urllib.request",
];

/// Stands for a comparison where the last character is remembered.
const COMPARED: char = '\u{2261}';

/// What a text does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Connects.
    Target(String, Target),
    /// Runs this as a shell command.
    Shell(String),
    /// Runs these words.
    Words(Vec<String>),
}

/// A call that is open.
#[derive(Debug, Default)]
struct Call {
    name: String,
    bracket: char,
    strings: Vec<String>,
}

struct Reader<'t> {
    text: &'t str,
    effort: &'t Budget,
    at: usize,
    calls: Vec<Call>,
    /// What stands before a string in its statement.
    word: String,
    last: char,
    connects: bool,
    /// The line is the head of a loop.
    looped: bool,
    comments: &'static [&'static str],
    acts: Vec<Act>,
}

/// Reads a text; `program` says how its comments begin.
pub(super) fn acts(text: &str, program: &str, effort: &Budget) -> Vec<Act> {
    let slashes = ["node", "nodejs", "deno", "bun", "php", "tsx", "ts-node"].contains(&program);
    let comments: &'static [&'static str] = match (slashes, program) {
        (true, "php") => &["//", "#"],
        (true, _) => &["//"],
        (false, p) if p.starts_with("lua") => &["--"],
        (false, _) => &["#"],
    };
    let connects = SIGNS.iter().any(|sign| text.contains(sign));
    let mut reader = Reader {
        text,
        effort,
        at: 0,
        calls: Vec::new(),
        word: String::new(),
        last: '\n',
        connects,
        looped: false,
        comments,
        acts: Vec::new(),
    };
    reader.run();
    reader.acts
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn run(&mut self) {
        while let Some(c) = self.rest().chars().next() {
            if self.comments.iter().any(|mark| self.rest().starts_with(mark)) {
                self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                continue;
            }
            match c {
                '\'' | '"' | '`' => self.strings(),
                '(' | '[' | '{' => {
                    let name = if c == '(' || self.calls.is_empty() || matches!(self.word.as_str(), "in" | "of") {
                        std::mem::take(&mut self.word)
                    } else {
                        String::new()
                    };
                    self.calls.push(Call { name, bracket: c, ..Call::default() });
                    self.step(c);
                }
                ')' | ']' | '}' => {
                    self.close();
                    self.step(c);
                }
                c if c.is_alphanumeric() || c == '_' || c == '$' => {
                    let len = self
                        .rest()
                        .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$'))
                        .unwrap_or(self.rest().len());
                    let word = self.rest().get(..len.min(64)).unwrap_or_default().to_lowercase();
                    // `TCPSocket.new(…)`: the class says what is made.
                    if word != "new" || self.word.is_empty() {
                        self.word = word;
                    }
                    self.looped |= self.word == "for";
                    self.at += len;
                    self.last = 'a';
                }
                '\n' => {
                    self.word.clear();
                    self.looped = false;
                    self.at += 1;
                }
                c if c.is_whitespace() => self.at += c.len_utf8(),
                c => {
                    if c == ';' {
                        self.word.clear();
                    }
                    self.step(c);
                }
            }
        }
        while !self.calls.is_empty() {
            self.close();
        }
    }

    fn step(&mut self, c: char) {
        self.at += c.len_utf8();
        // `==`, `!=`, `<=` compare, `=` sets.
        let compares = c == '=' && matches!(self.last, '=' | '!' | '<' | '>' | COMPARED);
        self.last = if compares { COMPARED } else { c };
    }

    /// A string with those joined to it: side by side, with `+` or with `.`.
    fn strings(&mut self) {
        let (assigned, before) = (self.last == '=', self.last);
        let raw = std::mem::take(&mut self.word);
        let mut joined = self.one();
        loop {
            let rest = self.rest();
            let after = rest.trim_start();
            let after = after.strip_prefix(['+', '.']).map_or(after, str::trim_start);
            if !after.starts_with(['\'', '"']) || joined.len() > 4096 {
                break;
            }
            self.at = self.text.len() - after.len();
            joined.push_str(&self.one());
        }
        self.last = '"';
        self.judge(&joined, assigned, before, &raw);
    }

    /// One string.
    fn one(&mut self) -> String {
        let rest = self.rest();
        let Some(quote) = rest.chars().next() else { return String::new() };
        let tripled: String = [quote; 3].iter().collect();
        let end = if rest.starts_with(&tripled) { tripled } else { quote.to_string() };
        self.at += end.len();
        let mut value = String::new();
        while let Some(c) = self.rest().chars().next() {
            if self.rest().starts_with(&end) {
                self.at += end.len();
                return value;
            }
            self.at += c.len_utf8();
            if c == '\\' {
                self.escape(&mut value);
            } else {
                value.push(c);
            }
        }
        value
    }

    fn escape(&mut self, value: &mut String) {
        let Some(c) = self.rest().chars().next() else { return };
        self.at += c.len_utf8();
        let braced = matches!(c, 'x' | 'u') && self.rest().starts_with('{');
        let (digits, radix) = match c {
            // `\x{31}` of Perl and Ruby, `\u{31}` of JavaScript.
            'x' | 'u' if braced => (8, 16),
            'x' => (2, 16),
            'u' => (4, 16),
            'U' => (8, 16),
            // Octal: the first digit is one of three.
            '0'..='7' => (3, 8),
            'n' => return value.push('\n'),
            't' => return value.push('\t'),
            c => return value.push(c),
        };
        self.at = if braced { self.at + 1 } else { self.at - usize::from(radix == 8) };
        let code: String = self.rest().chars().take(digits).take_while(|digit| digit.is_digit(radix)).collect();
        self.at += code.len();
        self.at += usize::from(braced && self.rest().starts_with('}'));
        value.extend(u32::from_str_radix(&code, radix).ok().and_then(char::from_u32));
    }

    fn judge(&mut self, value: &str, assigned: bool, before: char, word: &str) {
        let named = HOST_KEYS.contains(&word) && matches!(before, ':' | '=' | '>');
        let listed = self.calls.last().is_some_and(|call| match call.bracket {
            '[' => true,
            '{' => matches!(before, ':' | '{' | ',' | '>') && !named,
            _ => false,
        });
        // `{host: …}`, and the pair of host and port in `connect((…, 80))`.
        let host_only = named || self.calls.last().is_some_and(|call| call.bracket == '(' && call.name.is_empty());
        let call = self.calls.iter_mut().rev().find(|call| call.bracket == '(' && !call.name.is_empty());
        let name = call.as_ref().map(|call| call.name.clone()).unwrap_or_default();
        if let Some(call) = call.filter(|call| call.strings.len() < 64) {
            call.strings.push(value.to_owned());
        }
        if before == '"' || value.contains(char::is_whitespace) {
            return;
        }
        // `puts "…"` and `get "…"` of Ruby and Perl have no parentheses; one or two letters are Python's kind of string (`rf"…"`).
        let name = if before != 'a' || word.len() <= 2 { name } else { word.to_owned() };
        let url = host::url(value, self.effort);
        let found = url.clone().or_else(|| host::endpoint(value)).or_else(|| target::socket(value));
        let Some(found) = found else { return };
        // A word such as `metadata` is a host only where nothing else can stand.
        let looped = self.looped && self.calls.last().is_some_and(|call| matches!(call.name.as_str(), "in" | "of"));
        let given = !listed && (assigned || named || (url.is_some() && !name.is_empty())) || looped;
        let counts =
            is_in(DIALLING, &name) && !listed && (host_only || is_in(RESOLVING, &name) || !target::is_short(value))
                || is_in(FETCHING, &name) && !listed && (url.is_some() || (named && !target::is_short(value)))
                || !is_in(FETCHING, &name)
                    && !is_in(TEXT, &name)
                    && !is_in(RUNNING, &name)
                    && self.connects
                    && given
                    && !target::is_short(value);
        if counts {
            self.acts.push(Act::Target(value.to_owned(), found));
        }
    }

    fn close(&mut self) {
        let Some(call) = self.calls.pop() else { return };
        if call.bracket != '(' || !is_in(RUNNING, &call.name) {
            return;
        }
        match call.strings.as_slice() {
            [] => {}
            [one] => self.acts.push(Act::Shell(one.clone())),
            _ => self.acts.push(Act::Words(call.strings)),
        }
    }
}

fn is_in(list: &str, name: &str) -> bool {
    !name.is_empty() && list.split(' ').any(|known| known == name)
}

#[cfg(test)]
mod tests;
