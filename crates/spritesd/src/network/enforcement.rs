//! What is in force for one guest, and what becomes of it: by a new policy, by an answer, by a cut. Pure: the kernel
//! is changed by others, from [`Enforcement::ruleset`].
//!
//! Every change makes a new generation. An address counts as allowed since the generation in which it was learnt,
//! as long as every policy since then allowed a name it was learnt for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::addresses::is_closed;
use super::matching::Matcher;
use super::ruleset::{Mode, Ruleset};
use crate::policy::{NetworkPolicy, Rule};

/// How long the addresses of an answer are open, in lives of the answer: a client that keeps the answer to its end
/// must still get through.
const LIVES: u32 = 2;

/// The rules of one guest with what it has learnt under them.
#[derive(Debug, Clone)]
pub(super) struct Enforcement {
    generation: u32,
    matcher: Matcher,
    /// The first of the generations without rules that leads up to the present one; none while there are rules.
    unrestricted_since: Option<u32>,
    /// By name. Bounded by the names the world has.
    learnt: BTreeMap<String, BTreeMap<IpAddr, Learnt>>,
    /// The life of an answer.
    life: Duration,
}

#[derive(Debug, Clone, Copy)]
struct Learnt {
    since: u32,
    open_until: Instant,
}

/// What a question comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The policy denies the name.
    Refused,
    /// Nobody has the name.
    Unknown,
    /// These addresses, perhaps none; those of the second list must be opened first and then learnt.
    Addresses { answer: Vec<IpAddr>, to_open: Vec<IpAddr> },
}

/// Which addresses of a name are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
    /// None: the question is for records of another type, of which there are none.
    Neither,
}

impl Enforcement {
    /// The first generation of a guest; `life` is that of answers.
    pub(super) fn new(policy: &NetworkPolicy, life: Duration) -> Self {
        let matcher = Matcher::new(policy);
        let unrestricted_since = matcher.is_unrestricted().then_some(1);
        Self { generation: 1, matcher, unrestricted_since, learnt: BTreeMap::new(), life }
    }

    /// The generation that follows when `policy` replaces the present one.
    pub(super) fn under(&self, policy: &NetworkPolicy) -> Self {
        let mut next = self.clone();
        next.generation = self.next_generation();
        next.matcher = Matcher::new(policy);
        next.unrestricted_since =
            next.matcher.is_unrestricted().then(|| self.unrestricted_since.unwrap_or(next.generation));
        next.learnt.retain(|name, _| next.matcher.allows(name));
        next
    }

    /// The generation that follows when all connections are cut; what is open stays open for new ones.
    pub(super) fn cut(&self) -> Self {
        let mut next = self.clone();
        next.generation = self.next_generation();
        next.unrestricted_since = self.unrestricted_since.map(|_| next.generation);
        for learnt in next.learnt.values_mut().flat_map(BTreeMap::values_mut) {
            learnt.since = next.generation;
        }
        next
    }

    /// The generation that follows when the rules could not be put in force: everything is denied.
    pub(super) fn shut(&self) -> Self {
        let everything = Rule { action: Some("deny".to_owned()), ..Rule::allow("*") };
        let denied = NetworkPolicy { rules: vec![everything] };
        Self { generation: self.next_generation(), ..Self::new(&denied, self.life) }
    }

    fn next_generation(&self) -> u32 {
        // Not reached: a guest would need thousands of changes a second for weeks.
        self.generation.saturating_add(1)
    }

    /// What the kernel must enforce.
    pub(super) fn ruleset(&self, now: Instant) -> Ruleset {
        let before = |since: u32| (since < self.generation).then(|| since..=self.generation.saturating_sub(1));
        let mode = match self.unrestricted_since {
            Some(since) => Mode::Unrestricted(before(since)),
            None => Mode::Enforced,
        };
        let addresses = self.addresses();
        let open = addresses.iter().filter_map(|(address, learnt)| {
            let life = learnt.open_until.checked_duration_since(now).filter(|life| !life.is_zero())?;
            Some((*address, life))
        });
        let kept = addresses.iter().filter_map(|(address, learnt)| Some((*address, before(learnt.since)?)));
        Ruleset { generation: self.generation, mode, open: open.collect(), kept: kept.collect() }
    }

    /// By address what was learnt of it for any name; without those that are closed when it matters.
    fn addresses(&self) -> BTreeMap<IpAddr, Learnt> {
        let mut all: BTreeMap<IpAddr, Learnt> = BTreeMap::new();
        for (address, learnt) in self.learnt.values().flatten().filter(|(address, _)| !is_closed(**address)) {
            let known = all.entry(*address).or_insert(*learnt);
            known.since = known.since.min(learnt.since);
            known.open_until = known.open_until.max(learnt.open_until);
        }
        all
    }

    /// Decides about a question for the addresses of one family of `name`, which the world knows as `known`.
    pub(super) fn look_up(&self, name: &str, known: Option<Vec<IpAddr>>, family: Family, now: Instant) -> Verdict {
        if !self.matcher.allows(name) {
            return Verdict::Refused;
        }
        let Some(known) = known else { return Verdict::Unknown };
        let of_family = |address: &IpAddr| match family {
            Family::V4 => address.is_ipv4(),
            Family::V6 => address.is_ipv6(),
            Family::Neither => false,
        };
        let answer: Vec<IpAddr> = known.into_iter().filter(of_family).collect();
        let learnt = self.learnt.get(name);
        let lasts = |address: &IpAddr| {
            learnt.and_then(|learnt| learnt.get(address)).is_some_and(|l| l.open_until >= now + self.life)
        };
        let to_open = answer.iter().filter(|address| !is_closed(**address) && !lasts(address)).copied().collect();
        Verdict::Addresses { answer, to_open }
    }

    /// Whether addresses must be opened in the kernel before they can be reached.
    pub(super) fn is_restricted(&self) -> bool {
        self.unrestricted_since.is_none()
    }

    /// Notes that `addresses` of `name` were opened at `now`, for [`Enforcement::open_for`].
    pub(super) fn learn(&mut self, name: &str, addresses: &[IpAddr], now: Instant) {
        for address in addresses {
            let earlier = self.learnt.values().filter_map(|learnt| learnt.get(address)).map(|learnt| learnt.since);
            let since = earlier.min().unwrap_or(self.generation);
            let learnt = Learnt { since, open_until: now + self.open_for() };
            self.learnt.entry(name.to_owned()).or_default().insert(*address, learnt);
        }
    }

    /// How long an address is open after an answer with it.
    pub(super) fn open_for(&self) -> Duration {
        self.life * LIVES
    }

    /// The life of answers.
    pub(super) fn life(&self) -> Duration {
        self.life
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIFE: Duration = Duration::from_secs(30);

    fn allow(names: &[&str]) -> NetworkPolicy {
        NetworkPolicy { rules: names.iter().map(|name| Rule::allow(name)).collect() }
    }

    fn ip(last: u8) -> IpAddr {
        [203, 0, 113, last].into()
    }

    #[test]
    fn an_answer_opens_its_addresses_for_longer_than_it_lives() {
        let now = Instant::now();
        let mut state = Enforcement::new(&allow(&["a.example"]), LIFE);
        let known = || Some(vec![ip(1), "2001:db8::1".parse().unwrap()]);
        let ask = |state: &Enforcement, now| state.look_up("a.example", known(), Family::V4, now);
        assert_eq!(ask(&state, now), Verdict::Addresses { answer: vec![ip(1)], to_open: vec![ip(1)] });
        state.learn("a.example", &[ip(1)], now);
        assert_eq!(state.ruleset(now).open, [(ip(1), LIFE * 2)]);
        // An answer of now would outlive the opening only in the second half of that.
        assert_eq!(ask(&state, now + LIFE), Verdict::Addresses { answer: vec![ip(1)], to_open: vec![] });
        let later = now + LIFE + Duration::from_millis(1);
        assert_eq!(ask(&state, later), Verdict::Addresses { answer: vec![ip(1)], to_open: vec![ip(1)] });
        assert_eq!(state.ruleset(now + LIFE * 2).open, []);
    }

    #[test]
    fn names_are_refused_or_unknown() {
        let state = Enforcement::new(&allow(&["a.example"]), LIFE);
        let now = Instant::now();
        assert_eq!(state.look_up("b.example", Some(vec![ip(1)]), Family::V4, now), Verdict::Refused);
        assert_eq!(state.look_up("b.example", None, Family::V4, now), Verdict::Refused);
        assert_eq!(state.look_up("a.example", None, Family::V4, now), Verdict::Unknown);
    }

    #[test]
    fn a_closed_address_is_answered_and_not_opened() {
        let state = Enforcement::new(&allow(&["a.example"]), LIFE);
        let private: IpAddr = [10, 0, 0, 1].into();
        let verdict = state.look_up("a.example", Some(vec![private]), Family::V4, Instant::now());
        assert_eq!(verdict, Verdict::Addresses { answer: vec![private], to_open: vec![] });
    }

    #[test]
    fn connections_are_carried_over_while_their_name_stays_allowed() {
        let now = Instant::now();
        let mut state = Enforcement::new(&allow(&["a.example", "b.example"]), LIFE);
        state.learn("a.example", &[ip(1)], now);
        state.learn("b.example", &[ip(2)], now);
        state = state.under(&allow(&["a.example"]));
        assert_eq!(state.ruleset(now).kept, [(ip(1), 1..=1)]);
        // Allowed again, but not without a break.
        state = state.under(&allow(&["a.example", "b.example"]));
        assert_eq!(state.ruleset(now).kept, [(ip(1), 1..=2)]);
        // Also when nothing is open any more for new connections.
        let later = now + LIFE * 3;
        assert_eq!((state.ruleset(later).open.len(), state.ruleset(later).kept.len()), (0, 1));
        state = state.cut();
        assert_eq!(state.ruleset(now).kept, []);
        assert_eq!(state.ruleset(now).open, [(ip(1), LIFE * 2)]);
    }

    #[test]
    fn without_rules_all_connections_are_carried_over_until_a_cut() {
        let now = Instant::now();
        let mode = |state: &Enforcement| state.ruleset(now).mode;
        let state = Enforcement::new(&allow(&[]), LIFE);
        assert_eq!(mode(&state), Mode::Unrestricted(None));
        let state = state.under(&allow(&[]));
        assert_eq!(mode(&state), Mode::Unrestricted(Some(1..=1)));
        assert_eq!(mode(&state.cut()), Mode::Unrestricted(None));
        let state = state.under(&allow(&["a.example"]));
        assert_eq!(mode(&state), Mode::Enforced);
        assert_eq!(mode(&state.under(&allow(&[]))), Mode::Unrestricted(None));
    }

    #[test]
    fn what_could_not_be_enforced_is_shut() {
        let now = Instant::now();
        let mut state = Enforcement::new(&allow(&["a.example"]), LIFE);
        state.learn("a.example", &[ip(1)], now);
        let state = state.shut();
        assert_eq!(state.ruleset(now), Ruleset::closed(2));
        assert_eq!(state.look_up("a.example", Some(vec![ip(1)]), Family::V4, now), Verdict::Refused);
    }

    #[derive(Debug, Clone)]
    enum Step {
        Policy(Vec<usize>),
        Learn(usize),
        Cut,
    }

    const NAMES: [&str; 3] = ["a.example", "b.example", "c.example"];

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            prop::collection::vec(0..3usize, 0..3).prop_map(Step::Policy),
            (0..3usize).prop_map(Step::Learn),
            Just(Step::Cut),
        ]
    }

    proptest! {
        /// A model that follows one connection to each host, begun as early as possible and silent ever since.
        #[test]
        fn a_connection_lives_as_long_as_its_name_was_never_denied(steps in prop::collection::vec(step(), 1..12)) {
            let now = Instant::now();
            let mut state = Enforcement::new(&allow(&["a.example"]), LIFE);
            // The generation in which the connection to each host began; none when there is none.
            let mut begun: [Option<u32>; 3] = [None; 3];
            for step in steps {
                match step {
                    Step::Policy(names) => {
                        let names: Vec<_> = names.into_iter().map(|n| NAMES[n]).collect();
                        state = state.under(&allow(&names));
                        for (n, begun) in begun.iter_mut().enumerate() {
                            if !(names.is_empty() || names.contains(&NAMES[n])) { *begun = None; }
                        }
                    }
                    Step::Learn(n) => {
                        if state.matcher.allows(NAMES[n]) {
                            state.learn(NAMES[n], &[ip(u8::try_from(n).unwrap())], now);
                            begun[n].get_or_insert(state.generation);
                        }
                    }
                    // Another may begin at once: what was open stays open.
                    Step::Cut => { state = state.cut(); begun = begun.map(|begun| begun.map(|_| state.generation)); }
                }
                let rules = state.ruleset(now);
                for (n, begun) in begun.iter().enumerate() {
                    let kept = rules.kept.iter().find(|(address, _)| *address == ip(u8::try_from(n).unwrap()));
                    let carries = |mark: u32| mark == rules.generation
                        || kept.is_some_and(|(_, earlier)| earlier.contains(&mark));
                    if let Some(mark) = begun { prop_assert!(carries(*mark), "{:?} {:?}", rules, begun); }
                    // Marks of before it began belong to connections that were cut.
                    let first = begun.unwrap_or(rules.generation);
                    prop_assert!((1..first).all(|mark| !carries(mark)), "{:?} {:?}", rules, begun);
                }
            }
        }
    }
}
