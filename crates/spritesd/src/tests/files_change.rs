//! Calls that change trees of files: rename, copy, chmod, chown; and names and patterns of all kinds.

use http::StatusCode;
use serde_json::{Value, json};

use super::support::Lab;

async fn post(lab: &Lab, call: &str, body: Value) -> (u16, Value) {
    let (status, answer) = lab.client.json("POST", &format!("/one/fs/{call}"), &body.to_string()).await;
    (status.as_u16(), answer)
}

#[tokio::test]
async fn a_rename_moves_also_between_file_systems() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "cd /workspace; mkdir -p d/e; echo 1 > d/e/f; ln -s e d/link; chmod 750 d; chmod 4711 d/e/f; touch -d 2001-01-01 d/e/f; echo old > taken").await;
    for (source, dest) in
        [("/workspace/d", "/workspace/moved"), ("/workspace/moved", "/tmp/far"), ("/tmp/far", "/home/sprite/d")]
    {
        let answer = post(&lab, "rename", json!({ "source": source, "dest": dest })).await;
        assert_eq!(answer, (200, json!({ "source": source, "dest": dest })));
        let seen = lab
            .client
            .sh(
                "one",
                &format!("cd {dest}; stat -c %a . e/f; stat -c %Y e/f; readlink link; cat e/f; test ! -e {source}"),
            )
            .await;
        assert_eq!(seen, "750\n4711\n978307200\ne\n1\n", "{dest}");
    }
    // A file replaces a file, and relative paths begin at the working directory.
    let body = json!({ "source": "d/e/f", "dest": "/workspace/taken", "workingDir": "/home/sprite", "asRoot": true });
    assert_eq!(post(&lab, "rename", body).await.0, 200);
    assert_eq!(
        lab.client.sh("one", "cat /workspace/taken; ls -A /workspace /tmp").await,
        "1\n/tmp:\n\n/workspace:\ntaken\n"
    );
    lab.server.stop().await;
}

#[tokio::test]
async fn a_copy_is_whole_and_leaves_the_source() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "cd /workspace; mkdir -p d/e d/ro; echo 123 > d/e/f; ln -s nowhere d/link; mkfifo d/fifo; touch d/ro/x; chmod 500 d/ro; chmod 4751 d/e/f; touch -d 2001-01-01 d/e/f; head -c 3000000 /dev/urandom > big").await;
    let (status, answer) = post(&lab, "copy", json!({ "source": "/workspace/big", "dest": "/tmp/big" })).await;
    assert_eq!((status, &answer["totalBytes"], &answer["count"]), (200, &json!(3_000_000), &json!(1)));
    assert_eq!(answer["copied"], json!([{ "source": "/workspace/big", "dest": "/tmp/big" }]));
    lab.client.sh("one", "cmp /workspace/big /tmp/big").await;

    let tree = |preserve: bool, dest: &str| json!({ "source": "/workspace/d", "dest": dest, "recursive": true, "preserveAttrs": preserve });
    for (preserve, dest, attributes) in
        [(true, "/tmp/same", "4751 978307200\n500\n"), (false, "/tmp/new", "751\n500\n")]
    {
        let (status, answer) = post(&lab, "copy", tree(preserve, dest)).await;
        assert_eq!((status, &answer["count"], &answer["totalBytes"]), (200, &json!(7), &json!(4)), "{answer}");
        let format = if preserve { "%a %Y" } else { "%a" };
        let seen = lab.client.sh("one", &format!("cd {dest}; stat -c '{format}' e/f; stat -c %a ro; cat e/f; readlink link; test -p fifo; test -f ro/x")).await;
        assert_eq!(seen, format!("{attributes}123\nnowhere\n"));
    }
    // Into a directory that is there: joined with it. Over a file: replaced, its mode kept.
    lab.client.sh("one", "mkdir /tmp/joined; echo kept > /tmp/joined/mine; mkdir /tmp/joined/e; echo old > /tmp/joined/e/f; chmod 600 /tmp/joined/e/f").await;
    assert_eq!(post(&lab, "copy", tree(false, "/tmp/joined")).await.0, 200);
    assert_eq!(lab.client.sh("one", "cd /tmp/joined; cat mine e/f; stat -c %a e/f").await, "kept\n123\n600\n");
    lab.server.stop().await;
}

#[tokio::test]
async fn modes_are_set_on_one_or_all() {
    let lab = Lab::with("one").await;
    lab.client
        .sh(
            "one",
            "cd /workspace; mkdir -p d/e; touch d/e/f; ln -s /workspace/target d/e/link; touch target; ln -s d linked",
        )
        .await;
    let mode = |path: &str, mode: Value, recursive: bool| json!({ "path": path, "mode": mode, "recursive": recursive, "workingDir": "/workspace" });
    let (status, answer) = post(&lab, "chmod", mode("target", json!("0751"), false)).await;
    assert_eq!(
        (status, answer),
        (200, json!({ "affected": [{ "path": "/workspace/target", "mode": "0751" }], "count": 1 }))
    );
    assert_eq!(post(&lab, "chmod", mode("target", json!(0o640), false)).await.1["affected"][0]["mode"], "0640");
    // Also where the new mode, or the old one, bars the way; and no link is followed but the one named.
    for bits in ["0000", "0711", "0200", "0700"] {
        let (status, answer) = post(&lab, "chmod", mode("linked", json!(bits), true)).await;
        assert_eq!((status, &answer["count"]), (200, &json!(3)), "{bits}: {answer}");
    }
    assert_eq!(lab.client.sh("one", "cd /workspace; stat -c %a d d/e d/e/f target").await, "700\n700\n700\n640\n");
    lab.server.stop().await;
}

#[tokio::test]
async fn owners_can_only_be_ones_own() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "mkdir -p /workspace/d; touch /workspace/d/f; ln -s nowhere /workspace/d/link").await;
    let own = json!({ "affected": [{ "path": "/workspace/d/f", "uid": 1000, "gid": 1000 }], "count": 1 });
    for (user, group) in [(json!(1000), json!(1000)), (json!("sprite"), json!("sprite")), (json!("1000"), Value::Null)]
    {
        let body = json!({ "path": "/workspace/d/f", "uid": user, "gid": group });
        assert_eq!(post(&lab, "chown", body).await, (200, own.clone()), "{user}");
    }
    let body = json!({ "path": "/workspace/d", "uid": "sprite", "recursive": true });
    assert_eq!(post(&lab, "chown", body).await.1["count"], 3);
    for user in [json!(0), json!("root"), json!(1001), json!("nobody")] {
        let (status, answer) =
            post(&lab, "chown", json!({ "path": "/workspace/d/f", "uid": user, "asRoot": true })).await;
        assert_eq!((status, &answer["code"]), (403, &json!("EPERM")), "{user}");
    }
    for body in [
        json!({ "path": "/workspace/d/f" }),
        json!({ "path": "/workspace/d/f", "gid": "none" }),
        json!({ "path": "/workspace/d/f", "uid": -1 }),
    ] {
        assert_eq!(post(&lab, "chown", body.clone()).await.1["code"], "EINVAL", "{body}");
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn what_cannot_be_changed() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "cd /workspace; mkdir -p d/full e; touch d/full/x f; mkfifo fifo").await;
    let pair = |source: &str, dest: &str| json!({ "source": source, "dest": dest, "workingDir": "/workspace" });
    let tree = |source: &str, dest: &str| json!({ "source": source, "dest": dest, "workingDir": "/workspace", "recursive": true });
    for (call, body, status, code) in [
        ("rename", pair("none", "x"), 404, "ENOENT"),
        ("rename", pair("f", "no/such/place"), 404, "ENOENT"),
        ("rename", pair("e", "d/full"), 400, "ENOTEMPTY"),
        ("rename", pair("f", "d"), 400, "EISDIR"),
        ("rename", pair("d", "d/full/d"), 400, "EINVAL"),
        ("rename", pair("f", "/.sprite/f"), 403, "EACCES"),
        ("rename", json!({ "source": "f" }), 400, "EINVAL"),
        ("copy", pair("none", "x"), 404, "ENOENT"),
        ("copy", pair("d", "x"), 400, "EISDIR"),
        ("copy", pair("f", "d"), 400, "EISDIR"),
        ("copy", pair("f", "f"), 400, "EINVAL"),
        ("copy", pair("f", "f/x"), 400, "ENOTDIR"),
        ("copy", tree("d", "f"), 400, "ENOTDIR"),
        ("copy", tree("d", "d/full/d"), 400, "EINVAL"),
        ("copy", pair("f", "no/x"), 404, "ENOENT"),
        ("copy", pair("f", "/.sprite/bin/f"), 403, "EACCES"),
        ("copy", pair("/proc/self/environ", "x"), 403, "EACCES"),
        ("copy", pair("/proc/1/maps", "x"), 403, "EACCES"),
        ("chmod", json!({ "path": "/workspace/none", "mode": "644" }), 404, "ENOENT"),
        ("chmod", json!({ "path": "/.sprite/bin/sudo", "mode": "777" }), 403, "EACCES"),
        ("chmod", json!({ "path": "/workspace/f" }), 400, "EINVAL"),
        ("chmod", json!({ "path": "/workspace/f", "mode": "rwx" }), 400, "EINVAL"),
        ("chmod", json!({ "path": "/workspace/f", "mode": "0644", "recursive": "perhaps" }), 400, "EINVAL"),
        ("chown", json!({ "path": "/workspace/none", "uid": 1000 }), 404, "ENOENT"),
    ] {
        let (got, answer) = post(&lab, call, body.clone()).await;
        assert_eq!((got, &answer["code"]), (status, &json!(code)), "{call} {body}: {answer}");
        assert!(answer["error"].is_string() && answer["path"].is_string(), "{answer}");
    }
    for body in ["", "[", "[]", "\"x\""] {
        let (status, _) = lab.client.call("POST", "/one/fs/rename", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
    }
    assert_eq!(
        lab.client.sh("one", "cd /workspace; find . | sort | tr '\\n' ' '").await,
        ". ./d ./d/full ./d/full/x ./e ./f ./fifo "
    );
    lab.server.stop().await;
}

#[tokio::test]
async fn any_name_and_any_content_survive() {
    let lab = Lab::with("one").await;
    let all: Vec<u8> = (0..=255u8).cycle().take(10_000).collect();
    let names = [
        "a b",
        "ü€漢🙂",
        "new\nline",
        "per%cent+plus&amp=#?",
        "-dash",
        "\"quotes'\\",
        "\u{1}\u{7f}",
        "a*[x]",
        "...",
        &"n".repeat(255),
    ];
    for name in names {
        let encoded: String = url::form_urlencoded::byte_serialize(format!("/workspace/{name}").as_bytes()).collect();
        for content in [&all[..], b"", b"\r\n\0"] {
            let (status, text) =
                lab.client.call("PUT", &format!("/one/fs/write?path={encoded}"), content.to_vec()).await;
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (status, &answer["path"], &answer["size"]),
                (StatusCode::OK, &json!(format!("/workspace/{name}")), &json!(content.len()))
            );
            let read = lab.client.request("GET", &format!("/one/fs/read?path={encoded}"), "").await.unwrap();
            assert!(read.bytes().await.unwrap() == content, "{name:?}");
        }
        let (_, stat) = lab.client.json("GET", &format!("/one/fs/list?path={encoded}"), "").await;
        assert_eq!(stat["entries"][0]["name"], name);
        let moved = format!("/tmp/{name}");
        assert_eq!(post(&lab, "copy", json!({ "source": format!("/workspace/{name}"), "dest": moved })).await.0, 200);
        assert_eq!(
            post(&lab, "rename", json!({ "source": moved, "dest": format!("/home/sprite/{name}") })).await.0,
            200
        );
    }
    let (_, list) = lab.client.json("GET", "/one/fs/list?path=/home/sprite", "").await;
    assert_eq!(list["count"], names.len());
    // Not UTF-8: refused, rather than taken for another name.
    let (status, _) = lab.client.call("GET", "/one/fs/read?path=/workspace/%FF", "").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    lab.server.stop().await;
}

#[tokio::test]
async fn a_pattern_chooses_what_is_listed() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "cd /workspace; mkdir -p src/deep; touch a.txt b.rs src/c.txt src/deep/d.txt").await;
    for (query, names) in [
        ("pattern=*.txt", vec!["a.txt"]),
        ("pattern=*.txt&recursive=true", vec!["a.txt", "c.txt", "d.txt"]),
        ("pattern=src/*.txt&recursive=true", vec!["c.txt", "d.txt"]),
        ("pattern=%5Bab%5D.*", vec!["a.txt", "b.rs"]),
        ("pattern=none", vec![]),
        ("pattern=", vec!["a.txt", "b.rs", "src"]),
    ] {
        let (_, list) = lab.client.json("GET", &format!("/one/fs/list?path=/workspace&{query}"), "").await;
        let got: Vec<&str> =
            list["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
        assert_eq!((got, list["count"].as_u64()), (names.clone(), Some(names.len() as u64)), "{query}");
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn a_tree_of_any_depth_can_be_listed_and_deleted() {
    let lab = Lab::with("one").await;
    let nest = async |depth: u32| {
        // A shell takes minutes for this.
        let script =
            format!("import os\nos.chdir('/workspace')\nfor i in range({depth}): os.mkdir('d'); os.chdir('d')\n");
        assert_eq!(lab.client.run("one", &["python3", "-c", &script]).await.code, Some(0));
    };
    nest(1500).await;
    let (status, list) = lab.client.json("GET", "/one/fs/list?path=/workspace&recursive=true", "").await;
    assert_eq!((status, &list["count"]), (StatusCode::OK, &json!(1500)));
    assert_eq!(
        lab.client.call("DELETE", "/one/fs/delete?path=/workspace/d&recursive=true", "").await.0,
        StatusCode::OK
    );
    assert_eq!(lab.client.sh("one", "ls -A /workspace").await, "");
    // Deeper than a path can be long: an error, and nothing falls over.
    nest(3000).await;
    let (status, answer) = lab.client.json("DELETE", "/one/fs/delete?path=/workspace/d&recursive=true", "").await;
    assert_eq!((status, &answer["code"]), (StatusCode::BAD_REQUEST, &json!("ENAMETOOLONG")));
    lab.client.sh("one", "rm -r /workspace/d").await;
    lab.server.stop().await;
}

#[tokio::test]
async fn a_listing_too_long_is_refused_and_not_cut_short() {
    let lab = Lab::with("one").await;
    lab.client.sh("one", "cd /workspace; seq 50001 | xargs touch").await;
    let (status, answer) = lab.client.json("GET", "/one/fs/list?path=/workspace", "").await;
    assert_eq!((status, &answer["code"]), (StatusCode::PAYLOAD_TOO_LARGE, &json!("E2BIG")));
    lab.client.sh("one", "rm /workspace/50001").await;
    let (_, list) = lab.client.json("GET", "/one/fs/list?path=/workspace", "").await;
    assert_eq!((list["entries"].as_array().unwrap().len(), list["count"].as_u64()), (50_000, Some(50_000)));
    lab.server.stop().await;
}

#[tokio::test]
async fn a_listing_that_cannot_be_whole_is_an_error() {
    let lab = Lab::with("one").await;
    let script = "cd ~ && mkdir deep && cd deep && name=$(printf 'd%.0s' {1..100}) && for n in {1..60}; do mkdir $name && cd $name || exit; done; cd /";
    lab.client.sh("one", script).await;
    let (status, body) = lab.client.json("GET", "/one/fs/list?path=/home/sprite/deep&recursive=true", "").await;
    assert_eq!((status.as_u16(), body["code"].as_str()), (400, Some("ENAMETOOLONG")), "{body}");
    let (status, body) = lab.client.json("GET", "/one/fs/list?path=/home/sprite/deep", "").await;
    assert_eq!((status.as_u16(), body["count"].as_u64()), (200, Some(1)));
    lab.server.stop().await;
}
