//! Sprites and their policies as documents.

use http::StatusCode;
use rstest::rstest;
use serde_json::{Value, json};

use super::support::{Lab, TOKEN, mounts_of, processes_with};

#[tokio::test]
async fn a_created_sprite_is_cold_and_found() {
    let lab = Lab::new().await;
    let body = r#"{"name":"one","labels":["a=b"],"url_settings":{"auth":"public"},"config":{"cpus":2},"wait_for_capacity":true}"#;
    let (status, made) = lab.client.json("POST", "", body).await;
    assert_eq!(status, StatusCode::CREATED);
    assert!(made["id"].as_str().unwrap().strip_prefix("sprite-").unwrap().parse::<uuid::Uuid>().is_ok());
    assert_eq!((&made["name"], &made["status"]), (&json!("one"), &json!("cold")));
    assert_eq!((&made["labels"], &made["url_settings"]["auth"]), (&json!(["a=b"]), &json!("public")));
    assert!(made["created_at"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    assert_eq!(lab.client.json("GET", "/one", "").await, (StatusCode::OK, made));

    lab.client.run("one", &["true"]).await;
    assert_eq!(lab.client.json("GET", "/one", "").await.1["status"], "running");
    lab.server.stop().await;
}

#[rstest]
#[case::made("POST", "", r#"{"name":"two"}"#)]
#[case::found("GET", "/one", "")]
#[case::listed("GET", "", "")]
#[case::missing("GET", "/three", "")]
#[case::refused("POST", "", r#"{"name":"Bad"}"#)]
#[case::deleted("DELETE", "/one", "")]
#[tokio::test]
async fn answers_of_the_control_plane_name_their_character_set(
    #[case] method: &'static str,
    #[case] path: &str,
    #[case] body: &'static str,
) {
    let lab = Lab::with("one").await;
    let answer = lab.client.request(method, path, body).await.unwrap();
    assert_eq!(answer.headers()["content-type"], "application/json; charset=utf-8");
}

#[rstest]
#[case(r#"{"name":"Bad"}"#, "invalid sprite name format")]
#[case(r#"{"name":"../x"}"#, "invalid sprite name format")]
#[case("{}", "invalid sprite name format")]
#[case(r#"{"name":"x","url_settings":{"auth":"none"}}"#, "invalid auth type, must be one of: sprite, public")]
#[case(r#"{"name":"x","labels":[""]}"#, "invalid label")]
#[case("[", "invalid request body")]
#[tokio::test]
async fn what_is_wrong_is_said(#[case] body: &str, #[case] why: &str) {
    let lab = Lab::new().await;
    let (status, answer) = lab.client.json("POST", "", body).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(answer["errors"][0].as_str().unwrap().contains(why), "{answer}");
}

#[tokio::test]
async fn duplicates_and_strangers() {
    let lab = Lab::with("one").await;
    let (status, answer) = lab.client.json("POST", "", r#"{"name":"one"}"#).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(answer["error"].as_str().unwrap().contains("'one' already exists"));
    for (method, path) in [
        ("GET", "/two"),
        ("PUT", "/two"),
        ("DELETE", "/two"),
        ("GET", "/two/policy/network"),
        ("GET", "/two/exec"),
        ("GET", "/two/nothing"),
    ] {
        let (status, answer) = lab.client.json(method, path, "{}").await;
        assert_eq!((status, &answer["error"]), (StatusCode::NOT_FOUND, &json!("sprite not found")), "{method} {path}");
    }
}

#[tokio::test]
async fn of_many_creates_of_one_name_one_wins() {
    let lab = Lab::new().await;
    let creating = (0..8).map(|_| lab.client.json("POST", "", r#"{"name":"one"}"#));
    let mut statuses: Vec<u16> =
        futures::future::join_all(creating).await.iter().map(|(status, _)| status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
}

#[tokio::test]
async fn nobody_without_the_token() {
    let lab = Lab::with("one").await;
    let paths = ["", "/one", "/one/exec", "/one/policy/network", "/one/fs/list?path=/", "/nowhere/at/all"];
    for path in paths {
        for token in [None, Some(""), Some("x"), Some(&TOKEN[1..])] {
            let mut request = lab.client.http.get(format!("{}{path}", lab.client.base));
            if let Some(token) = token {
                request = request.bearer_auth(token);
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), StatusCode::UNAUTHORIZED, "{path} {token:?}");
            assert_eq!(response.json::<Value>().await.unwrap()["error"], "authentication failed");
        }
    }
}

#[tokio::test]
async fn lists_come_in_pages() {
    let lab = Lab::new().await;
    for name in ["a1", "a2", "a3", "b1"] {
        lab.client.create(name).await;
    }
    lab.client.run("a2", &["true"]).await;
    let names =
        |page: &Value| page["sprites"].as_array().unwrap().iter().map(|s| s["name"].clone()).collect::<Vec<_>>();
    let (_, first) = lab.client.json("GET", "?prefix=a&max_results=2", "").await;
    assert_eq!(names(&first), ["a1", "a2"]);
    assert_eq!(first["has_more"], true);
    assert_eq!((&first["running"], &first["warm"], &first["cold"]), (&json!(1), &json!(0), &json!(3)));
    assert_eq!(first["org"]["cold"], 3);
    let token = first["next_continuation_token"].as_str().unwrap();
    let (_, second) = lab.client.json("GET", &format!("?prefix=a&max_results=2&continuation_token={token}"), "").await;
    assert_eq!(names(&second), ["a3"]);
    assert_eq!((&second["has_more"], &second["next_continuation_token"]), (&json!(false), &Value::Null));
    let (status, all) = lab.client.json("GET", "?max_results=1000", "").await;
    assert_eq!((status, names(&all).len(), &all["has_more"]), (StatusCode::OK, 4, &json!(false)));
    assert_eq!(lab.client.json("GET", "?max_results=x", "").await.0, StatusCode::BAD_REQUEST);
    lab.server.stop().await;
}

#[tokio::test]
async fn updates_change_what_they_name() {
    let lab = Lab::with("one").await;
    let (status, got) =
        lab.client.json("PUT", "/one", r#"{"labels":["x"],"url_settings":{"private_access":"admins"}}"#).await;
    assert_eq!((status, &got["labels"]), (StatusCode::OK, &json!(["x"])));
    assert_eq!(got["url_settings"], json!({ "auth": "sprite", "private_access": "admins" }));
    let (_, got) = lab.client.json("PUT", "/one", r#"{"url_settings":{"auth":"public"}}"#).await;
    assert_eq!((&got["labels"], &got["url_settings"]["auth"]), (&json!(["x"]), &json!("public")));
    let (_, got) = lab.client.json("PUT", "/one", r#"{"clear_labels":true}"#).await;
    assert_eq!(got["labels"], json!([]));
    assert_eq!(lab.client.json("PUT", "/one", r#"{"url_settings":{"auth":"x"}}"#).await.0, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn a_policy_comes_back_verbatim() {
    let lab = Lab::with("one").await;
    let path = "/one/policy/network";
    assert_eq!(lab.client.json("GET", path, "").await, (StatusCode::OK, json!({ "rules": [] })));
    let rules = json!({ "rules": [
        { "domain": "*.Example.com", "action": "allow" },
        { "include": "defaults" },
        { "domain": "*", "action": "deny" },
        { "domain": "a.example.com", "action": "deny" },
    ] });
    let response = lab.client.request("POST", path, rules.to_string()).await.unwrap();
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert_eq!(response.headers()["sprite-version"], "v0.0.1-rc46");
    assert_eq!(response.text().await.unwrap(), "");
    assert_eq!(lab.client.json("GET", path, "").await.1, rules);
    let (status, text) = lab.client.call("POST", path, r#"{"rules":[{"domain":"*","action":"maybe"}]}"#).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.contains("rule 0") && !text.starts_with('{'), "{text}");
    assert_eq!(lab.client.json("GET", path, "").await.1, rules);
    // Its supervisor answers: a policy call wakes, where it is not set to hang.
    assert_eq!(lab.client.json("GET", "/one", "").await.1["status"], "running");
}

#[tokio::test]
async fn deleting_leaves_nothing() {
    let lab = Lab::with("one").await;
    // The disk, in the holder's namespace.
    let own = mounts_of(lab.data.path());
    let first = lab.client.json("GET", "/one", "").await.1;
    lab.client.call("POST", "/one/policy/network", r#"{"rules":[{"domain":"*","action":"deny"}]}"#).await;
    lab.client.sh("one", "mkdir -p /workspace/deep/er && chmod 000 /workspace/deep && echo x > ~/file").await;
    // Four processes that resist, one of them in a session of its own.
    let mark = format!("86{}", std::process::id());
    let script = format!("trap '' TERM HUP INT; setsid sleep {mark} & sleep {mark} & (sleep {mark} &) ; echo up; wait");
    let mut busy = lab.client.start("one", &["bash", "-c", &script], &[]).await;
    busy.until("up").await;
    assert!(processes_with(&mark).len() >= 3);
    assert!(mounts_of(lab.data.path()).len() > own.len(), "this test would see no mount");

    let response = lab.client.request("DELETE", "/one", "").await.unwrap();
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert_eq!(response.text().await.unwrap(), "");
    assert_eq!(processes_with(&mark), Vec::<std::path::PathBuf>::new());
    assert_eq!(mounts_of(lab.data.path()), own);
    for part in ["sprites", "trash", "incoming"] {
        assert_eq!(std::fs::read_dir(lab.data.path().join(part)).unwrap().count(), 0, "{part}");
    }
    // Nobody knows how that command ended.
    assert_eq!(busy.finish().await.code, None);
    assert_eq!(lab.client.json("GET", "/one", "").await.0, StatusCode::NOT_FOUND);
    assert_eq!(lab.client.json("DELETE", "/one", "").await.0, StatusCode::NOT_FOUND);

    let second = lab.client.create("one").await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!(lab.client.json("GET", "/one/policy/network", "").await.1, json!({ "rules": [] }));
    assert_eq!(lab.client.sh("one", "ls -A ~ /workspace /tmp").await, "/home/sprite:\n\n/tmp:\n\n/workspace:\n");
    lab.server.stop().await;
}

#[tokio::test]
async fn the_log_tells_what_was_asked() {
    let lab = Lab::with("one").await;
    lab.client.call("POST", "/one/policy/network", r#"{"rules":[{"domain":"*","action":"deny"}]}"#).await;
    lab.client.run("one", &["echo", "a b"]).await;
    lab.client.call("DELETE", "/one", "").await;
    let log = lab.log().await;
    let events: Vec<&str> = log.iter().map(|(event, _)| event.as_str()).collect();
    assert_eq!(events, ["create", "wake", "policy-set", "exec", "exec-end", "sleep", "delete"]);
    assert_eq!(log[3].1["argv"], json!(["echo", "a b"]));
    assert_eq!(log[3].1["policy"]["rules"][0]["action"], "deny");
    assert!(
        log.iter().all(|(_, line)| line["sprite"] == "one" && line["id"] == log[0].1["id"] && line["at"].is_string())
    );
}

#[tokio::test]
async fn absurd_requests_are_refused() {
    let lab = Lab::with("one").await;
    let huge = "x".repeat(2 << 20);
    assert_eq!(lab.client.call("POST", "", huge.clone()).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(lab.client.call("POST", "/one/policy/network", huge).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let long = format!("/one/exec?cmd={}", "x".repeat(60_000));
    assert!(
        lab.client.call("GET", &long, "").await.0.is_success()
            || lab.client.call("GET", &long, "").await.0.is_client_error()
    );
    assert_eq!(lab.client.call("PATCH", "/one", "").await.0, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(lab.client.call("POST", "/one/checkpointed", "").await.0, StatusCode::NOT_FOUND);
    assert_eq!(lab.client.json("GET", "/one", "").await.0, StatusCode::OK);
}
