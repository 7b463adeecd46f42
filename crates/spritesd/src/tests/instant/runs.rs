//! Runs that end by themselves, and those that are not started.

use futures::future::join_all;
use http::StatusCode;
use runner_protocol::{Capture, Cause, Counts, Guard, Parts, Shape, Source, spool};
use serde_json::{Value, json};

use super::super::support::Lab;
use super::*;

#[tokio::test]
async fn a_run_is_answered_as_the_runner_would_and_logged_as_any_command() {
    let lab = lab(&[]).await;
    let ran = lab.client.run("one", &["true"]).await;
    assert_eq!((ran.code, ran.close, ran.stdout.len()), (Some(0), Some(1000), 0));
    let policy = json!({ "rules": [{ "domain": "*", "action": "deny" }] });
    let set = lab.client.call("POST", "/one/policy/network", policy.to_string()).await;
    assert_eq!(set.0, StatusCode::NO_CONTENT);

    let launch = launch("u-1", "echo hello");
    let ran = run(&lab.client, &launch).await;
    let (output, record) = apart("u-1", &ran);
    assert_eq!((output.len(), record.code, record.by), (0, 0, Cause::Script));
    assert_eq!((record.stdout, record.stderr), (Some(Counts::default()), Some(Counts::default())));
    assert_eq!(fence(&lab.client, "u-1").await, Fence { remaining: 0, guard: Guard::Ended(record) });
    assert_eq!(state(&lab.client, "u-1").await, State::Over);

    let log = lab.log().await;
    let of = |event: &str| log.iter().filter(|(name, _)| name == event).map(|(_, line)| line).collect::<Vec<_>>();
    let execs = of("exec");
    let runs: Vec<&&Value> = execs.iter().filter(|line| line["argv"][1] == "so-run").collect();
    assert_eq!(runs.len(), 1);
    assert_eq!((&runs[0]["argv"], &runs[0]["policy"]), (&json!(launch.encode().unwrap().0), &policy));
    assert_eq!(of("exec-end").len(), execs.len());
    assert!(of("exec-end").iter().all(|line| line["end"] == "Exited(0)"));
    assert!(lab.client.sessions("one").await.is_empty());
    assert_eq!(lab.client.json("GET", "/one", "").await.1["status"], "running");
    lab.server.stop().await;
}

#[tokio::test]
async fn code_and_output_are_those_of_the_first_rule_that_fits() {
    let lab = lab(&[]).await;
    answers(&lab, r#"[{"match":"once","code":3,"stdout":"out\n","stderr":"err\n","count":1},{"stdout":"others"}]"#)
        .await;
    let ran = run(&lab.client, &launch("u-1", "do it once")).await;
    let (output, record) = apart("u-1", &ran);
    assert_eq!((output.as_slice(), ran.err().as_str(), record.code), (b"out\n".as_slice(), "err\n", 3));
    assert_eq!((record.stdout, record.stderr), (Some(Counts::whole(4)), Some(Counts::whole(4))));
    let (output, record) = apart("u-2", &run(&lab.client, &launch("u-2", "do it once")).await);
    assert_eq!((output.as_slice(), record.code), (b"others".as_slice(), 0));
    let told: Value = serde_json::from_str(&admin(&lab, "GET", "").await.1).unwrap();
    assert_eq!((&told[0]["hits"], &told[1]["hits"]), (&json!(1), &json!(1)));
    // What an adopter reads.
    for (uid, source, expected) in
        [("u-1", Source::Stdout, "out\n"), ("u-1", Source::Stderr, "err\n"), ("u-2", Source::Stdout, "others")]
    {
        let path = format!("/one/fs/read?path={}", spool(uid, source));
        assert_eq!(lab.client.call("GET", &path, "").await, (StatusCode::OK, expected.to_owned()));
    }

    let (status, text) = admin(&lab, "PUT", r#"[{"exit":3}]"#).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.contains("unknown field `exit`") && text.contains(r#"write a list, for example [{"match""#), "{text}");
    lab.server.stop().await;
}

#[tokio::test]
async fn output_past_the_cap_is_sent_as_the_runner_does() {
    let lab = lab(&[]).await;
    let long = "0123456789".repeat(4000);
    answers(&lab, &json!([{ "stdout": long, "stderr": "e", "code": 1 }]).to_string()).await;
    for (uid, stop_at_cap, code, by) in [("u-1", false, 1, Cause::Script), ("u-2", true, 143, Cause::Overflow)] {
        let launch = Launch { cap: 4000, lookahead: 64, stop_at_cap, ..launch(uid, "flood") };
        let ran = run(&lab.client, &launch).await;
        let (output, record) = apart(uid, &ran);
        assert_eq!((record.code, record.by), (code, by));
        let shape = Shape { cap: 4000, lookahead: 64, head_only: stop_at_cap };
        let mut capture = Capture::new(shape);
        capture.take(Source::Stdout, long.as_bytes());
        capture.take(Source::Stderr, b"e");
        let [(expected, _), _] = capture.finish();
        assert_eq!((record.stdout, expected.written), (Some(expected), 40_000));
        assert!(output.len() < 4200, "{}", output.len());
        let parts = Parts::of(shape, &expected, output).unwrap();
        assert_eq!(parts.head, &long.as_bytes()[..usize::try_from(shape.head()).unwrap()]);
        assert_eq!((parts.tail.is_empty(), long.as_bytes().ends_with(&parts.tail)), (stop_at_cap, true));
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn what_the_runner_refuses_is_not_started() {
    let lab = lab(&[]).await;
    let client = &lab.client;
    let ran = run(client, &Launch { nonce: "nonce-2", ..launch("u-1", "true") }).await;
    assert_eq!((ran.code, ran.stdout.len(), ran.stderr.len()), (Some(90), 0, 0), "another instance");
    assert_eq!(state(client, "u-1").await, State::Absent);

    run(client, &launch("u-1", "true")).await;
    let ran = run(client, &launch("u-1", "true")).await;
    assert_eq!((ran.code, ran.stdout.len()), (Some(91), 0), "a second time");
    let again = launch("u-9", "true");
    let codes = join_all((0..8).map(|_| run(client, &again))).await.into_iter().map(|ran| ran.code);
    assert_eq!(codes.filter(|code| *code == Some(0)).count(), 1, "of several at once one");

    assert_eq!(fence(client, "u-2").await.guard, Guard::Never);
    assert_eq!(fence(client, "u-2").await.guard, Guard::Never);
    assert_eq!(run(client, &launch("u-2", "true")).await.code, Some(91), "fenced");
    assert_eq!(state(client, "u-2").await, State::Over);
    assert_eq!(answer::parse_swept("u-2", &ask(client, "so-sweep", "u-2").await), Some(0));

    let (argv, input) = launch("u-3", "true").encode().unwrap();
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    assert_eq!(client.run("one", &argv).await.code, Some(93), "no input");
    let mut cut = client.start("one", &argv, &[("stdin", "true")]).await;
    cut.send(&[&[0], &input[..5]].concat()).await;
    cut.send(&[4]).await;
    assert_eq!(cut.finish().await.code, Some(93), "cut short");
    let mut stopped = client.start("one", &argv, &[("stdin", "true")]).await;
    let id = stopped.id().await;
    assert_eq!(kill(client, &id, "TERM").await, ["signal", "exited", "complete"]);
    assert_eq!(stopped.finish().await.code, Some(93), "told to stop first");
    assert_eq!(state(client, "u-3").await, State::Absent);

    let flagged: Vec<&str> = argv.iter().map(|word| if *word == "-k" { "-kf" } else { *word }).collect();
    let mut exec = client.start("one", &flagged, &[("stdin", "true")]).await;
    exec.send(&[&[0], input.as_slice()].concat()).await;
    let ran = exec.finish().await;
    assert_eq!((ran.code, ran.stdout.len(), ran.err().contains("not answered")), (Some(94), 0, true));
    lab.server.stop().await;
}

#[tokio::test]
async fn any_other_command_says_that_nothing_is_there() {
    let lab = lab(&[]).await;
    let client = &lab.client;
    for argv in [&["bash", "-c", "echo x"][..], &[RUNNER], &[RUNNER, "so-exec"], &["/bin/ls"]] {
        let ran = client.run("one", argv).await;
        assert_eq!((ran.code, ran.close, ran.stdout.len()), (Some(127), Some(1000), 0), "{argv:?}");
        assert!(ran.err().contains("--guest instant has the operator's runner and `true`"), "{}", ran.err());
    }
    for argv in [&[RUNNER, "so-state", "a/b"][..], &[RUNNER, "so-run", "u-1"], &[RUNNER, "so-install", "a"]] {
        assert_eq!(client.run("one", argv).await.code, Some(95), "{argv:?}");
    }
    let missing = client.run("one", &["/home/sprite/other", "so-state", "u-1"]).await;
    assert_eq!((missing.code, missing.err().as_str()), (Some(127), "/home/sprite/other: No such file or directory\n"));
    client.call("POST", "/one/fs/chmod", json!({ "path": RUNNER, "mode": "0644" }).to_string()).await;
    assert_eq!(client.run("one", &[RUNNER, "so-state", "u-1"]).await.code, Some(126));
    client.call("DELETE", &format!("/one/fs/delete?path={RUNNER}"), "").await;
    assert_eq!(run(client, &launch("u-1", "true")).await.code, Some(127));
    let (status, body) = client.call("POST", "/one/exec?cmd=true", "").await;
    assert_eq!((status, body.as_bytes()), (StatusCode::OK, &[3, 0][..]), "by plain HTTP, too");
    lab.server.stop().await;
}

#[tokio::test]
async fn a_server_with_sandboxes_has_no_answers() {
    let lab = Lab::new().await;
    for method in ["GET", "PUT"] {
        let (status, text) = admin(&lab, method, "[]").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(text.contains("--guest instant"), "{text}");
    }
    lab.server.stop().await;
}
