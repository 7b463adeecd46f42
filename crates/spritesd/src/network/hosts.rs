//! The hosts of the world: names and addresses, and which of them are refused. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::addresses::is_of_guests;
use super::matching::canonical;

/// How many pairs of name and address the world can have.
const MOST_HOSTS: usize = 4096;

/// One host as it is asked for: `{"name": "api.example.com", "addr": "203.0.113.7"}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    /// What the guests' resolver answers with `addr` to; none for a host that has an address only. A name can have
    /// several addresses and an address several names, one entry each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// IPv4 or IPv6.
    pub(crate) addr: IpAddr,
}

/// Why a host is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HostError {
    #[error("{0:?} is not a host name")]
    Name(String),
    #[error("{0} is not an address that a host can have")]
    Address(IpAddr),
    #[error("{0} is set aside for Sprites")]
    Guests(IpAddr),
    #[error("{0}: this machine has no IPv6")]
    NoIpv6(IpAddr),
    #[error("the world has {MOST_HOSTS} hosts; no more are taken")]
    Full,
    #[error("invalid list of hosts: {0}")]
    List(String),
}

impl Host {
    /// Reads a configuration file: a JSON list of hosts. Nothing of a list with a bad entry is taken.
    pub(crate) fn parse_list(bytes: &[u8]) -> Result<Vec<Self>, HostError> {
        let list: Vec<Self> = serde_json::from_slice(bytes).map_err(|error| HostError::List(error.to_string()))?;
        list.into_iter().map(Self::checked).collect()
    }

    /// The host in its one form, if it can be one.
    pub(super) fn checked(self) -> Result<Self, HostError> {
        let name = match self.name {
            None => None,
            Some(name) => Some(canonical(&name).ok_or(HostError::Name(name))?),
        };
        let addr = self.addr;
        let unusable = match addr {
            IpAddr::V4(v4) => v4.octets().first() == Some(&0) || v4.octets().first() >= Some(&224),
            // Link-local ones exist once per link, and a mapped one is an IPv4 address in disguise.
            IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
        };
        if unusable || addr.is_loopback() || addr.is_unspecified() || addr.is_multicast() {
            return Err(HostError::Address(addr));
        }
        if is_of_guests(addr) {
            return Err(HostError::Guests(addr));
        }
        Ok(Self { name, addr })
    }
}

/// All hosts.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    entries: BTreeSet<Host>,
    names: BTreeMap<String, BTreeSet<IpAddr>>,
}

impl Hosts {
    /// Whether `host` fits in; one that is there already does.
    pub(super) fn has_room_for(&self, host: &Host) -> Result<(), HostError> {
        if self.entries.len() < MOST_HOSTS || self.entries.contains(host) { Ok(()) } else { Err(HostError::Full) }
    }

    /// Adds a checked host.
    pub(super) fn add(&mut self, host: Host) {
        if let Some(name) = &host.name {
            self.names.entry(name.clone()).or_default().insert(host.addr);
        }
        self.entries.insert(host);
    }

    /// All of them, sorted.
    pub(super) fn list(&self) -> Vec<Host> {
        self.entries.iter().cloned().collect()
    }

    /// The addresses of a name; none if nobody has that name.
    pub(super) fn addresses(&self, name: &str) -> Option<Vec<IpAddr>> {
        self.names.get(name).map(|addresses| addresses.iter().copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("api.example.com", "203.0.113.7", true)]
    #[case("API.Example.com.", "2001:db8::7", true)]
    #[case("_api.internal", "fdaa::3", true)]
    #[case("metadata", "169.254.169.254", true)]
    #[case("private.example", "10.0.0.1", true)]
    #[case("a b", "203.0.113.7", false)]
    #[case("", "203.0.113.7", false)]
    #[case("*.example.com", "203.0.113.7", false)]
    #[case("203.0.113.8", "203.0.113.7", false)]
    #[case("x.example", "127.0.0.1", false)]
    #[case("x.example", "0.0.0.0", false)]
    #[case("x.example", "0.1.2.3", false)]
    #[case("x.example", "224.0.0.1", false)]
    #[case("x.example", "255.255.255.255", false)]
    #[case("x.example", "::1", false)]
    #[case("x.example", "::", false)]
    #[case("x.example", "fe80::1", false)]
    #[case("x.example", "ff02::1", false)]
    #[case("x.example", "::ffff:203.0.113.7", false)]
    #[case("x.example", "198.18.0.1", false)]
    #[case("x.example", "198.19.255.254", false)]
    #[case("x.example", "2001:2::1", false)]
    fn names_and_addresses(#[case] name: &str, #[case] addr: &str, #[case] valid: bool) {
        let host = Host { name: Some(name.into()), addr: addr.parse().unwrap() };
        assert_eq!(host.checked().is_ok(), valid);
    }

    #[rstest]
    #[case("[]", "")]
    #[case(r#"[{"name":"a.example","addr":"203.0.113.7"},{"addr":"203.0.113.8"}]"#, "")]
    #[case(r#"[{"name":"a.example"}]"#, "missing field `addr`")]
    #[case(r#"[{"name":"a.example","addr":"nowhere"}]"#, "invalid IP address syntax")]
    #[case(r#"[{"addr":"203.0.113.7","port":1}]"#, "unknown field `port`")]
    #[case(r#"[{"addr":"203.0.113.7"},{"addr":"127.0.0.1"}]"#, "127.0.0.1 is not an address")]
    fn a_list_is_taken_whole_or_not_at_all(#[case] text: &str, #[case] refusal: &str) {
        match Host::parse_list(text.as_bytes()) {
            Ok(_) => assert_eq!(refusal, ""),
            Err(error) => assert!(!refusal.is_empty() && error.to_string().contains(refusal), "{error}"),
        }
    }

    #[test]
    fn the_number_of_hosts_is_bounded() {
        let mut hosts = Hosts::default();
        let host = |n: usize| Host { name: Some(format!("h{n}.example")), addr: "203.0.113.7".parse().unwrap() };
        (0..MOST_HOSTS).for_each(|n| hosts.add(host(n)));
        assert_eq!(hosts.has_room_for(&host(MOST_HOSTS)), Err(HostError::Full));
        assert_eq!(hosts.has_room_for(&host(0)), Ok(()));
    }

    proptest! {
        #[test]
        fn every_name_answers_with_all_its_addresses(pairs in prop::collection::vec(("[ab]\\.example", 1u8..9), 0..20)) {
            let mut hosts = Hosts::default();
            for (name, last) in &pairs {
                hosts.add(Host { name: Some(name.clone()), addr: IpAddr::from([203, 0, 113, *last]) });
            }
            for (name, last) in &pairs {
                prop_assert!(hosts.addresses(name).unwrap().contains(&IpAddr::from([203, 0, 113, *last])));
            }
            prop_assert_eq!(hosts.addresses("c.example"), None);
        }
    }
}
