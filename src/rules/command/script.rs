//! Texts in other languages (Python, JavaScript, Perl, Ruby, PHP): their strings, and what is done with each.
//!
//! A string counts when all of it is a URL or a host and it is given to a call that connects, or set to a variable of a text
//! that makes such calls. What is printed, compared or listed is a mention. No parser: a reader of strings and calls.

use super::host;
use super::target::{self, Target};

/// Calls that connect to their first strings.
const CONNECTING: &str = " urlopen urlretrieve request get post put delete head patch options fetch connect create_connection \
    connect_ex open_connection createconnection httpconnection httpsconnection socket gethostbyname gethostbyname_ex \
    getaddrinfo lookup resolve resolve4 resolve6 axios got needle superagent websocket websocketclient file_get_contents \
    fopen fsockopen curl_init curl_setopt open open-uri new io::socket::inet httpx aiohttp session client uri urlparse url get_response \
    net::http start tcpsocket udpsocket dial getstore getprint mirror stream download sendto ping query ";
/// Calls that run a command.
const RUNNING: &str = " system popen run call check_call check_output getoutput getstatusoutput exec execsync spawn spawnsync \
    execfile execfilesync shell_exec passthru proc_open qx create_subprocess_shell create_subprocess_exec execa $ ";
/// Calls whose strings are text.
const TEXT: &str = " print printf puts p println log info warn error debug echo write writelines say die raise assert assertequal \
    assert_eq expect equal tobe it test describe append push add includes startswith endswith replace match search compile \
    split join format dumps stringify ";
/// Names of what a connection is made to.
const HOST_KEYS: [&str; 7] = ["host", "hostname", "url", "uri", "baseurl", "href", "socketpath"];
/// Words that show that a text connects to something.
const SIGNS: [&str; 17] = [
    "urlopen",
    "requests",
    "fetch(",
    "httpx",
    "aiohttp",
    "socket",
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
    "urllib",
];

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
    list: bool,
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    calls: Vec<Call>,
    /// What stands before a string in its statement.
    word: String,
    last: char,
    connects: bool,
    comments: &'static [&'static str],
    acts: Vec<Act>,
}

/// Reads a text; `program` says how its comments begin.
pub(super) fn acts(text: &str, program: &str) -> Vec<Act> {
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
        at: 0,
        calls: Vec::new(),
        word: String::new(),
        last: '\n',
        connects,
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
                    let name =
                        if c == '(' || self.calls.is_empty() { std::mem::take(&mut self.word) } else { String::new() };
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
                    self.word = self.rest().get(..len.min(64)).unwrap_or_default().to_lowercase();
                    self.at += len;
                    self.last = 'a';
                }
                c if c.is_whitespace() => self.at += c.len_utf8(),
                c => {
                    if c == '\n' || c == ';' {
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
        self.last = c;
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
        let digits = match c {
            'x' => 2,
            'u' => 4,
            'n' => return value.push('\n'),
            't' => return value.push('\t'),
            c => return value.push(c),
        };
        let hex: String = self.rest().chars().take(digits).take_while(char::is_ascii_hexdigit).collect();
        self.at += hex.len();
        value.extend(u32::from_str_radix(&hex, 16).ok().and_then(char::from_u32));
    }

    fn judge(&mut self, value: &str, assigned: bool, before: char, word: &str) {
        let named = HOST_KEYS.contains(&word) && matches!(before, ':' | '=' | '>');
        let listed = self.calls.last().is_some_and(|call| match call.bracket {
            '[' => true,
            '{' => matches!(before, ':' | '{' | ',' | '>') && !named,
            _ => false,
        });
        let call = self.calls.iter_mut().rev().find(|call| call.bracket == '(' && !call.name.is_empty());
        let name = call.as_ref().map(|call| call.name.clone()).unwrap_or_default();
        if let Some(call) = call {
            call.list |= listed;
            if call.strings.len() < 64 {
                call.strings.push(value.to_owned());
            }
        }
        if before == '"' || value.contains(char::is_whitespace) {
            return;
        }
        // `puts "…"` and `get "…"` of Ruby and Perl have no parentheses.
        let name = if word.is_empty() || before != 'a' || word.len() < 2 { name } else { word.to_owned() };
        let url = host::url(value);
        let found = url.clone().or_else(|| host::host(value)).or_else(|| target::socket(value));
        let Some(found) = found else { return };
        let counts = if is_in(CONNECTING, &name) {
            !listed
        } else if is_in(TEXT, &name) || is_in(RUNNING, &name) {
            false
        } else {
            self.connects && assigned && !listed || (url.is_some() && self.connects && !name.is_empty() && !listed)
        };
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
