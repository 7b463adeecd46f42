//! The launch of a Run: what the operator sends, and how the runner reads it.
//!
//! Arguments: `so-run UID NONCE TIMEOUT_MS CAP LOOKAHEAD FLAGS LIVE VARIABLES HEADER_BYTES SCRIPT_BYTES`. Stdin, in this order:
//! the header, that is the UIDs of LIVE Runs that are not terminal, VARIABLES times `K=V` and the working directory, each with
//! a NUL behind it; the script, or the file operation (exactly `SCRIPT_BYTES`); then the script's stdin.

use std::time::Duration;

use thiserror::Error;

use super::{RUN, capture::Shape, file::FileOperation, is_plain};

/// The longest header and script that the runner takes, in bytes: far above what the schema allows.
const INPUT_MAX: usize = 16 << 20;
/// The flag: what the script leaves behind is killed.
const KILL_LEFTOVERS: char = 'k';
/// The flag: the script is stopped when its output passes the cap.
const STOP_AT_CAP: char = 'c';

/// The flag: a file operation comes in the place of a script.
const IS_FILE: char = 'f';

/// What is executed.
#[derive(Debug, Clone, Copy)]
pub enum Task<'a> {
    /// A script of bash.
    Script(&'a str),
    /// A file operation of the runner's own.
    File(&'a FileOperation),
}

/// The exec of a Run.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// Path of the runner in the guest.
    pub runner: &'a str,
    /// UID of the Run: its mark in the process list and the name of its guard.
    pub uid: &'a str,
    /// The nonce that only the locked-down instance holds.
    pub nonce: &'a str,
    /// How long the script may run.
    pub timeout: Duration,
    /// Bytes of both streams together that are stored.
    pub cap: u64,
    /// Bytes of each stream that redaction looks at past the cap.
    pub lookahead: u64,
    /// Whether what the script leaves behind is killed.
    pub kill_leftovers: bool,
    /// Whether the script is stopped at the cap.
    pub stop_at_cap: bool,
    /// UIDs of Runs of this session that are not terminal: nothing of theirs is removed.
    pub live: &'a [String],
    /// Variables of the script.
    pub environment: &'a [(String, String)],
    /// Working directory, absolute.
    pub directory: &'a str,
    /// What is executed.
    pub task: Task<'a>,
    /// The script's stdin.
    pub stdin: &'a [u8],
}

/// Why a launch cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LaunchError {
    /// An argument or a variable cannot carry NUL.
    #[error("the command holds a NUL character, which bash cannot carry: remove it")]
    Nul,
    /// The UID or the nonce is not of their alphabet, so it could be taken for something else.
    #[error("the mark of the Run is not of letters, digits and hyphens")]
    Mark,
}

impl Launch<'_> {
    /// The argument array and the bytes of stdin.
    pub fn encode(&self) -> Result<(Vec<String>, Vec<u8>), LaunchError> {
        let Self { runner, uid, nonce, timeout, cap, lookahead, kill_leftovers, stop_at_cap, .. } = *self;
        let Self { live, environment, directory, task, stdin, .. } = *self;
        if !is_plain(uid) || !is_plain(nonce) || !live.iter().all(|uid| is_plain(uid)) {
            return Err(LaunchError::Mark);
        }
        let nul = |text: &str| text.contains('\0');
        let encoded;
        let (script, is_file) = match task {
            Task::Script(script) if nul(script) => return Err(LaunchError::Nul),
            Task::Script(script) => (script.as_bytes(), false),
            Task::File(operation) => {
                encoded = operation.encode();
                (encoded.as_slice(), true)
            }
        };
        if nul(directory) || environment.iter().any(|(n, v)| nul(n) || nul(v)) {
            return Err(LaunchError::Nul);
        }
        let mut input = Vec::with_capacity(script.len() + stdin.len() + 1024);
        let mut field = |parts: &[&str]| {
            for part in parts {
                input.extend_from_slice(part.as_bytes());
            }
            input.push(0);
        };
        for uid in live {
            field(&[uid]);
        }
        for (name, value) in environment {
            field(&[name, "=", value]);
        }
        field(&[directory]);
        let header = input.len();
        input.extend_from_slice(script);
        input.extend_from_slice(stdin);
        let flag = |set: bool, letter| set.then_some(letter);
        let flags: String = ['-']
            .into_iter()
            .chain(flag(kill_leftovers, KILL_LEFTOVERS))
            .chain(flag(stop_at_cap, STOP_AT_CAP))
            .chain(flag(is_file, IS_FILE))
            .collect();
        let argv = [
            runner.to_owned(),
            RUN.to_owned(),
            uid.to_owned(),
            nonce.to_owned(),
            timeout.as_millis().max(1).to_string(),
            cap.to_string(),
            lookahead.to_string(),
            flags,
            live.len().to_string(),
            environment.len().to_string(),
            header.to_string(),
            script.len().to_string(),
        ];
        Ok((argv.to_vec(), input))
    }
}

/// The arguments of a launch, as the runner reads them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arguments {
    /// UID of the Run.
    pub uid: String,
    /// The nonce.
    pub nonce: String,
    /// How long the script may run.
    pub timeout: Duration,
    /// Bytes of both streams together that are stored.
    pub cap: u64,
    /// Bytes of each stream past the cap that are kept beside them.
    pub lookahead: u64,
    /// Whether what the script leaves behind is killed.
    pub kill_leftovers: bool,
    /// Whether the script is stopped at the cap.
    pub stop_at_cap: bool,
    /// Whether a file operation comes in the place of a script.
    pub is_file: bool,
    live: usize,
    variables: usize,
    header: usize,
    script: usize,
}

impl Arguments {
    /// Reads what follows [`RUN`]; nothing when it is not of this protocol.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Option<Self> {
        let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
        let [uid, nonce, timeout, cap, lookahead, flags, live, variables, header, script] = words.as_slice() else {
            return None;
        };
        if !is_plain(uid) || !is_plain(nonce) || !flags.starts_with('-') {
            return None;
        }
        let length = |word: &str| word.parse::<usize>().ok().filter(|length| *length <= INPUT_MAX);
        Some(Self {
            uid: (*uid).to_owned(),
            nonce: (*nonce).to_owned(),
            timeout: Duration::from_millis(timeout.parse().ok()?),
            cap: cap.parse().ok()?,
            lookahead: lookahead.parse().ok()?,
            kill_leftovers: flags.contains(KILL_LEFTOVERS),
            stop_at_cap: flags.contains(STOP_AT_CAP),
            is_file: flags.contains(IS_FILE),
            live: length(live)?,
            variables: length(variables)?,
            header: length(header)?,
            script: length(script)?,
        })
    }

    /// What is kept of its output.
    pub const fn shape(&self) -> Shape {
        Shape { cap: self.cap, lookahead: self.lookahead, head_only: self.stop_at_cap }
    }

    /// How many bytes of stdin come before the script's own.
    pub const fn input_bytes(&self) -> usize {
        self.header + self.script
    }
}

/// What a launch brings on stdin before the script's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// UIDs of Runs whose files stay.
    pub live: Vec<String>,
    /// Variables of the script.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// Working directory.
    pub directory: Vec<u8>,
    /// The script, or the file operation.
    pub script: Vec<u8>,
}

impl Input {
    /// Takes exactly [`Arguments::input_bytes`] apart; nothing when they are not what the arguments say.
    pub fn parse(arguments: &Arguments, bytes: &[u8]) -> Option<Self> {
        if bytes.len() != arguments.input_bytes() {
            return None;
        }
        let (header, script) = bytes.split_at_checked(arguments.header)?;
        let mut fields: Vec<&[u8]> = header.split(|byte| *byte == 0).collect();
        // What follows the last NUL: nothing.
        if fields.pop()? != b"" || fields.len() != arguments.live.checked_add(arguments.variables)?.checked_add(1)? {
            return None;
        }
        let directory = fields.pop()?.to_vec();
        let (live, variables) = fields.split_at_checked(arguments.live)?;
        let live = live.iter().map(|uid| {
            let uid = std::str::from_utf8(uid).ok()?;
            is_plain(uid).then(|| uid.to_owned())
        });
        let environment = variables.iter().map(|variable| {
            let equals = variable.iter().position(|byte| *byte == b'=').filter(|at| *at > 0)?;
            let (name, value) = variable.split_at_checked(equals)?;
            Some((name.to_vec(), value.get(1..)?.to_vec()))
        });
        Some(Self {
            live: live.collect::<Option<_>>()?,
            environment: environment.collect::<Option<_>>()?,
            directory,
            // An argument of bash ends at NUL.
            script: Some(script.to_vec()).filter(|script| arguments.is_file || !script.contains(&0))?,
        })
    }
}

#[cfg(test)]
mod tests;
