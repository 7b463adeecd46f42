//! Code and circumstances that mean harm, or look like it.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use test_support::{
    TestEnv,
    environment::{condition, message, phase, reason, stdout, until},
};

#[tokio::test]
async fn output_with_characters_that_a_yaml_parser_refuses_or_folds_is_stored_as_it_came() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    // DEL, C1 controls, line separators, byte order mark, non-characters; long enough to be stored as text.
    let script = r"printf 'a\177b \302\233c  \342\200\250  d\302\205e \357\273\277f \357\277\276g\357\277\277 '; printf 'w%.0s' {1..80}";
    env.bash("r1", "s1", script).await;
    let run = env.finished("r1").await;
    let expected = "a\u{7f}b \u{9b}c  \u{2028}  d\u{85}e \u{feff}f \u{fffe}g\u{ffff} ".to_owned() + &"w".repeat(80);
    assert_eq!(stdout(&run), expected, "{}", message(&run));
    env.run("r2", json!({"session": {"name": "s1"}, "bash": {"command": "true", "cwd": "../a\u{7f}"}})).await;
    assert_eq!(reason(&env.finished("r2").await), "PathEscape", "a refusal may quote them, too");
}

#[tokio::test]
async fn output_past_the_cap_is_never_success_even_when_no_kill_can_be_sent() {
    let env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"output": {"onLimit": "Kill"}})).await;
    env.ready_session("s1").await;
    env.faults(json!([{"route": "exec.kill", "effect": "error-before"}])).await;
    env.bash("r1", "s1", "yes | head -c 200000; sleep 15; exit 0").await;
    assert_eq!(reason(&env.finished("r1").await), "OutputLimitExceeded");
}

#[tokio::test]
async fn output_past_the_cap_is_seen_by_an_adopter_too() {
    let mut env = TestEnv::new().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"output": "100"}, "output": {"onLimit": "Kill"}}))
        .await;
    env.ready_session("s1").await;
    env.bash("exact", "s1", "head -c 100 /dev/zero | tr '\\0' x; touch exact; sleep 3").await;
    env.bash("over", "s1", "head -c 50 /dev/zero | tr '\\0' x; touch over; sleep 3; head -c 51 /dev/zero | tr '\\0' x")
        .await;
    env.file_appears("s1", "exact").await;
    env.file_appears("s1", "over").await;
    env.crash_operator().await;
    let exact = env.finished("exact").await;
    assert_eq!((reason(&exact), stdout(&exact).len()), ("Completed", 100), "{}", message(&exact));
    let over = env.finished("over").await;
    assert_eq!((reason(&over), stdout(&over).len()), ("OutputLimitExceeded", 100), "{}", message(&over));
}

#[tokio::test]
async fn a_script_that_kills_its_runner_ends_with_it_and_nothing_of_it_is_left() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let name = env.sessions().get("s1").await.unwrap().status.unwrap().sprite.unwrap().name;
    let away = "setsid nohup sleep 45 & env -i setsid sleep 45 & sleep 0.2;";
    for (run, kill, expected) in [
        ("supervisor", "kill -9 $PPID", ("Failed", "Killed")),
        ("front", "kill -9 $(ps -o ppid= $PPID)", ("Failed", "Killed")),
        // Nobody is left to say how it ended.
        ("both", "p=$PPID; kill -STOP $p; kill -9 $(ps -o ppid= $p) $p", ("Unknown", "OutcomeUnknown")),
    ] {
        env.bash(run, "s1", &format!("echo hi; {away} {kill}; sleep 45")).await;
        let run = env.finished(run).await;
        assert_eq!((phase(&run), reason(&run)), expected, "{}", message(&run));
        assert_eq!(stdout(&run), "hi\n", "what it wrote is kept: {}", message(&run));
        // What carries no mark and lost both parts of the runner is found by nobody but a restart.
        let left = env.peek(&name, "ps -e -o args= | grep -c '[s]leep 45' || true").await;
        let most = u32::from(expected.0 == "Unknown");
        assert!(left.trim().parse::<u32>().unwrap() <= most, "{left}");
    }
    env.bash("next", "s1", "echo usable").await;
    assert_eq!(stdout(&env.finished("next").await), "usable\n");
}

#[tokio::test]
async fn a_sprite_that_wakes_slowly_only_delays_its_run() {
    let mut env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.spritesd.as_mut().unwrap().kill();
    env.start_spritesd();
    // It was seen awake a moment ago, so its rules are asked for at once, which could wake it: that fails here.
    env.faults(json!([
        {"route": "policy.get", "effect": "error-before", "status": 500, "count": 1},
        {"route": "exec", "effect": "delay", "delay": "6s", "count": 1},
    ]))
    .await;
    env.bash("r1", "s1", "echo awake").await;
    let run = env.finished("r1").await;
    assert_eq!(stdout(&run), "awake\n", "{} {}", reason(&run), message(&run));
}

#[tokio::test]
async fn a_command_that_was_seen_to_start_is_never_said_not_to_have_started() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.faults(json!([{"route": "exec", "match": "so-run", "effect": "early-close", "count": 1}])).await;
    env.bash("r1", "s1", "echo out; rm -rf ~/.sprite-operator/$SO_RUN; sleep 3; exit 7").await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Unknown", "OutcomeUnknown"), "{}", message(&run));
    assert!(run.status.unwrap().admission.is_some(), "it stays charged");
}

#[tokio::test]
async fn a_run_that_leaves_no_room_for_a_status_is_refused_all_the_same_and_can_be_deleted() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let spec = |pad: usize| {
        let values = (0..pad / 32_000).map(|n| json!({"name": format!("V{n}"), "value": "x".repeat(32_000)}));
        let rest = json!({"name": "REST", "value": "x".repeat(pad % 32_000)});
        let env: Vec<Value> = values.chain([rest]).collect();
        json!({"session": {"name": "s1"}, "bash": {"command": "true", "env": env}})
    };
    // The largest that the server takes: nothing can be added to it.
    let (mut fits, mut too_large) = (1_000_000, 1_575_000);
    let mut n = 0;
    while too_large - fits > 200 {
        let middle = usize::midpoint(fits, too_large);
        n += 1;
        match env.try_run(&format!("r{n}"), spec(middle)).await {
            Ok(_) => fits = middle,
            Err(_) => too_large = middle,
        }
    }
    // With some room there is a status, if a small one.
    env.run("refused", spec(fits - 4_000)).await;
    let run = env.finished("refused").await;
    assert_eq!(phase(&run), "Denied", "{} {}", reason(&run), message(&run));
    env.runs().delete("refused", &DeleteParams::default()).await.unwrap();
    env.gone(env.runs(), "refused").await;
}

#[tokio::test]
async fn two_false_absences_on_the_way_to_a_delete_leave_no_sprite() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.faults(json!([
        {"route": "get", "effect": "delay", "delay": "1ms", "count": 1},
        {"route": "get", "effect": "error-before", "status": 404, "count": 2},
    ]))
    .await;
    env.sessions().delete("s1", &DeleteParams::default()).await.unwrap();
    env.gone(env.sessions(), "s1").await;
    assert!(env.living().await.is_empty(), "DELETEs: {}", env.log("delete").await.len());
}

#[tokio::test]
async fn a_run_with_the_longest_name_has_its_event() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let name = format!("{}-{}", "a".repeat(219), "b".repeat(33));
    env.bash(&name, "s1", "true").await;
    env.finished(&name).await;
    until("the Event is there", async || (env.events("Run", &name).await.len() == 1).then_some(())).await;
}

#[tokio::test]
async fn a_status_set_back_by_hand_does_not_undo_what_runs() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("r1", "s1", "echo x >> c; touch began; sleep 3; cat c").await;
    env.file_appears("s1", "began").await;
    let back = Patch::Merge(json!({"status": {"phase": "Pending", "reason": "Waiting"}}));
    env.runs().patch_status("r1", &PatchParams::default(), &back).await.unwrap();
    let run = env.finished("r1").await;
    assert_eq!((reason(&run), stdout(&run)), ("Completed", "x\n"), "{}", message(&run));
    let said = env.operator.as_ref().unwrap().said();
    let starts = said.lines().filter(|line| line.contains("plan=\"Start\"")).count();
    assert!(starts < 5, "{starts} decisions to start: a hot loop");
}

/// A TCP proxy; once armed, it forwards a request of some kilobytes (a status) and never brings its answer.
async fn half_open_proxy(target: String, armed: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let Ok((client, _)) = listener.accept().await else { return };
            let Ok(server) = TcpStream::connect(&target).await else { return };
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            let frozen = Arc::new(AtomicBool::new(false));
            let (freeze, armed) = (Arc::clone(&frozen), Arc::clone(&armed));
            tokio::spawn(async move {
                let mut chunk = vec![0; 65_536];
                while let Ok(n @ 1..) = from_client.read(&mut chunk).await {
                    if (1_200..=9_000).contains(&n) && armed.swap(false, Ordering::SeqCst) {
                        freeze.store(true, Ordering::SeqCst);
                    }
                    if to_server.write_all(&chunk[..n]).await.is_err() {
                        return;
                    }
                }
            });
            tokio::spawn(async move {
                let mut chunk = vec![0; 65_536];
                while let Ok(n @ 1..) = from_server.read(&mut chunk).await {
                    if frozen.load(Ordering::SeqCst) {
                        std::future::pending::<()>().await;
                    }
                    if to_client.write_all(&chunk[..n]).await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_of_the_api_server_that_never_comes_holds_up_nothing_for_long() {
    let mut env = TestEnv::prepared().await;
    env.policy(&format!("default-{}", env.id), json!({"limits": {"parallelRuns": 1}})).await;
    let path = env.dir.path().join("kubeconfig");
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let server = config["clusters"][0]["cluster"]["server"].as_str().unwrap().replace("https://", "");
    let armed = Arc::new(AtomicBool::new(false));
    let port = half_open_proxy(server, Arc::clone(&armed)).await;
    config["clusters"][0]["cluster"]["server"] = json!(format!("https://127.0.0.1:{port}"));
    std::fs::write(&path, config.to_string()).unwrap();
    env.start_spritesd();
    env.start_operator();
    env.ready_session("s1").await;
    env.bash("r0", "s1", "true").await;
    env.finished("r0").await;
    armed.store(true, Ordering::SeqCst);
    env.bash("r1", "s1", "echo one").await;
    let run = env.finished("r1").await;
    assert!(matches!(reason(&run), "NotStarted" | "Completed"), "{} {}", reason(&run), message(&run));
    assert!(!armed.load(Ordering::SeqCst), "a reply was held back");
    env.bash("r2", "s1", "echo two").await;
    assert_eq!(stdout(&env.finished("r2").await), "two\n", "the slot was given back");
}

/// What a script may do to outlive its end.
const GET_AWAY: [(&str, &str); 5] = [
    ("daemon", "setsid nohup sleep 4242 >/dev/null 2>&1 &"),
    ("bare", "env -i setsid sleep 4242 &"),
    ("deaf", "bash -c \"trap '' TERM HUP INT; sleep 4242; sleep 4242\" &"),
    ("orphan", "( ( setsid sleep 4242 & ) & );"),
    ("bomb", "f() { [ $1 -gt 0 ] && { f $(($1 - 1)) & f $(($1 - 1)) & }; exec sleep 4242; }; f 6 &"),
];

#[tokio::test]
async fn nothing_outlives_its_run_and_where_the_policy_keeps_it_everything_does_and_is_counted() {
    let env = TestEnv::new().await;
    env.policy(&format!("keep-{}", env.id), json!({"lifecycle": {"processesAfterRun": "Keep"}})).await;
    env.ready_session("kill").await;
    env.session("keep", json!({"policyRef": {"name": format!("keep-{}", env.id)}})).await;
    env.session_until("keep", |session| condition(session, "Ready") == Some("True")).await;
    let left = async |session: &str| {
        let name = env.sessions().get(session).await.unwrap().status.unwrap().sprite.unwrap().name;
        let left = env.peek(&name, "ps -e -o args= | grep -c '^[s]leep 4242' || true").await;
        left.trim().parse::<u32>().unwrap()
    };
    let mut kept = 0;
    for (kind, script) in GET_AWAY {
        let command = format!("{script} sleep 0.3; echo away");
        env.bash(&format!("kill-{kind}"), "kill", &command).await;
        let run = env.finished(&format!("kill-{kind}")).await;
        assert_eq!((reason(&run), stdout(&run)), ("Completed", "away\n"), "{kind}: {}", message(&run));
        assert!(message(&run).contains("ended (policy: lifecycle.processesAfterRun)"), "{kind}: {}", message(&run));
        assert_eq!(left("kill").await, 0, "{kind}");
        // A bomb that is kept is no case.
        if kind == "bomb" {
            continue;
        }
        env.bash(&format!("keep-{kind}"), "keep", &command).await;
        let run = env.finished(&format!("keep-{kind}")).await;
        assert_eq!((reason(&run), stdout(&run)), ("Completed", "away\n"), "{kind}: {}", message(&run));
        assert!(message(&run).contains("left running"), "{kind}: {}", message(&run));
        kept += 1;
        assert_eq!(left("keep").await, kept, "{kind}");
    }
    // At its timeout, too.
    let bash = json!({"command": format!("{} trap '' TERM; while :; do sleep 4242; done", GET_AWAY[1].1)});
    env.run("timeout", json!({"session": {"name": "kill"}, "timeout": "1s", "bash": bash})).await;
    assert_eq!(reason(&env.finished("timeout").await), "Timeout");
    assert_eq!(left("kill").await, 0);
    env.bash("last", "kill", "echo usable").await;
    assert_eq!(stdout(&env.finished("last").await), "usable\n");
}
