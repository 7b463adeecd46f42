//! Files by HTTP, and that no link of the guest leads out of it.

use std::path::Path;

use http::StatusCode;
use serde_json::{Value, json};

use super::support::{Lab, TOKEN};

#[tokio::test]
async fn what_is_written_is_read() {
    let lab = Lab::with("one").await;
    let data: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let (status, text) =
        lab.client.call("PUT", "/one/fs/write?path=a/b.bin&workingDir=/workspace&mode=0640", data.clone()).await;
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (status, &answer),
        (StatusCode::OK, &json!({ "path": "/workspace/a/b.bin", "size": 300_000, "mode": "0640" }))
    );
    assert_eq!(
        lab.client.sh("one", "stat -c '%a %U %s' /workspace/a/b.bin; ls -A /workspace/a").await,
        "640 sprite 300000\nb.bin\n"
    );

    // A mode is for a file that is made; one that is there keeps its own, wider or narrower.
    for mode in ["0600", "0777"] {
        let path = format!("/one/fs/write?path=/workspace/a/b.bin&mode={mode}");
        let (_, text) = lab.client.call("PUT", &path, data.clone()).await;
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["mode"], "0640", "{mode}");
    }
    assert_eq!(lab.client.sh("one", "stat -c %a /workspace/a/b.bin").await, "640\n");

    let read = lab.client.request("GET", "/one/fs/read?path=/workspace/a/b.bin", "").await.unwrap();
    assert!(read.bytes().await.unwrap() == data);

    let (status, list) = lab.client.json("GET", "/one/fs/list?path=.&workingDir=/workspace&recursive=true", "").await;
    assert_eq!((status, &list["count"]), (StatusCode::OK, &json!(2)));
    assert_eq!((&list["entries"][0]["name"], &list["entries"][0]["isDir"]), (&json!("a"), &json!(true)));
    let (_, stat) = lab.client.json("GET", "/one/fs/list?path=/workspace/a/b.bin", "").await;
    assert_eq!(stat["count"], 1);
    assert_eq!(
        (&stat["entries"][0]["size"], &stat["entries"][0]["mode"], &stat["entries"][0]["type"]),
        (&json!(300_000), &json!("0640"), &json!("file"))
    );

    assert_eq!(lab.client.json("DELETE", "/one/fs/delete?path=/workspace/a", "").await.0, StatusCode::BAD_REQUEST);
    let (status, gone) =
        lab.client.json("DELETE", "/one/fs/delete", r#"{"path":"/workspace/a","recursive":true}"#).await;
    assert_eq!((status, gone), (StatusCode::OK, json!({ "deleted": ["/workspace/a"], "count": 1 })));
    assert_eq!(lab.client.sh("one", "ls -A /workspace").await, "");
    lab.server.stop().await;
}

/// Answered when it has been sent: a client that is still sending sees a connection that breaks, and no answer.
#[tokio::test]
async fn a_large_body_that_is_refused_has_an_answer() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "mkfifo /workspace/in-the-way").await;
    for _ in 0..5 {
        let path = "/one/fs/write?path=/workspace/in-the-way/f&mkdirParents=true";
        let (status, text) = lab.client.call("PUT", path, vec![0; 8 << 20]).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
    }
    lab.server.stop().await;
}

/// Nobody has it open for writing any more: else the kernel would say that it is busy.
#[tokio::test]
async fn a_program_can_be_executed_as_soon_as_it_is_written() {
    let lab = Lab::with("one").await;
    let (lab, program) = (&lab, "#!/bin/sh\nexit 7\n");
    let each = |worker: u32| async move {
        for n in 0..40 {
            let file = format!("/workspace/{worker}-{n}");
            let path = format!("/one/fs/write?path={file}&mode=0755");
            assert_eq!(lab.client.call("PUT", &path, program).await.0, StatusCode::OK);
            let ran = lab.client.run("one", &[&file]).await;
            assert_eq!(ran.code, Some(7), "{}", ran.err());
        }
    };
    futures::future::join_all((0..8).map(each)).await;
}

#[tokio::test]
async fn a_range_is_a_part() {
    let lab = Lab::with("one").await;
    lab.client.call("PUT", "/one/fs/write?path=/workspace/f", "0123456789").await;
    let url = format!("{}/one/fs/read?path=/workspace/f", lab.client.base);
    let cases = [
        (None, 200, None, "0123456789"),
        (Some("bytes=2-4"), 206, Some("bytes 2-4/10"), "234"),
        (Some("bytes=-3"), 206, Some("bytes 7-9/10"), "789"),
        (Some("bytes=8-100"), 206, Some("bytes 8-9/10"), "89"),
        (Some("bytes=10-"), 416, Some("bytes */10"), ""),
        (Some("lines=1-2"), 200, None, "0123456789"),
    ];
    for (range, status, extent, body) in cases {
        let mut request = lab.client.http.get(&url).bearer_auth(TOKEN);
        if let Some(range) = range {
            request = request.header("Range", range);
        }
        let response = request.send().await.unwrap();
        let got = response.headers().get("content-range").map(|value| value.to_str().unwrap());
        assert_eq!((response.status().as_u16(), got), (status, extent), "{range:?}");
        assert_eq!(response.text().await.unwrap(), body, "{range:?}");
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn errors_carry_their_code() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "mkdir /workspace/d && touch /workspace/d/f && mkfifo /workspace/fifo && touch ~/f").await;
    let cases = [
        ("GET", "read?path=/workspace/none", 404, "ENOENT", "no such file"),
        ("GET", "read?path=/workspace/d", 400, "EISDIR", "is a directory"),
        ("GET", "read?path=/workspace/d/f/g", 400, "ENOTDIR", "not a directory"),
        ("GET", "read?path=/workspace/fifo", 400, "EINVAL", "invalid"),
        ("GET", "read", 400, "EINVAL", "invalid path"),
        ("GET", "list?path=/nothing", 404, "ENOENT", "no such file"),
        ("PUT", "write?path=/.sprite/x", 403, "EACCES", "permission denied"),
        ("PUT", "write?path=/workspace/d", 400, "EISDIR", "is a directory"),
        ("PUT", "write?path=/workspace/p/q&mkdirParents=false", 404, "ENOENT", "no such file"),
        ("PUT", "write?path=/workspace/x&mode=9", 400, "EINVAL", "invalid mode"),
        ("DELETE", "delete?path=/workspace/none", 404, "ENOENT", "no such file"),
        ("DELETE", "delete?path=/workspace/d", 400, "ENOTEMPTY", "not empty"),
    ];
    for (method, path, status, code, words) in cases {
        let (got, body) = lab.client.json(method, &format!("/one/fs/{path}"), "").await;
        assert_eq!((got.as_u16(), &body["code"]), (status, &json!(code)), "{method} {path}: {body}");
        assert!(body["error"].as_str().unwrap().contains(words), "{body}");
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn a_write_that_breaks_off_leaves_the_old_file() {
    let lab = Lab::with("one").await;
    lab.client.call("PUT", "/one/fs/write?path=/workspace/f", "old").await;
    let broken = futures::stream::iter([Ok(vec![b'x'; 100_000]), Err(std::io::Error::other("gone"))]);
    let sent = lab.client.request("PUT", "/one/fs/write?path=/workspace/f", reqwest::Body::wrap_stream(broken)).await;
    assert!(sent.is_err());
    let client = &lab.client;
    super::support::eventually("no leftover", async || {
        client.sh("one", "cat /workspace/f; ls -A /workspace").await == "oldf\n"
    })
    .await;
    lab.server.stop().await;
}

#[tokio::test]
async fn links_lead_nowhere_but_into_the_guest() {
    let lab = Lab::with("one").await;
    let outside = lab.data.path().join("outside");
    std::fs::write(&outside, "secret of the host").unwrap();
    let outside = outside.to_str().unwrap();
    let script = format!(
        "cd /workspace; ln -s {outside} direct; ln -s ../../../../..{outside} climbing; ln -s / root; ln -s /etc/shadow shadow; ln -s /etc/passwd passwd; ln -s /proc/1/root{outside} proc; ln -s /proc/1/environ environ; ln -s /proc/self/fd/0 fd"
    );
    lab.client.sh("one", &script).await;
    for path in ["direct", "climbing", &format!("root{outside}"), "shadow", "proc", "environ", "fd"] {
        for query in [
            format!("read?path=/workspace/{path}"),
            format!("read?path=../../workspace/{path}&workingDir=/home/sprite"),
        ] {
            let (status, text) = lab.client.call("GET", &format!("/one/fs/{query}"), "").await;
            assert!(status.is_client_error(), "{query}: {status} {text}");
            assert!(!text.contains("secret of the host"), "{query}");
        }
    }
    // Within the guest a link works, and shows the guest's file.
    let (status, text) = lab.client.call("GET", "/one/fs/read?path=/workspace/passwd", "").await;
    assert_eq!(status, StatusCode::OK);
    assert!(text.contains("sprite:x:1000:1000") && text.lines().count() == 3, "{text}");
    let (hosts, there) = (std::fs::read("/etc/passwd").unwrap(), Path::new("/usr/made-by-one"));
    for (path, expected) in [
        // Where they lead nothing is: the link itself is replaced.
        ("direct", StatusCode::OK),
        ("climbing", StatusCode::OK),
        ("root/etc/passwd", StatusCode::OK),
        ("passwd", StatusCode::OK),
        ("root/usr/made-by-one", StatusCode::OK),
        ("root/.sprite/version.txt", StatusCode::FORBIDDEN),
    ] {
        let (status, _) = lab
            .client
            .call("PUT", &format!("/one/fs/write?path=/workspace/{path}&mkdirParents=false"), "overwritten")
            .await;
        assert_eq!(status, expected, "{path}");
    }
    lab.client.call("DELETE", "/one/fs/delete?path=/workspace/root&recursive=true", "").await;
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "secret of the host");
    assert!(std::fs::read("/etc/passwd").unwrap() == hosts && !there.exists());
    lab.server.stop().await;
}
