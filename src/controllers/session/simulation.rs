//! A session and a platform that misbehaves, step by step, with the decisions that the controller takes: what must hold whatever
//! happens in which order. Pure: effects change the simulated platform.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube::api::ObjectMeta;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{
    decide::{after_destroy, after_lock, decide},
    fixtures::policy,
    needs::{needs_policy_read, sprite_to_observe},
    observed::{Live, NoAnswer, Observed, Timing},
    plan::{self, Effect, Lock, Plan, StatusDraft, Then},
    status,
};
use crate::{
    access::{switch::Switch, tenant::Tenant},
    controllers::{driver::Next, state::session_activity::SessionActivity},
    kubernetes::object_key::ObjectKey,
    lockdown::{apply::LockFailure, instance::LiveSprite},
    policy::view::PolicyView,
};
use api::{
    SandboxSession,
    names::SESSION_FINALIZER,
    reasons::{SessionPhase, SpritePhase},
    sandbox_session::LockdownStatus,
};
use rules::{
    egress::{ReadRule, Ruleset},
    lockdown::{Confirmed, Token},
};

const TIMING: Timing = Timing { absent_after: 10, create_grace: 120, verify_interval: 300 };
/// How many lives are simulated, and how long each is disturbed.
const LIVES: u64 = 400;
const DISTURBED: u32 = 60;
/// Steps in which an undisturbed session must reach its goal; a create may be on its way for 120 of them.
const CALM: u32 = 200;

/// A Sprite of the simulated platform.
#[derive(Debug, Clone)]
struct Sprite {
    id: String,
    ours: bool,
    private: bool,
    awake: bool,
    rules: Vec<ReadRule>,
    /// The runner in it; code in it may remove it.
    runner: Option<&'static str>,
    /// Somebody's files may be in it.
    used: bool,
}

struct World {
    rng: StdRng,
    /// How often something goes wrong, in a hundred.
    trouble: u32,
    now: i64,
    session: SandboxSession,
    activity: SessionActivity,
    policy: PolicyView,
    switch: Switch,
    /// The operator's.
    runner: &'static str,
    sprite: Option<Sprite>,
    /// A create whose answer was lost, and when it lands.
    late: Option<i64>,
    instances: u32,
    /// There was a 404 for a Sprite that is there; the platform does so once, not twice, before it is seen again.
    lied: bool,
    released: bool,
}

fn read(rules: &Ruleset) -> Vec<ReadRule> {
    rules.rules().iter().map(|rule| ReadRule { rule: rule.clone(), unknown: Vec::new() }).collect()
}

impl World {
    fn new(seed: u64) -> Self {
        let session = SandboxSession {
            metadata: ObjectMeta {
                name: Some("s".into()),
                namespace: Some("n".into()),
                uid: Some("u".into()),
                ..ObjectMeta::default()
            },
            spec: serde_json::from_str(r#"{"drive": "d", "conversation": "c"}"#).unwrap(),
            status: None,
        };
        Self {
            rng: StdRng::seed_from_u64(seed),
            trouble: 30,
            now: 1_000_000,
            session,
            activity: SessionActivity::default(),
            policy: policy("{}"),
            switch: Switch::On,
            runner: "r1",
            sprite: None,
            late: None,
            instances: 0,
            lied: false,
            released: false,
        }
    }

    /// Whether something goes wrong now.
    fn trouble(&mut self) -> bool {
        self.rng.random_range(0..100) < self.trouble
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_second(self.now).unwrap()
    }

    fn make(&mut self) -> Sprite {
        self.instances += 1;
        let id = format!("i{}", self.instances);
        Sprite { id, ours: true, private: true, awake: false, rules: Vec::new(), runner: None, used: false }
    }

    fn lockdown(&self) -> LockdownStatus {
        self.session.status.as_ref().and_then(|status| status.lockdown.clone()).unwrap_or_default()
    }

    fn recorded(&self) -> Option<String> {
        self.session.status.as_ref()?.sprite.as_ref()?.id.clone()
    }

    /// What others do to the Sprite, the policy and the operator.
    fn disturb(&mut self) {
        let kind = self.rng.random_range(0..12);
        if let Some(sprite) = &mut self.sprite {
            match kind {
                0 => sprite.rules.clear(),
                1 => sprite.private = false,
                2 => sprite.awake = !sprite.awake,
                3 => sprite.ours = false,
                4 => self.sprite = None,
                5 => self.sprite = Some(Sprite { ours: true, ..self.make() }),
                10 => sprite.runner = None,
                _ => {}
            }
        }
        match kind {
            6 => self.activity = SessionActivity::default(), // the operator restarts
            11 => {
                self.activity = SessionActivity::default();
                self.runner = if self.runner == "r1" { "r2" } else { "r1" };
            }
            7 => {
                let specs =
                    ["{}", "{egress: {mode: Allowlist, allow: [api.example.com]}}", "{egress: {mode: Allowlist}}"];
                self.policy = policy(specs[self.rng.random_range(0..specs.len())]);
            }
            8 => self.policy = PolicyView::NotFound("default".into()),
            9 => self.switch = [Switch::On, Switch::Off, Switch::Frozen][self.rng.random_range(0..3)],
            _ => {}
        }
    }

    fn observe(&mut self) -> Observed {
        if self.late.is_some_and(|at| at <= self.now) && self.sprite.is_none() {
            self.late = None;
            self.sprite = Some(self.make());
        }
        let mut o = Observed {
            key: ObjectKey { namespace: "n".into(), name: "s".into(), uid: "u".into() },
            session: Arc::new(self.session.clone()),
            policy: self.policy.clone(),
            tenant: Tenant { enabled: true, terminating: false },
            switch: self.switch,
            name: Ok("so-1".into()),
            labels: ["a".into(), "b".into(), "c".into()],
            live: Live::NotAsked,
            executions: 0,
            waited_for: self.rng.random_range(0..2) == 0,
            nonce: format!("nonce-{}", self.rng.random::<u32>()),
            runner: self.runner,
            activity: self.activity.clone(),
            now: self.time(),
            timing: TIMING,
        };
        if sprite_to_observe(&o).is_some() {
            let rules = needs_policy_read(&o);
            let (silent, lies) = (self.trouble(), self.trouble() && !self.lied);
            o.live = match &self.sprite {
                _ if silent => Live::Unknown(NoAnswer::Other("unknown")),
                None => Live::Absent,
                Some(_) if lies => Live::Absent,
                Some(sprite) => Live::Present(LiveSprite {
                    id: sprite.id.clone(),
                    ours: sprite.ours,
                    state: Some(if sprite.awake { SpritePhase::Running } else { SpritePhase::Warm }),
                    url: None,
                    private: sprite.private,
                    region: None,
                    rules: (rules && sprite.awake && sprite.ours).then(|| sprite.rules.clone()),
                }),
            };
            match (&o.live, &self.sprite) {
                (Live::Absent, Some(_)) => self.lied = true,
                (Live::Present(_), _) => self.lied = false,
                _ => {}
            }
        }
        o
    }

    /// Writes a status, unless the write is lost.
    fn report(&mut self, o: &Observed, draft: Option<StatusDraft>) {
        if let Some(draft) = draft
            && !self.trouble()
        {
            let old = self.lockdown().token;
            self.session.status = Some(status::report(o, draft, self.time()));
            let token = self.lockdown().token;
            // A token that appears is of the recorded instance, whose rules are those.
            if let Some(token) = token.filter(|token| old.as_ref() != Some(token)) {
                let token = Token::parse(&token).unwrap();
                let sprite = self.sprite.as_ref().expect("a token without a Sprite");
                assert_eq!(
                    (token.instance(), Some(token.instance())),
                    (sprite.id.as_str(), self.recorded().as_deref())
                );
                assert!(sprite.private && sprite.ours, "a token for a Sprite that is public or not ours");
                assert_eq!((self.lockdown().runner.as_deref(), sprite.runner), (Some(o.runner), Some(o.runner)));
            }
        }
    }

    fn lock(&mut self, o: &Observed, lock: Lock) {
        assert_eq!(Some(&lock.nonce), self.lockdown().nonce.as_ref(), "a nonce is written before it is on record");
        assert_eq!(self.lockdown().token, None, "rules move while a token for the old ones is on record");
        assert!(!lock.rules.rules().is_empty(), "an empty list denies nothing");
        let paused = self.activity.unsupported_until.is_some_and(|until| until > o.now);
        assert!(!paused, "a Sprite that cannot execute the runner is tried again at once");
        let (failed, unsupported) = (self.trouble(), self.rng.random_range(0..2) == 0);
        let Some(sprite) = self.sprite.as_mut().filter(|sprite| sprite.id == lock.id && sprite.ours) else {
            let plan = after_lock(o, lock, Err(&LockFailure::Replaced));
            return self.follow(o, plan);
        };
        sprite.awake = true;
        sprite.rules = read(&lock.rules);
        sprite.private = true;
        if failed && unsupported {
            let plan = after_lock(o, lock, Err(&LockFailure::UnsupportedPlatform));
            return self.follow(o, plan);
        }
        if failed {
            sprite.rules.pop();
            let plan = after_lock(o, lock, Err(&LockFailure::Differs(vec!["missing".into()])));
            return self.follow(o, plan);
        }
        sprite.runner = Some(o.runner);
        let live = LiveSprite {
            id: sprite.id.clone(),
            ours: sprite.ours,
            state: Some(SpritePhase::Running),
            url: None,
            private: sprite.private,
            region: None,
            rules: Some(sprite.rules.clone()),
        };
        let confirmed = Confirmed::of(&lock.rules, live.as_read()).unwrap();
        let plan = after_lock(o, lock, Ok(confirmed));
        self.follow(o, plan);
        if let Some(sprite) = self.sprite.as_mut()
            && self
                .session
                .status
                .as_ref()
                .and_then(|status| status.lockdown.as_ref())
                .is_some_and(|l| l.token.is_some())
        {
            sprite.used = true;
        }
    }

    fn follow(&mut self, o: &Observed, plan: Plan) {
        let Plan { effect, report, remember, .. } = plan;
        assert_eq!(effect, Effect::Nothing, "one effect at a time");
        if let Some(remember) = remember {
            remember.apply(&mut self.activity, o);
        }
        self.report(o, report);
    }

    fn create(&mut self, o: &Observed, before: StatusDraft) {
        assert_eq!(self.recorded(), None, "a Sprite is asked for although one is recorded");
        assert!(self.session.metadata.deletion_timestamp.is_none());
        assert_eq!(self.switch, Switch::On);
        if self.sprite.is_some() || self.late.is_some() {
            return; // 409: the next look tells
        }
        match self.rng.random_range(0..100) {
            // The answer is lost and the Sprite comes, at once or within the grace that the intent has.
            roll if roll < self.trouble / 3 => self.sprite = Some(self.make()),
            roll if roll < self.trouble * 2 / 3 => {
                let status = self.session.status.as_ref().unwrap();
                let intended = status.sprite.as_ref().unwrap().create_requested_at.as_ref().unwrap().0.as_second();
                let last = (intended + TIMING.create_grace - 1).max(self.now);
                self.late = Some(self.rng.random_range(self.now..=last));
            }
            roll if roll < self.trouble => {}
            _ => {
                let sprite = self.make();
                let live = LiveSprite {
                    id: sprite.id.clone(),
                    ours: true,
                    state: Some(SpritePhase::Cold),
                    url: None,
                    private: true,
                    region: None,
                    rules: None,
                };
                self.sprite = Some(sprite);
                self.report(o, Some(plan::created(before, live)));
            }
        }
    }

    /// Destroys it; whether our DELETE was answered.
    fn destroy(&mut self, id: &str) -> bool {
        let lost = self.trouble();
        let Some(sprite) = self.sprite.take_if(|sprite| sprite.id == id && sprite.ours) else { return false };
        let deleting = self.session.metadata.deletion_timestamp.is_some();
        assert!(deleting || !sprite.used, "files were destroyed of a session that lives");
        !lost
    }

    /// One reconcile.
    fn step(&mut self) {
        let o = self.observe();
        if let Live::Present(_) = o.live {
            self.activity.absent_since = None;
        }
        let Plan { effect, report, remember, next } = decide(&o);
        if let Some(remember) = remember {
            remember.apply(&mut self.activity, &o);
        }
        match effect {
            Effect::Nothing | Effect::StopRuns => self.report(&o, report),
            Effect::AddFinalizer => self.session.metadata.finalizers = Some(vec![SESSION_FINALIZER.into()]),
            Effect::RemoveFinalizer => {
                let left = self.sprite.as_ref().filter(|sprite| sprite.ours);
                assert!(left.is_none() && self.late.is_none(), "let go with {left:?} and {:?}", self.late);
                self.released = true;
            }
            Effect::Create { name, before } => {
                assert_eq!(name, "so-1");
                self.create(&o, *before);
            }
            Effect::Lock(lock) => self.lock(&o, *lock),
            Effect::Destroy { name, id, then } => {
                assert_eq!(name, "so-1");
                let answered = self.destroy(&id);
                match then {
                    Then::Release => {
                        self.activity.delete_answered |= answered;
                        self.report(&o, report);
                    }
                    Then::Reprovision(before) => {
                        let plan = after_destroy(&o, &before);
                        self.follow(&o, plan);
                    }
                }
            }
        }
        self.now += match next {
            Next::Change => 1,
            Next::After(delay) => i64::try_from(delay.max(Duration::from_secs(1)).as_secs()).unwrap(),
        };
    }

    /// The world behaves from now on; what nobody but a person can mend is mended.
    fn calm(&mut self) {
        self.trouble = 0;
        self.switch = Switch::On;
        if matches!(self.policy, PolicyView::NotFound(_)) {
            self.policy = policy("{}");
        }
        if let Some(sprite) = &mut self.sprite {
            sprite.ours = true;
        }
    }

    /// A Run starts, or finds that its runner is not there.
    fn run_in_it(&mut self) {
        match self.sprite.as_ref().map(|sprite| sprite.runner) {
            Some(Some(_)) => self.activity.lockdown_held(),
            Some(None) => self.activity.request_relock("the runner is not there"),
            None => {}
        }
    }

    fn is_ready(&self) -> bool {
        let status = self.session.status.clone().unwrap_or_default();
        matches!(status.phase, Some(SessionPhase::Ready | SessionPhase::Hibernated))
    }
}

/// The rules of a Sprite that is ready are those of the policy, and its instance is the recorded one.
#[test]
fn a_session_gets_ready_whatever_happened_before_and_never_loses_files_or_mints_a_false_token() {
    for seed in 0..LIVES {
        let mut world = World::new(seed);
        for _ in 0..DISTURBED {
            if world.trouble() {
                world.disturb();
            }
            world.step();
        }
        world.calm();
        let goal = (0..CALM).any(|_| {
            world.step();
            // A doubt, as each Run's end has it, so that what was changed behind our back is looked at.
            world.activity.reverify_requested = world.activity.reverified + 1;
            if world.is_ready() {
                world.run_in_it();
            }
            let Some(sprite) = world.sprite.as_ref().filter(|_| world.is_ready()) else { return false };
            let PolicyView::Ready(policy) = &world.policy else { return false };
            let locked = sprite.private && (!sprite.awake || sprite.rules == read(&policy.egress));
            locked && sprite.runner == Some(world.runner) && world.recorded().as_deref() == Some(&sprite.id)
        });
        assert!(goal, "life {seed}: {:?} {:?}", world.session.status, world.sprite);
    }
}

#[test]
fn a_session_that_is_deleted_at_any_moment_leaves_no_sprite() {
    for seed in 0..LIVES {
        let mut world = World::new(seed);
        let deleted = world.rng.random_range(0..DISTURBED);
        for step in 0..DISTURBED {
            if step == deleted {
                world.session.metadata.deletion_timestamp = Some(Time(world.time()));
            }
            if world.trouble() {
                world.disturb();
            }
            if !world.released {
                world.step();
            }
        }
        world.calm();
        for _ in 0..CALM {
            if world.released || world.session.metadata.finalizers.is_none() {
                break;
            }
            world.step();
        }
        assert!(
            world.released || world.session.metadata.finalizers.is_none(),
            "life {seed}: {:?}",
            world.session.status
        );
        assert!(world.late.is_none(), "life {seed}");
    }
}
