//! What a command must not reach: addresses and names of cloud metadata services and of the provider's inside.
//!
//! One table. The network is the wall; this tells people early and leaves an audit record. Must not look at commands.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::egress::hostname::{ECHOING, METADATA};

/// What stands behind an address or a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Zone {
    /// A service that hands out credentials of a machine.
    Metadata,
    /// The platform's own network.
    ProviderInternal,
}

impl Zone {
    /// The name used in documentation and by the dry run.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Metadata => "Metadata",
            Self::ProviderInternal => "ProviderInternal",
        }
    }
}

/// IPv4 networks: address, length of the prefix, whose it is.
const NETWORKS: &[([u8; 4], u32, &str)] = &[
    ([169, 254, 169, 0], 24, "AWS, Azure, Google, Oracle, DigitalOcean, OpenStack and others"),
    ([169, 254, 170, 0], 24, "AWS ECS and EKS"),
    ([169, 254, 42, 42], 32, "Scaleway"),
    ([169, 254, 0, 23], 32, "Tencent"),
    ([100, 100, 100, 200], 32, "Alibaba"),
    ([168, 63, 129, 16], 32, "Azure's wire server"),
    ([192, 0, 0, 192], 32, "Oracle, the older service"),
];

/// IPv6 networks: address, length of the prefix, zone.
const NETWORKS6: &[([u16; 8], u32, Zone)] = &[
    ([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0], 32, Zone::Metadata),
    ([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0], 32, Zone::Metadata),
    ([0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe], 128, Zone::Metadata),
    ([0xfdaa, 0, 0, 0, 0, 0, 0, 0], 16, Zone::ProviderInternal),
];

/// Names beside those of metadata services, each with all names below it.
const NAMES: &[(&str, Zone)] = &[
    ("internal", Zone::ProviderInternal),
    ("flycast", Zone::ProviderInternal),
    ("fly.storage.tigris.dev", Zone::ProviderInternal),
    ("t3.tigrisfiles.io", Zone::ProviderInternal),
];

/// Names that only count alone: a resolver completes them.
const SHORT: &[&str] = &["metadata", "instance-data"];

/// Names below `.internal` that belong to the machine of the user.
const OWN: &[&str] = &["docker.internal", "containers.internal", "orb.internal", "lima.internal"];

/// Sockets of the platform inside a machine.
const SOCKETS: &[&str] = &["/.fly/api"];

/// Something a command must not reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Target {
    pub zone: Zone,
    /// The address or name as the table has it.
    pub name: String,
}

/// Looks an address up; one inside another counts as the inner one.
pub(super) fn address(address: IpAddr) -> Option<Target> {
    match address {
        IpAddr::V4(v4) => v4_target(v4),
        IpAddr::V6(v6) => embedded(v6).and_then(v4_target).or_else(|| v6_target(v6)),
    }
}

fn v4_target(address: Ipv4Addr) -> Option<Target> {
    let found = NETWORKS.iter().any(|(network, len, _)| {
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        address.to_bits() & mask == Ipv4Addr::from(*network).to_bits() & mask
    });
    found.then(|| Target { zone: Zone::Metadata, name: address.to_string() })
}

fn v6_target(address: Ipv6Addr) -> Option<Target> {
    let found = NETWORKS6.iter().find(|(network, len, _)| {
        let mask = u128::MAX.checked_shl(128 - len).unwrap_or(0);
        address.to_bits() & mask == Ipv6Addr::from(*network).to_bits() & mask
    });
    found.map(|(_, _, zone)| Target { zone: *zone, name: address.to_string() })
}

/// The IPv4 address in a mapped, compatible, translated, 6to4, Teredo or ISATAP address.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let low = Ipv4Addr::from_bits(u32::try_from(bits & u128::from(u32::MAX)).unwrap_or_default());
    let high =
        |shift: u32| Ipv4Addr::from_bits(u32::try_from((bits >> shift) & u128::from(u32::MAX)).unwrap_or_default());
    match address.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, ..]
        | [0, 0, 0, 0, 0xffff, 0, ..]
        | [0x64, 0xff9b, ..]
        | [_, _, _, _, 0 | 0x200, 0x5efe, ..] => Some(low),
        [0x2002, ..] => Some(high(80)),
        [0x2001, 0, ..] => Some(Ipv4Addr::from_bits(!low.to_bits())),
        _ => None,
    }
}

/// Looks a name up: small letters, no dot at the end.
pub(super) fn name(name: &str) -> Option<Target> {
    if SHORT.contains(&name) {
        return Some(Target { zone: Zone::Metadata, name: name.to_owned() });
    }
    if OWN.iter().any(|own| is_below(name, own)) {
        return None;
    }
    if METADATA.iter().any(|service| is_below(name, service)) {
        return Some(Target { zone: Zone::Metadata, name: name.to_owned() });
    }
    if let Some((_, zone)) = NAMES.iter().find(|(zone, _)| is_below(name, zone)) {
        return Some(Target { zone: *zone, name: name.to_owned() });
    }
    let echoed = ECHOING.iter().find_map(|domain| name.strip_suffix(domain)?.strip_suffix('.'))?;
    let labels: Vec<&str> = echoed.rsplit(['.', '-']).take(4).collect();
    let dotted: Vec<&str> = labels.into_iter().rev().collect();
    let hex = dotted.last().and_then(|label| (label.len() == 8).then(|| u32::from_str_radix(label, 16).ok())?);
    let found = dotted.join(".").parse().ok().or_else(|| hex.map(Ipv4Addr::from_bits))?;
    v4_target(found)
}

/// Whether a name is also an ordinary word: it only counts where nothing but a host can stand.
pub(super) fn is_short(name: &str) -> bool {
    SHORT.contains(&name) || NAMES.iter().any(|(zone, _)| *zone == name && !zone.contains('.'))
}

/// Looks a path up.
pub(super) fn socket(path: &str) -> Option<Target> {
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    let found =
        SOCKETS.iter().find(|socket| path.starts_with('/') && socket.split('/').skip(1).eq(parts.iter().copied()));
    found.map(|socket| Target { zone: Zone::ProviderInternal, name: (*socket).to_owned() })
}

fn is_below(name: &str, zone: &str) -> bool {
    name.strip_suffix(zone).is_some_and(|head| head.is_empty() || head.ends_with('.'))
}

#[cfg(test)]
mod tests;
