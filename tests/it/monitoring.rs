//! What the chart brings for those who are on call, against a real Prometheus: alerts, dashboard, runbook.

use std::{collections::BTreeSet, process::Command};

use rules_file::{alerts, alerts_path};
use serde_json::{Value, json};
use test_support::{
    TestEnv,
    cluster::{prometheus, root},
    environment::until,
    process::Process,
};

mod rules_file {
    use std::path::PathBuf;

    use serde_json::Value;
    use test_support::cluster::root;

    pub fn alerts_path() -> PathBuf {
        root().join("charts/sprite-operator/files/monitoring/alerts.yaml")
    }

    /// Name and expression of each alert.
    pub fn alerts() -> Vec<(String, String)> {
        let file: Value = serde_saphyr::from_str(&std::fs::read_to_string(alerts_path()).unwrap()).unwrap();
        let rules = file["groups"].as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        rules.map(|rule| (text(&rule["alert"]), text(&rule["expr"]))).collect()
    }
}

/// Title and query of everything that the dashboard shows.
fn dashboard() -> Vec<(String, String)> {
    let file = root().join("charts/sprite-operator/files/monitoring/dashboard.json");
    let dashboard: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().cloned().unwrap_or_default();
        targets.into_iter().map(move |target| (title.to_owned(), target["expr"].as_str().unwrap().to_owned()))
    });
    targets.collect()
}

/// Every series of ours that an expression names, with its labels.
fn selectors(expression: &str) -> BTreeSet<String> {
    let starts = expression.match_indices("sprite_operator_").map(|(at, _)| &expression[at..]);
    let selector = |text: &str| {
        let name = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
        let end = if text[name..].starts_with('{') { name + text[name..].find('}').unwrap() + 1 } else { name };
        text[..end].to_owned()
    };
    starts.map(selector).collect()
}

#[test]
fn the_alerts_pass_their_unit_tests() {
    for arguments in [["check", "rules"], ["test", "rules"]] {
        let file = if arguments[0] == "check" { alerts_path() } else { root().join("tests/data/alerts.yaml") };
        let done = Command::new(prometheus("promtool")).args(arguments).arg(file).output().unwrap();
        let said = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(done.status.success(), "{said}");
    }
}

#[test]
fn each_alert_has_an_entry_in_the_runbook() {
    let page = std::fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let entries: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("### ")).filter(|name| name.starts_with("SpriteOp")).collect();
    let alerts = alerts();
    let names: BTreeSet<&str> = alerts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(entries, names, "docs/operations.md has a heading `### ALERT` for each alert, and no other");
}

#[tokio::test]
async fn a_prometheus_that_scrapes_the_operator_answers_every_query_and_fires_nothing() {
    let env = TestEnv::new().await;
    env.ready_session("s1").await;
    let target = env.listen().await;
    let config = json!({
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "500ms"},
        "rule_files": [alerts_path()],
        "scrape_configs": [{
            "job_name": "sprite-operator",
            "static_configs": [{"targets": [target.strip_prefix("http://").unwrap()]}],
        }],
    });
    let file = env.dir.path().join("prometheus.yml");
    // JSON is YAML.
    std::fs::write(&file, config.to_string()).unwrap();
    let mut command = Process::command(prometheus("prometheus"));
    command.arg(format!("--config.file={}", file.display())).arg("--web.listen-address=127.0.0.1:0");
    command.arg(format!("--storage.tsdb.path={}", env.dir.path().join("prometheus").display()));
    let (server, _) = Process::start(&mut command, 0);
    let address = until("Prometheus listens", async || {
        let said = server.said();
        let line = said.lines().find(|line| line.contains("Listening on"))?;
        Some(line.rsplit_once("address=")?.1.trim_matches('"').to_owned())
    })
    .await;
    let ask = async |path: &str, parameters: &[(&str, &str)]| {
        let url = reqwest::Url::parse_with_params(&format!("http://{address}/api/v1/{path}"), parameters).unwrap();
        let answer: Value = reqwest::get(url).await.unwrap().json().await.unwrap();
        assert_eq!(answer["status"], "success", "{parameters:?}: {answer}");
        answer["data"].clone()
    };
    let answered = async |what: &str, query: &str| {
        until(&format!("{what}: {query}"), async || {
            let data = ask("query", &[("query", query)]).await;
            (!data["result"].as_array().unwrap().is_empty()).then_some(())
        })
        .await;
    };

    // What is counted before the first scrape has no rate.
    answered("the operator is scraped", "up == 1").await;
    for (name, command) in [("good", "echo hello"), ("bad", "exit 3")] {
        env.bash(name, "s1", command).await;
        env.finished(name).await;
    }
    for (title, query) in dashboard() {
        answered(&title, &query.replace("$__rate_interval", "5m")).await;
    }
    for (name, expression) in alerts() {
        for selector in selectors(&expression) {
            answered(&name, &format!("count({selector})")).await;
        }
    }
    until("each rule was evaluated", async || {
        let data = ask("rules", &[]).await;
        let rules: Vec<Value> = data["groups"][0]["rules"].as_array().unwrap().clone();
        assert_eq!(rules.len(), alerts().len());
        for rule in &rules {
            assert_ne!(rule["health"], "err", "{rule}");
            assert_ne!(rule["state"], "firing", "{rule}");
        }
        rules.iter().all(|rule| rule["health"] == "ok" && rule["state"] == "inactive").then_some(())
    })
    .await;
}
