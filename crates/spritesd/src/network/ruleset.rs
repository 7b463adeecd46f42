//! The packet filters as text for `nft -f`. Pure.
//!
//! **In a guest's namespace** one table is always replaced as a whole, in one transaction, so there is no moment
//! without it. What decides about a packet to the outside, first match wins:
//!
//! 1. its connection carries the mark of the generation in force: decided before, under these very rules;
//! 2. its connection carries a mark of an earlier generation from which on its address has been allowed without a
//!    break: it gets the present mark;
//! 3. a TCP packet that does not begin a connection: the connection was cut, or never was;
//! 4. while a policy is enforced: closed ranges are closed, addresses learnt from answers are open, for as long as
//!    the answer lives. All the rest is refused so that clients fail at once.
//!
//! So a new generation cuts every connection that is not carried over, in both directions, and the end of an answer's
//! life does not cut a running connection. Nothing comes in but on connections that began inside.
//!
//! **In the world's namespace** nothing is forwarded, no source can be forged, and only addresses of hosts answer.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::addresses::{CLOSED4, CLOSED6, GUESTS4, GUESTS6};

/// What one guest may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ruleset {
    /// The mark of connections decided under these rules; never 0, which is the mark of undecided ones.
    pub(super) generation: u32,
    pub(super) mode: Mode,
    /// What is open, and for how long yet.
    pub(super) open: Vec<(IpAddr, Duration)>,
    /// Which earlier marks are carried over, by address.
    pub(super) kept: Vec<(IpAddr, RangeInclusive<u32>)>,
}

/// How addresses are decided about that no entry of a [`Ruleset`] names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Mode {
    /// Open; connections of these earlier generations, which were unrestricted too, are carried over.
    Unrestricted(Option<RangeInclusive<u32>>),
    /// Refused.
    Enforced,
}

impl Ruleset {
    /// The rules that let nothing out.
    pub(super) fn closed(generation: u32) -> Self {
        Self { generation, mode: Mode::Enforced, open: Vec::new(), kept: Vec::new() }
    }

    /// The transaction that puts them in force.
    pub(super) fn render(&self) -> String {
        let Self { generation, mode, open, kept } = self;
        let accept = format!("ct mark set {generation} accept");
        let carried = |side: &str| {
            let unrestricted = match mode {
                Mode::Unrestricted(Some(earlier)) => format!("    ct mark {} {accept}\n", marks(earlier)),
                Mode::Unrestricted(None) | Mode::Enforced => String::new(),
            };
            let decided = format!("    ct mark {generation} accept\n");
            let by_address = [("ip", "kept4"), ("ip6", "kept6")]
                .map(|(family, kept)| format!("    {family} {side} . ct mark @{kept} {accept}\n"));
            [decided, unrestricted, by_address.concat()].concat()
        };
        let decided = match mode {
            Mode::Unrestricted(_) => format!("    {accept}\n"),
            Mode::Enforced => format!(
                "    ip daddr @closed4 goto refused\n    ip6 daddr @closed6 goto refused\n    ip daddr @open4 {accept}\n    ip6 daddr @open6 {accept}\n    goto refused\n"
            ),
        };
        let open =
            |v4| open.iter().filter(move |(to, _)| to.is_ipv4() == v4).map(|(to, life)| open_element(*to, *life));
        let kept = |v4| {
            let of_family = kept.iter().filter(move |(to, _)| to.is_ipv4() == v4);
            of_family.map(|(to, earlier)| format!("{to} . {}", marks(earlier)))
        };
        let closed = |ranges: &[&str]| elements(ranges.iter().map(|range| (*range).to_owned()));
        format!(
            "add table inet sprite
delete table inet sprite
table inet sprite {{
  set open4 {{ type ipv4_addr; flags timeout; {open4} }}
  set open6 {{ type ipv6_addr; flags timeout; {open6} }}
  set kept4 {{ type ipv4_addr . mark; flags interval; {kept4} }}
  set kept6 {{ type ipv6_addr . mark; flags interval; {kept6} }}
  set closed4 {{ type ipv4_addr; flags interval; {closed4} }}
  set closed6 {{ type ipv6_addr; flags interval; {closed6} }}
  chain refused {{
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }}
  chain output {{
    type filter hook output priority 0; policy drop;
    oif lo accept
{carried_out}    tcp flags & (fin|syn|rst|ack) != syn goto refused
{decided}  }}
  chain input {{
    type filter hook input priority 0; policy drop;
    iif lo accept
{carried_in}  }}
  chain forward {{
    type filter hook forward priority 0; policy drop;
  }}
}}
",
            open4 = elements(open(true)),
            open6 = elements(open(false)),
            kept4 = elements(kept(true)),
            kept6 = elements(kept(false)),
            closed4 = closed(&CLOSED4),
            closed6 = closed(&CLOSED6),
            carried_out = carried("daddr"),
            carried_in = carried("saddr"),
        )
    }
}

/// The transaction that opens addresses under rules in force, or lets them be open for longer.
pub(super) fn opening(addresses: &[IpAddr], life: Duration) -> String {
    let mut text = String::new();
    for to in addresses {
        let set = if to.is_ipv4() { "open4" } else { "open6" };
        let element = open_element(*to, life);
        // Before Linux 6.12 an element that exists keeps its time; deleting one that does not exist fails.
        let _ = writeln!(text, "add element inet sprite {set} {{ {element} }}");
        let _ = writeln!(text, "delete element inet sprite {set} {{ {to} }}");
        let _ = writeln!(text, "add element inet sprite {set} {{ {element} }}");
    }
    text
}

/// The filter of the world, for links whose names begin with `link`.
pub(super) fn world(link: &str) -> String {
    format!(
        "add table inet world
delete table inet world
table inet world {{
  chain prerouting {{
    type filter hook prerouting priority raw; policy accept;
    iifname != \"{link}*\" accept
    fib saddr . iif oif missing drop
    ip daddr {GUESTS4} reject with icmpx admin-prohibited
    ip6 daddr {GUESTS6} reject with icmpx admin-prohibited
    ip6 daddr {{ fe80::/10, ff00::/8 }} drop
    fib daddr type != local reject with icmpx host-unreachable
  }}
  chain forward {{
    type filter hook forward priority 0; policy drop;
  }}
}}
"
    )
}

fn open_element(to: IpAddr, life: Duration) -> String {
    // Never 0, which would mean for ever.
    format!("{to} timeout {}ms", life.as_millis().max(1))
}

fn elements(mut list: impl Iterator<Item = String>) -> String {
    let Some(first) = list.next() else { return String::new() };
    let all = list.fold(first, |mut all, next| {
        all.push_str(", ");
        all + &next
    });
    format!("elements = {{ {all} }}")
}

fn marks(range: &RangeInclusive<u32>) -> String {
    if range.start() == range.end() { range.start().to_string() } else { format!("{}-{}", range.start(), range.end()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_what_was_learnt_is_open_while_a_policy_is_enforced() {
        let rules = Ruleset {
            generation: 7,
            mode: Mode::Enforced,
            open: vec![(address("203.0.113.7"), Duration::from_mins(1)), (address("2001:db8::7"), Duration::ZERO)],
            kept: vec![(address("203.0.113.7"), 3..=6), (address("203.0.113.8"), 6..=6)],
        };
        let text = rules.render();
        assert!(
            text.contains("set open4 { type ipv4_addr; flags timeout; elements = { 203.0.113.7 timeout 60000ms } }")
        );
        assert!(text.contains("elements = { 2001:db8::7 timeout 1ms }"));
        assert!(text.contains("elements = { 203.0.113.7 . 3-6, 203.0.113.8 . 6 }"));
        assert!(text.contains("set kept6 { type ipv6_addr . mark; flags interval;  }"));
        assert!(!text.contains("\n    ct mark set 7 accept\n"), "{text}");
        assert!(text.find("@closed4 goto refused") < text.find("@open4 ct mark set 7 accept"));
    }

    #[test]
    fn unrestricted_rules_carry_over_connections_of_unrestricted_generations_only() {
        let rules = |earlier| Ruleset { mode: Mode::Unrestricted(earlier), ..Ruleset::closed(7) };
        assert!(rules(Some(4..=6)).render().contains("    ct mark 4-6 ct mark set 7 accept\n"));
        let text = rules(None).render();
        assert!(!text.contains("ct mark 4"));
        assert!(text.find("tcp flags") < text.find("\n    ct mark set 7 accept\n"));
    }

    #[test]
    fn opening_renews_what_is_open() {
        let text = opening(&[address("203.0.113.7"), address("2001:db8::7")], Duration::from_mins(1));
        let renewed = |set: &str, element: &str, address: &str| {
            let add = format!("add element inet sprite {set} {{ {element} }}\n");
            format!("{add}delete element inet sprite {set} {{ {address} }}\n{add}")
        };
        let four = renewed("open4", "203.0.113.7 timeout 60000ms", "203.0.113.7");
        assert_eq!(text, four + &renewed("open6", "2001:db8::7 timeout 60000ms", "2001:db8::7"));
    }

    #[test]
    fn closed_rules_let_nothing_out() {
        let text = Ruleset::closed(1).render();
        assert!(text.contains("set open4 { type ipv4_addr; flags timeout;  }"));
        assert!(!text.contains("\n    ct mark set 1 accept\n"));
    }
}
