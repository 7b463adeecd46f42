//! Half-open connections: a packet filter of the server's own network namespace drops what belongs to one connection,
//! so that neither side hears anything of the other any more, not even an acknowledgement.
//!
//! The table belongs to an `nft` process that ends with this one, and the kernel removes a table with its owner: a
//! server that is killed leaves no rule behind. Each rule names exactly one pair of addresses and ports.

use std::fmt::Write as _;
use std::io;
use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::Mutex;

/// The filter, started when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct Blackhole {
    nft: Mutex<Option<(Child, ChildStdin)>>,
}

impl Blackhole {
    /// Drops everything between the two from now on.
    pub(crate) async fn part(&self, server: SocketAddr, client: SocketAddr) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let table = format!("spritesd-{}", std::process::id());
        let mut nft = self.nft.lock().await;
        if nft.is_none() {
            let mut command = Command::new("nft");
            command.arg("-i").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
            let mut child = command.spawn()?;
            let mut stdin = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
            let mut text = format!("add table inet {table} {{ flags owner; }}\n");
            for hook in ["input", "output"] {
                let chain = format!("{{ type filter hook {hook} priority -300; policy accept; }}");
                // Writing to a string does not fail.
                let _ = writeln!(text, "add chain inet {table} {hook} {chain}");
            }
            stdin.write_all(text.as_bytes()).await?;
            *nft = Some((child, stdin));
        }
        let Some((_, stdin)) = nft.as_mut() else {
            return Ok(());
        };
        let mut text = String::new();
        for hook in ["input", "output"] {
            for (from, to) in [(server, client), (client, server)] {
                text.push_str(&rule(&table, hook, from, to));
            }
        }
        stdin.write_all(text.as_bytes()).await?;
        stdin.flush().await
    }
}

fn rule(table: &str, hook: &str, from: SocketAddr, to: SocketAddr) -> String {
    let family = if from.is_ipv4() { "ip" } else { "ip6" };
    format!(
        "add rule inet {table} {hook} {family} saddr {} {family} daddr {} tcp sport {} tcp dport {} drop\n",
        from.ip(),
        to.ip(),
        from.port(),
        to.port()
    )
}
