use std::time::Duration;

use futures::FutureExt as _;

use super::super::call::Priority;
use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn limiter(concurrency: usize) -> Limiter {
    Limiter::new(Limits { concurrency, creations: 1, waiting: 100 })
}

async fn enter(limiter: &Limiter, priority: Priority) -> Permit {
    limiter.enter(Lane::Shared(priority), Instant::now() + 60 * SECOND).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_waiting_call_goes_when_another_is_over() {
    let limiter = limiter(1);
    let first = enter(&limiter, Priority::Delete).await;
    let mut second = Box::pin(enter(&limiter, Priority::Delete));
    assert!((&mut second).now_or_never().is_none());
    first.leave(Verdict::Fine);
    let second = second.now_or_never().unwrap();
    drop(second);
    assert_eq!(limiter.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn whoever_goes_away_gives_back_its_place_and_its_turn() {
    let limiter = limiter(1);
    let first = enter(&limiter, Priority::Delete).await;
    let mut second = Box::pin(enter(&limiter, Priority::Delete));
    let mut third = Box::pin(enter(&limiter, Priority::Delete));
    assert!((&mut second).now_or_never().is_none() && (&mut third).now_or_never().is_none());
    // Its turn comes, and it is dropped before it learns of that.
    drop(first);
    drop(second);
    drop(third.now_or_never().unwrap());
    assert_eq!(limiter.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_pause_ends_by_itself() {
    let limiter = limiter(4);
    enter(&limiter, Priority::Exec).await.leave(Verdict::Refused(Some(10 * SECOND)));
    let began = Instant::now();
    drop(enter(&limiter, Priority::Exec).await);
    assert!((10 * SECOND..=11 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_cannot_wait_that_long_is_told_at_once() {
    let limiter = limiter(4);
    enter(&limiter, Priority::Exec).await.leave(Verdict::Refused(Some(10 * SECOND)));
    let held = limiter.enter(Lane::Shared(Priority::Exec), Instant::now() + 5 * SECOND).now_or_never().unwrap();
    assert!(matches!(held, Err(Held::Paused(until)) if until >= Instant::now() + 10 * SECOND));
    assert_eq!(limiter.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_does_not_come_in_time_is_late() {
    let limiter = limiter(1);
    let _first = enter(&limiter, Priority::Delete).await;
    let held = limiter.enter(Lane::Shared(Priority::Delete), Instant::now() + SECOND).await;
    assert_eq!(held.err(), Some(Held::Late));
    assert_eq!(limiter.counts(), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn whoever_waited_before_a_pause_began_goes_when_it_ends_though_nothing_else_happens() {
    let limiter = limiter(1);
    let first = enter(&limiter, Priority::Delete).await;
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { enter(&limiter, Priority::Delete).await }
    });
    tokio::task::yield_now().await;
    let began = Instant::now();
    first.leave(Verdict::Refused(Some(2 * SECOND)));
    drop(waiting.await.unwrap());
    assert!((2 * SECOND..=3 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn whoever_waited_before_a_pause_that_outlasts_it_is_told_at_once() {
    let limiter = limiter(1);
    let first = enter(&limiter, Priority::Delete).await;
    let waiting = tokio::spawn({
        let limiter = limiter.clone();
        async move { limiter.enter(Lane::Shared(Priority::Delete), Instant::now() + 5 * SECOND).await.err() }
    });
    tokio::task::yield_now().await;
    let began = Instant::now();
    first.leave(Verdict::Refused(Some(30 * SECOND)));
    assert!(matches!(waiting.await.unwrap(), Some(Held::Paused(_))));
    assert!(began.elapsed() < SECOND);
}
