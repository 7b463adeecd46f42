//! What is executed in the guest: the runner's launch, the lockdown's nonce, and the fence of an adopter.
//!
//! Constants and their inputs as argument arrays and bytes. Nothing of a user's stands in an argument: arguments travel
//! in a URL. Must not start anything.

use std::{sync::LazyLock, time::Duration};

use thiserror::Error;

/// The runner as it is kept, with comments.
const SOURCE: &str = include_str!("runner.sh");

/// The runner as it is sent: without comment lines and indentation, since it travels with every Run.
static RUNNER: LazyLock<String> = LazyLock::new(|| {
    SOURCE.lines().map(str::trim_start).filter(|line| !line.is_empty() && !line.starts_with('#')).fold(
        String::new(),
        |mut text, line| {
            text.push_str(line);
            text.push('\n');
            text
        },
    )
});

/// Reads the runner from stdin and becomes it.
const BOOTSTRAP: &str = r#"LC_ALL=C IFS= read -rN "$1" s&&shift&&eval "$s""#;

/// The name of a Run's runner in the guest's process list; its UID follows.
pub const MARK: &str = "so-run";

/// Where the guest keeps the output of a Run for an adopter: `stdout` or `stderr`.
pub fn spool(uid: &str, stream: &str) -> String {
    format!("/home/sprite/.sprite-operator/{uid}/{stream}")
}

/// Exit code: the nonce is another one, so this is another instance.
pub const EXIT_WRONG_INSTANCE: u8 = 90;
/// Exit code: something stands where the guard would be made.
pub const EXIT_GUARD_EXISTS: u8 = 91;
/// Exit code: the disk refuses.
pub const EXIT_DISK: u8 = 92;
/// Exit code: the launch was cut short, or stopped before its script was started.
pub const EXIT_INPUT_CUT: u8 = 93;

/// The exec of a Run.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// UID of the Run: its mark in the process list and the name of its guard.
    pub uid: &'a str,
    /// The nonce that only the locked-down instance holds.
    pub nonce: &'a str,
    /// When the guest ends the script by itself.
    pub backstop: Duration,
    /// Bytes of each stream that are kept in the guest for an adopter.
    pub spool: u64,
    /// Variables of the script.
    pub environment: &'a [(String, String)],
    /// Working directory, absolute.
    pub directory: &'a str,
    /// The script.
    pub script: &'a str,
    /// The script's stdin.
    pub stdin: &'a [u8],
    /// Whether what the script leaves behind is killed.
    pub kill_leftovers: bool,
}

/// Why a launch cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LaunchError {
    /// bash cannot carry NUL.
    #[error("the command holds a NUL character, which bash cannot carry: remove it")]
    Nul,
    /// The UID or the nonce is not of their alphabet, so it could be taken for something else.
    #[error("the mark of the Run is not of letters, digits and hyphens")]
    Mark,
}

impl Launch<'_> {
    /// The argument array and the bytes of stdin.
    pub fn encode(&self) -> Result<(Vec<String>, Vec<u8>), LaunchError> {
        let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        if !plain(self.uid) || !plain(self.nonce) {
            return Err(LaunchError::Mark);
        }
        let nul = |text: &str| text.contains('\0');
        if nul(self.script) || nul(self.directory) || self.environment.iter().any(|(n, v)| nul(n) || nul(v)) {
            return Err(LaunchError::Nul);
        }
        let runner = RUNNER.as_str();
        let numbers = [
            self.backstop.as_secs().max(1).to_string(),
            // More than the cap, so that an adopter can tell output at the cap from output past it.
            (self.spool / 1024 + 1).to_string(),
            self.environment.len().to_string(),
            self.script.len().to_string(),
        ];
        let mut argv = bash(BOOTSTRAP, MARK);
        argv.extend([runner.len().to_string(), self.uid.to_owned(), self.nonce.to_owned()]);
        argv.extend(numbers);
        argv.push(if self.kill_leftovers { "k" } else { "-" }.to_owned());

        let mut input = Vec::with_capacity(runner.len() + self.script.len() + self.stdin.len() + 1024);
        input.extend_from_slice(runner.as_bytes());
        for (name, value) in self.environment {
            input.extend_from_slice(format!("{name}={value}\0").as_bytes());
        }
        input.extend_from_slice(self.directory.as_bytes());
        input.push(0);
        input.extend_from_slice(self.script.as_bytes());
        input.extend_from_slice(self.stdin);
        Ok((argv, input))
    }
}

fn bash(script: &str, name: &str) -> Vec<String> {
    ["bash", "--noprofile", "--norc", "-c", script, name].map(str::to_owned).to_vec()
}

/// The start marker of a Run: the first bytes of the runner's stdout.
pub fn start_marker(uid: &str) -> String {
    format!("so-started {uid}\n")
}

/// Writes the nonce into a freshly locked instance and makes the workspace. Prints [`lockdown_answer`].
pub fn lockdown(nonce: &str) -> Vec<String> {
    const SCRIPT: &str = r#"umask 077
mkdir -p "$HOME/.sprite-operator" && cd "$HOME/.sprite-operator" && printf '%s\n' "$1" >nonce.new && sync nonce.new && mv -f nonce.new nonce || exit 92
umask 022
mkdir -p /workspace || exit 92
read -r found <nonce && printf 'so-locked %s\n' "$found""#;
    let mut argv = bash(SCRIPT, "so-lock");
    argv.push(nonce.to_owned());
    argv
}

/// What a successful [`lockdown`] prints.
pub fn lockdown_answer(nonce: &str) -> String {
    format!("so-locked {nonce}\n")
}

/// Fences a Run whose exec session is gone: from then on it cannot start. Prints one line that [`Guard::parse`] reads.
pub fn fence(uid: &str) -> Vec<String> {
    const SCRIPT: &str = r#"umask 077
root=$HOME/.sprite-operator
guard=$root/$1
mkdir -p "$root" || exit 92
if ln -sT never "$guard" 2>/dev/null || [[ -L $guard && $(readlink "$guard") == never ]]; then
  echo never
elif [[ -d $guard && ! -L $guard ]]; then
  if [[ -s $guard/exit ]]; then printf 'record '; cat "$guard/exit"; else echo started; fi
else
  exit 92
fi"#;
    let mut argv = bash(SCRIPT, "so-fence");
    argv.push(uid.to_owned());
    argv
}

/// Kills every process that carries a Run's mark, until two scans find none; prints how many are left.
pub fn sweep(uid: &str) -> Vec<String> {
    const SCRIPT: &str = r#"for ((scans = 0, tries = 0; scans < 2 && tries < 100; tries++)); do
  found=$(grep -lzxF "SO_RUN=$1" /proc/[0-9]*/environ 2>/dev/null)
  if [[ -z $found ]]; then ((++scans)); sleep 0.02; continue; fi
  found=${found//\/proc\//}
  kill -KILL ${found//\/environ/} 2>/dev/null
  scans=0
done
grep -lzxF "SO_RUN=$1" /proc/[0-9]*/environ 2>/dev/null | wc -l"#;
    let mut argv = bash(SCRIPT, "so-sweep");
    argv.push(uid.to_owned());
    argv
}

/// What stands at a Run's guard once it was fenced.
#[derive(Debug, Clone, PartialEq)]
pub enum Guard {
    /// The command never started and now cannot.
    Never,
    /// It started; there is no record of its end.
    Started,
    /// It ended so.
    Record {
        /// Exit code.
        code: u8,
        /// How long it ran.
        ran: Duration,
    },
}

impl Guard {
    /// Reads what [`fence`] printed; anything else is no answer.
    pub fn parse(answer: &str) -> Option<Self> {
        match answer {
            "never\n" | "record never\n" => return Some(Self::Never),
            "started\n" => return Some(Self::Started),
            _ => {}
        }
        let record = answer.strip_prefix("record ")?;
        // A record without its newline was cut by a crash: it says only that the command started.
        let Some(line) = record.strip_suffix('\n') else {
            return Some(Self::Started);
        };
        let mut words = line.split(' ');
        let code: u8 = words.next()?.parse().ok()?;
        let (start, end): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        if words.next().is_some() || !start.is_finite() || !end.is_finite() {
            return None;
        }
        // The guest's clock may step back; a negative span is none. One too long to write passes any timeout.
        let ran = Duration::try_from_secs_f64((end - start).max(0.0)).unwrap_or(Duration::MAX);
        Some(Self::Record { code, ran })
    }
}

#[cfg(test)]
mod tests;
