//! What the rules cost: redaction and the command check in MB/s and for a typical Run (a command of 2 kB, output of 64 kB),
//! beside a plain `memchr` pass and a plain regex pass over the same text; egress build and hash for 200 entries.
//!
//! `dev/bench/run rules`. Each figure is the fastest of many rounds: what else runs on the machine only makes a round slower.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    clippy::cast_precision_loss,
    missing_docs,
    reason = "a bench fails by panicking, and prints"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use redact::Redactor;
use regex::Regex;
use serde_json::Value;
use sprite_operator_rules::command::{CommandText, DenyList};
use sprite_operator_rules::egress::{self, Demand, Mode};

const OUTPUT: usize = 64 * 1024;
const COMMAND: usize = 2 * 1024;
const ENTRIES: usize = 200;
/// What a figure is looked for at most.
const PATIENCE: Duration = Duration::from_millis(700);

/// What somebody writes who has an hour for it: five names and what follows them.
const PLAIN: &str = r#"(?i)(?:password|passwd|secret|token|api_?key)["']?\s*[:=]\s*["']?[^\s"',;]+"#;

const DENY: [&str; 5] = [r"rm\s+-rf\s+/", r"\bmkfs\b", r":\(\)\s*\{", r"\bdd\b.*\bof=/dev/", r"(?i)\bxmrig\b"];

fn main() {
    // `cargo test --all-targets` builds and starts benches, too; there is nothing to test here.
    if !std::env::args().any(|arg| arg == "--bench") {
        return;
    }
    let worst = redaction();
    let check = commands();
    hostile();
    egress();
    println!("typical Run (command check and redaction of the slowest ordinary output): {}", micros(worst + check));
}

/// The fastest round.
fn fastest(mut round: impl FnMut()) -> Duration {
    let begin = Instant::now();
    let mut best = Duration::MAX;
    for rounds in 0.. {
        let start = Instant::now();
        round();
        best = best.min(start.elapsed());
        if rounds >= 10 && begin.elapsed() > PATIENCE {
            break;
        }
    }
    best
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}

fn speed(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / time.as_secs_f64() / 1e6
}

/// So many bytes of a text, again and again.
fn filled(text: &str, len: usize) -> String {
    let mut filled = text.repeat(len / text.len() + 1);
    filled.truncate(filled.floor_char_boundary(len));
    filled
}

/// What cargo and npm print, with the names, versions and checksums of real packages.
fn build_log() -> String {
    use std::fmt::Write;
    let lock = include_str!("../../../Cargo.lock");
    let mut log = String::new();
    for package in lock.split("[[package]]").skip(1) {
        let field = |name: &str| package.split(&format!("{name} = \"")).nth(1).and_then(|rest| rest.split('"').next());
        let (name, version) = (field("name").unwrap(), field("version").unwrap());
        writeln!(log, "   Compiling {name} v{version}\n  Downloaded {name} v{version} (registry)").unwrap();
        writeln!(log, "warning: unused variable: `key_{name}`\n  --> src/{name}/lib.rs:12:9\n   |").unwrap();
        writeln!(log, "#12 0.412 [2026-11-30T00:19:47Z] sha256:{}", field("checksum").unwrap_or("none")).unwrap();
        writeln!(log, "test {name}::tests::a_name_is_stable ... ok").unwrap();
    }
    log
}

/// What a service logs: a line of JSON for each request.
fn json_lines() -> String {
    let row = |n: usize, line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        serde_json::json!({
            "ts": format!("2026-11-30T00:{:02}:{:02}.123Z", n / 60 % 60, n % 60), "level": "info", "msg": "request done",
            "path": "/v1/items", "status": 200, "duration_ms": n, "user": format!("user-{n}"),
            "command": value["in"], "trace_id": "6f1c2d3e4b5a46789abcdef012345678",
        })
        .to_string()
            + "\n"
    };
    let lines = include_str!("../../../tests/data/rules/commands-ordinary.jsonl").lines();
    lines.enumerate().map(|(n, line)| row(n, line)).collect()
}

/// The texts of a corpus, a line each.
fn corpus(text: &str) -> String {
    let join = |value: &Value| match value {
        Value::Array(parts) => parts.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().unwrap_or_default().to_owned(),
    };
    text.lines().map(|line| join(&serde_json::from_str::<Value>(line).unwrap()["in"]) + "\n").collect()
}

fn code() -> String {
    [
        include_str!("../src/egress.rs"),
        include_str!("../src/output.rs"),
        include_str!("../src/path.rs"),
        include_str!("../src/quota.rs"),
        include_str!("../src/environment.rs"),
    ]
    .concat()
}

/// Gives the time for the slowest of the ordinary outputs.
fn redaction() -> Duration {
    let texts = [
        ("build log", build_log(), true),
        ("JSON lines", json_lines(), true),
        ("source code", code(), true),
        ("prose", include_str!("../../../README.md").to_owned(), true),
        // Speaks of little but secrets, and more so with each edition.
        ("docs/rules.md", include_str!("../../../docs/rules.md").to_owned(), false),
        ("harmless corpus", corpus(include_str!("../../../tests/data/rules/harmless-corpus.jsonl")), false),
        ("secrets corpus", corpus(include_str!("../../../tests/data/rules/secrets-corpus.jsonl")), false),
        ("`password:`", "password:".to_owned(), false),
        ("letters", "aB3".to_owned(), false),
        ("dashes", "-".to_owned(), false),
        ("quotes", "\"".to_owned(), false),
        ("backslashes", "\\".to_owned(), false),
        ("`password=\"\\`", "password=\"\\".to_owned(), false),
        ("`://u:`", "://u:".to_owned(), false),
        ("`key-`", "key-".to_owned(), false),
        ("`, ` and quotes", "\"secret\", ".to_owned(), false),
        ("`a.b~`", "a.b~".to_owned(), false),
    ];
    let redactor = Redactor::default();
    let registered = Redactor::new(&["registered-FAKE-1", "registered-FAKE-2", "registered-FAKE-3"]).unwrap();
    let plain = Regex::new(PLAIN).unwrap();
    let mut slowest = Duration::ZERO;
    println!(
        "redaction of 64 kB        time     MB/s | with 3 registered | regex pass     MB/s | memchr pass     MB/s"
    );
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, text, ordinary) in texts {
        if !asked.is_empty() && !asked.iter().any(|arg| name.contains(arg)) {
            continue;
        }
        let text = filled(&text, OUTPUT);
        let time = fastest(|| drop(black_box(redactor.redact(black_box(&text)))));
        let both = fastest(|| drop(black_box(registered.redact(black_box(&text)))));
        let regex = fastest(|| {
            black_box(plain.find_iter(black_box(&text)).count());
        });
        let memchr = fastest(|| {
            black_box(memchr::memchr_iter(b'\n', black_box(text.as_bytes())).count());
        });
        println!(
            "{name:<18} {:>11} {:>8.0} | {:>17} | {:>10} {:>8.0} | {:>11} {:>8.0}",
            micros(time),
            speed(OUTPUT, time),
            micros(both),
            micros(regex),
            speed(OUTPUT, regex),
            micros(memchr),
            speed(OUTPUT, memchr),
        );
        if ordinary {
            slowest = slowest.max(both);
        }
    }
    slowest
}

/// Gives the time for a typical command.
fn commands() -> Duration {
    let ordinary = corpus(include_str!("../../../tests/data/rules/commands-ordinary.jsonl"));
    let deny = DenyList::new(&DENY.map(str::to_owned)).unwrap();
    let mut slowest = Duration::ZERO;
    println!("command check of 2 kB     time     MB/s");
    // A script of several lines each; not cut within a line, which could leave a quote open.
    let mut scripts = vec![String::new()];
    for line in ordinary.split_inclusive('\n') {
        if scripts.last().is_some_and(|script| script.len() + line.len() > COMMAND) {
            scripts.push(String::new());
        }
        scripts.last_mut().unwrap().push_str(line);
    }
    let bytes: usize = scripts.iter().map(String::len).sum();
    let all = fastest(|| {
        for script in &scripts {
            let text = CommandText::new(black_box(script));
            black_box((deny.denies(&text), text.forbidden_target()));
        }
    });
    let each = all.mul_f64(COMMAND as f64 / bytes as f64);
    println!("{:<18} {:>11} {:>8.0}", "ordinary commands", micros(each), speed(bytes, all));
    for (name, piece) in [
        ("python", "python3 -c 'import json; print(json.dumps({\"a\": 1}))'\n"),
        ("curl", "curl -fsS https://api.example.com/v1/items -o out.json\n"),
        ("substitutions", "$(echo $(echo "),
        ("braces", "curl {a,b}{c,d}"),
        ("quotes", "'a'\"b\"\\c"),
        ("variables", "a=$a$b; "),
    ] {
        let text = filled(piece, COMMAND);
        let time = fastest(|| {
            let text = CommandText::new(black_box(&text));
            black_box((deny.denies(&text), text.forbidden_target()));
        });
        println!("{name:<18} {:>11} {:>8.0}", micros(time), speed(COMMAND, time));
        if matches!(name, "python" | "curl") {
            slowest = slowest.max(time);
        }
    }
    slowest.max(each)
}

/// Texts that are made to cost much, as long as a command may be.
fn hostile() {
    println!("made to cost: command check of 64 kB");
    for (name, piece) in [
        ("ranges", "curl {1..250} "),
        ("ranges with many hosts", "curl {1..250}{,}\u{660}.@\u{660}.@\u{660}.@\u{660}.@\u{660}.@ "),
        ("users", "\u{660}.@"),
        ("assignments", "a=b "),
        ("here-documents", "cat <<E\n$(a\nE\n"),
    ] {
        let text = format!("curl http://{}", filled(piece, 1 << 16));
        let time = fastest(|| drop(black_box(CommandText::new(black_box(&text)))));
        println!("{name:<24} {:>11} {:>8.1} MB/s", micros(time), speed(text.len(), time));
    }
}

fn egress() {
    let entries: Vec<String> = (0..ENTRIES)
        .map(|n| if n % 3 == 0 { format!("*.zone-{n}.example.com") } else { format!("Host-{n}.Example.org.") })
        .collect();
    let time = fastest(|| {
        let built = egress::build(
            black_box(Demand { mode: Mode::Allowlist, allow: &entries, deny: &[], defaults: false }),
            false,
        );
        black_box(built.unwrap().hash().len());
    });
    println!("egress: build and hash of {ENTRIES} entries {}", micros(time));
}
