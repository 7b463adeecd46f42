//! The link between a guest and the world, as a plan and as text for `ip -batch`. Pure.
//!
//! Each guest has a veth pair of its own; the two ends know each other's hardware address, so nothing is resolved
//! on the link and nothing has to be let through for that.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::addresses::{GATEWAY4, GATEWAY6};

/// What the names of the world's ends of all links begin with.
pub(super) const WORLD_END: &str = "sprite";
/// The name of the guest's end.
const GUEST_END: &str = "eth0";

const WORLD_MAC: &str = "02:00:00:00:00:01";
const GUEST_MAC: &str = "02:00:00:00:00:02";

/// All that the process which becomes a guest needs in order to give itself a network; see
/// [`enter`](super::enter()).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LinkPlan {
    /// Which guest; at least 1.
    pub(crate) index: u32,
    pub(crate) v4: Ipv4Addr,
    /// None where the machine has no IPv6.
    pub(crate) v6: Option<Ipv6Addr>,
    /// The world's network namespace, as a path under `/proc`.
    pub(crate) world: PathBuf,
    /// The first packet filter, for `nft -f`.
    pub(crate) ruleset: String,
}

impl LinkPlan {
    /// What to do in the world; `guest` is the path of the guest's namespace.
    pub(super) fn in_world(&self, guest: &str) -> String {
        let name = format!("{WORLD_END}{}", self.index);
        let mut text = format!(
            "link add name {name} address {WORLD_MAC} type veth peer name {GUEST_END} address {GUEST_MAC} netns {guest}\n"
        );
        if self.v6.is_some() {
            let _ = writeln!(text, "link set dev {name} addrgenmode none");
        }
        let _ = writeln!(text, "link set dev {name} up");
        let addresses = [(self.v4.to_string(), 32)].into_iter().chain(self.v6.map(|v6| (v6.to_string(), 128)));
        for (address, length) in addresses {
            // Of an earlier guest of this number the kernel may not have cleaned up yet.
            let _ = writeln!(text, "route replace {address}/{length} dev {name}");
            let _ = writeln!(text, "neighbour replace {address} lladdr {GUEST_MAC} dev {name} nud permanent");
        }
        text
    }

    /// What to do in the guest's namespace after that.
    pub(super) fn in_guest(&self) -> String {
        let mut text = "link set dev lo up\n".to_owned();
        if self.v6.is_some() {
            let _ = writeln!(text, "link set dev {GUEST_END} addrgenmode none");
        }
        let _ = writeln!(text, "address add {}/32 dev {GUEST_END}", self.v4);
        if let Some(v6) = self.v6 {
            let _ = writeln!(text, "address add {v6}/128 dev {GUEST_END} nodad");
        }
        let _ = writeln!(text, "link set dev {GUEST_END} up");
        let mut default = |range: &str, gateway: String, own: String| {
            let _ = writeln!(text, "neighbour replace {gateway} lladdr {WORLD_MAC} dev {GUEST_END} nud permanent");
            let _ = writeln!(text, "route add {range} via {gateway} dev {GUEST_END} onlink src {own}");
        };
        default("0.0.0.0/0", GATEWAY4.to_string(), self.v4.to_string());
        if let Some(v6) = self.v6 {
            default("::/0", GATEWAY6.to_string(), v6.to_string());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_ipv6_nothing_of_it_is_tried() {
        let plan = LinkPlan {
            index: 7,
            v4: Ipv4Addr::new(198, 18, 0, 7),
            v6: None,
            world: "/proc/1/ns/net".into(),
            ruleset: String::new(),
        };
        assert!(!plan.in_world("/proc/2/ns/net").contains("::"));
        assert!(!plan.in_guest().contains("::"));
        let v6 = LinkPlan { v6: Some("2001:2::7".parse().unwrap()), ..plan };
        assert!(v6.in_guest().contains("route add ::/0 via 2001:2:0:ffff::1 dev eth0 onlink src 2001:2::7\n"));
    }
}
