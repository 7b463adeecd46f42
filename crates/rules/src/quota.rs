//! Quota: what a tenant's users have used, derived from objects, and whether one Run more fits.
//!
//! Usage is never a counter that could drift: it is the charges of the Runs that exist, plus the book of those that do not any
//! more. Doubt counts: a charge from the future counts, a bucket counts until its whole minute is a day old, and what a full
//! book can no longer tell apart counts for everyone it may concern. Time comes as milliseconds since the Unix epoch; there are
//! no calendar days and no zones. Must not know where charges and limits come from.

mod usage_history;

use std::collections::{BTreeMap, HashSet, btree_map::Entry};

pub use usage_history::{Bucket, MAX_BUCKETS, MAX_BYTES, MAX_FOLDING, UsageHistory};

/// The window of a day: 24 hours of elapsed time, in milliseconds.
pub const DAY: i64 = 24 * 60 * 60 * 1000;

/// One Run's charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// The Run.
    pub run: String,
    /// On whose behalf it ran.
    pub user: String,
    /// What it worked on.
    pub drive: String,
    /// When it was admitted, in milliseconds; nothing when it was not charged, or not yet.
    pub at: Option<i64>,
    /// Whether it takes a slot: it runs, or one is reserved for it.
    pub active: bool,
}

/// All charges of a tenant.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    charges: BTreeMap<String, Charge>,
    histories: Vec<(String, UsageHistory)>,
}

impl Ledger {
    /// From the Runs that exist, and the books by user. A Run that stands twice, as observed and as reserved, counts once, and
    /// wherever one of the two says that it does: what is observed may be older than the reservation. Who reserves takes the
    /// reservation back once its write was observed.
    pub fn new(
        charges: impl IntoIterator<Item = Charge>,
        histories: impl IntoIterator<Item = (String, UsageHistory)>,
    ) -> Self {
        let mut known: BTreeMap<String, Charge> = BTreeMap::new();
        for charge in charges {
            match known.entry(charge.run.clone()) {
                Entry::Vacant(entry) => drop(entry.insert(charge)),
                Entry::Occupied(mut entry) => {
                    let both = entry.get_mut();
                    both.active |= charge.active;
                    both.at = both.at.max(charge.at);
                }
            }
        }
        Self { charges: known, histories: histories.into_iter().collect() }
    }

    /// What counts against one more Run of this user on this drive, now.
    pub fn usage(&self, user: &str, drive: &str, now: i64) -> Usage {
        // Folded already: its charge is in a history.
        let folded: HashSet<&str> =
            self.histories.iter().flat_map(|(_, history)| history.folding().map(String::as_str)).collect();
        let mut usage = Usage::default();
        for charge in self.charges.values() {
            if charge.active && charge.user == user {
                usage.active += 1;
            }
            let Some(at) = charge.at.filter(|_| !folded.contains(charge.run.as_str())) else { continue };
            let expires = at.saturating_add(DAY);
            usage.count(expires, 1, charge.user == user, charge.drive == drive, now);
        }
        for (owner, history) in &self.histories {
            for bucket in history.buckets() {
                usage.count(bucket.expires_at(), bucket.count, owner == user, bucket.concerns(drive), now);
            }
        }
        usage
    }
}

/// Which scope a limit is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Runs of one user at the same time.
    Concurrent,
    /// Runs of one user in 24 hours.
    User,
    /// Runs on one drive in 24 hours.
    Drive,
    /// Runs of the tenant in 24 hours.
    Tenant,
}

impl Scope {
    /// The word in `status.admission.scopes` and in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Concurrent => "concurrent",
            Self::User => "user",
            Self::Drive => "drive",
            Self::Tenant => "tenant",
        }
    }
}

/// What is used, as of a moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Usage {
    active: u64,
    user: Window,
    drive: Window,
    tenant: Window,
}

/// Charges of the last day: how many leave when.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Window {
    leaving: BTreeMap<i64, u64>,
}

impl Window {
    fn used(&self) -> u64 {
        self.leaving.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// When so many will have left.
    fn available_at(&self, mut many: u64) -> Option<i64> {
        self.leaving.iter().find_map(|(expires, count)| {
            many = many.saturating_sub(*count);
            (many == 0).then_some(*expires)
        })
    }
}

impl Usage {
    fn count(&mut self, expires: i64, count: u64, user: bool, drive: bool, now: i64) {
        if expires <= now {
            return;
        }
        let concerned = [(user, &mut self.user), (drive, &mut self.drive), (true, &mut self.tenant)];
        for (_, window) in concerned.into_iter().filter(|(concerned, _)| *concerned) {
            let of = window.leaving.entry(expires).or_default();
            *of = of.saturating_add(count);
        }
    }

    /// How many Runs of the scope count.
    pub fn used(&self, scope: Scope) -> u64 {
        match scope {
            Scope::Concurrent => self.active,
            Scope::User => self.user.used(),
            Scope::Drive => self.drive.used(),
            Scope::Tenant => self.tenant.used(),
        }
    }

    /// Every limit that one Run more would pass; none: it fits.
    pub fn exceeded(&self, quota: &Quota, now: i64) -> Vec<Exceeded> {
        let daily = [(Scope::User, &self.user), (Scope::Drive, &self.drive), (Scope::Tenant, &self.tenant)];
        let concurrent = (self.active >= u64::from(quota.concurrent)).then_some(Exceeded {
            scope: Scope::Concurrent,
            limit: quota.concurrent,
            used: self.active,
            retry_after: None,
        });
        let of_day = daily.into_iter().filter_map(|(scope, window)| {
            let limit = quota.of_day(scope)?;
            let (used, most) = (window.used(), u64::from(limit));
            (used >= most).then(|| {
                // At limit 0 no waiting helps.
                let free = (most > 0).then(|| window.available_at(used - most + 1)).flatten();
                Exceeded { scope, limit, used, retry_after: free.map(|at| wait(at, now)) }
            })
        });
        concurrent.into_iter().chain(of_day).collect()
    }
}

/// Seconds until a moment, rounded up: at least 1, at most a day, whatever the clock did.
fn wait(at: i64, now: i64) -> u32 {
    let millis = at.saturating_sub(now).clamp(1, DAY);
    u32::try_from((millis + 999) / 1000).unwrap_or(u32::MAX)
}

/// What a policy lets be run; its slots depend on the tenant's tier. Absent: no limit. 0: none may run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PolicyQuota {
    /// Runs of one user at the same time, where the tier is not listed or there is none.
    pub default: u32,
    /// The same by tier.
    pub by_tier: BTreeMap<String, u32>,
    /// Runs of one user in 24 hours.
    pub user: Option<u32>,
    /// Runs on one drive in 24 hours.
    pub drive: Option<u32>,
    /// Runs of the tenant in 24 hours.
    pub tenant: Option<u32>,
}

impl PolicyQuota {
    /// The limits for a tenant of this tier.
    pub fn for_tier(&self, tier: Option<&str>) -> Quota {
        let Self { default, by_tier, user, drive, tenant } = self;
        Quota { concurrent: slots(*default, by_tier, tier), user: *user, drive: *drive, tenant: *tenant }
    }
}

/// The limits of a Run's effective policy. Absent: no limit. 0: none may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Runs of one user at the same time, for the tenant's tier: see [`slots`].
    pub concurrent: u32,
    /// Runs of one user in 24 hours.
    pub user: Option<u32>,
    /// Runs on one drive in 24 hours.
    pub drive: Option<u32>,
    /// Runs of the tenant in 24 hours.
    pub tenant: Option<u32>,
}

impl Quota {
    const fn of_day(&self, scope: Scope) -> Option<u32> {
        match scope {
            Scope::Concurrent => None,
            Scope::User => self.user,
            Scope::Drive => self.drive,
            Scope::Tenant => self.tenant,
        }
    }

    /// The tighter of both in every respect.
    #[must_use]
    pub fn tightened_by(&self, other: &Self) -> Self {
        let tighter = |a: Option<u32>, b: Option<u32>| a.into_iter().chain(b).min();
        Self {
            concurrent: self.concurrent.min(other.concurrent),
            user: tighter(self.user, other.user),
            drive: tighter(self.drive, other.drive),
            tenant: tighter(self.tenant, other.tenant),
        }
    }
}

/// The slots of a tier. A tier that is not listed, or none at all, has the default.
pub fn slots(default: u32, by_tier: &BTreeMap<String, u32>, tier: Option<&str>) -> u32 {
    tier.and_then(|tier| by_tier.get(tier)).copied().unwrap_or(default)
}

/// A limit that stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// Of what.
    pub scope: Scope,
    /// The limit.
    pub limit: u32,
    /// How much is used.
    pub used: u64,
    /// After how many seconds there is room, if nothing else happens: 1 to 86,400. Nothing when time alone does not help:
    /// with a limit of 0, and for Runs at the same time.
    pub retry_after: Option<u32>,
}

impl std::fmt::Display for Exceeded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { scope, limit, used, retry_after } = self;
        let of = match scope {
            Scope::Concurrent => "Runs of this user at the same time",
            Scope::User => "Runs of this user in 24 hours",
            Scope::Drive => "Runs on this drive in 24 hours",
            Scope::Tenant => "Runs of this namespace in 24 hours",
        };
        match (limit, retry_after) {
            (0, _) => write!(f, "the policy allows no {of}"),
            (_, Some(seconds)) => write!(f, "{used} of {limit} {of}: try again in {seconds} s"),
            (_, None) => write!(f, "{used} of {limit} {of}: try again when one has ended"),
        }
    }
}

#[cfg(test)]
mod tests;
