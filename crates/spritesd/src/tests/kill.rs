//! The kill call.

use http::StatusCode;
use serde_json::Value;

use super::support::{Client, Lab, processes_with};

async fn kill(client: &Client, id: &str, query: &str, body: &str) -> Vec<Value> {
    let response = client.request("POST", &format!("/one/exec/{id}/kill?{query}"), body.to_owned()).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "application/x-ndjson");
    response.text().await.unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_default_is_to_terminate() {
    let lab = Lab::with("one").await;
    let mut exec = lab.client.start("one", &["sleep", "600"], &[]).await;
    let id = exec.id().await;
    let events = kill(&lab.client, &id, "", "").await;
    assert_eq!(types(&events), ["signal", "exited", "complete"]);
    assert_eq!((&events[0]["signal"], events[0]["pid"].to_string()), (&"SIGTERM".into(), id.clone()));
    assert_eq!(events[2]["exit_code"], 143);
    assert_eq!(exec.finish().await.code, Some(143));
    let (status, text) = lab.client.call("POST", &format!("/one/exec/{id}/kill"), "").await;
    assert_eq!((status, text), (StatusCode::GONE, format!("session already exited: {id}")));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_program_that_resists_is_killed_with_its_group() {
    let lab = Lab::with("one").await;
    let mark = format!("87{}", std::process::id());
    let script = format!("trap 'echo no' TERM; echo up; while :; do sleep {mark} & wait; done");
    for (query, body) in [("timeout=300ms", ""), ("", r#"{"signal":"SIGTERM","timeout":"0.3"}"#)] {
        let mut exec = lab.client.start("one", &["bash", "-c", &script], &[]).await;
        let id = exec.id().await;
        exec.until("up").await;
        let events = kill(&lab.client, &id, query, body).await;
        assert_eq!(types(&events), ["signal", "timeout", "signal", "killed", "complete"]);
        assert_eq!((&events[2]["signal"], &events[4]["exit_code"]), (&"SIGKILL".into(), &137.into()));
        let ran = exec.finish().await;
        assert_eq!((ran.out().as_str(), ran.code), ("up\nno\n", Some(137)));
        assert_eq!(processes_with(&mark), Vec::<std::path::PathBuf>::new());
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn without_time_to_wait_it_is_only_a_signal() {
    let lab = Lab::with("one").await;
    let script = "trap 'echo usr1; exit 8' USR1; echo up; while :; do sleep 0.01; done";
    let mut exec = lab.client.start("one", &["bash", "-c", script], &[]).await;
    let id = exec.id().await;
    exec.until("up").await;
    assert_eq!(types(&kill(&lab.client, &id, "signal=CONT&timeout=0s", "").await), ["signal"]);
    let events = kill(&lab.client, &id, "signal=USR1&timeout=0s", "").await;
    assert_eq!(types(&events), ["signal", "exited", "complete"]);
    assert_eq!(events[2]["exit_code"], 8);
    assert_eq!(exec.finish().await.code, Some(8));
    lab.server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_killed() {
    let lab = Lab::with("one").await;
    for id in ["1", "99999", "x"] {
        let (status, text) = lab.client.call("POST", &format!("/one/exec/{id}/kill"), "").await;
        assert_eq!((status, text), (StatusCode::NOT_FOUND, format!("session not found: {id}")));
    }
    for query in ["signal=NONE", "timeout=x"] {
        assert_eq!(lab.client.call("POST", &format!("/one/exec/5/kill?{query}"), "").await.0, StatusCode::BAD_REQUEST);
    }
}
