//! The cluster-wide switch: a ConfigMap in the operator's namespace, on only at exactly `true`.
//!
//! A successful read that is absent or anything else is Off. No successful read for 10 s is Frozen: start nothing, kill
//! nothing. It depends on no other configuration being valid. Must not act on what it finds.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::kubernetes::apply::brief;
use api::names::{SWITCH_CONFIG_MAP, SWITCH_KEY};

/// How often the switch is read.
const POLL: Duration = Duration::from_secs(2);
/// How long one read may take.
const READ: Duration = Duration::from_secs(4);
/// How old a reading may be.
const STALE: Duration = Duration::from_secs(10);

/// Where the switch stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switch {
    /// Runs may start.
    On,
    /// Nothing starts; what runs is killed.
    Off,
    /// It cannot be read: nothing starts, nothing is killed.
    Frozen,
}

/// What one successful read says. Pure.
pub fn reading(config: Option<&ConfigMap>) -> Switch {
    let value = config.and_then(|c| c.data.as_ref()).and_then(|data| data.get(SWITCH_KEY));
    if value.is_some_and(|v| v == "true") { Switch::On } else { Switch::Off }
}

/// Where the switch stands by the last successful reading. Pure.
fn stands(last: Option<(Switch, Instant)>, now: Instant) -> Switch {
    match last {
        Some((switch, at)) if now.saturating_duration_since(at) <= STALE => switch,
        Some(_) | None => Switch::Frozen,
    }
}

/// Reads the switch once, from a quorum.
pub async fn read(api: &Api<ConfigMap>) -> Result<Switch, kube::Error> {
    api.get_opt(SWITCH_CONFIG_MAP).await.map(|config| reading(config.as_ref()))
}

/// Reads the switch until told to stop.
pub async fn follow(api: Api<ConfigMap>, switch: watch::Sender<Switch>, stop: CancellationToken) {
    let mut last = None;
    let mut ticks = interval(POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = stop.cancelled() => return,
        }
        // From before the read: what it says can only be later.
        let asked = Instant::now();
        match timeout(READ, read(&api)).await {
            Ok(Ok(reading)) => last = Some((reading, asked)),
            Ok(Err(error)) => tracing::warn!(error = brief(&error), "the switch could not be read"),
            Err(_) => tracing::warn!("the switch could not be read in time"),
        }
        let now = stands(last, Instant::now());
        switch.send_if_modified(|old| {
            let changed = *old != now;
            if changed {
                match now {
                    Switch::On => tracing::info!(from = ?old, "the switch is on"),
                    Switch::Off => {
                        tracing::warn!(from = ?old, "the switch is off: nothing starts, running commands are killed");
                    }
                    Switch::Frozen => tracing::warn!(from = ?old, "the switch cannot be read: nothing starts"),
                }
                *old = now;
            }
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;
    use std::collections::BTreeMap;

    fn config(value: &str) -> ConfigMap {
        ConfigMap { data: Some(BTreeMap::from([(SWITCH_KEY.to_owned(), value.to_owned())])), ..ConfigMap::default() }
    }

    #[rstest]
    #[case(Some(config("true")), Switch::On)]
    #[case(Some(config("True")), Switch::Off)]
    #[case(Some(config("true ")), Switch::Off)]
    #[case(Some(config("")), Switch::Off)]
    #[case(Some(ConfigMap::default()), Switch::Off)]
    #[case(None, Switch::Off)]
    fn only_exactly_true_is_on(#[case] config: Option<ConfigMap>, #[case] expected: Switch) {
        assert_eq!(reading(config.as_ref()), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_freezes_after_ten_seconds() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(stands(None, start), Switch::Frozen);
        assert_eq!(stands(Some((Switch::On, start)), at(10)), Switch::On);
        assert_eq!(stands(Some((Switch::On, start)), at(11)), Switch::Frozen);
        assert_eq!(stands(Some((Switch::Off, start)), at(11)), Switch::Frozen);
    }
}
