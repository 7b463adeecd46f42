use proptest::prelude::*;
use rstest::rstest;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn lanes(concurrency: usize) -> Lanes {
    Lanes::new(Limits { concurrency, creations: 2, waiting: 1000 })
}

/// Everything that may go now, in order.
fn all(lanes: &mut Lanes, now: Instant) -> Vec<(Ticket, Admitted)> {
    std::iter::from_fn(|| lanes.admit(now)).collect()
}

fn fill(lanes: &mut Lanes, priority: Priority, count: usize, now: Instant) -> Vec<Admitted> {
    for _ in 0..count {
        lanes.queue(Lane::Shared(priority)).unwrap();
    }
    all(lanes, now).into_iter().map(|(_, admitted)| admitted).collect()
}

#[test]
fn the_highest_goes_first_and_among_equals_the_first() {
    let now = Instant::now();
    let mut lanes = lanes(8);
    let busy = fill(&mut lanes, Priority::Kill, 8 + KILL_LANE, now);
    let order = [Priority::Sweep, Priority::Exec, Priority::Kill, Priority::Exec, Priority::Delete, Priority::Lockdown];
    let tickets = order.map(|priority| lanes.queue(Lane::Shared(priority)).unwrap());
    assert!(all(&mut lanes, now).is_empty());
    for admitted in busy {
        lanes.leave(admitted, Verdict::Fine, now, 0.0);
    }
    let went: Vec<_> = all(&mut lanes, now).into_iter().map(|(ticket, _)| ticket).collect();
    let [sweep, exec, kill, exec_later, delete, lockdown] = tickets;
    // Six of eight may be execs' and what is above them; the sweep waits.
    assert_eq!(went, [kill, delete, lockdown, exec, exec_later]);
    assert!(lanes.withdraw(Lane::Shared(Priority::Sweep), sweep));
}

#[rstest]
#[case::sweep(Priority::Sweep, 2)]
#[case::verify(Priority::Verify, 4)]
#[case::probe(Priority::Probe, 5)]
#[case::exec(Priority::Exec, 6)]
#[case::lockdown(Priority::Lockdown, 7)]
#[case::delete(Priority::Delete, 8)]
#[case::kill(Priority::Kill, 8 + KILL_LANE)]
fn calls_that_hang_leave_room_for_what_is_above_them(#[case] priority: Priority, #[case] room: usize) {
    let now = Instant::now();
    let mut lanes = lanes(8);
    assert_eq!(fill(&mut lanes, priority, 100, now).len(), room);
    if priority < Priority::Kill {
        let above = Priority::ALL.into_iter().find(|other| *other > priority).unwrap();
        assert!(!fill(&mut lanes, above, 1, now).is_empty());
    }
}

#[test]
fn creations_have_a_budget_of_their_own() {
    let now = Instant::now();
    let mut lanes = lanes(8);
    fill(&mut lanes, Priority::Kill, 100, now);
    for _ in 0..3 {
        lanes.queue(Lane::Create).unwrap();
    }
    let went = all(&mut lanes, now);
    assert_eq!(went.len(), 2);
    lanes.leave(went[0].1, Verdict::Refused(Some(SECOND)), now, 0.0);
    assert!(all(&mut lanes, now).is_empty(), "creation was refused");
    assert_eq!(lanes.paused_until(Lane::Create, now), Some(now + SECOND));
    assert_eq!(lanes.paused_until(Lane::Shared(Priority::Exec), now), None, "and only creation");
    assert_eq!(all(&mut lanes, now + SECOND).len(), 1);
}

#[test]
fn a_pause_holds_for_all_and_a_kill_waits_a_second_of_it_at_most() {
    let now = Instant::now();
    let mut lanes = lanes(8);
    let [refused] = fill(&mut lanes, Priority::Exec, 1, now).try_into().unwrap();
    lanes.leave(refused, Verdict::Refused(Some(30 * SECOND)), now, 0.0);
    lanes.queue(Lane::Shared(Priority::Delete)).unwrap();
    let kill = lanes.queue(Lane::Shared(Priority::Kill)).unwrap();
    assert!(all(&mut lanes, now).is_empty());
    let went = all(&mut lanes, now + SECOND);
    assert_eq!(went.iter().map(|(ticket, _)| *ticket).collect::<Vec<_>>(), [kill]);
    // Refused again, it neither lengthens the pause of the others nor narrows their window; the next kill waits a second.
    let window = lanes.shared.window;
    for n in 1..6 {
        let then = now + n * SECOND;
        let kill = lanes.queue(Lane::Shared(Priority::Kill)).unwrap();
        let admitted = if n == 1 { went[0].1 } else { lanes.admit(then).unwrap().1 };
        if n == 1 {
            assert!(lanes.withdraw(Lane::Shared(Priority::Kill), kill));
        }
        lanes.leave(admitted, Verdict::Refused(Some(30 * SECOND)), then, 0.0);
        lanes.queue(Lane::Shared(Priority::Kill)).unwrap();
        assert!(lanes.admit(then + SECOND / 2).is_none(), "too soon");
        let at_last = lanes.waiting.first().copied().unwrap();
        lanes.waiting.remove(&at_last);
    }
    assert_eq!(lanes.shared.window, window);
    assert_eq!(lanes.paused_until(Lane::Shared(Priority::Exec), now), Some(now + 30 * SECOND));
    assert_eq!(all(&mut lanes, now + 30 * SECOND).len(), 1);
}

#[rstest]
#[case::asked(Some(2 * SECOND), 0.0, 2 * SECOND)]
#[case::jittered(Some(2 * SECOND), 1.0, Duration::from_millis(2200))]
#[case::absurd(Some(600 * SECOND), 0.0, LONGEST_PAUSE)]
#[case::unsaid(None, 0.0, FIRST_PAUSE)]
fn a_pause_is_at_least_what_was_asked_and_at_most_a_minute(
    #[case] asked: Option<Duration>,
    #[case] jitter: f64,
    #[case] pause: Duration,
) {
    let now = Instant::now();
    let mut lanes = lanes(8);
    let [refused] = fill(&mut lanes, Priority::Exec, 1, now).try_into().unwrap();
    lanes.leave(refused, Verdict::Refused(asked), now, jitter);
    assert_eq!(lanes.paused_until(Lane::Shared(Priority::Exec), now), Some(now + pause));
}

#[test]
fn a_storm_of_refusals_counts_once_and_the_window_comes_back_with_successes() {
    let mut now = Instant::now();
    let mut lanes = lanes(64);
    for refused in fill(&mut lanes, Priority::Delete, 64, now) {
        lanes.leave(refused, Verdict::Refused(None), now, 0.0);
    }
    assert_eq!(lanes.shared.window, 32);
    assert_eq!(lanes.paused_until(Lane::Shared(Priority::Exec), now), Some(now + FIRST_PAUSE));
    now += FIRST_PAUSE;
    // The second refusal in a row waits twice as long.
    let [refused] = fill(&mut lanes, Priority::Delete, 1, now).try_into().unwrap();
    lanes.leave(refused, Verdict::Refused(None), now, 0.0);
    assert_eq!(lanes.paused_until(Lane::Shared(Priority::Exec), now), Some(now + 2 * FIRST_PAUSE));
    now += 2 * FIRST_PAUSE;
    for _ in 0..1000 {
        let [fine] = fill(&mut lanes, Priority::Delete, 1, now).try_into().unwrap();
        lanes.leave(fine, Verdict::Fine, now, 0.0);
    }
    assert_eq!((lanes.shared.window, lanes.shared.refusals), (64, 0));
}

#[test]
fn without_end_refused_the_window_stays_open_a_little_and_pauses_end() {
    let mut now = Instant::now();
    let mut lanes = lanes(64);
    for _ in 0..100 {
        let [refused] = fill(&mut lanes, Priority::Delete, 1, now).try_into().unwrap();
        lanes.leave(refused, Verdict::Refused(None), now, 1.0);
        let until = lanes.paused_until(Lane::Shared(Priority::Exec), now).unwrap();
        assert!(until - now <= LONGEST_OWN_PAUSE.mul_f64(1.1));
        now = until;
    }
    assert_eq!(lanes.shared.window, NARROWEST);
}

#[test]
fn a_full_queue_refuses_all_but_kills() {
    let mut lanes = Lanes::new(Limits { concurrency: 1, creations: 1, waiting: 2 });
    assert!(lanes.queue(Lane::Create).is_some() && lanes.queue(Lane::Shared(Priority::Exec)).is_some());
    assert_eq!(lanes.queue(Lane::Shared(Priority::Delete)), None);
    assert_eq!(lanes.queue(Lane::Create), None);
    assert!(lanes.queue(Lane::Shared(Priority::Kill)).is_some());
}

#[derive(Clone, Debug)]
enum Step {
    Queue(Lane),
    Leave(usize, Verdict),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let priority = prop::sample::select(&Priority::ALL[..]);
    let lane = prop_oneof![Just(Lane::Create), priority.prop_map(Lane::Shared)];
    let verdict = prop_oneof![
        Just(Verdict::Fine),
        Just(Verdict::Silent),
        prop::option::of(0_u64..5000).prop_map(|asked| Verdict::Refused(asked.map(Duration::from_millis))),
    ];
    prop_oneof![
        3 => lane.prop_map(Step::Queue),
        2 => (any::<prop::sample::Index>(), verdict).prop_map(|(at, verdict)| Step::Leave(at.index(64), verdict)),
        1 => (0_u64..3000).prop_map(Step::Pass),
    ]
}

proptest! {
    /// Nothing is lost: what was queued is let go, in the end all of it; and never is more under way than may be.
    #[test]
    fn every_call_goes_in_the_end_and_no_bound_is_passed(steps in prop::collection::vec(step(), 0..200)) {
        let mut now = Instant::now();
        let mut lanes = lanes(8);
        let (mut queued, mut gone, mut under_way) = (0, 0, Vec::new());
        for step in steps {
            match step {
                Step::Queue(lane) => queued += usize::from(lanes.queue(lane).is_some()),
                Step::Leave(at, verdict) if at < under_way.len() => {
                    lanes.leave(under_way.swap_remove(at), verdict, now, 0.5);
                }
                Step::Leave(..) => {}
                Step::Pass(millis) => now += Duration::from_millis(millis),
            }
            let went = all(&mut lanes, now);
            gone += went.len();
            under_way.extend(went.into_iter().map(|(_, admitted)| admitted));
            let creating = under_way.iter().filter(|admitted| admitted.lane == Lane::Create).count();
            prop_assert!(creating <= 2 && under_way.len() - creating <= 8 + KILL_LANE);
            prop_assert_eq!((lanes.under_way(), lanes.waiting()), (under_way.len(), queued - gone));
        }
        for _ in 0..1000 {
            for admitted in under_way.drain(..) {
                lanes.leave(admitted, Verdict::Fine, now, 0.0);
            }
            now += LONGEST_PAUSE;
            let went = all(&mut lanes, now);
            gone += went.len();
            under_way.extend(went.into_iter().map(|(_, admitted)| admitted));
        }
        prop_assert_eq!(queued, gone);
    }
}
