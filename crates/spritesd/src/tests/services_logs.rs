//! What services have written: read, followed, bounded, and left when they are gone.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};

use super::services::{data, events};
use super::support::{Lab, eventually};

/// Who deletes a service may want to know why it did what it did.
#[tokio::test]
async fn the_log_of_a_deleted_service_can_be_read_until_there_is_another_of_its_name() {
    let lab = Lab::with("one").await;
    let says = |what: &str| json!({ "cmd": "bash", "args": ["-c", format!("printf '{what}\\nrest'; echo e >&2; exec sleep 600")] });
    let read =
        async |query: &str| events(&lab.client, "GET", &format!("/one/services/a/logs?{query}"), &Value::Null).await;
    events(&lab.client, "PUT", "/one/services/a?duration=300ms", &says("first")).await;
    assert_eq!(lab.client.call("DELETE", "/one/services/a", "").await.0, StatusCode::NO_CONTENT);
    assert_eq!(lab.client.call("GET", "/one/services/a", "").await.0, StatusCode::NOT_FOUND);
    let begun = std::time::Instant::now();
    for query in ["duration=0", "duration=10s"] {
        let logs = read(query).await;
        assert_eq!((data(&logs, "stdout").as_str(), data(&logs, "stderr").as_str()), ("first\nrest", "e\n"));
        assert_eq!(logs.last().unwrap()["type"], "complete");
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "nothing more can come");
    assert_eq!(data(&read("lines=1&duration=0").await, "stdout").lines().count(), 1);
    let shown = "cut -d' ' -f2- /.sprite/logs/services/a.log | sort";
    assert_eq!(lab.client.sh("one", shown).await, "[stderr] e\n[stdout] first\n[stdout] rest\n");
    // Over a cold start too; and names that lead elsewhere are none.
    lab.client.call("POST", "/one/restart", "").await;
    assert_eq!(data(&read("duration=0").await, "stderr"), "e\n");
    for name in ["never", "..%2Fa", "%2E%2E", "a%2Flogs"] {
        let (status, _) = lab.client.call("GET", &format!("/one/services/{name}/logs?duration=0"), "").await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{name}");
    }
    events(&lab.client, "PUT", "/one/services/a?duration=300ms", &says("second")).await;
    assert_eq!(data(&read("duration=0").await, "stdout"), "second\nrest");
    lab.server.stop().await;
}

#[tokio::test]
async fn a_log_is_followed_from_where_it_was_read_and_is_bounded() {
    let lab = Lab::with("one").await;
    let chatty = json!({ "cmd": "bash", "args": ["-c", "for n in $(seq 1 100000); do echo line $n; done; echo last; exec sleep 600"] });
    events(&lab.client, "PUT", "/one/services/a?duration=0", &chatty).await;
    let path = "/one/services/a/logs?lines=2&duration=0";
    eventually("all is written", async || {
        data(&events(&lab.client, "GET", path, &Value::Null).await, "stdout") == "line 100000\nlast\n"
    })
    .await;
    let sizes = lab.client.sh("one", "cd /.sprite/logs/services; stat -c %s a.log; tail -n 1 a.log").await;
    let (size, last) = sizes.split_once('\n').unwrap();
    assert!(size.parse::<u64>().unwrap() <= 1 << 20 && last.ends_with(" [stdout] last\n"), "{sizes}");

    let echo = json!({ "cmd": "bash", "args": ["-c", "n=0; while :; do echo $((n+=1)); sleep 0.01; done"] });
    events(&lab.client, "PUT", "/one/services/b?duration=300ms", &echo).await;
    let seen = events(&lab.client, "GET", "/one/services/b/logs?duration=500ms", &Value::Null).await;
    let numbers: Vec<u64> = data(&seen, "stdout").lines().map(|line| line.parse().unwrap()).collect();
    assert!(numbers.len() > 20 && numbers.iter().copied().eq(1..=numbers.len() as u64), "{numbers:?}");
    lab.server.stop().await;
}
