//! File operations and the order of Runs, through the operator.

use api::Run;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use test_support::{
    TestEnv,
    environment::{message, phase, reason, stdout},
};

async fn ready() -> TestEnv {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env
}

/// One tool, in the session.
async fn tool(env: &TestEnv, name: &str, tool: &str, fields: Value) -> Run {
    env.run(name, json!({"session": {"name": "s1"}, tool: fields})).await;
    env.finished(name).await
}

fn file(run: &Run) -> Option<(&str, u64)> {
    let file = run.status.as_ref()?.file.as_ref()?;
    Some((file.path.as_str(), file.bytes))
}

fn has_output(run: &Run) -> bool {
    run.status.as_ref().is_some_and(|status| status.output.is_some())
}

#[tokio::test]
async fn files_are_written_read_and_edited_byte_for_byte() {
    let env = ready().await;
    let run = tool(&env, "w1", "writeFile", json!({"path": "a b/c.txt", "content": "one\ntwo \u{20ac}\n"})).await;
    assert_eq!((phase(&run), reason(&run), message(&run)), ("Succeeded", "Completed", "the file was written"));
    assert_eq!(file(&run), Some(("/workspace/a b/c.txt", 12)));
    assert!(!has_output(&run) && run.status.as_ref().unwrap().exit_code.is_none());
    let run = tool(&env, "r1", "readFile", json!({"path": "/workspace/a b/c.txt"})).await;
    assert_eq!((reason(&run), stdout(&run)), ("Completed", "one\ntwo \u{20ac}\n"), "{}", message(&run));
    assert_eq!((file(&run), message(&run)), (Some(("/workspace/a b/c.txt", 12)), "the file was read"));
    let run = tool(&env, "r2", "readFile", json!({"path": "a b/c.txt", "offset": 4, "length": 3})).await;
    assert_eq!((stdout(&run), file(&run).unwrap().1), ("two", 12), "a page tells how long the whole is");
    let run = tool(&env, "e1", "editFile", json!({"path": "a b/c.txt", "oldText": "two", "newText": "three"})).await;
    assert_eq!((message(&run), file(&run).unwrap().1), ("the file was edited", 14));
    let run = tool(&env, "w2", "writeFile", json!({"path": "bytes", "contentBase64": "AP/+", "mode": "0750"})).await;
    assert_eq!(file(&run), Some(("/workspace/bytes", 3)), "{}", message(&run));
    let run = tool(&env, "r3", "readFile", json!({"path": "bytes"})).await;
    let read = run.status.as_ref().unwrap().output.clone().unwrap().stdout;
    assert_eq!((read.base64.as_deref(), read.lossy, read.bytes), (Some("AP/+"), true, 3));
    env.bash("b1", "s1", "cat 'a b/c.txt'; stat -c '%a %s %U' bytes; ls -A").await;
    let run = env.finished("b1").await;
    assert_eq!(stdout(&run), "one\nthree \u{20ac}\n750 3 sprite\na b\nbytes\n", "{}", message(&run));
    env.run("b2", json!({"session": {"name": "s1"}, "bash": {"command": "od -An -tx1", "stdinBase64": "AP/+"}})).await;
    assert_eq!(stdout(&env.finished("b2").await), " 00 ff fe\n");
}

#[tokio::test]
async fn what_a_file_operation_cannot_do_is_told_in_the_systems_words() {
    let env = ready().await;
    env.bash("b1", "s1", "mkdir d; mkfifo p; ln -s /etc/hostname out; ln -s d/../text in; echo 'a a' > text").await;
    assert_eq!(reason(&env.finished("b1").await), "Completed");
    let error = "FileError";
    let cases = [
        ("readFile", json!({"path": "none"}), error, "/workspace/none: No such file or directory"),
        ("readFile", json!({"path": "d"}), error, "/workspace/d: Is a directory"),
        ("readFile", json!({"path": "p"}), error, "/workspace/p: not a regular file"),
        ("writeFile", json!({"path": "text/x", "content": ""}), error, "/workspace/text/x: Not a directory"),
        (
            "editFile",
            json!({"path": "in", "oldText": "a", "newText": "b"}),
            error,
            "/workspace/in: oldText occurs 2 times: write more of its surroundings, or set replaceAll",
        ),
        (
            "editFile",
            json!({"path": "in", "oldText": "c", "newText": "b"}),
            error,
            "/workspace/in: oldText does not occur in the file",
        ),
        (
            "writeFile",
            json!({"path": "out", "content": "x"}),
            "PathEscape",
            "/workspace/out: a symbolic link leads out of the workspace",
        ),
        (
            "readFile",
            json!({"path": "../etc/hostname"}),
            "PathEscape",
            "readFile.path: `../etc/hostname` leaves /workspace: write a path relative to /workspace, or absolute under it",
        ),
    ];
    for (number, (name, fields, expected, says)) in cases.into_iter().enumerate() {
        let run = tool(&env, &format!("t{number}"), name, fields).await;
        assert_eq!((reason(&run), message(&run)), (expected, says), "{name}");
        assert_eq!(phase(&run), if expected == error { "Failed" } else { "Denied" });
        assert!(!has_output(&run) && file(&run).is_none(), "{name}");
    }
    let run =
        tool(&env, "last", "editFile", json!({"path": "in", "oldText": "a", "newText": "b", "replaceAll": true})).await;
    assert_eq!(reason(&run), "Completed", "{}", message(&run));
    assert_eq!(stdout(&tool(&env, "read", "readFile", json!({"path": "text"})).await), "b b\n");
    // A disk that has room for a Run, and not for the file.
    env.bash(
        "fill",
        "s1",
        "head -c 150000 /dev/zero > small; fallocate -l 1900M f; head -c 1G /dev/zero > large; sync; rm small; sync",
    )
    .await;
    env.finished("fill").await;
    let run = tool(&env, "full", "writeFile", json!({"path": "text", "content": "x".repeat(262_144)})).await;
    assert_eq!(reason(&run), error, "{}", message(&run));
    let full = ["/workspace/text: No space left on device", "/workspace/text: Disk quota exceeded"];
    assert!(full.contains(&message(&run)), "{}", message(&run));
    assert_eq!(stdout(&tool(&env, "still", "readFile", json!({"path": "text"})).await), "b b\n", "the old file stays");
}

#[tokio::test]
async fn a_secret_in_a_file_is_masked_also_where_a_page_cuts_it() {
    let env = ready().await;
    let token = ["ghp_", "16C7e42F292c6912E7710c838347Ae178B4a"].concat();
    let content = format!("before\ntoken: {token}\nafter\n");
    tool(&env, "w1", "writeFile", json!({"path": "f", "content": content})).await;
    let run = tool(&env, "r0", "readFile", json!({"path": "f"})).await;
    let redactions = |run: &Run| run.status.as_ref().unwrap().output.as_ref().unwrap().redactions;
    assert_eq!((stdout(&run), redactions(&run)), ("before\ntoken: REDACTED\nafter\n", 1));
    for (number, at) in [(1, 16), (2, 24), (3, 40)] {
        let head = tool(&env, &format!("h{number}"), "readFile", json!({"path": "f", "length": at})).await;
        let tail = tool(&env, &format!("t{number}"), "readFile", json!({"path": "f", "offset": at})).await;
        let both = format!("{} {}", stdout(&head), stdout(&tail));
        let leaks = token.as_bytes().windows(8).any(|part| both.contains(std::str::from_utf8(part).unwrap()));
        assert!(!leaks && both.starts_with("before\ntoken: ") && both.ends_with("\nafter\n"), "{at}: {both}");
    }
}

/// An adopter finishes a file operation as the starter would have.
#[tokio::test]
async fn a_file_operation_whose_end_was_lost_is_finished_by_the_guests_record() {
    let env = ready().await;
    tool(&env, "w0", "writeFile", json!({"path": "f", "content": "kept\n"})).await;
    let lost = json!([{"route": "exec", "match": "so-run", "effect": "exit-frame-lost"}]);
    env.faults(lost).await;
    let write = tool(&env, "w1", "writeFile", json!({"path": "g", "content": "12345"})).await;
    let read = tool(&env, "r1", "readFile", json!({"path": "f"})).await;
    let none = tool(&env, "r2", "readFile", json!({"path": "none"})).await;
    assert_eq!((reason(&write), file(&write)), ("Completed", Some(("/workspace/g", 5))), "{}", message(&write));
    assert_eq!((reason(&read), stdout(&read), file(&read)), ("Completed", "kept\n", Some(("/workspace/f", 5))));
    assert_eq!((reason(&none), message(&none)), ("FileError", "/workspace/none: No such file or directory"));
    for run in [write, read, none] {
        let evidence = run.status.as_ref().unwrap().execution.as_ref().unwrap().evidence;
        assert_eq!(evidence, Some(api::reasons::Evidence::GuestRecord));
        assert_eq!(env.starts_of(&run).await, 1);
    }
}

/// decisions Q-a, found O8.
#[tokio::test]
async fn runs_of_one_session_start_in_the_order_of_their_creation() {
    const RUNS: usize = 24;
    let mut env = TestEnv::prepared().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"parallelRuns": 1}})).await;
    env.start_spritesd();
    // Created before anybody looks, and while they run.
    env.session("s1", json!({"drive": "d", "conversation": "s1"})).await;
    let create = async |env: &TestEnv, n: usize| {
        env.bash(&format!("r{}", RUNS - n), "s1", &format!("echo {n} >> order")).await;
    };
    for n in 0..RUNS / 2 {
        create(&env, n).await;
    }
    env.start_operator();
    for n in RUNS / 2..RUNS {
        create(&env, n).await;
    }
    stream::iter(0..RUNS).for_each(async |n| drop(env.finished(&format!("r{}", RUNS - n)).await)).await;
    env.bash("last", "s1", "cat order").await;
    let order: Vec<String> = (0..RUNS).map(|n| n.to_string()).collect();
    assert_eq!(stdout(&env.finished("last").await).lines().collect::<Vec<_>>(), order);
}
