//! Tests of targets in commands: the corpora, the cases, spellings, and what must hold for any text.

use proptest::prelude::*;
use rstest::rstest;
use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
struct Line {
    id: String,
    #[serde(rename = "in")]
    command: String,
    #[serde(default)]
    want: String,
}

fn corpus(text: &str) -> Vec<Line> {
    text.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
}

#[test]
fn every_command_that_connects_to_a_target_is_refused() {
    let refused = corpus(include_str!("../../../tests/data/rules/commands-refused.jsonl"));
    assert!(refused.len() >= 150, "{}", refused.len());
    let misses: Vec<String> = refused
        .iter()
        .filter(|l| forbidden_target(&l.command).is_none())
        .map(|l| format!("{}: {}", l.id, l.command))
        .collect();
    println!("{} commands that must be refused: {} pass", refused.len(), misses.len());
    assert!(misses.is_empty(), "{}", misses.join("\n"));
}

#[test]
fn no_ordinary_command_is_refused() {
    let ordinary = corpus(include_str!("../../../tests/data/rules/commands-ordinary.jsonl"));
    assert!(ordinary.len() >= 300, "{}", ordinary.len());
    let found = ordinary.iter().filter_map(|l| Some((l, forbidden_target(&l.command)?)));
    let refused: Vec<String> = found.map(|(l, f)| format!("{}: {} -> {}", l.id, l.command, f.word)).collect();
    println!("{} ordinary commands: {} are refused", ordinary.len(), refused.len());
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn every_case_is_decided_as_it_wants() {
    for line in corpus(include_str!("../../../tests/data/rules/commands.jsonl")) {
        let refused = forbidden_target(&line.command).is_some();
        assert_eq!(refused, line.want.starts_with("BLOCK"), "{}: {} wants {}", line.id, line.command, line.want);
    }
}
