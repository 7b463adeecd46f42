//! A Run, an operator that crashes and caches that lag, step by step, with the decisions that the controller takes: what must
//! hold whatever happens in which order. Pure: effects change the simulated cluster and guest.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::{
    decide::decide,
    fixtures::{self, live, named, policy},
    observed::{LiveRead, Observed, Source},
    plan::{Need, Plan},
    status,
};
use crate::{
    access::{switch::Switch, tenant::Tenant},
    controllers::state::{
        executions::{ExecutionView, Finished},
        session_view::SessionView,
    },
    policy::view::PolicyView,
};
use api::{
    Run, RunStatus,
    reasons::{Evidence, RunPhase, RunReason},
};
use rules::outcome::{Outcome, Seen, Stop, Verdict, judge, phases};
use runner_protocol::{Cause, Guard, Record};

/// How many lives are simulated, and how long each is disturbed.
const LIVES: u64 = 1_000;
const DISTURBED: u32 = 40;
/// Steps in which an undisturbed Run must have reached its end: one a second, `limits.start` and its timeout.
const CALM: u32 = 400;

/// What really happened to the command, whatever anybody believes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Guest {
    /// Nothing.
    Untouched,
    /// Fenced: it can never start.
    Fenced,
    /// It runs.
    Running,
    /// It ended so.
    Ended(Record),
}

struct World {
    rng: StdRng,
    trouble: u32,
    now: i64,
    /// The Run as the API server has it, and what a lagging cache shows.
    run: Run,
    cached: Run,
    guest: Guest,
    starts: u32,
    /// The execution of this process; a restart forgets it.
    execution: Option<ExecutionView>,
    switch: Switch,
    policy: PolicyView,
    tenant: Tenant,
    session_suspended: bool,
    in_session: usize,
    sprite_proves: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let run = named();
        Self {
            rng: StdRng::seed_from_u64(seed),
            trouble: 30,
            now: fixtures::NOW,
            cached: run.clone(),
            run,
            guest: Guest::Untouched,
            starts: 0,
            execution: None,
            switch: Switch::On,
            policy: policy("default", "{}"),
            tenant: Tenant { enabled: true, terminating: false },
            session_suspended: false,
            in_session: 0,
            sprite_proves: true,
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_second(self.now).unwrap()
    }

    fn trouble(&mut self) -> bool {
        self.rng.random_range(0..100) < self.trouble
    }

    fn phase(&self) -> Option<RunPhase> {
        self.run.status.as_ref().and_then(|status| status.phase)
    }

    /// What people, other Runs and the platform do.
    fn disturb(&mut self) {
        match self.rng.random_range(0..10) {
            // The operator restarts: what runs goes on in the guest.
            0 | 1 => self.execution = None,
            2 => self.switch = [Switch::On, Switch::Off, Switch::Frozen][self.rng.random_range(0..3)],
            3 => self.policy = policy("default", ["{}", "{suspend: true}"][self.rng.random_range(0..2)]),
            4 => self.policy = PolicyView::NotFound("default".to_owned()),
            5 => self.tenant.enabled = !self.tenant.enabled,
            6 => self.session_suspended = !self.session_suspended,
            7 => self.in_session = self.rng.random_range(0..6),
            8 => self.sprite_proves = !self.sprite_proves,
            _ => self.run.spec.cancel |= self.rng.random_range(0..4) == 0,
        }
    }

    fn observe(&self, source: Source) -> Observed {
        let run = if source == Source::Caches { &self.cached } else { &self.run };
        let mut session = fixtures::session();
        session.spec.suspend = self.session_suspended;
        Observed {
            run: Arc::new(run.clone()),
            key: fixtures::key(),
            session_name: "s".to_owned(),
            session: SessionView::present(Arc::new(session)),
            run_policy: None,
            session_policy: self.policy.clone(),
            tenant: self.tenant,
            switch: self.switch,
            execution: self.execution.clone(),
            in_session: self.in_session,
            candidates: Vec::new(),
            spec_holds: false,
            source,
            live: None,
            now: self.time(),
        }
    }

    /// Writes by compare-and-swap on what was decided on: a decision on an old version writes nothing.
    fn write(&mut self, o: &Observed, new: RunStatus) -> bool {
        if self.trouble() || o.run.status != self.run.status || o.run.spec != self.run.spec {
            return false;
        }
        let before = self.phase();
        assert!(!before.is_some_and(RunPhase::is_terminal), "{before:?} was terminal and is written again: {new:?}");
        let (phase, reason) = (new.phase.unwrap(), new.reason.unwrap());
        assert!(phases(reason).contains(&phase), "{phase:?} {reason:?} is not in the table of outcomes");
        if before == Some(RunPhase::Running) {
            assert_ne!(phase, RunPhase::Pending, "a Run never goes back from Running");
        }
        self.run.status = Some(new);
        true
    }

    fn start(&mut self, o: &Observed, start: &super::plan::Start) {
        assert_eq!(
            (o.source, self.switch),
            (Source::Servers, Switch::On),
            "started on what a cache says, or with the switch off"
        );
        assert!(self.sprite_proves, "started in a Sprite that is not as it was proved");
        assert_eq!(self.execution.as_ref().map(|_| ()), None, "started although an execution is there");
        if !self.write(o, status::running(&o.run, start, self.time())) {
            return;
        }
        // A crash between the write and the exec: nothing runs, and the Run says Running.
        if self.trouble() {
            return;
        }
        assert_eq!(self.guest, Guest::Untouched, "started twice");
        self.guest = Guest::Running;
        self.starts += 1;
        self.execution = Some(ExecutionView::Running(None));
    }

    /// An execution that this process has comes to its end, as the guest has it.
    fn execution_ends(&mut self) {
        let Some(ExecutionView::Running(stop)) = self.execution else { return };
        if stop.is_none() && self.guest == Guest::Running && self.rng.random_range(0..3) > 0 {
            return;
        }
        let guard = match self.guest {
            Guest::Untouched | Guest::Fenced => {
                self.guest = Guest::Fenced;
                Guard::Never
            }
            Guest::Running => {
                let (code, by) =
                    if stop.is_some() { (143, Cause::Stop) } else { (self.rng.random_range(0..3), Cause::Script) };
                let ran = std::time::Duration::from_secs(1);
                let record = Record { code, by, ran, ended: 0, remaining: 0, stdout: None, stderr: None };
                self.guest = Guest::Ended(record);
                Guard::Ended(record)
            }
            Guest::Ended(record) => Guard::Ended(record),
        };
        let timeout = std::time::Duration::from_secs(30);
        let seen = Seen { guard: Some(&guard), stop, timeout, ..Seen::default() };
        let Verdict::Final(outcome) = judge(&seen) else { panic!("the guard was asked: {seen:?}") };
        let finished = Finished {
            outcome,
            captured: None,
            file: None,
            incomplete: true,
            id: None,
            finished_at: self.time(),
            duration_ms: None,
        };
        self.execution = Some(ExecutionView::Done(Box::new(finished)));
    }

    /// One reconcile.
    fn step(&mut self) {
        self.execution_ends();
        let mut o = self.observe(Source::Caches);
        let mut plan = decide(&o);
        while let Plan::Need(need) = plan {
            match need {
                Need::Servers => {
                    assert_eq!(o.source, Source::Caches, "asked twice");
                    // The Run itself stays as the cache had it: its writes compare the version.
                    let run = Arc::clone(&o.run);
                    o = Observed { run, ..self.observe(Source::Servers) };
                }
                Need::LiveSprite(_) => {
                    assert!(o.live.is_none(), "asked twice");
                    let read = if self.sprite_proves {
                        live()
                    } else {
                        crate::lockdown::instance::LiveSprite { private: false, ..live() }
                    };
                    o.live = Some(LiveRead::Sprite(read));
                }
            }
            plan = decide(&o);
        }
        match plan {
            Plan::Need(_) | Plan::Nothing(_) | Plan::Wake(..) | Plan::CreateSession(_) | Plan::DeleteSession => {}
            Plan::Wait(wait) | Plan::Reverify { wait, .. } => {
                self.write(&o, status::waiting(&o.run, &wait, self.time()));
            }
            Plan::Finish(outcome) => {
                self.write(&o, status::finished_early(&o.run, &outcome, self.time()));
            }
            Plan::Start(start) => self.start(&o, &start),
            Plan::Adopt(stop) => {
                // A cache that lags may say Running when it is long over: after a restart nobody knows; the writes tell.
                self.execution = Some(ExecutionView::Running(stop));
            }
            Plan::Stop(stop) => self.execution = Some(ExecutionView::Running(Some(stop))),
            Plan::Conclude(finished) => {
                let over = self.phase().is_some_and(RunPhase::is_terminal);
                if !over
                    && self
                        .write(&o, status::finished(&o.run, &finished, Some(rules::output::Detail::Whole), self.time()))
                {
                    self.execution = Some(ExecutionView::Concluded(self.time()));
                }
            }
            Plan::Forget => self.execution = None,
            Plan::Expire | Plan::Release => panic!("a Run that nobody deleted, before its time"),
        }
        // The cache shows what is so, now or a step later.
        if !self.trouble() {
            self.cached = self.run.clone();
        }
        self.now += 1;
    }

    /// What is so at the end, against what really happened.
    fn judge(&self, seed: u64) {
        let status = self.run.status.clone().unwrap();
        let (phase, reason) = (status.phase.unwrap(), status.reason.unwrap());
        assert!(self.starts <= 1, "life {seed}: started {} times", self.starts);
        let told = status.execution.as_ref().and_then(|execution| execution.evidence);
        match self.guest {
            Guest::Untouched | Guest::Fenced => {
                assert!(
                    !matches!(phase, RunPhase::Succeeded | RunPhase::Running | RunPhase::Pending),
                    "life {seed}: nothing ran, and it says {phase:?} {reason:?}"
                );
                assert!(status.admission.is_none(), "life {seed}: charged for a command that never started");
            }
            Guest::Running => panic!("life {seed}: over, and its command runs"),
            Guest::Ended(Record { code, .. }) => {
                assert_ne!(reason, RunReason::NotStarted, "life {seed}: it ran");
                assert!(!reason.is_denial(), "life {seed}: it ran, and says {reason:?}");
                assert_eq!(status.exit_code, Some(i32::from(code)), "life {seed}");
                assert_eq!(told, Some(Evidence::GuestRecord), "life {seed}");
                assert!(status.admission.is_some(), "life {seed}: it ran and is not charged");
            }
        }
    }
}

#[test]
fn a_run_starts_at_most_once_and_ends_as_it_really_ended_whatever_happens() {
    let mut reasons = std::collections::BTreeSet::new();
    for seed in 0..LIVES {
        let mut world = World::new(seed);
        for _ in 0..DISTURBED {
            if world.trouble() {
                world.disturb();
            }
            world.step();
        }
        world.trouble = 0;
        world.switch = Switch::On;
        let over = (0..CALM).any(|_| {
            world.step();
            world.phase().is_some_and(RunPhase::is_terminal) && world.execution.is_none()
        });
        assert!(over, "life {seed}: {:?} {:?}", world.run.status, world.execution);
        world.judge(seed);
        reasons.insert(world.run.status.unwrap().reason.unwrap().as_str());
    }
    // The lives were not all alike.
    for reason in [
        RunReason::Completed,
        RunReason::NonZeroExit,
        RunReason::CancelRequested,
        RunReason::KillSwitch,
        RunReason::KillSwitchOff,
        RunReason::NotStarted,
        RunReason::PolicyNotFound,
        RunReason::PolicySuspended,
        RunReason::SessionSuspended,
        RunReason::StartDeadlineExceeded,
        RunReason::Suspended,
        RunReason::TenantDisabled,
        RunReason::TenantNotEnabled,
    ] {
        assert!(reasons.contains(reason.as_str()), "no life ended as {reason:?}: {reasons:?}");
    }
}

/// An end that somebody wrote by hand does not let a command run on, and a status that was set back starts none.
#[test]
fn a_status_changed_by_hand_neither_starts_a_command_twice_nor_leaves_it_running() {
    for by_hand in [None, Some(Outcome::not_started("by hand"))] {
        for seed in 0..50 {
            let mut world = World::new(seed);
            world.trouble = 0;
            while world.guest != Guest::Running {
                world.step();
            }
            world.run.status =
                by_hand.as_ref().map(|outcome| status::finished_early(&world.run, outcome, world.time()));
            world.cached = world.run.clone();
            for _ in 0..20 {
                world.step();
            }
            assert_eq!(world.starts, 1);
            assert!(matches!(world.guest, Guest::Ended(_)), "{by_hand:?}: {:?}", world.guest);
            assert!(world.phase().is_some_and(RunPhase::is_terminal), "{by_hand:?}");
            if by_hand.is_some() {
                assert!(matches!(
                    world.execution,
                    None | Some(ExecutionView::Done(_) | ExecutionView::Running(Some(Stop::Deleted)))
                ));
            }
        }
    }
}
