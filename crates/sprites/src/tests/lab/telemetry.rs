//! What is counted and written down, and what must never be.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex};

use prometheus::Registry;
use prometheus::proto::MetricType;
use serde_json::json;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::super::super::{Metrics, Target};
use super::super::server::{self, answer};
use super::{Site, command, deny_all, rest, run, script, session};
use test_support::waiting::eventually;

/// Every series as one line: its name, labels and count.
fn series(registry: &Registry) -> Vec<String> {
    let mut lines = Vec::new();
    for family in registry.gather() {
        for metric in family.get_metric() {
            let labels: Vec<_> =
                metric.get_label().iter().map(|pair| format!("{}={}", pair.name(), pair.value())).collect();
            let (histogram, counter) = (metric.get_histogram(), metric.get_counter());
            let count = match family.get_field_type() {
                MetricType::HISTOGRAM => histogram.get_sample_count().to_string(),
                MetricType::COUNTER | MetricType::GAUGE | MetricType::SUMMARY | MetricType::UNTYPED => {
                    counter.get_value().to_string()
                }
            };
            lines.push(format!("{} {} {count}", family.name(), labels.join(" ")));
        }
    }
    lines
}

#[tokio::test]
async fn calls_are_counted_by_kind_and_outcome_and_no_label_names_anything() {
    let registry = Registry::new();
    let metrics = Metrics::register(&registry).unwrap();
    let site = Site::set(&[], |config| config.metrics = Some(metrics));
    let client = &site.client;
    let on = site.awake("secretname").await;
    assert!(client.get("absentname").await.unwrap_err().is_absent());
    site.faults(json!([{ "route": "get", "effect": "error-before", "status": 502, "count": 1 },
                       { "route": "list", "effect": "truncated-body", "count": 1 },
                       { "route": "exec", "match": "mark-7", "effect": "exit-frame-lost" }]))
        .await;
    client.get("secretname").await.unwrap();
    client.list("secretname").await.unwrap();
    client.set_network_policy(&on, &deny_all()).await.unwrap();
    assert!(client.read_file(&on, "/etc/secretpath", 1).await.unwrap_err().is_missing_file());
    run(client, &on, "exit 4 # secretcommand").await;
    rest(&mut client.exec(&on, &command(&["echo", "mark-7"])).await.unwrap()).await;
    let mut exec = client.exec(&on, &script("exec sleep 9511")).await.unwrap();
    session(&mut exec).await;
    drop(exec);
    eventually("the kill", async || series(&registry).iter().any(|line| line.ends_with("call=kill outcome=ok 1")))
        .await;
    client.delete(Target::any("secretname")).await.unwrap();

    let lines = series(&registry);
    for expected in [
        "sprites_call_duration_seconds call=create outcome=ok 1",
        "sprites_call_duration_seconds call=get outcome=absent 1",
        "sprites_call_duration_seconds call=get outcome=unknown 1",
        "sprites_call_duration_seconds call=list outcome=protocol 1",
        "sprites_call_duration_seconds call=list outcome=ok 1",
        "sprites_call_duration_seconds call=policy_set outcome=ok 1",
        "sprites_call_duration_seconds call=file_read outcome=file 1",
        // The one that woke it, and three more.
        "sprites_call_duration_seconds call=exec_start outcome=ok 4",
        "sprites_call_duration_seconds call=kill outcome=ok 1",
        "sprites_call_duration_seconds call=delete outcome=ok 1",
        "sprites_retries_total after=unknown call=get 1",
        "sprites_retries_total after=protocol call=list 1",
        "sprites_exec_ends_total end=exit 2",
        "sprites_exec_ends_total end=closed 1",
        "sprites_exec_ends_total end=dropped 1",
        "sprites_wait_duration_seconds priority=delete 1",
    ] {
        assert!(lines.iter().any(|line| line == expected), "no {expected:?} in {lines:#?}");
    }
    let address = site.daemon.address();
    for secret in ["secretname", "absentname", "secretpath", "secretcommand", "mark-7", "127.0.0.1", address] {
        assert!(!lines.iter().any(|line| line.contains(secret)), "{secret} in {lines:#?}");
    }
    site.end().await;
}

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Written {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// A call that fails, where nobody listens.
async fn a_call_of_another_thread() {
    let call = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (address, _) = server::http(|request| answer(404, "", request)).await;
            super::client(&address.to_string(), "none", |_| {}).get("one").await.unwrap_err();
        });
    };
    tokio::task::spawn_blocking(move || std::thread::spawn(call).join().unwrap()).await.unwrap();
}

#[tokio::test]
async fn the_token_is_in_no_line_error_or_debug_though_the_server_echoes_it() {
    let token = ["tok", "en-of-", "the-echo"].concat();
    let written = Written::default();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(written.clone())
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .finish();
    // With one subscriber alone, whoever comes to a span first decides for all threads whether anybody listens; other tests have none.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _guard = tracing::subscriber::set_default(subscriber);
    a_call_of_another_thread().await;
    let mut shown = String::new();
    for status in [400, 401, 403, 404, 409, 429, 500, 502, 503] {
        // Head and body, the header of the answer too.
        let (address, requests) = server::http(move |request| {
            let token = server::header(request, "authorization").unwrap_or_default();
            answer(status, &format!("X-Echo: {token}\r\n"), request)
        })
        .await;
        let client = super::client(&address.to_string(), &token, |config| {
            config.operation_timeout = std::time::Duration::from_secs(1);
            config.call_timeout = std::time::Duration::from_secs(1);
        });
        let on = super::super::on("one");
        let error = client.get("one").await.unwrap_err();
        write!(shown, "{error} {error:?} {client:?} {:?}", client.config()).unwrap();
        let error = client.exec(&on, &command(&["true"])).await.unwrap_err();
        write!(shown, "{error} {error:?} {}", error.error()).unwrap();
        let mut cause = std::error::Error::source(&error);
        while let Some(error) = cause {
            write!(shown, "{error} {error:?}").unwrap();
            cause = error.source();
        }
        let requests = requests.lock().unwrap();
        assert!(requests.iter().all(|request| request.contains(&token)), "it was sent");
        assert!(requests.iter().all(|request| !request.lines().next().unwrap().contains(&token)), "not in the URL");
    }
    let written = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(written.contains("sprites_call") && written.contains("trying again"), "{written}");
    assert!(!written.contains(&token), "{written}");
    assert!(shown.contains("[redacted]") && !shown.contains(&token), "{shown}");
}
