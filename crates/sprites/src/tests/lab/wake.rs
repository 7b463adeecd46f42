//! Sleeping Sprites are left asleep by everything but a deliberate wake, and that one gets through.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rstest::rstest;
use serde_json::{Value, json};

use super::super::super::{Error, ExecError, SpriteState, Target, UpdateSprite};
use super::{Site, command, counter, deny_all, run, script};

#[tokio::test]
async fn reads_lists_updates_and_deletes_wake_nothing() {
    let site = Site::set(&["--idle-after", "200ms", "--cold-after", "1h"], |_| {});
    site.create("cold").await;
    site.awake("warm").await;
    site.reaches("warm", SpriteState::Warm).await;
    for name in ["cold", "warm"] {
        let sprite = site.client.get(name).await.unwrap();
        assert!(sprite.awake().is_none());
        let labels = UpdateSprite { labels: Some(vec!["a".to_owned()]), ..UpdateSprite::default() };
        site.client.update(Target::from(&sprite), &labels).await.unwrap();
    }
    let states: Vec<_> = site.client.list("").await.unwrap().into_iter().map(|sprite| sprite.status).collect();
    assert_eq!(states, [SpriteState::Cold, SpriteState::Warm]);
    assert_eq!(site.events("wake").await.len(), 1);
    site.client.delete(Target::any("warm")).await.unwrap();
    assert_eq!(site.events("wake").await.len(), 1);
    site.end().await;
}

#[tokio::test]
async fn an_old_proof_is_refused_before_anything_is_sent() {
    let site = Site::set(&[], |config| config.awake_for = Duration::from_millis(200));
    let on = site.awake("one").await;
    site.faults(json!([counter()])).await;
    // Only time makes a proof old.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let client = &site.client;
    for on in [&on, &on.checked()] {
        let short = Duration::from_secs(1);
        let exec = |error: ExecError| {
            assert!(!error.may_have_started());
            error.into_error()
        };
        let refused = [
            client.network_policy(on).await.map(drop),
            client.set_network_policy(on, &deny_all()).await,
            client.exec(on, &command(&["true"])).await.map(drop).map_err(exec),
            client.run(on, &script("true"), Bytes::new(), 10, short).await.map(drop).map_err(exec),
            client.attach(on, "1").await.map(drop).map_err(exec),
            client.exec_sessions(on).await.map(drop),
            client.kill(on, "1", "SIGTERM", short).await.map(drop),
            client.kill_marked(on, &["mark"], "SIGTERM", short).await.map(drop),
            client.read_file(on, "/etc/hostname", 1).await.map(drop),
            client.write_file(on, "/tmp/x", None, Bytes::new()).await,
            client.list_dir(on, "/").await.map(drop),
            client.delete_file(on, "/tmp/x").await,
            client.services(on).await.map(drop),
            client.delete_service(on, "web").await,
            client.checkpoints(on).await.map(drop),
            client.create_checkpoint(on, "").await,
            client.restore_checkpoint(on, "v0").await,
            client.restart(on).await,
        ];
        for (index, result) in refused.into_iter().enumerate() {
            assert!(matches!(result, Err(Error::NotAwake { .. })), "{index}: {result:?}");
        }
    }
    assert_eq!(site.hits().await, [0]);
    // Seen again, it is good again.
    let on = client.get("one").await.unwrap().awake().unwrap();
    assert_eq!(run(client, &on, "exit 4").await.exit, Some(4));
    site.end().await;
}

#[tokio::test]
async fn what_proves_nothing_about_a_running_machine_renews_no_proof() {
    let site = Site::set(&[], |config| config.awake_for = Duration::from_millis(400));
    let on = site.awake("one").await;
    let exec = site.client.exec(&on, &command(&["sleep", "9477"])).await.unwrap();
    // The list of sessions is answered while the machine sleeps, too.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let _ = site.client.exec_sessions(&on).await;
    }
    assert!(matches!(site.client.network_policy(&on).await, Err(Error::NotAwake { .. })));
    // Nor is the end of a dropped command a reason to take it for awake.
    drop(exec);
    site.gone("9477").await;
    assert!(on.age() > Duration::from_millis(400));
    site.end().await;
}

#[rstest]
#[case::slow_start(&["--cold-start", "2s"], json!({ "effect": "delay", "delay": "1ms", "count": 1 }), 1)]
#[case::slow_handshake(&[], json!({ "effect": "delay", "delay": "2s", "count": 1 }), 1)]
#[case::bad_gateway(&[], json!({ "effect": "error-before", "status": 502, "count": 1 }), 2)]
#[case::unavailable(&[], json!({ "effect": "error-before", "status": 503, "count": 2 }), 3)]
#[case::no_answer(&[], json!({ "effect": "lost-reply", "count": 1 }), 2)]
#[case::no_exit(&[], json!({ "effect": "exit-frame-lost", "count": 1 }), 2)]
#[case::limited(&[], json!({ "effect": "rate-limit", "retry_after": 1, "count": 1 }), 2)]
#[tokio::test]
async fn a_wake_gets_through(#[case] flags: &[&str], #[case] mut fault: Value, #[case] handshakes: u64) {
    // A handshake in a Sprite that is awake would have failed by then.
    let site = Site::set(flags, |config| config.open_timeout = Duration::from_secs(1));
    site.create("one").await;
    (fault["route"], fault["match"]) = (json!("exec"), json!("true"));
    site.faults(json!([fault, counter()])).await;
    let on = site.client.wake("one").await.unwrap();
    // Beside them the server counted two reads of the Sprite, before and after.
    assert_eq!(site.hits().await.iter().sum::<u64>(), handshakes + 2);
    assert_eq!(run(&site.client, &on, "exit 4").await.exit, Some(4));
    assert_eq!(site.client.get("one").await.unwrap().status, SpriteState::Running);
    assert_eq!(site.events("wake").await.len(), 1);
    site.end().await;
}

#[tokio::test]
async fn files_are_asked_for_only_after_an_exec_woke_their_sprite() {
    let flags = ["--fs-on-cold", "hang", "--idle-after", "200ms", "--cold-after", "100ms"];
    let site = Site::set(&flags, |config| config.call_timeout = Duration::from_secs(3));
    site.create("one").await;
    assert!(site.client.get("one").await.unwrap().awake().is_none(), "no proof, no file call");
    let began = Instant::now();
    for _ in 0..2 {
        let on = site.client.wake("one").await.unwrap();
        assert_eq!(&site.client.read_file(&on, "/etc/hostname", 3).await.unwrap()[..], b"one");
        site.reaches("one", SpriteState::Cold).await;
    }
    assert!(began.elapsed() < Duration::from_secs(3), "a file call hung: {:?}", began.elapsed());
    site.end().await;
}

#[tokio::test]
async fn a_wake_that_cannot_succeed_ends_and_says_why() {
    let site = Site::set(&[], |config| config.wake_timeout = Duration::from_secs(2));
    assert!(site.client.wake("none").await.unwrap_err().is_absent());
    site.create("one").await;
    site.faults(json!([{ "route": "exec", "effect": "error-before", "status": 502 }])).await;
    let began = Instant::now();
    let error = site.client.wake("one").await.unwrap_err();
    assert!(matches!(error, Error::Unknown { status: Some(502), .. }), "{error:?}");
    assert!(began.elapsed() < Duration::from_millis(2500), "{:?}", began.elapsed());
    assert!(site.hits().await[0] >= 3);

    site.faults(json!([{ "route": "exec", "match": "true", "effect": "instance-replaced", "count": 1 }])).await;
    let error = site.client.wake("one").await.unwrap_err();
    assert!(matches!(error, Error::Replaced { sent: false, .. }), "{error:?}");
    site.end().await;
}
