//! Services: defined, started, watched, stopped, started again; over sleep, cold boots and a restart of the server.

use std::time::Duration;

use futures::StreamExt as _;
use http::StatusCode;
use serde_json::{Value, json};

use super::support::{Client, Lab, PATIENCE, TOKEN, eventually, processes_with, serve};

/// The events of a call, which must succeed and end with `complete`.
pub(super) async fn events(client: &Client, method: &str, path: &str, body: &Value) -> Vec<Value> {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, text) = client.call(method, path, body).await;
    assert_eq!(status, StatusCode::OK, "{method} {path}: {text}");
    let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(kinds(&events).last(), Some(&"complete"), "{text}");
    let now = jiff::Timestamp::now().as_millisecond();
    let recent = |event: &Value| event["timestamp"].as_i64().is_some_and(|time| now.abs_diff(time) < 600_000);
    assert!(events.iter().all(recent), "{text}");
    events
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

pub(super) fn data(events: &[Value], kind: &str) -> String {
    events.iter().filter(|event| event["type"] == kind).map(|event| event["data"].as_str().unwrap()).collect()
}

async fn service(client: &Client, path: &str) -> Value {
    let (status, service) = client.json("GET", path, "").await;
    assert_eq!(status, StatusCode::OK, "{service}");
    service
}

async fn reaches(client: &Client, path: &str, wanted: &str) -> Value {
    eventually(wanted, async || service(client, path).await["state"]["status"] == wanted).await;
    service(client, path).await
}

/// A service that says `text` and then sleeps; `mark` is in the arguments of its processes.
fn sleeper(text: &str, mark: &str) -> Value {
    json!({ "cmd": "bash", "args": ["-c", format!("echo {text}; sleep {mark} & wait")] })
}

/// What no other test run has in an argument; a duration for `sleep`.
fn mark(n: u32) -> String {
    format!("9{n}{}", std::process::id())
}

#[tokio::test]
async fn a_service_without_a_port_has_the_field_too() {
    let lab = Lab::with("one").await;
    let _ = events(&lab.client, "PUT", "/one/services/plain?duration=0s", &json!({ "cmd": "true" })).await;
    assert_eq!(service(&lab.client, "/one/services/plain").await.get("http_port"), Some(&Value::Null));
}

#[tokio::test]
async fn a_service_is_made_followed_and_goes_on_running() {
    let lab = Lab::with("one").await;
    let body = json!({
        "cmd": "bash", "args": ["-c", "echo $A $PWD; echo bad >&2; exec sleep 600"], "env": { "A": "é" }, "dir": "/tmp",
        "needs": [], "http_port": 8080,
    });
    let begun = std::time::Instant::now();
    let seen = events(&lab.client, "PUT", "/one/services/web?duration=1.5s", &body).await;
    assert!(begun.elapsed() >= Duration::from_millis(1500) && begun.elapsed() < Duration::from_secs(5));
    assert_eq!(seen[0]["type"], "started");
    assert_eq!((data(&seen, "stdout").as_str(), data(&seen, "stderr").as_str()), ("é /tmp\n", "bad\n"));
    let path = "/.sprite/logs/services/web.log";
    assert_eq!(seen.last().unwrap()["log_files"], json!({ "combined": path, "stdout": path, "stderr": path }));

    let web = service(&lab.client, "/one/services/web").await;
    let pid = web["state"]["pid"].as_u64().unwrap();
    assert_eq!(lab.client.sh("one", &format!("cat /proc/{pid}/comm")).await, "sleep\n");
    assert!(web["state"]["started_at"].as_str().unwrap().ends_with('Z'));
    for (field, value) in body.as_object().unwrap() {
        assert_eq!(&web[field], value, "{field}");
    }
    assert_eq!(
        (&web["name"], &web["state"]["name"], &web["state"]["status"]),
        (&json!("web"), &json!("web"), &json!("running"))
    );
    let (_, list) = lab.client.json("GET", "/one/services", "").await;
    assert_eq!(list, json!([web]));

    // What it wrote is there for the guest to read, and for the logs call with its streams apart.
    let log = format!("cut -d' ' -f2- {path} | sort; date +%s -d \"$(head -n1 {path} | cut -d' ' -f1)\" | wc -c");
    let log = lab.client.sh("one", &format!("{log}; touch {path} 2>/dev/null || echo read-only")).await;
    assert_eq!(log, "[stderr] bad\n[stdout] é /tmp\n11\nread-only\n");
    let logs = events(&lab.client, "GET", "/one/services/web/logs?duration=0", &Value::Null).await;
    assert_eq!((data(&logs, "stdout").as_str(), data(&logs, "stderr").as_str()), ("é /tmp\n", "bad\n"));
    let one = events(&lab.client, "GET", "/one/services/web/logs?lines=1&duration=0", &Value::Null).await;
    assert_eq!(kinds(&one).len(), 2, "{one:?}");
    lab.server.stop().await;
}

#[tokio::test]
async fn what_makes_no_sense_is_refused() {
    let lab = Lab::with("one").await;
    events(
        &lab.client,
        "PUT",
        "/one/services/web?duration=0",
        &json!({ "cmd": "sleep", "args": ["600"], "http_port": 80 }),
    )
    .await;
    events(
        &lab.client,
        "PUT",
        "/one/services/after?duration=0",
        &json!({ "cmd": "sleep", "args": ["600"], "needs": ["web"] }),
    )
    .await;
    let port = "another service already has an HTTP port configured";
    for (method, path, body, status, text) in [
        ("PUT", "other", "{}", 400, "cmd is required"),
        ("PUT", "other", "", 400, "invalid service"),
        ("PUT", "other", r#"{"cmd":"a","port":1}"#, 400, "unknown field"),
        ("PUT", "ot%2Fher", r#"{"cmd":"a"}"#, 400, "invalid service name"),
        ("PUT", "other", r#"{"cmd":"a","needs":["none"]}"#, 400, "there is no service"),
        ("PUT", "web", r#"{"cmd":"a","needs":["after"]}"#, 400, "needs \"web\" itself"),
        ("PUT", "other", r#"{"cmd":"a","http_port":81}"#, 409, port),
        ("PUT", "other?duration=soon", r#"{"cmd":"a"}"#, 400, "invalid duration"),
        ("DELETE", "web", "", 409, "after needs web"),
        ("DELETE", "none", "", 404, "not found"),
        ("GET", "none", "", 404, "not found"),
        ("POST", "none/start", "", 404, "not found"),
        ("POST", "none/stop", "", 404, "not found"),
        ("POST", "none/restart", "", 404, "not found"),
        ("POST", "web/stop?timeout=-1s", "", 400, "invalid timeout"),
        ("POST", "web/stop?timeout=10m", "", 400, "invalid timeout"),
        ("POST", "web/other", "", 404, "not found"),
        ("GET", "none/logs", "", 404, "not found"),
        ("GET", "web/logs?lines=x", "", 400, "invalid lines"),
        ("POST", "signal", "{}", 400, "service name required"),
        ("POST", "signal", r#"{"name":"web"}"#, 400, "invalid signal"),
        ("POST", "signal", r#"{"name":"web","signal":"9"}"#, 400, "invalid signal"),
        ("POST", "signal", r#"{"name":"none","signal":"TERM"}"#, 404, "not found"),
    ] {
        let (got, said) = lab.client.call(method, &format!("/one/services/{path}"), body).await;
        assert!(got.as_u16() == status && said.contains(text), "{method} {path} {body}: {got} {said}");
    }
    assert_eq!(lab.client.call("GET", "/none/services", "").await.0, StatusCode::NOT_FOUND);
    let (_, list) = lab.client.json("GET", "/one/services", "").await;
    assert_eq!(list.as_array().unwrap().len(), 2, "nothing of that was made");
    assert_eq!(lab.client.call("DELETE", "/one/services/after", "").await, (StatusCode::NO_CONTENT, String::new()));
    assert_eq!(lab.client.call("DELETE", "/one/services/web", "").await.0, StatusCode::NO_CONTENT);
    assert_eq!(lab.client.call("GET", "/one/services", "").await.1, "[]");
    assert_eq!(lab.client.sh("one", "pgrep -x sleep; true").await, "");
    lab.server.stop().await;
}

#[tokio::test]
async fn a_service_that_is_put_again_is_replaced() {
    let lab = Lab::with("one").await;
    let (old, new) = (mark(1), mark(2));
    events(&lab.client, "PUT", "/one/services/a?duration=0", &sleeper("old", &old)).await;
    eventually("it runs", async || !processes_with(&format!("sleep\0{old}")).is_empty()).await;
    let seen = events(&lab.client, "PUT", "/one/services/a?duration=500ms", &sleeper("new", &new)).await;
    assert_eq!(kinds(&seen)[..3], ["stopping", "stopped", "started"]);
    assert_eq!((seen[1]["exit_code"].as_u64(), data(&seen, "stdout").as_str()), (Some(143), "new\n"));
    assert!(processes_with(&format!("sleep\0{old}")).is_empty());
    let seen = events(&lab.client, "POST", "/one/services/a/restart?duration=500ms", &Value::Null).await;
    assert_eq!(kinds(&seen), ["stopping", "stopped", "started", "stdout", "complete"]);
    // Who starts what runs is told so.
    let seen = events(&lab.client, "POST", "/one/services/a/start?duration=0", &Value::Null).await;
    assert_eq!(kinds(&seen), ["started", "complete"]);
    assert_eq!(processes_with(&format!("sleep\0{new}")).len(), 1);
    lab.server.stop().await;
}

#[tokio::test]
async fn what_does_not_end_by_term_is_killed_with_its_group_and_stays_stopped() {
    let lab = Lab::with("one").await;
    let mark = mark(3);
    let body = json!({ "cmd": "bash", "args": ["-c", format!("trap '' TERM; sleep {mark} & while :; do wait; done")] });
    events(&lab.client, "PUT", "/one/services/a?duration=0", &body).await;
    eventually("it runs", async || !processes_with(&format!("sleep\0{mark}")).is_empty()).await;
    let begun = std::time::Instant::now();
    let seen = events(&lab.client, "POST", "/one/services/a/stop?timeout=300ms", &Value::Null).await;
    assert!(begun.elapsed() >= Duration::from_millis(300) && begun.elapsed() < Duration::from_secs(5));
    assert_eq!(kinds(&seen), ["stopping", "stopped", "complete"]);
    assert_eq!(seen[1]["exit_code"], 137);
    assert!(processes_with(&mark).is_empty());
    assert_eq!(lab.client.call("POST", "/one/services/a/stop", "").await.0, StatusCode::CONFLICT);
    let term = r#"{"name":"a","signal":"TERM"}"#;
    assert_eq!(lab.client.call("POST", "/one/services/signal", term).await.0, StatusCode::CONFLICT);
    // Sticky: over a boot, over a restart of the server, until it is started.
    lab.client.call("POST", "/one/restart", "").await;
    assert_eq!(service(&lab.client, "/one/services/a").await["state"]["status"], "stopped");
    lab.server.stop().await;
    let server = serve(lab.data.path(), Vec::new()).await;
    let client = Client::new(&format!("http://{}", server.address()));
    client.sh("one", "true").await;
    assert_eq!(service(&client, "/one/services/a").await["state"]["status"], "stopped");
    events(&client, "POST", "/one/services/a/start?duration=0", &Value::Null).await;
    client.call("POST", "/one/restart", "").await;
    reaches(&client, "/one/services/a", "running").await;
    assert_eq!(client.call("DELETE", "/one", "").await.0, StatusCode::NO_CONTENT);
    assert!(processes_with(&mark).is_empty());
    server.stop().await;
}

#[tokio::test]
async fn what_ends_by_itself_or_by_a_signal_is_started_again_after_growing_pauses() {
    let lab = Lab::with("one").await;
    let child = mark(4);
    // What it leaves behind would be in the way of the next.
    let crash = json!({ "cmd": "bash", "args": ["-c", format!("echo up; sleep {child} & exit 3")] });
    let seen = events(&lab.client, "PUT", "/one/services/a?duration=2500ms", &crash).await;
    assert_eq!(
        kinds(&seen),
        ["started", "stdout", "exit", "started", "stdout", "exit", "started", "stdout", "exit", "complete"]
    );
    let starts: Vec<i64> =
        seen.iter().filter(|e| e["type"] == "started").map(|e| e["timestamp"].as_i64().unwrap()).collect();
    assert!(starts[1] - starts[0] >= 500 && starts[2] - starts[1] >= 1000, "{starts:?}");
    assert_eq!(seen[2]["exit_code"], 3);
    let state = &service(&lab.client, "/one/services/a").await["state"];
    assert_eq!((&state["status"], &state["restart_count"]), (&json!("failed"), &json!(2)));
    assert!(
        state["error"].as_str().unwrap().contains('3')
            && state["next_restart_at"].is_string()
            && state.get("pid").is_none()
    );
    assert!(processes_with(&format!("sleep\0{child}")).is_empty());
    // Waiting for a restart it can be stopped, and started at once.
    assert_eq!(
        kinds(&events(&lab.client, "POST", "/one/services/a/stop", &Value::Null).await),
        ["stopped", "complete"]
    );

    let quiet = mark(5);
    events(&lab.client, "PUT", "/one/services/b?duration=0", &sleeper("up", &quiet)).await;
    let before = reaches(&lab.client, "/one/services/b", "running").await;
    let signal = r#"{"name":"b","signal":"SIGTERM"}"#;
    assert_eq!(lab.client.call("POST", "/one/services/signal", signal).await, (StatusCode::NO_CONTENT, String::new()));
    eventually("another process", async || {
        let now = service(&lab.client, "/one/services/b").await;
        now["state"]["status"] == "running" && now["state"]["pid"] != before["state"]["pid"]
    })
    .await;

    let none = json!({ "cmd": "no-such-program" });
    let seen = events(&lab.client, "PUT", "/one/services/c?duration=0", &none).await;
    assert_eq!(
        (kinds(&seen), seen[0]["data"].as_str()),
        (vec!["error", "complete"], Some("no-such-program: command not found"))
    );
    assert_eq!(service(&lab.client, "/one/services/c").await["state"]["status"], "failed");
    lab.server.stop().await;
}

#[tokio::test]
async fn services_boot_in_the_order_they_need_each_other_after_every_cold_start() {
    let lab = Lab::set(&["--idle-after", "200ms", "--cold-after", "200ms"]).await;
    lab.client.create("one").await;
    let body =
        |needs: &[&str]| json!({ "cmd": "bash", "args": ["-c", "echo $0 >> ~/order; exec sleep 600"], "needs": needs });
    for (name, needs) in [("z", &[][..]), ("m", &["z"]), ("a", &["m", "z"])] {
        let mut body = body(needs);
        body["args"].as_array_mut().unwrap().push(name.into());
        events(&lab.client, "PUT", &format!("/one/services/{name}?duration=200ms"), &body).await;
    }
    let booted = async |client: &Client| {
        for name in ["z", "m", "a"] {
            reaches(client, &format!("/one/services/{name}"), "running").await;
        }
        eventually("all have said so", async || client.sh("one", "wc -l < ~/order").await == "3\n").await;
        let starts = async |name: &str| {
            service(client, &format!("/one/services/{name}")).await["state"]["started_at"].as_str().unwrap().to_owned()
        };
        let (z, m, a) = (starts("z").await, starts("m").await, starts("a").await);
        assert!(z <= m && m <= a, "{z} {m} {a}");
    };
    booted(&lab.client).await;
    // Alone they keep nothing awake.
    let cold = async || lab.client.json("GET", "/one", "").await.1["status"] == "cold";
    eventually("cold", cold).await;
    lab.client.sh("one", "rm ~/order; true").await;
    booted_again(&lab, &booted).await;
    lab.server.stop().await;

    let server = serve(lab.data.path(), Vec::new()).await;
    let client = Client::new(&format!("http://{}", server.address()));
    client.sh("one", "true").await;
    reaches(&client, "/one/services/a", "running").await;
    client.call("POST", "/one/checkpoints/v0/restore", "").await;
    booted(&client).await;
    server.stop().await;
}

/// After a restart, so that the order file is written by this boot only.
async fn booted_again(lab: &Lab, booted: &impl AsyncFn(&Client)) {
    lab.client.sh("one", "rm -f ~/order").await;
    assert_eq!(lab.client.call("POST", "/one/restart", "").await.0, StatusCode::OK);
    booted(&lab.client).await;
}

#[tokio::test]
async fn a_service_is_frozen_while_warm_and_a_follower_keeps_awake() {
    let lab = Lab::set(&["--idle-after", "300ms", "--cold-after", "1h"]).await;
    lab.client.create("one").await;
    let count =
        json!({ "cmd": "bash", "args": ["-c", "n=0; while :; do n=$((n+1)); echo $n > ~/n; sleep 0.01; done"] });
    events(&lab.client, "PUT", "/one/services/a?duration=0", &count).await;
    let before = reaches(&lab.client, "/one/services/a", "running").await;
    let status = async || lab.client.json("GET", "/one", "").await.1["status"].clone();
    eventually("warm", async || status().await == "warm").await;
    let asleep = jiff::Timestamp::now();
    let first: u64 = lab.client.sh("one", "cat ~/n").await.trim().parse().unwrap();
    eventually("warm", async || status().await == "warm").await;
    // Nothing to wait for but time.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let second: u64 = lab.client.sh("one", "cat ~/n").await.trim().parse().unwrap();
    // Idle for 300 ms and a little; not the 1500 it was frozen.
    assert!(second > first && second - first < 120, "{first} {second} since {asleep}");
    assert_eq!(service(&lab.client, "/one/services/a").await["state"]["pid"], before["state"]["pid"]);

    let request = lab.client.http.get(format!("{}/one/services/a/logs?duration=1h", lab.client.base));
    let response = request.bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert_eq!(status().await, "running");
    drop(response);
    eventually("warm", async || status().await == "warm").await;
    lab.server.stop().await;
}

/// A boot has services to start: none of them is seen as stopped meanwhile.
#[tokio::test]
async fn services_of_a_boot_are_starting_until_they_run() {
    let lab = Lab::with("one").await;
    for name in ["a", "b", "c", "halted"] {
        let needs = if name == "a" || name == "halted" { json!([]) } else { json!(["a"]) };
        let body = json!({ "cmd": "sleep", "args": ["600"], "needs": needs });
        events(&lab.client, "PUT", &format!("/one/services/{name}?duration=0"), &body).await;
    }
    events(&lab.client, "POST", "/one/services/halted/stop", &Value::Null).await;
    let states = async || {
        let (_, list) = lab.client.json("GET", "/one/services", "").await;
        let state = |one: &Value| one["state"]["status"].as_str().unwrap().to_owned();
        list.as_array().unwrap().iter().map(state).collect::<Vec<_>>()
    };
    for _ in 0..5 {
        assert_eq!(lab.client.call("POST", "/one/restart", "").await.0, StatusCode::OK);
        loop {
            let seen = states().await;
            assert_eq!(seen[3], "stopped");
            assert!(seen[..3].iter().all(|state| state == "starting" || state == "running"), "{seen:?}");
            if seen[..3].iter().all(|state| state == "running") {
                break;
            }
        }
    }
    // Stopped while it is about to be started: it stays so.
    lab.client.call("POST", "/one/restart", "").await;
    lab.client.call("POST", "/one/services/c/stop", "").await;
    eventually("the rest runs", async || states().await == ["running", "running", "stopped", "stopped"]).await;
    lab.server.stop().await;
}

#[tokio::test]
async fn a_guest_manages_its_services_at_its_own_socket() {
    let lab = Lab::with("one").await;
    let curl = |method: &str, path: &str, body: &str| {
        format!(
            "curl -sS --unix-socket /.sprite/api.sock -X {method} -d '{body}' -w '%{{http_code}}' 'http://sprite/v1/services{path}'"
        )
    };
    let put = lab
        .client
        .sh("one", &curl("PUT", "/a?duration=300ms", r#"{"cmd":"bash","args":["-c","echo up; exec sleep 600"]}"#))
        .await;
    assert!(put.contains(r#""data":"up\n""#) && put.contains(r#""type":"complete""#) && put.ends_with("200"), "{put}");
    let list = lab.client.sh("one", &curl("GET", "", "")).await;
    assert!(list.starts_with("[{") && list.ends_with("]200"), "{list}");
    for (method, path, body, code) in [
        ("GET", "/a", "", "200"),
        ("GET", "/none", "", "404"),
        ("PUT", "/b", "{}", "400"),
        ("POST", "/signal", r#"{"name":"a","signal":"HUP"}"#, "204"),
        ("GET", "/a/logs?duration=0", "", "200"),
        ("POST", "/a/stop", "", "200"),
        ("POST", "/a/stop", "", "409"),
        ("POST", "/a/start?duration=0", "", "200"),
        ("POST", "/a/restart?duration=0", "", "200"),
        ("DELETE", "/a", "", "204"),
    ] {
        let got = lab.client.sh("one", &curl(method, path, body)).await;
        assert!(got.ends_with(code), "{method} {path}: {got}");
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn a_client_that_leaves_stops_nothing_and_calls_by_name_can_fail_as_scripted() {
    let lab = Lab::with("one").await;
    let request = lab.client.http.put(format!("{}/one/services/a?duration=1h", lab.client.base)).bearer_auth(TOKEN);
    let mut stream = request.body(sleeper("up", &mark(6)).to_string()).send().await.unwrap().bytes_stream();
    let first = tokio::time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap();
    assert!(first.starts_with(b"{") && first.ends_with(b"\n"), "{first:?}");
    drop(stream);
    reaches(&lab.client, "/one/services/a", "running").await;
    for (route, method, path) in [
        ("service.list", "GET", ""),
        ("service.get", "GET", "/a"),
        ("service.put", "PUT", "/a"),
        ("service.delete", "DELETE", "/a"),
        ("service.start", "POST", "/a/start"),
        ("service.restart", "POST", "/a/restart"),
        ("service.stop", "POST", "/a/stop"),
        ("service.signal", "POST", "/signal"),
        ("service.logs", "GET", "/a/logs"),
    ] {
        lab.faults(&json!([{ "route": route, "effect": "error-before", "status": 503, "count": 1 }]).to_string()).await;
        let (status, text) = lab.client.call(method, &format!("/one/services{path}"), "").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{route}: {text}");
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn a_deleted_sprite_ends_its_services_and_those_who_follow_them() {
    let lab = Lab::with("one").await;
    let mark = mark(7);
    events(&lab.client, "PUT", "/one/services/a?duration=0", &sleeper("up", &mark)).await;
    eventually("it runs", async || !processes_with(&format!("sleep\0{mark}")).is_empty()).await;
    let request = lab.client.http.get(format!("{}/one/services/a/logs?duration=1h", lab.client.base));
    let following = request.bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(lab.client.call("DELETE", "/one", "").await.0, StatusCode::NO_CONTENT);
    assert!(processes_with(&mark).is_empty());
    let text = tokio::time::timeout(PATIENCE, following.text()).await.unwrap().unwrap();
    assert!(text.lines().last().unwrap().contains("complete"), "{text}");
    // Another of that name has none of it.
    lab.client.create("one").await;
    assert_eq!(lab.client.call("GET", "/one/services", "").await.1, "[]");
    // Every start is in the log, with what was started and under which policy.
    let log = lab.log().await;
    let starts: Vec<&Value> = log.iter().filter(|(event, _)| event == "service-start").map(|(_, line)| line).collect();
    assert_eq!(starts.len(), 1);
    assert_eq!(
        (&starts[0]["service"], &starts[0]["argv"][0], &starts[0]["policy"]),
        (&json!("a"), &json!("bash"), &json!({ "rules": [] }))
    );
    lab.server.stop().await;
}

#[tokio::test]
async fn the_start_is_told_before_the_output_however_quick_that_is() {
    let lab = Lab::with("one").await;
    let body = json!({ "cmd": "sh", "args": ["-c", "echo out; echo err >&2; exec sleep 600"] });
    for _ in 0..30 {
        let all = events(&lab.client, "PUT", "/one/services/quick?duration=20ms", &body).await;
        // What ran under the name before is stopped first.
        let mut kinds =
            all.iter().map(|event| event["type"].as_str().unwrap()).filter(|kind| !kind.starts_with("stop"));
        assert_eq!(kinds.next(), Some("started"), "{all:?}");
    }
    lab.server.stop().await;
}
