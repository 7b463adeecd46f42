//! A session that outlives its sockets.

use std::time::{Duration, Instant};

use tokio_tungstenite::tungstenite;

use super::support::{Client, Lab, Seen, eventually};

async fn refusal(client: &Client, path: &str, query: &[(&str, &str)]) -> (u16, String) {
    match client.open("one", path, query).await {
        Err(tungstenite::Error::Http(response)) => {
            (response.status().as_u16(), String::from_utf8(response.body().clone().unwrap_or_default()).unwrap())
        }
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("accepted"),
    }
}

#[tokio::test]
async fn attaching_replays_and_goes_on() {
    let lab = Lab::with("one").await;
    let script = "echo before; read line; echo got $line; echo oops >&2; exit 4";
    let mut first = lab.client.start("one", &["bash", "-c", script], &[("stdin", "true")]).await;
    let id = first.id().await;
    first.until("before\n").await;
    drop(first);

    for (path, query) in [(format!("/{id}"), vec![]), (String::new(), vec![("id", id.as_str()), ("cmd", "")])] {
        let mut second = lab.client.open("one", &path, &query).await.unwrap();
        assert_eq!(second.headers["x-sprite-capabilities"], "signal");
        assert_eq!(second.id().await, id);
        assert_eq!(second.next().await, Seen::Stdout(b"before\n".to_vec()));
    }

    let mut third = lab.client.open("one", &format!("/{id}"), &[("stdin", "true")]).await.unwrap();
    // What clients send before they know what this is: must not end the program's input.
    third.send(&[4]).await;
    third.send(b"\0hello\n").await;
    let ran = third.finish().await;
    assert_eq!((ran.out().as_str(), ran.err().as_str()), ("before\ngot hello\n", "oops\n"));
    assert_eq!((ran.code, ran.close), (Some(4), Some(1000)));
    assert_eq!(refusal(&lab.client, &format!("/{id}"), &[]).await, (404, format!("session not found: {id}")));
    assert_eq!(lab.client.call("GET", &format!("/one/exec/{id}"), "").await.0.as_u16(), 404);
    lab.server.stop().await;
}

#[tokio::test]
async fn the_end_of_input_is_heeded_after_other_input() {
    let lab = Lab::with("one").await;
    let mut first = lab.client.start("one", &["cat"], &[("stdin", "true")]).await;
    let id = first.id().await;
    let mut second = lab.client.open("one", &format!("/{id}"), &[]).await.unwrap();
    second.send(&[4]).await;
    second.send(b"\0x").await;
    second.send(&[4]).await;
    // Both see all of it.
    let (a, b) = tokio::join!(first.finish(), second.finish());
    for ran in [a, b] {
        assert_eq!((ran.out().as_str(), ran.code, ran.close), ("x", Some(0), Some(1000)));
    }
    lab.server.stop().await;
}

#[tokio::test]
async fn a_long_scrollback_is_the_last_megabyte() {
    let lab = Lab::with("one").await;
    let script = "head -c 5000000 /dev/zero; echo the end; touch /workspace/done; read line";
    let query = [("stdin", "true"), ("max_run_after_disconnect", "1m")];
    let mut first = lab.client.start("one", &["bash", "-c", script], &query).await;
    let id = first.id().await;
    drop(first);
    let client = &lab.client;
    eventually("all is written", async || client.run("one", &["test", "-e", "/workspace/done"]).await.code == Some(0))
        .await;
    let mut second = lab.client.open("one", &format!("/{id}"), &[]).await.unwrap();
    second.send(b"\0\n").await;
    let ran = second.finish().await;
    assert!(ran.stdout.ends_with(b"the end\n"));
    assert!((500_000..1 << 20).contains(&ran.stdout.len()), "{}", ran.stdout.len());
    lab.server.stop().await;
}

#[tokio::test]
async fn an_unwatched_command_ends_after_its_time() {
    let lab = Lab::with("one").await;
    let mut exec = lab.client.start("one", &["sleep", "600"], &[("max_run_after_disconnect", "1s")]).await;
    let id = exec.id().await;
    let begun = Instant::now();
    drop(exec);
    assert_eq!(lab.client.sessions("one").await.len(), 1);
    let client = &lab.client;
    eventually("it ended", async || client.sessions("one").await.is_empty()).await;
    assert!((Duration::from_millis(900)..Duration::from_secs(5)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    assert_eq!(refusal(client, &format!("/{id}"), &[]).await.0, 404);
    lab.server.stop().await;
}

#[tokio::test]
async fn coming_back_in_time_saves_it() {
    let lab = Lab::with("one").await;
    let mut exec = lab.client.start("one", &["cat"], &[("stdin", "true"), ("max_run_after_disconnect", "2s")]).await;
    let id = exec.id().await;
    drop(exec);
    let mut back = lab.client.open("one", &format!("/{id}"), &[]).await.unwrap();
    // Longer than the limit: another command tells the time.
    lab.client.sh("one", "sleep 3").await;
    back.send(b"\0alive").await;
    back.send(&[4]).await;
    let ran = back.finish().await;
    assert_eq!((ran.out().as_str(), ran.code), ("alive", Some(0)));
    lab.server.stop().await;
}

#[tokio::test]
async fn the_list_shows_whole_commands_until_they_end() {
    let lab = Lab::with("one").await;
    let mut exec = lab
        .client
        .start("one", &["bash", "-c", "read line", "mark-7f3", "a b"], &[("stdin", "true"), ("dir", "/tmp")])
        .await;
    let id = exec.id().await;
    let sessions = lab.client.sessions("one").await;
    let [session] = &sessions[..] else { panic!("{sessions:?}") };
    assert_eq!(session["id"], id);
    assert_eq!(session["command"], "/usr/bin/bash -c read line mark-7f3 a b");
    assert_eq!((session["workdir"].as_str(), session["tty"].as_bool()), (Some("/tmp"), Some(false)));
    assert!(session["created"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
    assert!(session["bytes_per_second"].is_u64() && session["is_active"].is_boolean());
    let head = lab.client.request("HEAD", "/one/exec", "").await.unwrap();
    assert_eq!((head.status().as_u16(), &head.headers()["sprite-version"]), (200, &"v0.0.1-rc46".parse().unwrap()));
    exec.send(&[4]).await;
    exec.finish().await;
    assert_eq!(lab.client.sessions("one").await.len(), 0);
    lab.server.stop().await;
}

#[tokio::test]
async fn unknown_sessions() {
    let lab = Lab::with("one").await;
    for id in ["1", "99999", "x", "-1", "4294967296"] {
        assert_eq!(refusal(&lab.client, &format!("/{id}"), &[]).await, (404, format!("session not found: {id}")));
        assert_eq!(refusal(&lab.client, "", &[("id", id)]).await.0, 404);
    }
}
