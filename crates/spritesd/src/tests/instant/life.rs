//! A Sprite's life without a guest: files, policy, checkpoints, sleep, and what a new server finds.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use runner_protocol::Guard;
use serde_json::json;

use super::super::support::{TOKEN, eventually, program, settings};
use super::*;
use crate::{Config, Server, StartError};

async fn serve(data: &Path, flags: &[&str]) -> Result<Server, StartError> {
    let any = "127.0.0.1:0".parse().unwrap();
    let (data, token, program) = (data.to_owned(), TOKEN.into(), program());
    crate::start(Config {
        listen: any,
        admin: None,
        data,
        token,
        faults: Vec::new(),
        program,
        settings: settings(flags),
    })
    .await
}

#[tokio::test]
async fn a_new_server_finds_files_and_policy_and_knows_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(dir.path(), &["--guest", "instant"]).await.unwrap();
    let client = Client::new(&format!("http://{}", server.address()));
    let made = client.create("one").await;
    install(&client).await;
    run(&client, &launch("u-1", "true")).await;
    let policy = json!({ "rules": [{ "domain": "example.com", "action": "allow" }] });
    client.call("POST", "/one/policy/network", policy.to_string()).await;
    client.json("PUT", "/one", r#"{"labels":["kept"]}"#).await;
    client.call("PUT", "/one/fs/write?path=/workspace/a", "kept").await;
    server.stop().await;

    let Err(refused) = serve(dir.path(), &["--network", "none"]).await else { panic!("served") };
    assert!(refused.to_string().contains("holds Sprites of --guest instant: give another --data"), "{refused}");
    let server = serve(dir.path(), &["--guest", "instant"]).await.unwrap();
    let client = Client::new(&format!("http://{}", server.address()));
    let found = client.json("GET", "/one", "").await.1;
    assert_eq!((&found["id"], &found["status"], &found["labels"]), (&made["id"], &json!("cold"), &json!(["kept"])));
    assert_eq!(client.json("GET", "/one/policy/network", "").await.1, policy);
    assert_eq!(client.call("GET", "/one/fs/read?path=/workspace/a", "").await.1, "kept");
    assert_eq!(run(&client, &launch("u-2", "true")).await.code, Some(90), "to be locked down again");
    install(&client).await;
    assert_eq!(fence(&client, "u-1").await.guard, Guard::Never, "as documented");
    assert_eq!(run(&client, &launch("u-2", "true")).await.code, Some(0));
    server.stop().await;
}

#[tokio::test]
async fn another_sprite_of_the_same_name_knows_nothing() {
    let lab = lab(&[]).await;
    run(&lab.client, &launch("u-1", "true")).await;
    lab.faults(r#"[{"route":"get","effect":"instance-replaced","count":1}]"#).await;
    lab.client.call("GET", "/one", "").await;
    assert_eq!(lab.client.run("one", &[RUNNER, "so-state", "u-1"]).await.code, Some(127), "without a file");
    install(&lab.client).await;
    assert_eq!(state(&lab.client, "u-1").await, State::Absent);
    assert_eq!(lab.client.call("DELETE", "/one", "").await.0, StatusCode::NO_CONTENT);
    let root = lab.data.path().join("instant");
    let left: Vec<_> = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["shared"]);
    lab.server.stop().await;
}

#[tokio::test]
async fn file_calls_are_answered_as_by_a_guest() {
    let lab = lab(&[]).await;
    let client = &lab.client;
    let json = async |method: &str, path: &str, body: Value| client.json(method, path, &body.to_string()).await;
    let (status, written) = json("PUT", "/one/fs/write?path=a/b&workingDir=/workspace&mode=0640", json!("x")).await;
    assert_eq!((status, written), (StatusCode::OK, json!({ "path": "/workspace/a/b", "size": 3, "mode": "0640" })));
    let (_, list) = json("GET", "/one/fs/list?path=/workspace&recursive=true", Value::Null).await;
    let paths: Vec<_> = list["entries"].as_array().unwrap().iter().map(|entry| entry["path"].clone()).collect();
    assert_eq!(paths, ["/workspace/a", "/workspace/a/b"]);
    let (_, list) = json("GET", "/one/fs/list?path=/", Value::Null).await;
    let names: Vec<_> = list["entries"].as_array().unwrap().iter().map(|entry| entry["name"].clone()).collect();
    assert_eq!(names, ["home", "tmp", "workspace"]);
    let copy = json!({ "source": "/workspace/a", "dest": "/workspace/c", "recursive": true });
    let (_, copied) = json("POST", "/one/fs/copy", copy).await;
    assert_eq!((&copied["count"], &copied["copied"][1]["dest"]), (&json!(2), &json!("/workspace/c/b")));
    let rename = json!({ "source": "/workspace/c/b", "dest": "/workspace/d" });
    assert_eq!(json("POST", "/one/fs/rename", rename).await.0, StatusCode::OK);
    let (_, owned) = json("POST", "/one/fs/chown", json!({ "path": "/workspace/d", "uid": "sprite" })).await;
    assert_eq!(owned["affected"], json!([{ "path": "/workspace/d", "uid": 1000, "gid": 1000 }]));
    let (status, refused) = json("POST", "/one/fs/chown", json!({ "path": "/workspace/d", "uid": "0" })).await;
    assert_eq!((status, &refused["code"]), (StatusCode::FORBIDDEN, &json!("EPERM")));
    let (status, missing) = json("GET", "/one/fs/read?path=/workspace/../../none", Value::Null).await;
    let path = missing["path"].as_str().unwrap();
    assert_eq!((status, &missing["code"]), (StatusCode::NOT_FOUND, &json!("ENOENT")));
    assert_eq!((path, &missing["error"]), ("/none", &json!("/none: no such file or directory")));
    assert_eq!(json("DELETE", "/one/fs/delete", json!({ "path": "/workspace/d" })).await.0, StatusCode::OK);
    lab.server.stop().await;
}

#[tokio::test]
async fn checkpoints_hold_files_and_guards_outlive_them() {
    let lab = lab(&[]).await;
    let client = &lab.client;
    client.call("PUT", "/one/fs/write?path=/workspace/a", "first").await;
    let (_, told) = client.call("POST", "/one/checkpoint", r#"{"comment":"c"}"#).await;
    assert!(told.contains("Checkpoint v1 created successfully"), "{told}");
    client.call("PUT", "/one/fs/write?path=/workspace/a", "second").await;
    run(client, &launch("u-1", "true")).await;
    let (_, told) = client.call("POST", "/one/checkpoints/v1/restore", "").await;
    assert!(told.contains("Restore from v1 complete"), "{told}");
    assert_eq!(client.call("GET", "/one/fs/read?path=/workspace/a", "").await.1, "first");
    assert_eq!(run(client, &launch("u-1", "true")).await.code, Some(91));
    client.call("POST", "/one/checkpoints/v0/restore", "").await;
    assert_eq!(run(client, &launch("u-2", "true")).await.code, Some(127), "the runner was not there then");
    assert_eq!(client.call("DELETE", "/one/checkpoints/v1", "").await.0, StatusCode::NO_CONTENT);
    lab.server.stop().await;
}

#[tokio::test]
async fn it_sleeps_and_wakes_and_keeps_its_memory() {
    let lab = lab(&["--idle-after", "50ms", "--cold-after", "50ms", "--boot", "create"]).await;
    run(&lab.client, &launch("u-1", "true")).await;
    eventually("it is cold", async || lab.client.json("GET", "/one", "").await.1["status"] == "cold").await;
    assert_eq!(lab.client.json("GET", "/one/check", "").await.1["status"], "hibernated");
    assert_eq!(run(&lab.client, &launch("u-1", "true")).await.code, Some(91));
    assert_eq!(lab.client.json("GET", "/one/check", "").await.1["status"], "healthy");
    let service = r#"{"cmd":"sleep","args":["1"]}"#;
    let (_, told) = lab.client.call("PUT", "/one/services/s?duration=0", service).await;
    let (status, listed) = lab.client.json("GET", "/one/services", "").await;
    assert_eq!((status, &listed[0]["name"]), (StatusCode::OK, &json!("s")), "{told}");
    lab.server.stop().await;
}

#[tokio::test]
async fn all_sprites_share_one_runner() {
    let lab = lab(&[]).await;
    lab.client.create("two").await;
    let file = format!("{RUNNER}.0002");
    lab.client.call("PUT", &format!("/two/fs/write?path={file}&mode=0755"), "the runner's bytes").await;
    lab.client.run("two", &[&file, "so-install", HASH, "nonce-2", "/workspace"]).await;
    let shared = std::fs::metadata(lab.data.path().join("instant/shared").join(HASH)).unwrap();
    assert_eq!(shared.nlink(), 3);
    lab.server.stop().await;
}
