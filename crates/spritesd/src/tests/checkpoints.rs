//! Copies of a Sprite's files: made, listed, put back, removed; from outside and from inside.

use http::StatusCode;
use serde_json::Value;

use super::support::{Lab, Seen};

async fn events(lab: &Lab, method: &str, path: &str, body: &str) -> Vec<Value> {
    let (status, text) = lab.client.call(method, path, body.to_owned()).await;
    assert_eq!(status, StatusCode::OK, "{text}");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_copy_comes_back_and_ends_what_runs() {
    for flags in [&["--disk-limit", "none"][..], &[]] {
        let lab = Lab::set(flags).await;
        lab.client.create("one").await;
        lab.client.sh("one", "echo first > ~/a; echo w > /workspace/w; ln -s /etc/passwd ~/link").await;
        let made = events(&lab, "POST", "/one/checkpoint", r#"{"comment":"before"}"#).await;
        let kinds: Vec<&str> = made.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert!(kinds.len() > 2 && kinds[..kinds.len() - 1].iter().all(|kind| *kind == "info"));
        assert_eq!(made.last().unwrap()["data"], "Checkpoint v1 created successfully");
        assert!(made.iter().any(|event| event["data"].as_str().unwrap().trim() == "ID: v1"));

        lab.client.sh("one", "echo second > ~/a; rm /workspace/w; echo new > ~/new").await;
        assert_eq!(lab.client.sh("one", "cat /.sprite/checkpoints/v1/home/a").await, "first\n");
        let denied = lab.client.run("one", &["touch", "/.sprite/checkpoints/v1/home/x"]).await;
        assert_ne!(denied.code, Some(0));
        let mut session = lab.client.start("one", &["bash", "-c", "echo up; sleep 600"], &[]).await;
        session.until("up").await;
        let restored = events(&lab, "POST", "/one/checkpoints/v1/restore", "").await;
        assert_eq!(restored.last().unwrap()["data"], "Restore from v1 complete");
        assert_eq!(session.finish().await.seen.last(), Some(&Seen::Broken));
        assert_eq!(
            lab.client.sh("one", "cat ~/a /workspace/w; ls ~/new 2>&1 | grep -c 'No such'").await,
            "first\nw\n1\n"
        );

        let (_, list) = lab.client.json("GET", "/one/checkpoints?includeAuto=true", "").await;
        let ids: Vec<&str> = list.as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
        assert_eq!(ids, ["Current", "v1", "v0"]);
        let (_, one) = lab.client.json("GET", "/one/checkpoints/v1", "").await;
        assert_eq!((one["comment"].as_str(), one["is_auto"].as_bool()), (Some("before"), Some(false)));
        let time = one["create_time"].as_str().unwrap();
        assert!(time.ends_with('Z') && !time.contains('.'), "{time}");

        // The one the files are at stays; another goes.
        assert_eq!(lab.client.call("DELETE", "/one/checkpoints/v1", "").await.0, StatusCode::CONFLICT);
        assert_eq!(lab.client.call("DELETE", "/one/checkpoints/v0", "").await.0, StatusCode::NO_CONTENT);
        assert_eq!(lab.client.call("GET", "/one/checkpoints/v0", "").await.0, StatusCode::NOT_FOUND);
        let failed = events(&lab, "POST", "/one/checkpoints/v9/restore", "").await;
        assert_eq!(failed.last().unwrap()["type"], "error");
        assert_eq!(lab.client.call("POST", "/none/checkpoint", "").await.0, StatusCode::NOT_FOUND);
        // The number of a failed or deleted one is never given again.
        let again = events(&lab, "POST", "/one/checkpoint", "").await;
        assert_eq!(again.last().unwrap()["data"], "Checkpoint v2 created successfully");
        lab.server.stop().await;
    }
}

#[tokio::test]
async fn a_restore_keeps_the_policy_or_reverts_it_as_chosen() {
    for (flag, expected) in [("keep", r#"{"rules":[{"domain":"*","action":"deny"}]}"#), ("revert", r#"{"rules":[]}"#)] {
        let lab = Lab::set(&["--restore-policy", flag]).await;
        lab.client.create("one").await;
        let deny = r#"{"rules":[{"domain":"*","action":"deny"}]}"#;
        events(&lab, "POST", "/one/checkpoint", "").await;
        assert_eq!(lab.client.call("POST", "/one/policy/network", deny).await.0, StatusCode::NO_CONTENT);
        assert_eq!(lab.client.sh("one", "tr -d ' \\n' < /.sprite/policy/network.json").await, deny);
        // From inside: this is how code could weaken its own rules.
        let restore = "curl -sS --unix-socket /.sprite/api.sock -X POST http://sprite/v1/checkpoints/v1/restore";
        lab.client.run("one", &["bash", "-c", restore]).await;
        super::support::eventually("the restore is done", async || {
            lab.log().await.iter().any(|(event, _)| event == "restore")
        })
        .await;
        assert_eq!(lab.client.call("GET", "/one/policy/network", "").await, (StatusCode::OK, expected.into()));
        assert_eq!(lab.client.sh("one", "tr -d ' \\n' < /.sprite/policy/network.json").await, expected);
        lab.server.stop().await;
    }
}

#[tokio::test]
async fn checkpoints_survive_a_restart_of_the_server() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "echo first > ~/a").await;
    events(&lab, "POST", "/one/checkpoint", "").await;
    lab.client.sh("one", "echo second > ~/a").await;
    lab.server.stop().await;
    let server = super::support::serve(lab.data.path(), Vec::new()).await;
    let client = super::support::Client::new(&format!("http://{}", server.address()));
    assert_eq!(client.sh("one", "cat ~/a").await, "second\n");
    client.call("POST", "/one/checkpoints/v1/restore", "").await;
    assert_eq!(client.sh("one", "cat ~/a").await, "first\n");
    server.stop().await;
}
