//! Runs that are ended while they go on.

use rstest::rstest;
use runner_protocol::{Cause, Guard};

use super::*;

const LONG: &str = r#"[{"match":"sleep","code":5,"stdout":"slept\n","delay":"1m"}]"#;

#[tokio::test]
async fn a_delay_is_how_long_it_goes_on_and_its_timeout_ends_it() {
    let lab = lab(&[]).await;
    answers(&lab, r#"[{"match":"sleep","code":5,"stdout":"slept\n","delay":"300ms"}]"#).await;
    let mut exec = start(&lab.client, &launch("u-1", "sleep")).await;
    started(&mut exec, "u-1").await;
    assert!(matches!(state(&lab.client, "u-1").await, State::Running(_)));
    assert_eq!(lab.client.sessions("one").await.len(), 1);
    let (output, record) = apart("u-1", &exec.finish().await);
    assert_eq!((output.as_slice(), record.code, record.by), (b"slept\n".as_slice(), 5, Cause::Script));
    assert!(record.ran >= Duration::from_millis(300) && record.ran < Duration::from_secs(10), "{record}");

    let timeout = Duration::from_millis(50);
    let (output, record) = apart("u-2", &run(&lab.client, &Launch { timeout, ..launch("u-2", "sleep") }).await);
    assert_eq!((output.as_slice(), record.code, record.by), (b"slept\n".as_slice(), 143, Cause::Timeout));
    lab.server.stop().await;
}

#[rstest]
#[case("SIGTERM", 143)]
#[case("SIGHUP", 143)]
#[case("SIGINT", 137)]
#[case("SIGQUIT", 137)]
#[tokio::test]
async fn a_kill_ends_it_at_once(#[case] signal: &str, #[case] code: u8) {
    let lab = lab(&[]).await;
    answers(&lab, LONG).await;
    let mut exec = start(&lab.client, &launch("u-1", "sleep")).await;
    let id = started(&mut exec, "u-1").await;
    // What ends no program changes nothing.
    let (_, told) = lab.client.call("POST", &format!("/one/exec/{id}/kill?signal=CONT&timeout=0s"), "").await;
    assert!(told.contains("SIGCONT") && !told.contains("exited"), "{told}");
    assert_eq!(kill(&lab.client, &id, signal).await, ["signal", "exited", "complete"]);
    let (output, record) = apart("u-1", &exec.finish().await);
    assert_eq!((output.as_slice(), record.code, record.by), (b"slept\n".as_slice(), code, Cause::Stop));
    assert!(record.ran < Duration::from_secs(10));
    assert_eq!(fence(&lab.client, "u-1").await, Fence { remaining: 0, guard: Guard::Ended(record) });
    let (status, _) = lab.client.call("POST", &format!("/one/exec/{id}/kill"), "").await;
    assert_eq!(status, StatusCode::GONE);
    lab.server.stop().await;
}

#[tokio::test]
async fn without_its_front_a_run_has_a_record_and_no_last_line() {
    let lab = lab(&[]).await;
    answers(&lab, LONG).await;
    let mut exec = start(&lab.client, &launch("u-1", "sleep")).await;
    let id = started(&mut exec, "u-1").await;
    kill(&lab.client, &id, "SIGKILL").await;
    let ran = exec.finish().await;
    assert_eq!((ran.out().as_str(), ran.code), ("so-started u-1\nslept\n", Some(137)));
    let Guard::Ended(record) = fence(&lab.client, "u-1").await.guard else { panic!("no record") };
    assert_eq!((record.code, record.by, record.stdout), (137, Cause::RunnerKilled, None));
    lab.server.stop().await;
}

#[rstest]
#[case("so-fence")]
#[case("so-sweep")]
#[tokio::test]
async fn a_question_of_the_operator_ends_what_is_left(#[case] question: &str) {
    let lab = lab(&[]).await;
    answers(&lab, LONG).await;
    let mut exec = start(&lab.client, &launch("u-1", "sleep")).await;
    started(&mut exec, "u-1").await;
    ask(&lab.client, question, "u-1").await;
    let (_, record) = apart("u-1", &exec.finish().await);
    assert_eq!((record.code, record.by), (137, Cause::RunnerKilled));
    assert_eq!(fence(&lab.client, "u-1").await.guard, Guard::Ended(record));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_lost_connection_ends_nothing_and_another_sees_it_all() {
    let lab = lab(&["--idle-after", "50ms", "--cold-after", "50ms"]).await;
    answers(&lab, r#"[{"stdout":"slept\n","delay":"700ms"}]"#).await;
    let mut exec = start(&lab.client, &launch("u-1", "sleep")).await;
    let id = started(&mut exec, "u-1").await;
    drop(exec);
    // Nobody watches, and it is not put to sleep.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(lab.client.json("GET", "/one", "").await.1["status"], "running");
    let attached = lab.client.open("one", &format!("/{id}"), &[]).await.unwrap();
    let (output, record) = apart("u-1", &attached.finish().await);
    assert_eq!((output.as_slice(), record.by), (b"slept\n".as_slice(), Cause::Script));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_power_loss_leaves_a_guard_and_no_record() {
    let lab = lab(&[]).await;
    answers(&lab, LONG).await;
    let mut exec = start(&lab.client, &launch("u-1", "sleep")).await;
    started(&mut exec, "u-1").await;
    assert_eq!(lab.client.call("POST", "/one/restart", "").await.0, StatusCode::OK);
    let ran = exec.finish().await;
    assert_eq!((ran.code, ran.close), (None, None));
    assert!(lab.client.sessions("one").await.is_empty());
    // As the runner has it: nobody wrote that it is over.
    assert!(matches!(state(&lab.client, "u-1").await, State::Running(_)));
    assert_eq!(fence(&lab.client, "u-1").await, Fence { remaining: 0, guard: Guard::Started });
    assert_eq!(run(&lab.client, &launch("u-1", "sleep")).await.code, Some(91));
    lab.server.stop().await;
}
