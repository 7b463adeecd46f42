//! The world: the network namespace that stands for everything outside of Sprites. It has the hosts that tests put
//! there and nothing else; it is linked to guests and to no network of the machine.
//!
//! It lasts as long as the process that holds its namespace, and leaves nothing behind: there are no named
//! namespaces, and links go with them.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::addresses::{GATEWAY4, GATEWAY6, MOST_GUESTS, of_guest};
use super::enforcement::Enforcement;
use super::hosts::{Host, HostError, Hosts};
use super::link::{LinkPlan, WORLD_END};
use super::namespace::Namespace;
use super::ruleset::{Mode, Ruleset, world as world_ruleset};
use super::tools::{IP, NFT, NFT_CHECK, ToolError};
use crate::namespace_holder::NamespaceHolder;
use crate::policy::NetworkPolicy;

/// The device that has the addresses of the hosts: the one that every kernel has.
const DEVICE: &str = "lo";
/// The life of an answer of the resolver.
const ANSWER_LIFE: Duration = Duration::from_secs(30);

/// Why there can be no network for Sprites here.
#[derive(Debug, thiserror::Error)]
#[error("Sprites can have no network here: {reason}; with `--network none` they run without")]
pub(crate) struct NoNetwork {
    #[from]
    reason: Reason,
}

#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error("the server must run as root")]
    NotRoot,
    #[error("network namespaces cannot be made: {0}")]
    Namespace(io::Error),
    #[error("{0}; iproute2 and nftables are needed")]
    Missing(ToolError),
    #[error("{what} cannot be made: {source}")]
    Tool { what: &'static str, source: ToolError },
    #[error("forwarding cannot be turned off: {0}")]
    Forwarding(io::Error),
}

impl NoNetwork {
    /// For a namespace's holder that did not start.
    pub(crate) fn namespace(error: io::Error) -> Self {
        Reason::Namespace(error).into()
    }

    fn tool(what: &'static str, source: ToolError) -> Self {
        match source {
            ToolError::Missing(_) => Reason::Missing(source),
            ToolError::Failed { .. } | ToolError::TimedOut(_) | ToolError::Io { .. } => Reason::Tool { what, source },
        }
        .into()
    }
}

/// Why a host was not added.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AddError {
    /// It makes no sense, or there are too many; the caller's fault.
    #[error(transparent)]
    Host(#[from] HostError),
    /// Our own failure.
    #[error(transparent)]
    Tool(#[from] ToolError),
}

/// All numbers of guests are taken.
#[derive(Debug, thiserror::Error)]
#[error("{MOST_GUESTS} sandboxes have a network; no more can")]
pub(crate) struct TooManyGuests;

/// The world. Clones are the same world.
#[derive(Debug, Clone)]
pub(crate) struct World {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    namespace: Namespace,
    path: PathBuf,
    ipv6: bool,
    answer_life: Duration,
    hosts: Mutex<Hosts>,
    numbers: Mutex<Numbers>,
}

impl World {
    /// Makes the namespace of `holder` the world, and finds out whether guests can be linked to it.
    pub(crate) async fn new(holder: &NamespaceHolder) -> Result<Self, NoNetwork> {
        Self::with_answer_life(holder, ANSWER_LIFE).await
    }

    /// A world whose resolver gives answers that live for `answer_life`.
    pub(super) async fn with_answer_life(holder: &NamespaceHolder, answer_life: Duration) -> Result<Self, NoNetwork> {
        if !rustix::process::geteuid().is_root() {
            return Err(Reason::NotRoot.into());
        }
        let path = holder.network();
        let namespace = Namespace::open(&path).map_err(NoNetwork::namespace)?;
        let ipv6 = namespace.run(|| Ok(has_ipv6())).await.map_err(NoNetwork::namespace)?;
        namespace.run(forward_nothing).await.map_err(Reason::Forwarding)?;
        let ip = |what, text: String| {
            let done = namespace.feed(IP, text);
            async move { done.await.map_err(|error| NoNetwork::tool(what, error)) }
        };
        ip("the world's addresses", own_addresses(ipv6)).await?;
        // Tried out now, because a guest would find out too late what this kernel cannot do.
        ip("a link", "link add name try0 type veth peer name try1\nlink delete dev try0\n".to_owned()).await?;
        let filter = namespace.feed(NFT, world_ruleset(WORLD_END)).await;
        filter.map_err(|error| NoNetwork::tool("the world's packet filter", error))?;
        for mode in [Mode::Enforced, Mode::Unrestricted(Some(1..=1))] {
            let kept = vec![(GATEWAY4.into(), 1..=1)];
            let sample = Ruleset { mode, kept, ..Ruleset::closed(2) };
            let tried = namespace.feed(NFT_CHECK, sample.render()).await;
            tried.map_err(|error| NoNetwork::tool("a packet filter", error))?;
        }
        let (hosts, numbers) = (Mutex::default(), Mutex::default());
        Ok(Self { shared: Arc::new(Shared { namespace, path, ipv6, answer_life, hosts, numbers }) })
    }

    /// Puts a host there: from now on its address answers (where a server listens) and its name resolves. Adding the
    /// same again changes nothing.
    pub(crate) async fn add(&self, host: Host) -> Result<(), AddError> {
        let host = host.checked()?;
        if host.addr.is_ipv6() && !self.shared.ipv6 {
            return Err(HostError::NoIpv6(host.addr).into());
        }
        self.hosts_mut().has_room_for(&host)?;
        let text = match host.addr {
            IpAddr::V4(v4) => format!("address replace {v4}/32 dev {DEVICE}\n"),
            IpAddr::V6(v6) => format!("address replace {v6}/128 dev {DEVICE} nodad\n"),
        };
        self.shared.namespace.feed(IP, text).await?;
        // Again, as others may have come in between.
        let mut hosts = self.hosts_mut();
        hosts.has_room_for(&host)?;
        hosts.add(host);
        Ok(())
    }

    /// All hosts, sorted.
    pub(crate) fn hosts(&self) -> Vec<Host> {
        self.hosts_mut().list()
    }

    /// The addresses of a name; none if nobody has it.
    pub(super) fn addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        self.hosts_mut().addresses(name)
    }

    /// Takes a number for a guest that will start under `policy`.
    pub(crate) fn lease(&self, policy: &NetworkPolicy) -> Result<Lease, TooManyGuests> {
        let index = self.numbers().take().ok_or(TooManyGuests)?;
        Ok(Lease { world: self.clone(), index, policy: policy.clone() })
    }

    fn hosts_mut(&self) -> MutexGuard<'_, Hosts> {
        self.shared.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.shared.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of one guest, and with it its addresses; free again when dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    world: World,
    index: u32,
    policy: NetworkPolicy,
}

impl Lease {
    /// What the process that becomes the guest needs for [`enter`](super::enter()).
    pub(crate) fn plan(&self) -> LinkPlan {
        let (v4, v6) = of_guest(self.index);
        LinkPlan {
            index: self.index,
            v4,
            v6: self.world.shared.ipv6.then_some(v6),
            world: self.world.shared.path.clone(),
            ruleset: self.first().ruleset(Instant::now()).render(),
        }
    }

    /// What is in force when the guest starts.
    pub(super) fn first(&self) -> Enforcement {
        Enforcement::new(&self.policy, self.world.shared.answer_life)
    }

    /// The guest's addresses.
    pub(super) fn own_addresses(&self) -> [IpAddr; 2] {
        let (v4, v6) = of_guest(self.index);
        [v4.into(), v6.into()]
    }

    pub(super) fn world(&self) -> &World {
        &self.world
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.world.numbers().free(self.index);
    }
}

/// The numbers of guests. A freed one comes last again, as the kernel takes its time to clean up after a guest.
#[derive(Debug, Default)]
struct Numbers {
    taken: BTreeSet<u32>,
    last: u32,
}

impl Numbers {
    fn take(&mut self) -> Option<u32> {
        let index = (self.last + 1..=MOST_GUESTS).chain(1..=self.last).find(|index| !self.taken.contains(index))?;
        self.taken.insert(index);
        self.last = index;
        Some(index)
    }

    fn free(&mut self, index: u32) {
        self.taken.remove(&index);
    }
}

/// New namespaces begin with the kernel's defaults, so one tells for all.
fn has_ipv6() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/conf/default/disable_ipv6").is_ok_and(|text| text.trim() == "0")
}

/// A new namespace may inherit the host's forwarding.
fn forward_nothing() -> io::Result<()> {
    for switch in ["/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"] {
        match std::fs::read_to_string(switch) {
            // Where these files cannot be written they may well be right already.
            Ok(text) if text.trim() != "0" => std::fs::write(switch, "0")?,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The gateway's addresses are those from which the world reports that something is not there.
fn own_addresses(ipv6: bool) -> String {
    let six = if ipv6 { format!("address add {GATEWAY6}/128 dev {DEVICE} nodad\n") } else { String::new() };
    format!("link set dev {DEVICE} up\naddress add {GATEWAY4}/32 dev {DEVICE}\n{six}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused_as_late_as_possible() {
        let mut numbers = Numbers::default();
        assert_eq!((numbers.take(), numbers.take()), (Some(1), Some(2)));
        numbers.free(1);
        assert_eq!(numbers.take(), Some(3));
        for expected in 4..=MOST_GUESTS {
            assert_eq!(numbers.take(), Some(expected));
        }
        assert_eq!((numbers.take(), numbers.take()), (Some(1), None));
        numbers.free(7);
        assert_eq!((numbers.take(), numbers.take()), (Some(7), None));
    }
}
