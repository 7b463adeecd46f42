//! The one normaliser of host names, for admission, building and matching.
//!
//! Trim, IDNA to A-labels (which lower-cases), one trailing dot off; then a literal host of two labels or more, or `*.`
//! and such a host. Must not resolve anything.

use std::fmt;

use thiserror::Error;

/// Top-level and special-use names that never lead to the public internet. Each covers the name and all below it.
const SPECIAL_USE: &[&str] = &[
    "localhost",
    "test",
    "local",
    "internal",
    "lan",
    "svc",
    "home",
    "corp",
    "intranet",
    "private",
    "onion",
    "invalid",
    "arpa",
    "alt",
    "flycast",
];

/// Names of cloud metadata services, each with all names below it.
pub const METADATA: &[&str] = &[
    "metadata.google.internal",
    "metadata.google",
    "metadata.goog",
    "metadata.azure.internal",
    "metadata.azure.com",
    "instance-data.ec2.internal",
    "metadata.tencentyun.com",
    "metadata.platformequinix.com",
    "metadata.packet.net",
];

/// Domains whose names answer with the address that is in the name: an entry would allow any address, private ones too.
pub const ECHOING: &[&str] = &["nip.io", "sslip.io", "xip.io", "traefik.me"];

/// Why an entry is no host pattern; reads after the entry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    /// Nothing there.
    #[error("is empty: write a host name such as api.example.com")]
    Empty,
    /// A scheme, port, path, user, query or CIDR.
    #[error(
        "holds `{0}`: write the host name alone, such as api.example.com, without scheme, user, port, path or mask"
    )]
    Character(char),
    /// A character that nobody sees, though it may be part of what the name becomes.
    #[error("holds an invisible character (U+{0:04X}): type the name anew")]
    Invisible(u32),
    /// Spaces or control characters inside.
    #[error("holds a space or a control character: write one host name an entry, such as api.example.com")]
    Blank,
    /// An IP address in any spelling.
    #[error("is an IP address: the platform's rules are about names, write a host name such as api.example.com")]
    Address,
    /// `*` alone.
    #[error("allows every host: set egress.mode to Open or DenyAll instead")]
    Everything,
    /// `*` in another place than the first label.
    #[error("has * in a wrong place: write *.example.com for all subdomains of example.com")]
    Wildcard,
    /// One label only.
    #[error("has one label: write a full name such as api.example.com")]
    OneLabel,
    /// Not a host name.
    #[error(
        "is no host name: labels have 1 to 63 letters, digits, underscores or inner hyphens, the whole at most 253"
    )]
    Form,
    /// Never leads to the public internet, or to whatever address the name holds.
    #[error("is under `{top}`, {why}", top = .0, why = why(.0))]
    SpecialUse(&'static str),
    /// A wildcard over names of many owners.
    #[error(
        "is a wildcard over a public suffix, where anybody can register names: write *.example.com with your own name"
    )]
    PublicSuffix,
}

/// A literal host, or all subdomains of one. Normalised.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pattern {
    wildcard: bool,
    host: String,
}

impl Pattern {
    /// Reads an entry as a person writes it.
    pub fn parse(entry: &str) -> Result<Self, PatternError> {
        let trimmed = written(entry)?;
        if trimmed == "*" {
            return Err(PatternError::Everything);
        }
        let (wildcard, host) = match trimmed.strip_prefix("*.") {
            Some(host) => (true, host),
            None => (false, trimmed),
        };
        if host.contains('*') {
            return Err(PatternError::Wildcard);
        }
        let host = normalise(host)?;
        let labels = host.split('.').count();
        if labels < 2 {
            let found = if wildcard { PatternError::PublicSuffix } else { PatternError::OneLabel };
            return Err(special(&host).unwrap_or(found));
        }
        if let Some(error) = special(&host) {
            return Err(error);
        }
        // A suffix may be a rule of the list by itself (`co.uk`), or each name below it may be one (`*.compute.amazonaws.com`).
        // The list has no underscores, and the parser refuses them.
        let is_suffix =
            |name: &str| addr::parse_domain_name(&name.replace('_', "x")).is_ok_and(|name| name.root().is_none());
        if wildcard && (is_suffix(&host) || is_suffix(&format!("x.{host}"))) {
            return Err(PatternError::PublicSuffix);
        }
        Ok(Self { wildcard, host })
    }

    /// A literal host as one may ask for it, normalised: also one that no entry may name.
    pub fn host(host: &str) -> Result<String, PatternError> {
        normalise(written(host)?)
    }

    /// Whether something matches both this pattern and `zone` (a name, or `*.` and a name).
    pub fn overlaps(&self, zone: &str) -> bool {
        let (zone_wild, zone_host) = zone.strip_prefix("*.").map_or((false, zone), |host| (true, host));
        let below = |name: &str, top: &str| name.strip_suffix(top).is_some_and(|head| head.ends_with('.'));
        match (self.wildcard, zone_wild) {
            (false, false) => self.host == zone_host,
            (false, true) => below(&self.host, zone_host),
            (true, false) => below(zone_host, &self.host),
            (true, true) => self.host == zone_host || below(&self.host, zone_host) || below(zone_host, &self.host),
        }
    }
}

fn special(host: &str) -> Option<PatternError> {
    let under = |top: &&&str| host == **top || host.strip_suffix(**top).is_some_and(|head| head.ends_with('.'));
    SPECIAL_USE.iter().chain(METADATA).chain(ECHOING).find(under).map(|top| PatternError::SpecialUse(top))
}

fn why(top: &str) -> &'static str {
    if ECHOING.contains(&top) {
        "whose names lead to whatever address they hold: write the name of the host itself"
    } else {
        "which never leads to the public internet: remove it"
    }
}

/// Without the spaces round it; nothing in it that no host name holds.
fn written(entry: &str) -> Result<&str, PatternError> {
    // A line break is no space round an entry: it is a second line.
    let trimmed = entry.trim_matches([' ', '\t']);
    if trimmed.is_empty() {
        return Err(PatternError::Empty);
    }
    if let Some(c) = trimmed.chars().find(|c| is_invisible(*c)) {
        return Err(PatternError::Invisible(u32::from(c)));
    }
    if trimmed.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(PatternError::Blank);
    }
    if let Some(c) = trimmed.chars().find(|c| "/:@?#%,;[]\\\"'<>|^`{}!$&()=+~".contains(*c)) {
        let without_zone = trimmed.split('%').next().unwrap_or(trimmed);
        let address = without_zone.parse::<std::net::Ipv6Addr>().is_ok();
        return Err(if address { PatternError::Address } else { PatternError::Character(c) });
    }
    Ok(trimmed)
}

/// Characters without a shape of their own: some vanish in normalisation, some turn what a reader sees.
pub(crate) fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

fn normalise(host: &str) -> Result<String, PatternError> {
    let ascii = match url::Host::parse(host) {
        Ok(url::Host::Domain(name)) => name,
        Ok(url::Host::Ipv4(_) | url::Host::Ipv6(_)) => return Err(PatternError::Address),
        // An all-numeric last label makes the parser try, and fail, to read an address.
        Err(_)
            if host
                .trim_end_matches('.')
                .rsplit('.')
                .next()
                .is_some_and(|l| l.starts_with(|c: char| c.is_ascii_digit())) =>
        {
            return Err(PatternError::Address);
        }
        Err(_) => return Err(PatternError::Form),
    };
    let name = ascii.strip_suffix('.').unwrap_or(&ascii);
    let label_ok = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if name.len() > 253 || !name.split('.').all(label_ok) {
        return Err(PatternError::Form);
    }
    Ok(name.to_owned())
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", if self.wildcard { "*." } else { "" }, self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    #[rstest]
    #[case("example.com", "example.com")]
    #[case(" Example.COM. ", "example.com")]
    #[case("*.example.com", "*.example.com")]
    #[case("b\u{fc}cher.example", "xn--bcher-kva.example")]
    #[case("stra\u{df}e.example", "xn--strae-oqa.example")]
    #[case("example\u{3002}com", "example.com")]
    #[case("a-b.example.co.uk", "a-b.example.co.uk")]
    fn a_name_has_one_form(#[case] entry: &str, #[case] form: &str) {
        assert_eq!(Pattern::parse(entry).unwrap().to_string(), form);
    }

    #[rstest]
    #[case("")]
    #[case("*")]
    #[case("example")]
    #[case("*.com")]
    #[case("*.co.uk")]
    #[case("ex*mple.com")]
    #[case("*.*.example.com")]
    #[case("http://example.com")]
    #[case("example.com:443")]
    #[case("example.com/x")]
    #[case("user@example.com")]
    #[case("exa mple.com")]
    #[case("example.com\u{200b}x y")]
    #[case("169.254.169.254")]
    #[case("169.254.169.254..")]
    #[case("0xa9fea9fe")]
    #[case("2852039166")]
    #[case("169.16689662")]
    #[case("::1")]
    #[case("[::1]")]
    #[case("fc00::/7")]
    #[case("10.0.0.0/8")]
    #[case("metadata.goog")]
    #[case("x.metadata.packet.net")]
    #[case("localhost")]
    #[case("localhost.")]
    #[case("x.localhost")]
    #[case("metadata.google.internal")]
    #[case("metadata.google")]
    #[case("metadata.google.internal.local.local")]
    #[case("-a.example.com")]
    #[case("a..example.com")]
    #[case("%65xample.com")]
    #[case("example.com\n")]
    #[case("example.com\u{200b}")]
    #[case("exam\u{ad}ple.com")]
    #[case("fe80::1%eth0")]
    fn what_is_no_public_name_is_refused(#[case] entry: &str) {
        let error = Pattern::parse(entry).unwrap_err();
        assert!(
            error.to_string().contains("write")
                || error.to_string().contains("remove")
                || error.to_string().contains("set")
                || error.to_string().contains("type")
                || error == PatternError::Form,
            "{error}"
        );
    }

    #[rstest]
    #[case::space("exa mple.com", PatternError::Blank)]
    #[case::control("exa\u{7}mple.com", PatternError::Blank)]
    #[case::numbers_that_are_no_address("1.2.3.4.5", PatternError::Address)]
    #[case::suffix("*.co.uk", PatternError::PublicSuffix)]
    #[case::each_name_below_is_a_suffix("*.kobe.jp", PatternError::PublicSuffix)]
    #[case::each_name_below_is_a_customers("*.compute.amazonaws.com", PatternError::PublicSuffix)]
    #[case::below_such_a_suffix("*.us-east-1.compute.amazonaws.com", PatternError::PublicSuffix)]
    #[case::any_address("169.254.169.254.nip.io", PatternError::SpecialUse("nip.io"))]
    #[case::every_address("*.sslip.io", PatternError::SpecialUse("sslip.io"))]
    #[case::never_public("a.test", PatternError::SpecialUse("test"))]
    #[case::no_punycode("xn--\u{fc}.example", PatternError::Form)]
    fn a_refusal_names_its_cause(#[case] entry: &str, #[case] why: PatternError) {
        assert_eq!(Pattern::parse(entry), Err(why));
    }

    #[test]
    fn a_wildcard_over_names_of_one_owner_is_taken() {
        for entry in ["*.city.kobe.jp", "*.example.co.uk", "*.a.us-east-1.compute.amazonaws.com", "*.example.com"] {
            assert!(Pattern::parse(entry).is_ok(), "{entry}");
        }
        let why = |entry| Pattern::parse(entry).unwrap_err().to_string();
        assert!(why("a.nip.io").contains("whatever address") && why("a.test").contains("never leads"));
    }

    #[test]
    fn a_name_has_253_characters_at_most() {
        let label = "a".repeat(63);
        let name = |last: usize| format!("{label}.{label}.{label}.{}", "b".repeat(last));
        assert_eq!(Pattern::parse(&name(61)).map(|pattern| pattern.to_string()), Ok(name(61)));
        assert_eq!(Pattern::parse(&name(62)), Err(PatternError::Form));
        assert_eq!(Pattern::parse(&name(63)), Err(PatternError::Form));
    }

    #[test]
    fn a_host_that_is_asked_for_has_the_form_of_an_entry_without_a_star() {
        assert_eq!(Pattern::host("_api.internal").as_deref(), Ok("_api.internal"));
        assert_eq!(Pattern::host("*.example.com"), Err(PatternError::Form));
    }

    #[rstest]
    #[case::inside("catapult_tv.example.com")]
    #[case::first("_dmarc.example.com")]
    #[case::last("a_.example.com")]
    #[case::below_a_star("*.my_team.example.com")]
    fn labels_may_have_underscores_in_entries_and_in_what_is_asked_for(#[case] entry: &str) {
        assert_eq!(Pattern::parse(entry).unwrap().to_string(), entry);
        let host = entry.replace('*', "a_b");
        assert_eq!(Pattern::host(&host).unwrap(), host);
    }

    #[test]
    fn an_underscore_makes_no_public_suffix_somebodys_own() {
        // `*.ck` is a rule of the list.
        assert_eq!(Pattern::parse("*.a_b.ck"), Err(PatternError::PublicSuffix));
        assert_eq!(Pattern::parse("*.a_b.kobe.jp"), Err(PatternError::PublicSuffix));
    }

    #[rstest]
    #[case::itself("example.com", "example.com", true)]
    #[case::not_its_own_top("example.com", "*.example.com", false)]
    #[case::a_name_below("a.example.com", "*.example.com", true)]
    #[case::a_name_beside("xexample.com", "*.example.com", false)]
    #[case::all_below_over_a_name("*.example.com", "a.example.com", true)]
    #[case::all_below_but_the_top("*.example.com", "example.com", false)]
    #[case::the_same_zone("*.example.com", "*.example.com", true)]
    #[case::a_zone_below("*.a.example.com", "*.example.com", true)]
    #[case::a_zone_above("*.example.com", "*.a.example.com", true)]
    #[case::a_zone_beside("*.example.org", "*.example.com", false)]
    fn patterns_overlap_where_one_name_matches_both(#[case] entry: &str, #[case] zone: &str, #[case] overlaps: bool) {
        assert_eq!(Pattern::parse(entry).unwrap().overlaps(zone), overlaps);
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing_and_nothing_panics(entry in "\\PC{0,40}") {
            if let Ok(pattern) = Pattern::parse(&entry) {
                prop_assert_eq!(Pattern::parse(&pattern.to_string()), Ok(pattern));
            }
        }
    }
}
