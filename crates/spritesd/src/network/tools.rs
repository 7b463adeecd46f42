//! Running `ip`, `nft` and `ss`: one start does many changes, which come as text on standard input.

use std::io::{self, Write as _};
use std::process::{Command, Stdio};

const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A list of changes to addresses, links and routes; it stops at the first that fails.
pub(super) const IP: (&str, &[&str]) = ("ip", &["-batch", "-"]);
/// One transaction: all of it or nothing.
pub(super) const NFT: (&str, &[&str]) = ("nft", &["-f", "-"]);
/// A transaction that is only tried out.
pub(super) const NFT_CHECK: (&str, &[&str]) = ("nft", &["-c", "-f", "-"]);

/// Why a tool did not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolError {
    #[error("`{0}` is not installed")]
    Missing(&'static str),
    #[error("`{tool}` failed: {said}")]
    Failed { tool: &'static str, said: String },
    #[error("`{0}` did not end in time")]
    TimedOut(&'static str),
    #[error("`{tool}` cannot be started: {source}")]
    Io { tool: &'static str, source: io::Error },
}

impl ToolError {
    pub(super) fn io(tool: &'static str, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::NotFound { Self::Missing(tool) } else { Self::Io { tool, source } }
    }

    /// From what a tool that failed wrote on standard error.
    pub(super) fn failed(tool: &'static str, said: &[u8]) -> Self {
        const MOST: usize = 500;
        let said: String = String::from_utf8_lossy(said).trim().chars().take(MOST).collect();
        Self::Failed { tool, said }
    }
}

/// A tool, ready to be started in the network namespace of the thread that starts it.
pub(super) fn command(tool: &'static str, arguments: &[&str]) -> Command {
    let mut command = Command::new(tool);
    command.args(arguments).env_clear().env("PATH", PATH).env("LC_ALL", "C").current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Runs a tool from this thread and waits for it. For processes with one thread; tasks use
/// [`super::namespace::Namespace::feed`].
pub(super) fn feed_here((tool, arguments): (&'static str, &[&str]), input: &str) -> Result<(), ToolError> {
    let mut child = command(tool, arguments).spawn().map_err(|error| ToolError::io(tool, error))?;
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().map_err(|error| ToolError::io(tool, error))?;
    if !output.status.success() {
        return Err(ToolError::failed(tool, &output.stderr));
    }
    written.unwrap_or(Ok(())).map_err(|error| ToolError::io(tool, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_went_wrong_is_told() {
        let failed = feed_here(("sh", &["-c", "cat >&2; exit 3"]), "because").unwrap_err().to_string();
        assert_eq!(failed, "`sh` failed: because");
        let missing = feed_here(("no-such-tool", &[]), "").unwrap_err().to_string();
        assert_eq!(missing, "`no-such-tool` is not installed");
        feed_here(("cat", &[]), "fine").unwrap();
    }
}
