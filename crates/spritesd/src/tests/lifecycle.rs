//! Cold, warm, running: what wakes, what keeps awake, what survives.

use std::time::Duration;

use http::StatusCode;
use rstest::rstest;
use serde_json::Value;

use super::support::{Lab, PATIENCE, Seen, eventually};

async fn state(lab: &Lab, name: &str) -> String {
    let (status, sprite) = lab.client.json("GET", &format!("/{name}"), "").await;
    assert_eq!(status, StatusCode::OK);
    sprite["status"].as_str().unwrap().to_owned()
}

async fn reaches(lab: &Lab, name: &str, wanted: &str) {
    eventually(wanted, async || state(lab, name).await == wanted).await;
}

#[rstest]
#[case::by_control_groups("auto")]
#[case::by_signals("none")]
#[tokio::test]
async fn a_sprite_pauses_when_idle_and_goes_on_where_it_was(#[case] groups: &str) {
    let lab = Lab::set(&["--idle-after", "300ms", "--cold-after", "1h", "--cgroups", groups]).await;
    lab.client.create("one").await;
    assert_eq!(state(&lab, "one").await, "cold");
    // A detached, quiet counter.
    let counter = "echo $$ > /tmp/pid; n=0; while :; do n=$((n+1)); echo $n > /tmp/n; sleep 0.01; done";
    lab.client.sh("one", &format!("setsid bash -c '{counter}' >/dev/null 2>&1 & sleep 0.1")).await;
    assert_eq!(state(&lab, "one").await, "running");
    reaches(&lab, "one", "warm").await;
    // How far it has come, and when the process began.
    let look = "cat /tmp/n; cut -d' ' -f22 /proc/$(cat /tmp/pid)/stat";
    let before = lab.client.sh("one", look).await;
    reaches(&lab, "one", "warm").await;
    let frozen = lab.log().await.iter().filter(|(event, _)| event == "sleep").count();
    assert_eq!(frozen, 2, "asleep twice");
    let after = lab.client.sh("one", look).await;
    let parse = |text: &str| text.split_whitespace().map(|word| word.parse::<u64>().unwrap()).collect::<Vec<_>>();
    let (before, after) = (parse(&before), parse(&after));
    assert_eq!(before[1], after[1], "the same process");
    // It did not count while frozen: between the two looks it ran for 300 ms of idling and little else.
    assert!(after[0] > before[0] && after[0] - before[0] < 200, "{before:?} {after:?}");
    let wakes: Vec<Value> = lab.log().await.into_iter().filter(|(e, _)| e == "wake").map(|(_, line)| line).collect();
    let from: Vec<&str> = wakes.iter().map(|line| line["from"].as_str().unwrap()).collect();
    assert_eq!(from, ["cold", "warm", "warm"]);
    lab.server.stop().await;
}

#[tokio::test]
async fn warm_turns_cold_and_only_files_survive() {
    let lab = Lab::set(&["--idle-after", "100ms", "--cold-after", "100ms"]).await;
    lab.client.create("one").await;
    lab.client.sh("one", "echo kept > ~/file; setsid sleep 600 >/dev/null 2>&1 &").await;
    reaches(&lab, "one", "cold").await;
    assert_eq!(lab.client.sh("one", "cat ~/file; pgrep -x sleep; true").await, "kept\n");
    let sleeps: Vec<Value> = lab.log().await.into_iter().filter(|(e, _)| e == "sleep").map(|(_, l)| l).collect();
    assert_eq!(sleeps.iter().map(|line| line["to"].as_str().unwrap()).collect::<Vec<_>>()[..2], ["warm", "cold"]);
    let usage = &sleeps[1]["usage"];
    assert!(usage["awake_seconds"].as_f64().unwrap() >= 0.1 && usage["cost_micro_usd"].as_f64().unwrap() > 0.0);
    lab.server.stop().await;
}

#[tokio::test]
async fn a_connected_client_and_a_task_keep_awake_and_a_quiet_detached_command_does_not() {
    let lab = Lab::set(&["--idle-after", "200ms", "--cold-after", "1h"]).await;
    lab.client.create("one").await;
    let mut quiet =
        lab.client.start("one", &["bash", "-c", "echo up; sleep 600"], &[("max_run_after_disconnect", "0")]).await;
    quiet.until("up").await;
    // While it is watched it is awake: nothing to wait for but time.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(state(&lab, "one").await, "running");
    drop(quiet);
    reaches(&lab, "one", "warm").await;
    assert_eq!(lab.client.sessions("one").await.len(), 1, "frozen, not ended");

    let task = "curl -sS --unix-socket /.sprite/api.sock -X POST -d '{\"name\":\"build\",\"expire\":\"30m\"}' http://sprite/v1/tasks";
    let made: Value = serde_json::from_str(&lab.client.sh("one", task).await).unwrap();
    assert_eq!(made["name"], "build");
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(state(&lab, "one").await, "running");
    let end = "curl -sS -o /dev/null -w '%{http_code}' --unix-socket /.sprite/api.sock -X DELETE http://sprite/v1/tasks/build";
    assert_eq!(lab.client.sh("one", end).await, "204");
    reaches(&lab, "one", "warm").await;
    lab.server.stop().await;
}

#[tokio::test]
async fn looking_wakes_nothing() {
    let lab = Lab::with("one").await;
    for (method, path) in
        [("GET", "/one"), ("GET", ""), ("GET", "/one/exec"), ("GET", "/one/check"), ("HEAD", "/one/exec")]
    {
        lab.client.call(method, path, "").await;
    }
    lab.client.call("PUT", "/one", r#"{"labels":["a"]}"#).await;
    assert_eq!(state(&lab, "one").await, "cold");
    let (_, check) = lab.client.json("GET", "/one/check", "").await;
    assert_eq!(check["status"], "hibernated");
    lab.client.sh("one", "true").await;
    let (_, check) = lab.client.json("GET", "/one/check", "").await;
    assert_eq!((check["status"].as_str(), check["sprite_name"].as_str()), (Some("healthy"), Some("one")));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_new_sprite_boots_by_itself_and_falls_asleep() {
    let lab = Lab::set(&["--boot", "create", "--idle-after", "300ms", "--cold-after", "1h"]).await;
    let (_, made) = lab.client.json("POST", "", r#"{"name":"one"}"#).await;
    assert_eq!(made["status"], "cold");
    reaches(&lab, "one", "running").await;
    reaches(&lab, "one", "warm").await;
    lab.server.stop().await;
}

#[rstest]
#[case::write("PUT", "/one/fs/write?path=/workspace/a")]
#[case::list("GET", "/one/fs/list?path=/tmp")]
#[case::policy("GET", "/one/policy/network")]
#[tokio::test]
async fn the_first_call_to_a_new_sprite_waits_for_its_boot_and_no_longer(
    #[case] method: &'static str,
    #[case] path: &'static str,
) {
    let lab = Lab::set(&["--boot", "create", "--fs-on-cold", "hang", "--supervisor-on-cold", "hang"]).await;
    lab.client.create("one").await;
    let answer = tokio::time::timeout(PATIENCE, lab.client.call(method, path, "")).await.unwrap();
    assert_eq!(answer.0, StatusCode::OK);
    lab.server.stop().await;
}

#[tokio::test]
async fn a_new_sprite_that_is_deleted_while_it_boots_gives_its_place_back() {
    let lab = Lab::set(&["--boot", "create", "--running-limit", "1", "--cold-start", "200ms"]).await;
    lab.client.create("one").await;
    assert_eq!(lab.client.call("DELETE", "/one", "").await.0, StatusCode::NO_CONTENT);
    lab.client.create("two").await;
    reaches(&lab, "two", "running").await;
    lab.client.sh("two", "true").await;
    lab.server.stop().await;
}

#[tokio::test]
async fn calls_to_a_cold_sprite_hang_or_wake_as_chosen() {
    let lab = Lab::set(&["--fs-on-cold", "hang", "--supervisor-on-cold", "hang"]).await;
    lab.client.create("one").await;
    let calls = [("GET", "/one/fs/list?path=/tmp"), ("GET", "/one/policy/network"), ("GET", "/one/checkpoints")];
    let hanging: Vec<_> = calls
        .map(|(method, path)| {
            let client = lab.client.clone();
            tokio::spawn(async move { client.call(method, path, "").await.0 })
        })
        .into_iter()
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(hanging.iter().all(|call| !call.is_finished()) && state(&lab, "one").await == "cold");
    // What a client does about it: wake by exec.
    lab.client.sh("one", "true").await;
    for call in hanging {
        assert_eq!(tokio::time::timeout(PATIENCE, call).await.unwrap().unwrap(), StatusCode::OK);
    }
    lab.client.create("two").await;
    lab.server.stop().await;

    let lab = Lab::set(&["--fs-on-cold", "wake", "--supervisor-on-cold", "wake"]).await;
    for (n, path) in ["fs/list?path=/tmp", "policy/network", "checkpoints"].iter().enumerate() {
        lab.client.create(&format!("s{n}")).await;
        assert_eq!(lab.client.call("GET", &format!("/s{n}/{path}"), "").await.0, StatusCode::OK);
        assert_eq!(state(&lab, &format!("s{n}")).await, "running");
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn a_restart_ends_every_process_and_keeps_files_and_identity() {
    let lab = Lab::with("one").await;
    let (_, before) = lab.client.json("GET", "/one", "").await;
    let mut session = lab.client.start("one", &["bash", "-c", "echo kept > ~/f; echo up; sleep 600"], &[]).await;
    session.until("up").await;
    let (status, answer) = lab.client.json("POST", "/one/restart", "").await;
    assert_eq!((status, answer["sprite_name"].as_str()), (StatusCode::OK, Some("one")));
    let ran = session.finish().await;
    assert!(ran.code.is_none() && ran.seen.last() == Some(&Seen::Broken), "{ran:?}");
    assert_eq!(lab.client.sh("one", "cat ~/f; pgrep -x sleep; true").await, "kept\n");
    let (_, after) = lab.client.json("GET", "/one", "").await;
    assert_eq!(before["id"], after["id"]);
    assert_eq!(lab.client.call("POST", "/one/upgrade", "").await.0, StatusCode::OK);
    for path in ["/none/restart", "/none/upgrade"] {
        assert_eq!(lab.client.call("POST", path, "").await.0, StatusCode::NOT_FOUND);
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn a_cold_start_is_slower_than_a_warm_one_as_set() {
    let lab =
        Lab::set(&["--idle-after", "50ms", "--cold-after", "1h", "--cold-start", "700ms", "--warm-start", "200ms"])
            .await;
    lab.client.create("one").await;
    let begun = std::time::Instant::now();
    lab.client.sh("one", "true").await;
    assert!(begun.elapsed() >= Duration::from_millis(700));
    reaches(&lab, "one", "warm").await;
    let begun = std::time::Instant::now();
    lab.client.sh("one", "true").await;
    assert!(begun.elapsed() >= Duration::from_millis(200));
    lab.server.stop().await;
}

#[tokio::test]
async fn the_stream_of_states_tells_every_change() {
    use futures::StreamExt as _;
    let lab = Lab::set(&["--idle-after", "100ms", "--cold-after", "100ms"]).await;
    lab.client.create("one").await;
    lab.client.create("other").await;
    let request = lab.client.http.get(format!("{}?prefix=one", lab.client.base)).bearer_auth(super::support::TOKEN);
    let response = request.header("Accept", "application/x-ndjson").send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    let mut bytes = response.bytes_stream();
    let mut seen: Vec<String> = Vec::new();
    let mut buffer = String::new();
    let mut read = async |until: &str| {
        while seen.last().is_none_or(|last| last != until) {
            let chunk = tokio::time::timeout(PATIENCE, bytes.next()).await.unwrap().unwrap().unwrap();
            buffer.push_str(std::str::from_utf8(&chunk).unwrap());
            while let Some((line, rest)) = buffer.split_once('\n') {
                let event: Value = serde_json::from_str(line).unwrap();
                assert_eq!(event["name"], "one");
                seen.push(event["status"].as_str().unwrap().to_owned());
                buffer = rest.to_owned();
            }
        }
        seen.clone()
    };
    assert_eq!(read("cold").await, ["cold"]);
    lab.client.sh("one", "true").await;
    read("running").await;
    let all = read("cold").await;
    assert_eq!(all, ["cold", "running", "warm", "cold"]);
    lab.server.stop().await;
}

#[tokio::test]
async fn every_marked_start_of_a_process_is_witnessed() {
    let lab = Lab::with("one").await;
    lab.client.create("two").await;
    let admin = format!("http://{}/marks", lab.server.admin_address().unwrap());
    let answer = lab.client.http.put(&admin).body(r#"["mark-7"]"#).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    // In the arguments, in the environment, of processes that are gone at once; and others.
    lab.client.sh("one", "for i in 1 2 3; do /bin/true mark-7 $i; done; X=mark-7 /bin/true env; /bin/true other").await;
    lab.client.sh("two", "/bin/true mark-8").await;
    let starts: Vec<Value> = lab.log().await.into_iter().filter(|(e, _)| e == "start").map(|(_, line)| line).collect();
    // The shell carries the mark itself: its script is an argument.
    let argv: Vec<String> = starts.iter().map(|line| line["argv"].to_string()).collect();
    assert_eq!(argv.len(), 5, "{argv:?}");
    assert!(argv[0].starts_with(r#"["bash","-c""#));
    assert_eq!(argv[1..4], [1, 2, 3].map(|i| format!(r#"["/bin/true","mark-7","{i}"]"#)));
    assert_eq!(argv[4], r#"["/bin/true","env"]"#);
    assert!(starts.iter().all(|line| line["sprite"] == "one" && line["mark"] == "mark-7"));
    lab.server.stop().await;
}
