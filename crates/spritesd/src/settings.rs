//! How the platform behaves where the real one's behaviour is a matter of time, money or doubt: flags with defaults.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

use super::duration;

/// The version of the supervisor that clients and guests are told.
pub(crate) const VERSION: &str = "v0.0.1-rc46";
/// What names of Sprites end with by default: everything below it is the loopback by definition.
pub(crate) const LOCALHOST: &str = "localhost";

/// What can be chosen. The defaults are the platform's published numbers, or its safest reading.
#[derive(Debug, Clone, Args)]
pub struct Settings {
    /// What a Sprite is made of
    #[arg(long, value_enum, default_value_t = GuestKind::Bubblewrap)]
    pub guest: GuestKind,
    /// How long a Sprite without activity stays running
    #[arg(long, default_value = "30s", value_parser = parse_duration, value_name = "DURATION")]
    pub idle_after: Duration,
    /// How long it then stays warm (frozen, memory kept) before it is cold
    #[arg(long, default_value = "5m", value_parser = parse_duration, value_name = "DURATION")]
    pub cold_after: Duration,
    /// How much longer waking a warm Sprite takes than this machine needs
    #[arg(long, default_value = "0s", value_parser = parse_duration, value_name = "DURATION")]
    pub warm_start: Duration,
    /// How much longer starting a cold Sprite takes than this machine needs
    #[arg(long, default_value = "0s", value_parser = parse_duration, value_name = "DURATION")]
    pub cold_start: Duration,
    /// When a new Sprite boots
    #[arg(long, value_enum, default_value_t = Boot::Create)]
    pub boot: Boot,
    /// What a file call to a cold Sprite does
    #[arg(long, value_enum, default_value_t = OnCold::Hang)]
    pub fs_on_cold: OnCold,
    /// What a policy, service or checkpoint call to a cold Sprite does
    #[arg(long, value_enum, default_value_t = OnCold::Wake)]
    pub supervisor_on_cold: OnCold,
    /// What a restored checkpoint does to the network policy
    #[arg(long, value_enum, default_value_t = RestorePolicy::Keep)]
    pub restore_policy: RestorePolicy,
    /// What Sprites can reach
    #[arg(long, value_enum, default_value_t = NetworkKind::World)]
    pub network: NetworkKind,
    /// What the names in URLs of Sprites end with, for example `sprites.example.org` where that and all below it leads
    /// here
    #[arg(long, default_value = LOCALHOST, value_parser = parse_suffix, value_name = "DOMAIN")]
    pub url_suffix: String,
    /// JSON file with the hosts of the world: [{"name": "example.com", "addr": "203.0.113.7"}]
    #[arg(long)]
    pub world: Option<PathBuf>,
    /// Bytes of files a Sprite may have; `none` keeps them in plain directories without a limit
    #[arg(long, default_value = "2Gi", value_parser = parse_limit, value_name = "SIZE|none")]
    pub disk_limit: Limit,
    /// What bounds and freezes a Sprite's processes
    #[arg(long, value_enum, default_value_t = GroupKind::Auto)]
    pub cgroups: GroupKind,
    /// Bytes of memory a Sprite may use
    #[arg(long, default_value = "2Gi", value_parser = parse_size, value_name = "SIZE")]
    pub memory_limit: u64,
    /// Processes and threads a Sprite may have
    #[arg(long, default_value_t = 1024)]
    pub process_limit: u64,
    /// Sprites that may be running at once; more are refused with 429
    #[arg(long)]
    pub running_limit: Option<u32>,
    /// Creations in a window, for example `10/1m`; more are refused with 429
    #[arg(long, value_parser = parse_rate, value_name = "COUNT/DURATION")]
    pub create_limit: Option<Rate>,
    /// What an hour awake costs, in USD: by default 8 vCPU at 0.07 and 4 GB at 0.04375, as published
    #[arg(long, default_value_t = 0.735, value_name = "USD")]
    pub price_per_hour: f64,
}

/// What a Sprite is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GuestKind {
    /// Namespaces made by bubblewrap
    Bubblewrap,
    /// Nothing: no sandbox and no process. Files and policies are kept and answered, but egress is not enforced; exec answers
    /// what the operator's runner would, with outputs scripted by the admin's `/instant`
    Instant,
}

/// When a new Sprite boots for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Boot {
    /// By itself, when it is created
    Create,
    /// With the first call that wakes it
    Call,
}

/// What a call that needs a running VM does when there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnCold {
    /// Starts it
    Wake,
    /// Waits until something else has started it
    Hang,
}

/// What a restored checkpoint does to the network policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RestorePolicy {
    /// The policy in force stays
    Keep,
    /// The policy of the checkpoint's time comes back
    Revert,
}

/// What Sprites can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum NetworkKind {
    /// The hosts of a world inside this machine, as their policy allows
    World,
    /// Nothing but their own loopback
    None,
}

/// What bounds and freezes processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GroupKind {
    /// Control groups, where they can be had
    Auto,
    /// Resource limits and signals
    None,
}

/// A bound in bytes, or that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Option<u64>);

/// So many in so long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// How many.
    pub count: u32,
    /// In how long.
    pub window: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        #[derive(Parser)]
        struct Defaults {
            #[command(flatten)]
            settings: Settings,
        }
        Defaults::parse_from(["spritesd"]).settings
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    duration::parse(text).ok_or_else(|| "not a duration: write for example 30s, 1m30s or 250ms".into())
}

fn parse_size(text: &str) -> Result<u64, String> {
    let units = [("Ki", 10), ("Mi", 20), ("Gi", 30)];
    let (number, shift) = units
        .iter()
        .find_map(|(unit, shift)| text.strip_suffix(unit).map(|number| (number, *shift)))
        .unwrap_or((text, 0));
    let number: Option<u64> = number.parse().ok();
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "not a size: write bytes, or for example 512Mi or 2Gi".into())
}

fn parse_suffix(text: &str) -> Result<String, String> {
    let suffix = text.trim_end_matches('.').to_ascii_lowercase();
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // With the name of a Sprite and a dot before it.
    if suffix.len() <= 253 - 64 && suffix.split('.').all(label) {
        Ok(suffix)
    } else {
        Err("not a domain: write for example sprites.example.org".into())
    }
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    if text == "none" { Ok(Limit(None)) } else { parse_size(text).map(|bytes| Limit(Some(bytes))) }
}

fn parse_rate(text: &str) -> Result<Rate, String> {
    let parsed = text.split_once('/').and_then(|(count, window)| {
        Some(Rate { count: count.parse().ok()?, window: duration::parse(window).filter(|window| !window.is_zero())? })
    });
    parsed.ok_or_else(|| "not a rate: write for example 10/1m".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_the_published_ones() {
        let settings = Settings::default();
        assert_eq!((settings.idle_after.as_secs(), settings.fs_on_cold), (30, OnCold::Hang));
        // As `--help` prints it.
        assert_eq!(settings.price_per_hour.to_string(), "0.735");
        assert!((8.0f64.mul_add(0.07, 4.0 * 0.043_75) - settings.price_per_hour).abs() < 1e-9);
    }

    #[test]
    fn sizes_and_rates() {
        assert_eq!(parse_limit("none"), Ok(Limit(None)));
        assert_eq!(parse_limit("64Mi"), Ok(Limit(Some(64 << 20))));
        assert_eq!(parse_size("1000"), Ok(1000));
        for bad in ["", "0", "-1", "1GB", "1.5Gi", "99999999999Gi"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_suffix("Sprites.example.ORG."), Ok("sprites.example.org".into()));
        for bad in ["", ".", ".x", "a..b", "http://x", "x:80", "a_b", "-a.b", "*.x", &"a.".repeat(120)] {
            assert!(parse_suffix(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_rate("10/1m"), Ok(Rate { count: 10, window: Duration::from_mins(1) }));
        for bad in ["10", "x/1m", "10/", "10/0s"] {
            assert!(parse_rate(bad).is_err(), "{bad}");
        }
    }
}
