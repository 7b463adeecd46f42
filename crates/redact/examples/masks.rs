//! What redaction masks in files that hold no secrets: each mask there is a false one.
//!
//!     cargo run --release -p sprite-operator-redact --example masks -- [--lines] /usr/include /etc …
//!
//! Prints, for each folder, how many files were read, how many have a mask and how many masks there are; with `--lines` each masked
//! line as it becomes. Files of more than 1 MiB and those that are no UTF-8 text are left out, links are not followed.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a tool that prints")]

use std::path::{Path, PathBuf};

use sprite_operator_redact::{MASK, Redactor};

/// Larger files are left out: output of a Run is smaller, too.
const LARGEST: u64 = 1 << 20;

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            files(&entry.path(), found);
        } else if kind.is_file() && entry.metadata().is_ok_and(|data| data.len() <= LARGEST) {
            found.push(entry.path());
        }
    }
}

/// Lines that are not in the text before, with their number in the text after.
fn masked(before: &str, after: &str) -> Vec<(usize, String)> {
    let known: std::collections::HashSet<&str> = before.lines().collect();
    let lines = after.lines().enumerate().filter(|(_, line)| line.contains(MASK) && !known.contains(line));
    lines.map(|(at, line)| (at + 1, line.chars().take(200).collect())).collect()
}

fn main() {
    let mut folders: Vec<String> = std::env::args().skip(1).collect();
    let lines = folders.first().is_some_and(|first| first == "--lines");
    if lines {
        folders.remove(0);
    }
    if folders.is_empty() {
        eprintln!("masks: name folders, such as /usr/include");
        std::process::exit(2);
    }
    let redactor = Redactor::default();
    let (mut all_files, mut all_wrong) = (0, 0);
    for folder in folders {
        let mut found = Vec::new();
        files(Path::new(&folder), &mut found);
        found.sort();
        let (mut read, mut wrong, mut masks) = (0, 0, 0);
        for file in found {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            read += 1;
            let redacted = redactor.redact(&text);
            let total = redacted.hits.total();
            if total == 0 {
                continue;
            }
            wrong += 1;
            masks += total;
            if lines {
                let rules: Vec<_> =
                    redacted.hits.iter().map(|(rule, count)| format!("{} {count}", rule.as_str())).collect();
                println!("{} ({})", file.display(), rules.join(", "));
                for (number, line) in masked(&text, &redacted.text) {
                    println!("  {number}: {line}");
                }
            }
        }
        println!("{folder}: {read} files, {wrong} with a mask, {masks} masks");
        all_files += read;
        all_wrong += wrong;
    }
    println!("in all: {all_files} files, {all_wrong} with a mask, {} in 1,000", all_wrong * 1000 / all_files.max(1));
}
