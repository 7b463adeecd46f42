//! One process that holds what must not outlive the daemon: the namespaces of the world and of the guests' disk, and
//! the control groups of the guests.
//!
//! It reads its standard input, which only the daemon can write, so it ends when the daemon does, however that ends.
//! Then the namespaces vanish with everything in them, and its last deed is to thaw and remove the control groups:
//! a frozen process cannot die.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

/// How long the holder may take to come up, and to clean up.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the holder does: say that the namespaces are there, wait for the daemon's end, clean up. Its arguments are
/// the parents of control groups.
const SCRIPT: &str = r#"
echo up
cat >/dev/null
for parent; do
    for state in "$parent"/*/freezer.state; do [ -e "$state" ] && echo THAWED >"$state"; done
    for state in "$parent"/*/cgroup.freeze; do [ -e "$state" ] && echo 0 >"$state"; done
done
tries=0
while [ "$tries" -lt 100 ]; do
    left=
    for parent; do
        for group in "$parent"/*/; do [ -d "$group" ] && { rmdir "$group" || left=1; }; done
        [ ! -d "$parent" ] || rmdir "$parent" || left=1
    done
    [ -n "$left" ] || exit 0
    tries=$((tries + 1))
    sleep 0.05
done
"#;

/// The running holder.
#[derive(Debug)]
pub(crate) struct NamespaceHolder {
    child: Child,
    /// Its end tells the holder to end.
    stdin: Option<ChildStdin>,
    pid: u32,
}

impl NamespaceHolder {
    /// Starts a holder with a mount namespace and, if `network`, a network namespace of its own; `groups` are the
    /// directories whose control groups it removes at the end.
    pub(crate) async fn start(network: bool, groups: &[PathBuf]) -> io::Result<Self> {
        let mut command = Command::new("unshare");
        command.arg("--mount");
        if network {
            command.arg("--net");
        }
        command.args(["--", "sh", "-c", SCRIPT, "holder"]).args(groups);
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A signal for the daemon's group (Ctrl-C) must not take the holder along: it has to clean up after it.
        command.process_group(0);
        let mut child = command.spawn()?;
        let pid = child.id().ok_or_else(|| io::Error::other("the holder ended at once"))?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let mut line = String::new();
        if let Some(stdout) = stdout {
            let mut stdout = BufReader::new(stdout);
            timeout(PATIENCE, stdout.read_line(&mut line)).await??;
        }
        if line.trim() != "up" {
            let mut said = String::new();
            if let Some(mut stderr) = stderr {
                drop(timeout(PATIENCE, stderr.read_to_string(&mut said)).await);
            }
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, said.trim().to_owned()));
        }
        Ok(Self { child, stdin, pid })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Its network namespace.
    pub(crate) fn network(&self) -> PathBuf {
        self.namespace("net")
    }

    /// Its mount namespace.
    pub(crate) fn mounts(&self) -> PathBuf {
        self.namespace("mnt")
    }

    fn namespace(&self, kind: &str) -> PathBuf {
        Path::new("/proc").join(self.pid.to_string()).join("ns").join(kind)
    }

    /// Ends it and returns when it has cleaned up.
    pub(crate) async fn stop(&mut self) {
        self.stdin = None;
        drop(timeout(PATIENCE, self.child.wait()).await);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn its_namespaces_last_as_long_as_it_does() {
        let mut holder = NamespaceHolder::start(true, &[]).await.unwrap();
        let here = std::fs::read_link("/proc/self/ns/net").unwrap();
        assert_ne!(std::fs::read_link(holder.network()).unwrap(), here);
        assert_ne!(std::fs::read_link(holder.mounts()).unwrap(), std::fs::read_link("/proc/self/ns/mnt").unwrap());
        holder.stop().await;
        assert!(!holder.network().exists());
    }
}
