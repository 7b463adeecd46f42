//! What those who run the operator see: log lines, Events, metrics, health.

use k8s_openapi::api::events::v1::Event;
use kube::{Api, api::ListParams};
use serde_json::json;

use test_support::{
    TestEnv,
    environment::{condition, phase, reason, until},
};

async fn get(url: &str) -> (u16, String, String) {
    let answer = reqwest::get(url).await.unwrap();
    let kind = answer.headers()["content-type"].to_str().unwrap().to_owned();
    (answer.status().as_u16(), kind, answer.text().await.unwrap())
}

/// The value of a series.
fn value(metrics: &str, series: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

#[tokio::test]
async fn a_run_leaves_one_log_line_without_its_content_and_is_counted() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    env.bash("good", "s1", "echo a-word-of-the-output # a-word-of-the-command").await;
    env.bash("bad", "s1", "exit 3").await;
    env.run("refused", json!({"session": {"name": "s1"}, "bash": {"command": "true", "cwd": "../.."}})).await;
    for name in ["good", "bad", "refused"] {
        env.finished(name).await;
    }
    let uid = env.runs().get("good").await.unwrap().metadata.uid.unwrap();
    let operator = env.operator.as_ref().unwrap();
    let lines = until("each Run has its line", async || {
        let said = operator.said();
        let lines: Vec<_> = said.lines().filter(|line| line.contains("Run finished")).map(str::to_owned).collect();
        (lines.len() >= 3).then_some(lines)
    })
    .await;
    assert_eq!(lines.len(), 3, "{lines:?}");
    let line = lines.iter().find(|line| line.contains("run=\"good\"")).unwrap();
    for part in [
        &format!("namespace=\"{}\"", env.namespace),
        &format!("uid=\"{uid}\""),
        "session=\"s1\"",
        &format!("policy=\"default-{}\"", env.id),
        "phase=\"Succeeded\" reason=\"Completed\" ms=",
        " INFO ",
    ] {
        assert!(line.contains(part), "{part} is not in: {line}");
    }
    assert!(!operator.said().contains("a-word-of-the-"), "content in the log");
    assert!(lines.iter().any(|line| line.contains("phase=\"Denied\" reason=\"PathEscape\"")), "{lines:?}");

    // Refusals are warnings.
    let told = env.events("Run", "refused").await;
    assert_eq!(told, [("Warning".to_owned(), "PathEscape".to_owned())]);
    assert_eq!(env.events("Run", "bad").await, [("Normal".to_owned(), "NonZeroExit".to_owned())]);

    let listen = env.listen().await;
    let (status, kind, metrics) = get(&format!("{listen}/metrics")).await;
    assert_eq!((status, kind.as_str()), (200, "text/plain; version=0.0.4; charset=utf-8"));
    let one = |series: &str| value(&metrics, &format!("sprite_operator_{series}"));
    assert_eq!(one("runs_finished_total{reason=\"Completed\"}"), Some(1.0));
    assert_eq!(one("runs_finished_total{reason=\"NonZeroExit\"}"), Some(1.0));
    assert_eq!(one("runs_finished_total{reason=\"Timeout\"}"), Some(0.0), "from the start");
    assert_eq!(one("run_duration_seconds_count"), Some(2.0));
    assert_eq!(one("switch_on"), Some(1.0));
    assert_eq!(
        one("reconcile_duration_seconds_count{kind=\"Run\",result=\"kubernetes_error\"}"),
        Some(0.0),
        "{metrics}"
    );
    assert_eq!(one("build_info{version=\"0.1.0\"}"), Some(1.0));
    assert!(metrics.contains("\nprocess_resident_memory_bytes "), "{metrics}");
    until("sessions and Runs are counted", async || {
        let (.., metrics) = get(&format!("{listen}/metrics")).await;
        let sessions = value(&metrics, "sprite_operator_sessions{phase=\"Ready\"}");
        let runs = value(&metrics, "sprite_operator_runs{phase=\"Succeeded\"}");
        (sessions == Some(1.0) && runs == Some(1.0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_token_that_the_platform_rejects_is_told_everywhere_and_readiness_stays() {
    let env = TestEnv::new().await;
    // The platform knows the old token alone.
    std::fs::write(env.dir.path().join("token"), "another-token").unwrap();
    env.session("s1", json!({})).await;
    let session = env
        .session_until("s1", |session| {
            let ready = session.status.as_ref().and_then(|status| status.conditions.get("Ready"));
            ready.is_some_and(|ready| ready.reason == "PlatformDenied")
        })
        .await;
    assert_eq!(condition(&session, "Ready"), Some("False"));
    let message = &session.status.as_ref().unwrap().conditions.get("Ready").unwrap().message;
    assert_eq!(message, "the Sprites API rejects the operator's token (401): check the Secret that holds it");
    until("an Event tells it", async || {
        let told = env.events("SandboxSession", "s1").await;
        told.contains(&("Warning".to_owned(), "PlatformDenied".to_owned())).then_some(())
    })
    .await;
    let said = env.operator.as_ref().unwrap().said();
    let line = said.lines().find(|line| line.contains("WARN") && line.contains("PlatformDenied")).unwrap();
    assert!(line.contains("session=\"s1\""), "{line}");

    let listen = env.listen().await;
    assert_eq!(get(&format!("{listen}/readyz")).await.0, 200);
    let (status, _, text) = get(&format!("{listen}/readyz?verbose")).await;
    assert_eq!(status, 200);
    assert!(text.contains("[-]sprites-api: it rejects the operator's token (401)"), "{text}");
    let (.., metrics) = get(&format!("{listen}/metrics")).await;
    assert_eq!(value(&metrics, "sprite_operator_sprites_token_rejected"), Some(1.0));

    // With the right one again all of it goes by itself.
    std::fs::write(env.dir.path().join("token"), &env.token).unwrap();
    env.session_until("s1", |session| condition(session, "Ready") == Some("True")).await;
    let (.., text) = get(&format!("{listen}/readyz?verbose")).await;
    assert!(text.contains("[+]sprites-api ok"), "{text}");
}

#[tokio::test]
async fn the_switch_is_told_as_a_warning_an_event_and_a_gauge() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let listen = env.listen().await;
    env.switch(Some("false")).await;
    let events: Api<Event> = Api::namespaced(env.client.clone(), &env.operator_namespace);
    let told = async |reason: &str| {
        let list = events.list(&ListParams::default()).await.unwrap();
        let of = |event: &Event| {
            let about = event.regarding.as_ref().and_then(|about| about.name.clone());
            about.as_deref() == Some("sprite-operator-switch") && event.reason.as_deref() == Some(reason)
        };
        list.items.into_iter().find(of).map(|event| event.type_.unwrap_or_default())
    };
    assert_eq!(until("the Event comes", async || told("SwitchOff").await).await, "Warning");
    let said = env.operator.as_ref().unwrap().said();
    assert!(said.lines().any(|line| line.contains("WARN") && line.contains("the switch is off")), "{said}");
    let (.., metrics) = get(&format!("{listen}/metrics")).await;
    assert_eq!(value(&metrics, "sprite_operator_switch_on"), Some(0.0));
    env.bash("r1", "s1", "true").await;
    let run = env.finished("r1").await;
    assert_eq!((phase(&run), reason(&run)), ("Denied", "KillSwitchOff"));
    env.switch(Some("true")).await;
    assert_eq!(until("the Event comes", async || told("SwitchOn").await).await, "Normal");
    assert!(told("SwitchFrozen").await.is_none(), "the first reading is no change");
}
