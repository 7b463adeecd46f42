//! Scripted failures: which call they meet, and what they do to it. Pure but for the counters.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::duration;

/// The names of calls.
const ROUTES: [&str; 43] = [
    "create",
    "list",
    "get",
    "update",
    "delete",
    "restart",
    "check",
    "upgrade",
    "policy.get",
    "policy.set",
    "policy.get-other",
    "policy.set-other",
    "checkpoint.create",
    "checkpoint.list",
    "checkpoint.get",
    "checkpoint.delete",
    "checkpoint.restore",
    "exec",
    "exec.http",
    "exec.attach",
    "exec.list",
    "exec.kill",
    "control",
    "proxy",
    "ports.watch",
    "fs.read",
    "fs.write",
    "fs.list",
    "fs.delete",
    "fs.rename",
    "fs.copy",
    "fs.chmod",
    "fs.chown",
    "fs.watch",
    "service.list",
    "service.get",
    "service.put",
    "service.delete",
    "service.start",
    "service.stop",
    "service.restart",
    "service.signal",
    "service.logs",
];

/// How far apart the pieces of a slow answer are if the rule does not say.
const SLOW: Duration = Duration::from_millis(100);

/// One scripted failure. A call meets the first rule that fits it and is not used up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// The name of the call: `create`, `get`, `list`, `update`, `delete`, `policy.get`, `policy.set`, `exec`,
    /// `exec.attach`, `exec.list`, `exec.kill`, `exec.http`, `control`, `proxy`, `ports.watch`, `fs.read`, `fs.write`,
    /// `fs.list`, `fs.delete`, `fs.rename`, `fs.copy`, `fs.chmod`, `fs.chown`, `fs.watch`; `*` is any.
    pub route: String,
    /// HTTP method; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Part of the Sprite's name in the path (none in that of `create` and `list`) or, for `exec`, of the arguments
    /// joined by spaces; any if absent.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matching: Option<String>,
    /// What happens.
    pub effect: Effect,
    /// How many calls it hits; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// How likely it hits a call that fits, 0 to 1; certain if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
    /// Makes the probability repeatable.
    #[serde(default)]
    pub seed: u64,
    /// How long the call waits first, e.g. `500ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<String>,
    /// Status of `error-before`; 503 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Seconds in `Retry-After` of `rate-limit`; 1 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// How many calls it has hit; set by the server.
    #[serde(default)]
    pub hits: u64,
}

/// What a scripted failure does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// An error answer; nothing is done.
    ErrorBefore,
    /// It is done, then the connection drops without an answer.
    LostReply,
    /// Only the delay.
    Delay,
    /// 429 with `Retry-After`; nothing is done.
    RateLimit,
    /// GET of the network policy shows one allow rule more than is stored.
    PolicyReadbackDiffers,
    /// POST of the network policy answers 204 and stores nothing.
    PolicyNotApplied,
    /// All output, then a normal close without an exit frame.
    ExitFrameLost,
    /// The connection drops after the first frame of standard output.
    EarlyClose,
    /// The exit frame and a normal close, without any output.
    OutputLost,
    /// The connection stays open and nothing comes any more, not even an answer to a ping: for exec after the first
    /// frame of standard output, else in place of the answer. A packet filter drops what belongs to the connection, so
    /// that the client's bytes are not acknowledged either (without a superuser the kernel still does that).
    HalfOpen,
    /// The answer comes in small pieces, `delay` apart (100 ms if absent).
    Slow,
    /// The answer's body ends in the middle, with a length that fits.
    TruncatedBody,
    /// Before the call the Sprite is deleted and made anew under its name: another id, no files, open egress.
    InstanceReplaced,
    /// A list does not show the Sprites whose names contain `match`.
    ListMissingEntry,
    /// Before the call the Sprite's disk gets full; it stays so until the rules are replaced.
    DiskFull,
}

/// A call, as rules see it.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) route: &'a str,
    pub(crate) method: &'a str,
    pub(crate) sprite: &'a str,
    pub(crate) argv: &'a str,
}

/// What a call met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) effect: Effect,
    pub(crate) delay: Duration,
    pub(crate) status: u16,
    pub(crate) retry_after: u64,
    /// The rule's `match`.
    pub(crate) matching: String,
}

impl Fault {
    /// How far apart the pieces of a slow answer are.
    pub(crate) fn pause(&self) -> Duration {
        if self.delay.is_zero() { SLOW } else { self.delay }
    }
}

/// The rules in force.
#[derive(Default)]
pub(crate) struct Faults {
    rules: Mutex<Vec<(FaultRule, Dice)>>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.rules()).finish()
    }
}

impl Faults {
    /// Replaces all rules; refuses them all, with the reason, if one makes no sense.
    pub(crate) fn replace(&self, rules: Vec<FaultRule>) -> Result<(), String> {
        for (index, rule) in rules.iter().enumerate() {
            rule.check().map_err(|why| format!("rule {index}: {why}"))?;
        }
        *self.lock() = rules.into_iter().map(|rule| (FaultRule { hits: 0, ..rule.clone() }, Dice(rule.seed))).collect();
        Ok(())
    }

    /// The rules with their hits.
    pub(crate) fn rules(&self) -> Vec<FaultRule> {
        self.lock().iter().map(|(rule, _)| rule.clone()).collect()
    }

    /// What this call meets.
    pub(crate) fn meet(&self, call: &Call<'_>) -> Option<Fault> {
        for (rule, dice) in self.lock().iter_mut() {
            if !rule.fits(call) || rule.count.is_some_and(|count| rule.hits >= count) {
                continue;
            }
            if rule.probability.is_some_and(|probability| dice.roll() >= probability) {
                continue;
            }
            rule.hits += 1;
            let delay = rule.delay.as_deref().and_then(duration::parse).unwrap_or_default();
            return Some(Fault {
                effect: rule.effect,
                delay,
                status: rule.status.unwrap_or(503),
                retry_after: rule.retry_after.unwrap_or(1),
                matching: rule.matching.clone().unwrap_or_default(),
            });
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(FaultRule, Dice)>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FaultRule {
    fn check(&self) -> Result<(), String> {
        if self.route != "*" && !ROUTES.contains(&self.route.as_str()) {
            // A rule that can never fit would let a test pass for the wrong reason.
            return Err(format!("unknown route {:?}: write one of *, {}", self.route, ROUTES.join(", ")));
        }
        if self.effect == Effect::Delay && self.delay.is_none() {
            return Err("the effect delay needs a delay".into());
        }
        if self.count == Some(0) {
            return Err("count is 0: it would hit nothing".into());
        }
        if self.delay.as_deref().is_some_and(|text| duration::parse(text).is_none()) {
            return Err("delay is no duration".into());
        }
        if self.probability.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
            return Err("probability is not between 0 and 1".into());
        }
        if self.status.is_some_and(|status| !(400..=599).contains(&status)) {
            return Err("status is no error".into());
        }
        if self.count.is_some() && self.probability.is_some() {
            return Err("count and probability exclude each other".into());
        }
        Ok(())
    }

    fn fits(&self, call: &Call<'_>) -> bool {
        (self.route == "*" || self.route == call.route)
            && self.method.as_deref().is_none_or(|method| method.eq_ignore_ascii_case(call.method))
            // What a list is to leave out does not name the call.
            && (self.effect == Effect::ListMissingEntry
                || self.matching.as_deref().is_none_or(|part| call.sprite.contains(part) || call.argv.contains(part)))
    }
}

/// `SplitMix64`: the same numbers for the same seed in every version of every library.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(json: &str) -> Faults {
        let faults = Faults::default();
        faults.replace(serde_json::from_str(json).unwrap()).unwrap();
        faults
    }

    fn call<'a>(route: &'a str, argv: &'a str) -> Call<'a> {
        Call { route, method: "GET", sprite: "one", argv }
    }

    #[test]
    fn a_rule_is_used_up_by_what_it_hits() {
        let faults = faults(r#"[{"route":"exec","match":"uid-7","effect":"early-close","count":1}]"#);
        assert_eq!(faults.meet(&call("get", "uid-7")), None);
        assert_eq!(faults.meet(&call("exec", "uid-8")), None);
        assert_eq!(faults.meet(&call("exec", "bash uid-7")).map(|f| f.effect), Some(Effect::EarlyClose));
        assert_eq!(faults.meet(&call("exec", "bash uid-7")), None);
        assert_eq!(faults.rules()[0].hits, 1);
    }

    #[test]
    fn the_first_fitting_rule_wins() {
        let faults = faults(
            r#"[{"route":"*","method":"post","effect":"rate-limit"},{"route":"get","match":"on","effect":"delay","delay":"2s"}]"#,
        );
        let met = faults.meet(&call("get", "")).unwrap();
        assert_eq!((met.effect, met.delay), (Effect::Delay, Duration::from_secs(2)));
    }

    #[test]
    fn chance_is_repeatable_and_about_right() {
        let rules = r#"[{"route":"get","effect":"error-before","probability":0.25,"seed":42}]"#;
        let run = || {
            let faults = faults(rules);
            (0..1000).map(|_| faults.meet(&call("get", "")).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(run(), run());
        assert!((200..300).contains(&run().iter().filter(|hit| **hit).count()));
    }

    #[test]
    fn nonsense_is_refused() {
        for bad in [
            r#"[{"route":"get","effect":"delay","delay":"soon"}]"#,
            r#"[{"route":"get","effect":"delay","delay":"1s","probability":2.0}]"#,
            r#"[{"route":"/v1/sprites","effect":"error-before"}]"#,
            r#"[{"route":"get","effect":"delay"}]"#,
            r#"[{"route":"get","effect":"error-before","count":0}]"#,
            r#"[{"route":"get","effect":"error-before","status":200}]"#,
            r#"[{"route":"get","effect":"delay","delay":"1s","count":1,"probability":0.5}]"#,
        ] {
            assert!(Faults::default().replace(serde_json::from_str(bad).unwrap()).is_err(), "{bad}");
        }
        assert!(serde_json::from_str::<Vec<FaultRule>>(r#"[{"route":"get","effect":"explode"}]"#).is_err());
    }
}
