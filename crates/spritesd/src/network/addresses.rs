//! The addresses of guests, and which addresses are closed to a guest whose policy is enforced. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Where guests live: the ranges set aside for benchmarks of network devices, which no host of a test will have.
pub(super) const GUESTS4: &str = "198.18.0.0/15";
pub(super) const GUESTS6: &str = "2001:2::/48";

/// What a guest sends everything to; on the world's side of its link.
pub(super) const GATEWAY4: Ipv4Addr = Ipv4Addr::new(198, 19, 255, 254);
pub(super) const GATEWAY6: Ipv6Addr = Ipv6Addr::new(0x2001, 2, 0, 0xffff, 0, 0, 0, 1);

/// How many guests can have a network at once.
pub(super) const MOST_GUESTS: u32 = 16_384;

/// Private, shared, link-local, special and multicast ranges: closed while a policy is enforced, whatever a name
/// resolves to. The documentation ranges (RFC 5737) are open: tests put their hosts there.
pub(super) const CLOSED4: [&str; 11] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    GUESTS4,
    "224.0.0.0/4",
    "240.0.0.0/4",
];
pub(super) const CLOSED6: [&str; 6] = ["::/127", "::ffff:0:0/96", GUESTS6, "fc00::/7", "fe80::/10", "ff00::/8"];

/// The addresses of guest number `index`, which is at least 1 and at most [`MOST_GUESTS`].
pub(super) fn of_guest(index: u32) -> (Ipv4Addr, Ipv6Addr) {
    let base4 = u32::from(Ipv4Addr::new(198, 18, 0, 0));
    let base6 = u128::from(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0));
    (Ipv4Addr::from(base4 + index), Ipv6Addr::from(base6 + u128::from(index)))
}

/// Whether `address` is closed while a policy is enforced.
pub(super) fn is_closed(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => CLOSED4.iter().any(|range| contains(range, address)),
        IpAddr::V6(_) => CLOSED6.iter().any(|range| contains(range, address)),
    }
}

/// Whether `address` belongs to guests or their gateway.
pub(super) fn is_of_guests(address: IpAddr) -> bool {
    contains(GUESTS4, address) || contains(GUESTS6, address)
}

fn contains(range: &str, address: IpAddr) -> bool {
    let Some((base, length)) = range.split_once('/') else { return false };
    let Ok(length) = length.parse::<u32>() else { return false };
    match (base.parse(), address) {
        (Ok(IpAddr::V4(base)), IpAddr::V4(address)) => {
            let shift = 32_u32.saturating_sub(length);
            u32::from(base).checked_shr(shift) == u32::from(address).checked_shr(shift)
        }
        (Ok(IpAddr::V6(base)), IpAddr::V6(address)) => {
            let shift = 128_u32.saturating_sub(length);
            u128::from(base).checked_shr(shift) == u128::from(address).checked_shr(shift)
        }
        (Ok(IpAddr::V4(_) | IpAddr::V6(_)) | Err(_), _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case("169.254.169.254", true)]
    #[case("10.1.2.3", true)]
    #[case("172.15.0.1", false)]
    #[case("172.31.255.255", true)]
    #[case("100.100.0.1", true)]
    #[case("198.19.255.254", true)]
    #[case("203.0.113.10", false)]
    #[case("192.0.2.1", false)]
    #[case("fdaa::3", true)]
    #[case("fe80::1", true)]
    #[case("::1", true)]
    #[case("::ffff:203.0.113.10", true)]
    #[case("2001:db8::1", false)]
    #[case("2001:2::7", true)]
    fn ranges(#[case] address: &str, #[case] closed: bool) {
        assert_eq!(is_closed(address.parse().unwrap()), closed, "{address}");
    }

    #[test]
    fn every_guest_has_addresses_of_its_own_in_the_range() {
        let all: std::collections::BTreeSet<_> = (1..=MOST_GUESTS).map(of_guest).collect();
        assert_eq!(all.len(), MOST_GUESTS as usize);
        for (v4, v6) in all {
            assert!(is_of_guests(v4.into()) && is_of_guests(v6.into()));
            assert!(v4 != GATEWAY4 && v6 != GATEWAY6);
        }
    }
}
