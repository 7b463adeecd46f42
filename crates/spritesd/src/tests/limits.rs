//! Limits: of the account, which answers 429, and of one Sprite, which must hurt nobody else.

use futures::StreamExt as _;
use http::StatusCode;
use serde_json::Value;

use super::support::{Lab, eventually};

#[tokio::test]
async fn too_many_creations_are_refused_with_everything_clients_read() {
    let lab = Lab::set(&["--create-limit", "2/1h"]).await;
    lab.client.create("one").await;
    lab.client.create("two").await;
    let response = lab.client.request("POST", "", r#"{"name":"three"}"#).await.unwrap();
    assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    let headers = response.headers().clone();
    let body: Value = response.json().await.unwrap();
    assert_eq!(body["error"], "sprite_creation_rate_limited");
    assert_eq!((body["limit"].as_u64(), body["current_count"].as_u64()), (Some(2), Some(2)));
    assert_eq!(body["window_seconds"], 3600);
    let wait = body["retry_after_seconds"].as_u64().unwrap();
    assert!((3500..=3601).contains(&wait), "{wait}");
    assert_eq!(headers["retry-after"], wait.to_string().as_str());
    assert_eq!(
        (&headers["x-ratelimit-limit"], &headers["x-ratelimit-remaining"]),
        (&"2".parse().unwrap(), &"0".parse().unwrap())
    );
    assert!(headers.contains_key("x-ratelimit-reset") && body["upgrade_available"].is_boolean());
    assert_eq!(lab.client.call("GET", "/three", "").await.0, StatusCode::NOT_FOUND);
    lab.server.stop().await;
}

#[tokio::test]
async fn too_many_running_sprites_are_refused_and_a_create_call_can_wait() {
    let lab = Lab::set(&["--running-limit", "1", "--idle-after", "1h"]).await;
    lab.client.create("one").await;
    lab.client.create("two").await;
    lab.client.sh("one", "true").await;
    let refused = lab.client.open("two", "", &[("cmd", "true")]).await;
    assert!(matches!(
        &refused,
        Err(tokio_tungstenite::tungstenite::Error::Http(response)) if response.status() == 429
    ));
    let (status, body) = lab.client.json("POST", "", r#"{"name":"three"}"#).await;
    assert_eq!((status.as_u16(), body["error"].as_str()), (429, Some("concurrent_sprite_limit_exceeded")));
    let client = lab.client.clone();
    let waiting =
        tokio::spawn(async move { client.call("POST", "", r#"{"name":"three","wait_for_capacity":true}"#).await.0 });
    assert_eq!(lab.client.call("DELETE", "/one", "").await.0, StatusCode::NO_CONTENT);
    assert_eq!(waiting.await.unwrap(), StatusCode::CREATED);
    assert_eq!(lab.client.run("two", &["true"]).await.code, Some(0));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_fork_bomb_hurts_one_sprite_only() {
    let lab = Lab::set(&["--process-limit", "64"]).await;
    lab.client.create("one").await;
    lab.client.create("two").await;
    let mut bomb = lab.client.start("one", &["bash", "-c", "echo up; f() { f | f & }; f; sleep 600"], &[]).await;
    bomb.until("up").await;
    for _ in 0..10 {
        assert_eq!(lab.client.sh("two", "echo fine").await, "fine\n");
    }
    // And it can still be got rid of.
    assert_eq!(lab.client.call("DELETE", "/one", "").await.0, StatusCode::NO_CONTENT);
    lab.server.stop().await;
}

#[tokio::test]
async fn a_full_disk_hurts_one_sprite_only_and_subvolumes_are_no_way_round() {
    let lab = Lab::set(&["--disk-limit", "16Mi"]).await;
    lab.client.create("one").await;
    lab.client.create("two").await;
    let fill = "head -c 100000000 /dev/zero > ~/big 2>/tmp/said; wc -c < ~/big";
    let written: u64 = lab.client.sh("one", fill).await.trim().parse().unwrap();
    assert!(written <= 16 << 20, "{written}");
    assert_eq!(lab.client.sh("two", "head -c 1000000 /dev/zero > ~/fine && wc -c < ~/fine").await.trim(), "1000000");
    // The ioctl that makes a subvolume, which would have a limit of its own, is refused.
    let subvolume = "import fcntl, os, sys\nfd = os.open('/home/sprite', os.O_RDONLY)\nargs = bytearray((0).to_bytes(8, 'little') + b'sub' + bytes(4085))\ntry:\n    fcntl.ioctl(fd, 0x5000940e, args, True)\n    print('made')\nexcept OSError as error:\n    print(error.errno)";
    let ran = lab.client.run("two", &["/usr/bin/python3", "-c", subvolume]).await;
    assert_eq!(ran.out(), "1\n", "{}", ran.err());
    lab.server.stop().await;
}

#[tokio::test]
async fn a_large_allocation_ends_its_process_and_not_the_sprite() {
    let lab = Lab::set(&["--memory-limit", "128Mi"]).await;
    lab.client.create("one").await;
    lab.client.create("two").await;
    let mut other =
        lab.client.start("one", &["bash", "-c", "echo up; read line; echo still"], &[("stdin", "true")]).await;
    other.until("up").await;
    let ran = lab.client.run("one", &["/usr/bin/python3", "-c", "x = bytearray(1 << 30); print(len(x))"]).await;
    assert_eq!((ran.code, ran.out().as_str()), (Some(137), ""), "{}", ran.err());
    assert_eq!(lab.client.sh("two", "echo fine").await, "fine\n");
    other.send(b"\0go\n").await;
    assert_eq!(other.finish().await.out(), "up\nstill\n");
    lab.server.stop().await;
}

#[tokio::test]
async fn ten_thousand_open_files_are_one_sprites_business() {
    let lab = Lab::with("one").await;
    lab.client.create("two").await;
    let script = "import os, resource\nhard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\nresource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\nfds = [os.open('/dev/null', 0) for _ in range(10000)]\nprint(len(fds), flush=True)\ninput()";
    let mut holder = lab.client.start("one", &["/usr/bin/python3", "-c", script], &[("stdin", "true")]).await;
    holder.until("10000").await;
    assert_eq!(lab.client.sh("two", "echo fine").await, "fine\n");
    drop(holder);
    lab.server.stop().await;
}

#[tokio::test]
async fn two_hundred_sprites_leave_nothing_behind() {
    let lab = Lab::new().await;
    // The holder's own: the disk.
    let mounts = super::support::mounts_of(lab.data.path()).len();
    let all = (0..200).map(|n| {
        let client = lab.client.clone();
        async move {
            let name = format!("many-{n}");
            client.create(&name).await;
            assert_eq!(
                client.sh(&name, "echo $HOSTNAME; setsid sleep 601 >/dev/null 2>&1 &").await,
                format!("{name}\n")
            );
            assert_eq!(client.call("DELETE", &format!("/{name}"), "").await.0, StatusCode::NO_CONTENT);
        }
    });
    futures::stream::iter(all).buffer_unordered(16).collect::<Vec<_>>().await;
    assert_eq!(super::support::processes_with(lab.data.path().to_str().unwrap()).len(), 0);
    let leftovers = |part: &str| std::fs::read_dir(lab.data.path().join(part)).map_or(0, Iterator::count);
    for part in ["sprites", "incoming", "trash", "files"] {
        assert_eq!(leftovers(part), 0, "{part}");
    }
    eventually("no mount is left", async || super::support::mounts_of(lab.data.path()).len() <= mounts).await;
    let groups = lab.server.app.registry.shared.groups.parents();
    for group in groups {
        let entries = std::fs::read_dir(group).unwrap().flatten();
        assert_eq!(entries.filter(|entry| entry.path().is_dir()).count(), 0);
    }
    let (_, list) = lab.client.json("GET", "", "").await;
    assert_eq!(list["sprites"].as_array().unwrap().len(), 0);
    lab.server.stop().await;
}
