//! Scripted failures do what they say, and only that.

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
    lab.faults(r#"[{"route":"get","effect":"delay"}]"#).await;
    let rules: serde_json::Value = lab.client.http.get(&url).send().await.unwrap().json().await.unwrap();
    assert_eq!((&rules[0]["route"], &rules[0]["hits"]), (&json!("get"), &json!(0)));
}
