//! Scripted failures do what they say, and only that.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;

use super::support::{Lab, Seen, eventually};

#[tokio::test]
async fn an_error_before_does_nothing() {
    let lab = Lab::new().await;
    lab.faults(r#"[{"route":"create","effect":"error-before","status":502,"count":1}]"#).await;
    assert_eq!(lab.client.call("POST", "", r#"{"name":"one"}"#).await.0, StatusCode::BAD_GATEWAY);
    assert_eq!(lab.client.json("GET", "/one", "").await.0, StatusCode::NOT_FOUND);
    lab.client.create("one").await;
}

#[tokio::test]
async fn a_lost_reply_is_done_all_the_same() {
    let lab = Lab::new().await;
    lab.faults(r#"[{"route":"create","effect":"lost-reply","count":1},{"route":"exec","match":"touch","effect":"lost-reply","count":1}]"#).await;
    assert!(lab.client.request("POST", "", r#"{"name":"one"}"#).await.is_err());
    assert_eq!(lab.client.json("GET", "/one", "").await.0, StatusCode::OK);
    assert!(lab.client.open("one", "", &[("cmd", "touch"), ("cmd", "/workspace/done")]).await.is_err());
    let client = &lab.client;
    eventually("the command ran", async || client.run("one", &["test", "-e", "/workspace/done"]).await.code == Some(0))
        .await;
    lab.server.stop().await;
}

#[tokio::test]
async fn a_rate_limit_says_when_to_come_back() {
    let lab = Lab::with("one").await;
    lab.faults(r#"[{"route":"get","match":"on","effect":"rate-limit","retry_after":7,"count":1}]"#).await;
    let response = lab.client.request("GET", "/one", "").await.unwrap();
    assert_eq!(
        (response.status(), &response.headers()["retry-after"]),
        (StatusCode::TOO_MANY_REQUESTS, &"7".parse().unwrap())
    );
    assert_eq!(response.json::<serde_json::Value>().await.unwrap()["retry_after_seconds"], 7);
    assert_eq!(lab.client.call("GET", "/one", "").await.0, StatusCode::OK);
}

#[tokio::test]
async fn a_delay_delays() {
    let lab = Lab::with("one").await;
    lab.faults(r#"[{"route":"get","effect":"delay","delay":"300ms","count":1}]"#).await;
    let begun = std::time::Instant::now();
    assert_eq!(lab.client.call("GET", "/one", "").await.0, StatusCode::OK);
    assert!(begun.elapsed() >= std::time::Duration::from_millis(300));
}

#[tokio::test]
async fn policies_that_lie() {
    let lab = Lab::with("one").await;
    let deny = json!({ "rules": [{ "domain": "*", "action": "deny" }] });
    lab.faults(r#"[{"route":"policy.set","effect":"policy-not-applied","count":1},{"route":"policy.get","effect":"policy-readback-differs","count":1}]"#).await;
    assert_eq!(lab.client.call("POST", "/one/policy/network", deny.to_string()).await.0, StatusCode::NO_CONTENT);
    let (_, lie) = lab.client.json("GET", "/one/policy/network", "").await;
    assert_eq!(lie["rules"].as_array().unwrap().len(), 1);
    assert_eq!(lie["rules"][0]["action"], "allow");
    assert_eq!(lab.client.json("GET", "/one/policy/network", "").await.1, json!({ "rules": [] }));
    lab.client.call("POST", "/one/policy/network", deny.to_string()).await;
    assert_eq!(lab.client.json("GET", "/one/policy/network", "").await.1, deny);
    let applied: Vec<bool> = lab
        .log()
        .await
        .iter()
        .filter(|(event, _)| event == "policy-set")
        .map(|(_, line)| line["applied"].as_bool().unwrap())
        .collect();
    assert_eq!(applied, [false, true]);
}

#[tokio::test]
async fn sockets_that_end_badly() {
    let lab = Lab::with("one").await;
    lab.faults(r#"[{"route":"exec","match":"mark-a","effect":"exit-frame-lost"},{"route":"exec","match":"mark-b","effect":"early-close"}]"#).await;
    let lost = lab.client.run("one", &["echo", "mark-a"]).await;
    assert_eq!((lost.out().as_str(), lost.code, lost.close), ("mark-a\n", None, Some(1000)));

    let early = lab.client.run("one", &["sh", "-c", "echo mark-b; sleep 0.1; touch /workspace/done"]).await;
    assert_eq!((early.out().as_str(), early.code, early.seen.last()), ("mark-b\n", None, Some(&Seen::Broken)));
    let client = &lab.client;
    eventually("the command went on", async || {
        client.run("one", &["test", "-e", "/workspace/done"]).await.code == Some(0)
    })
    .await;
    assert_eq!(lab.client.run("one", &["echo", "other"]).await.code, Some(0));
    lab.server.stop().await;
}

#[tokio::test]
async fn nonsense_is_refused_whole() {
    let lab = Lab::new().await;
    let url = format!("http://{}/faults", lab.server.admin_address().unwrap());
    for bad in ["", "{}", r#"[{"route":"get"}]"#, r#"[{"route":"get","effect":"delay","delay":"x"}]"#] {
        assert_eq!(
            lab.client.http.put(&url).body(bad).send().await.unwrap().status(),
            StatusCode::BAD_REQUEST,
            "{bad}"
        );
    }
    lab.faults(r#"[{"route":"get","effect":"delay","delay":"1ms"}]"#).await;
    let rules: serde_json::Value = lab.client.http.get(&url).send().await.unwrap().json().await.unwrap();
    assert_eq!((&rules[0]["route"], &rules[0]["hits"]), (&json!("get"), &json!(0)));
}

#[tokio::test]
async fn output_can_be_lost_and_come_slowly_and_a_connection_can_fall_silent() {
    let lab = Lab::with("one").await;
    lab.faults(
        r#"[{"route":"exec","match":"mark-a","effect":"output-lost"},
            {"route":"exec","match":"mark-b","effect":"half-open"},
            {"route":"exec","match":"mark-c","effect":"slow","delay":"300ms"},
            {"route":"get","match":"two","effect":"half-open"}]"#,
    )
    .await;
    let lost = lab.client.run("one", &["sh", "-c", "echo mark-a; exit 3"]).await;
    assert_eq!((lost.out().as_str(), lost.code, lost.close), ("", Some(3), Some(1000)));

    // Not even a ping is answered, and nothing is closed.
    let mut silent = lab.client.start("one", &["sh", "-c", "echo mark-b; sleep 0.1; touch /workspace/done"], &[]).await;
    silent.until("mark-b").await;
    futures::SinkExt::send(&mut silent.socket, tokio_tungstenite::tungstenite::Message::Ping("x".into()))
        .await
        .unwrap();
    let nothing = tokio::time::timeout(Duration::from_millis(700), futures::StreamExt::next(&mut silent.socket)).await;
    assert!(nothing.is_err(), "{nothing:?}");
    // The kernel on the other side does not take it either: it stays unacknowledged in our queue.
    let tokio_tungstenite::MaybeTlsStream::Plain(stream) = silent.socket.get_ref() else { panic!("TLS") };
    let queued = || {
        let port = format!(":{}", stream.local_addr().unwrap().port());
        let output = std::process::Command::new("ss").args(["-tnH", "sport", "=", &port]).output().unwrap();
        let line = String::from_utf8(output.stdout).unwrap();
        line.split_whitespace().nth(2).and_then(|queue| queue.parse::<u64>().ok()).unwrap_or(0)
    };
    assert!(queued() > 0, "acknowledged");
    assert_eq!(lab.client.run("one", &["test", "-e", "/workspace/done"]).await.code, Some(0));
    let call = lab.client.request("GET", "/two", "");
    assert!(tokio::time::timeout(Duration::from_millis(500), call).await.is_err());

    let begun = std::time::Instant::now();
    assert_eq!(lab.client.run("one", &["echo", "mark-c"]).await.code, Some(0));
    assert!(begun.elapsed() >= Duration::from_millis(300));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_body_can_end_in_the_middle_and_a_list_can_miss_an_entry() {
    let lab = Lab::with("one").await;
    lab.client.create("two").await;
    lab.faults(
        r#"[{"route":"get","match":"one","effect":"truncated-body"},
            {"route":"list","match":"tw","effect":"list-missing-entry"}]"#,
    )
    .await;
    let (status, text) = lab.client.call("GET", "/one", "").await;
    assert!(
        status == StatusCode::OK && text.starts_with('{') && serde_json::from_str::<serde_json::Value>(&text).is_err()
    );
    let (_, list) = lab.client.json("GET", "", "").await;
    let names: Vec<&str> =
        list["sprites"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one"]);
    assert_eq!(lab.client.json("GET", "/two", "").await.0, StatusCode::OK);
    lab.server.stop().await;
}

#[tokio::test]
async fn an_instance_can_be_replaced_under_its_name() {
    let lab = Lab::new().await;
    lab.client.json("POST", "", r#"{"name":"one","labels":["mine"]}"#).await;
    let deny = r#"{"rules":[{"domain":"*","action":"deny"}]}"#;
    lab.client.call("POST", "/one/policy/network", deny).await;
    lab.client.sh("one", "touch ~/file").await;
    let before = lab.client.json("GET", "/one", "").await.1;
    lab.faults(r#"[{"route":"exec","effect":"instance-replaced","count":1}]"#).await;
    assert_eq!(lab.client.sh("one", "ls ~").await, "");
    let after = lab.client.json("GET", "/one", "").await.1;
    assert_ne!(before["id"], after["id"]);
    assert_eq!((&before["name"], &before["labels"]), (&after["name"], &after["labels"]));
    assert_eq!(lab.client.json("GET", "/one/policy/network", "").await.1, json!({ "rules": [] }));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_disk_can_be_full_until_the_rules_change() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "true").await;
    lab.faults(r#"[{"route":"exec","match":"fill","effect":"disk-full","count":1}]"#).await;
    let write = "head -c 3000000 /dev/zero > ~/big 2>/dev/null && echo written || echo refused";
    assert_eq!(lab.client.sh("one", &format!("{write} # fill")).await, "refused\n");
    let (status, body) = lab.client.json("PUT", "/one/fs/write?path=/workspace/x", &"x".repeat(1 << 20)).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{body}");
    assert!(["ENOSPC", "EDQUOT"].contains(&body["code"].as_str().unwrap()), "{body}");
    lab.faults("[]").await;
    assert_eq!(lab.client.sh("one", write).await, "written\n");
    lab.server.stop().await;
}
