//! The runner in the Sprite: put there at lockdown, put there again when it is not what it should be.

use api::{SandboxSession, sandbox_session::LockdownStatus};
use kube::api::{Patch, PatchParams};
use serde_json::json;
use sprite_operator::lockdown::runner::{PutFailure, hash, put, put_this};
use sprites::{Awake, Client, Config, TokenSource};

use test_support::{
    TestEnv,
    environment::{condition, message, phase, reason, stdout, until},
};

fn sprite(session: &SandboxSession) -> String {
    session.status.clone().unwrap().sprite.unwrap().name
}

fn lockdown(session: &SandboxSession) -> LockdownStatus {
    session.status.clone().unwrap().lockdown.unwrap()
}

/// What stands where this runner belongs. Whatever is planted there, the look ends: of a FIFO nothing is read.
fn look(runner: &str) -> String {
    format!(
        "cd ~/.sprite-operator && stat -c '%F %a' bin/{runner} && test -f bin/{runner} && sha256sum < bin/{runner} && \
         cat nonce && stat -c %F /workspace"
    )
}

/// What a look finds where this runner and this nonce are installed.
fn looks(runner: &str, nonce: &str) -> String {
    format!("regular file 755\n{runner}  -\n{nonce}\ndirectory\n")
}

/// Whether the runner is in the session's Sprite as the session says.
async fn is_installed(env: &TestEnv, session: &SandboxSession) -> bool {
    let LockdownStatus { runner, nonce, .. } = lockdown(session);
    let (runner, nonce) = (runner.unwrap(), nonce.unwrap());
    env.peek(&sprite(session), &look(&runner)).await == looks(&runner, &nonce)
}

#[tokio::test]
async fn a_locked_session_has_the_operators_runner_and_says_which() {
    let mut env = TestEnv::new().await;
    let session = env.ready_session("s1").await;
    assert!(is_installed(&env, &session).await);
    let beside = env.peek(&sprite(&session), "ls -A ~/.sprite-operator/bin ~ | grep -v '^[.]bash'").await;
    assert!(!beside.contains(".sprite-runner"), "{beside}");
    assert_eq!(beside.matches(&lockdown(&session).runner.unwrap()).count(), 1, "{beside}");
    // The same operator again: what it finds is its own.
    env.crash_operator().await;
    let other = env.ready_session("s2").await;
    assert_eq!(lockdown(&other).runner, lockdown(&session).runner);
    assert_eq!(env.log("policy-set").await.len(), 2, "each session once");
}

/// As after an upgrade: what is on record was put there by another operator.
#[tokio::test]
async fn another_operators_runner_is_replaced_and_stays_for_runs_of_its_own() {
    let env = TestEnv::new().await;
    let session = env.ready_session("s1").await;
    let before = lockdown(&session);
    env.peek(&sprite(&session), "cd ~/.sprite-operator/bin && mv * $(printf %064d 0)").await;
    let older = Patch::Merge(json!({"status": {"lockdown": {"runner": "0".repeat(64)}}}));
    env.sessions().patch_status("s1", &PatchParams::default(), &older).await.unwrap();
    let session =
        env.session_until("s1", |s| condition(s, "Ready") == Some("True") && lockdown(s).runner == before.runner).await;
    assert_eq!((lockdown(&session).token, lockdown(&session).nonce), (before.token, before.nonce));
    let found = env.peek(&sprite(&session), "cd ~/.sprite-operator/bin && ls").await;
    assert_eq!(found, format!("{:064}\n{}\n", 0, before.runner.unwrap()), "the older one is in use, perhaps");
}

/// Needs what a Run does where the runner is not there: it has the session locked down again.
#[tokio::test]
async fn what_a_run_plants_where_the_runner_is_does_not_keep_the_session_from_working() {
    let env = TestEnv::new().await;
    let session = env.ready_session("s1").await;
    let at = format!("~/.sprite-operator/bin/{}", lockdown(&session).runner.unwrap());
    let planted = [
        ("fifo", format!("rm {at}; mkfifo {at}")),
        ("folder", format!("rm {at}; mkdir -p {at}/x")),
        ("link", format!("ln -sf /usr/bin/true {at}")),
        ("nothing", format!("rm {at}")),
        ("empty", format!("rm {at}; touch {at}")),
        ("bin", "cd ~/.sprite-operator; rm -r bin; mkfifo bin".to_owned()),
        ("all", "cd; rm -r .sprite-operator; touch .sprite-operator".to_owned()),
        ("elsewhere", "cd; rm -r .sprite-operator; ln -s /tmp .sprite-operator".to_owned()),
    ];
    for (name, command) in planted {
        env.bash(&format!("plant-{name}"), "s1", &command).await;
        env.finished(&format!("plant-{name}")).await;
        let mut tries = 0;
        loop {
            let again = format!("{name}-{tries}");
            env.bash(&again, "s1", "echo works").await;
            let run = env.finished(&again).await;
            if phase(&run) == "Succeeded" {
                assert_eq!(stdout(&run), "works\n");
                break;
            }
            assert_eq!(reason(&run), "NotStarted", "{name}: {}", message(&run));
            tries += 1;
            assert!(tries < 3, "{name}: {}", message(&run));
        }
        until("the runner is where it belongs", async || is_installed(&env, &session).await.then_some(())).await;
    }
}

const NAME: &str = "by-hand";

/// A spritesd with one Sprite that is awake, without an operator.
async fn by_hand() -> (TestEnv, Client, Awake) {
    let mut env = TestEnv::prepared().await;
    env.start_spritesd();
    assert_eq!(env.sprites_call("POST", "/v1/sprites", Some(json!({"name": NAME}))).await.0, 201);
    let token = std::fs::read_to_string(env.dir.path().join("token")).unwrap();
    let token = TokenSource::Fixed(secrecy::SecretString::from(token));
    let client = Client::new(Config::new(env.sprites_url.parse().unwrap(), token)).unwrap();
    let on = client.wake(NAME).await.unwrap();
    (env, client, on)
}

/// In the place of the runner: says that it is installed, and where it was started.
const SAYS_SO: &[u8] = b"#!/bin/bash\necho \"$0\" >> /tmp/started\nprintf 'so-installed %s %s\\n' \"$2\" \"$3\"\n";

#[tokio::test]
async fn the_runner_is_put_elsewhere_where_something_stands_in_its_way() {
    let (env, client, on) = by_hand().await;
    for (stands, place) in [
        ("true", ".sprite-operator/bin/ab."),
        ("mkdir -p .sprite-operator/bin/ab", ".sprite-operator/bin/ab."),
        ("mkfifo .sprite-operator/bin/ab", ".sprite-operator/bin/ab."),
        ("mkfifo .sprite-operator", ".sprite-runner."),
        ("touch .sprite-operator", ".sprite-runner."),
        ("ln -s nowhere/at/all .sprite-operator", ".sprite-runner."),
        ("mkdir .sprite-operator; mkfifo .sprite-operator/bin", ".sprite-runner."),
        ("mkdir -m 0 .sprite-operator", ".sprite-runner."),
    ] {
        let clean = "cd; rm -f /tmp/started; rm -rf .sprite-operator; mkdir -p .sprite-operator/bin;";
        let plant = if stands.contains("/bin/ab") || stands == "true" {
            format!("{clean} {stands}")
        } else {
            format!("{clean} rm -r .sprite-operator; {stands}")
        };
        env.peek(NAME, &plant).await;
        put_this(&client, &on, "n", SAYS_SO, "ab").await.unwrap();
        let started = env.peek(NAME, "cat /tmp/started").await;
        let expected = format!("/home/sprite/{place}");
        assert!(started.starts_with(&expected) && started.lines().count() == 1, "{stands}: {started}");
    }
}

/// Each as code in the session may have left it, in the home.
const IN_ITS_WAY: [&str; 16] = [
    "mkfifo BIN/HASH",
    "mkdir -p BIN/HASH/x",
    "ln -s /usr/bin/true BIN/HASH",
    "ln -s nowhere BIN/HASH",
    "rm -r BIN; mkfifo BIN",
    "rm -r BIN; ln -s /tmp BIN",
    "chmod 0 BIN",
    "rm -r .sprite-operator; mkfifo .sprite-operator",
    "rm -r .sprite-operator; touch .sprite-operator",
    "rm -r .sprite-operator; ln -s nowhere/at/all .sprite-operator",
    "rm -r .sprite-operator; ln -s /tmp .sprite-operator",
    "chmod 0 .sprite-operator",
    "mkdir -p .sprite-operator/nonce/x",
    "mkfifo .sprite-operator/nonce",
    "mkdir -p BIN/HASH/x/y; chmod 0 BIN/HASH/x BIN/HASH",
    "mkdir -p .sprite-operator/nonce/x/y; chmod 0 .sprite-operator/nonce/x .sprite-operator/nonce",
];

#[tokio::test]
async fn the_runner_is_installed_whatever_stands_in_its_way() {
    let (env, client, on) = by_hand().await;
    let mut failed = Vec::new();
    for plant in IN_ITS_WAY {
        let plant = plant.replace("BIN", ".sprite-operator/bin").replace("HASH", hash());
        let clean = "cd; chmod -fR 700 .sprite-operator; rm -rf .sprite-operator; mkdir -p .sprite-operator/bin";
        env.peek(NAME, &format!("{clean}; {plant}")).await;
        let result = put(&client, &on, "n").await;
        let found = env.peek(NAME, &look(hash())).await;
        if result.is_err() || found != looks(hash(), "n") {
            failed.push((plant, result, found));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[tokio::test]
async fn what_cannot_be_executed_or_says_something_else_is_told_and_leaves_nothing_behind() {
    let (env, client, on) = by_hand().await;
    let failures: [(&'static [u8], &str); 4] = [
        (b"\x7fELF\x02\x01\x01 of another architecture", "UnsupportedPlatform"),
        (b"#!/bin/bash\nexit 95\n", "NotInstalled { exit: Some(95) }"),
        (b"#!/bin/bash\nprintf 'so-installed %s %s\\n' \"$2\" other\n", "NotInstalled { exit: Some(0) }"),
        (b"#!/bin/bash\nexit 127\n", "NotInstalled { exit: Some(127) }"),
    ];
    for (program, expected) in failures {
        let failure: PutFailure = put_this(&client, &on, "n", program, "ab").await.unwrap_err();
        assert_eq!(format!("{failure:?}"), expected);
        let left = env.peek(NAME, "cd; ls .sprite-operator/bin; ls -d .sprite-runner.* 2>/dev/null").await;
        assert_eq!(left, "", "{expected}");
    }
}

/// decisions R11: the operator cannot tell an instant guest from a sandbox but by what its scripts do.
#[tokio::test]
async fn an_instant_guest_answers_as_the_runner_does() {
    let mut env = TestEnv::prepared().await;
    env.spritesd_flags = ["--guest", "instant"].map(str::to_owned).to_vec();
    env.start_spritesd();
    env.start_operator();
    env.policy(&format!("default-{}", env.id), json!({"limits": {"parallelRuns": 40}})).await;
    let session = env.ready_session("s1").await;
    assert_eq!(lockdown(&session).runner.as_deref(), Some(hash()));
    env.answers(json!([
        {"match": "fails", "code": 3, "stdout": "out\n", "stderr": "err\n"},
        {"match": "floods", "stdout": "a line of words\n".repeat(9000)},
        {"match": "takes long", "delay": "20s"},
    ]))
    .await;
    for (name, command) in [("fails", "fails"), ("floods", "floods"), ("well", "true"), ("long", "takes long")] {
        env.bash(name, "s1", command).await;
    }
    let run = env.finished("fails").await;
    assert_eq!((reason(&run), stdout(&run), run.status.as_ref().unwrap().exit_code), ("NonZeroExit", "out\n", Some(3)));
    let run = env.finished("floods").await;
    assert_eq!(reason(&run), "Completed", "{}", message(&run));
    assert!(
        stdout(&run).contains(" bytes left out]\n") && run.status.as_ref().unwrap().output.as_ref().unwrap().truncated
    );
    assert_eq!(reason(&env.finished("well").await), "Completed");
    env.running("long").await;
    // An adopter finds it running, and a stop ends it.
    env.crash_operator().await;
    let cancel = Patch::Merge(json!({"spec": {"cancel": true}}));
    env.runs().patch("long", &PatchParams::default(), &cancel).await.unwrap();
    let run = env.finished("long").await;
    assert_eq!(reason(&run), "CancelRequested", "{}", message(&run));
    assert_eq!(env.starts_of(&run).await, 1);
}
