//! Who may know what, read from the sources: decisions have no client, no clock and no runtime; layers import downwards.

use std::path::{Path, PathBuf};

use crate::support::cluster::root;

/// What only code that acts may mention.
const EFFECTS: [&str; 12] = [
    "kube::Client",
    "kube::Api",
    "Api::",
    "tokio",
    "reqwest",
    "Instant::now",
    "Timestamp::now",
    "SystemTime",
    "async fn",
    ".await",
    "rand::",
    "tracing::",
];

/// Longest source file, in lines.
const LONGEST: usize = 500;

/// A source file by its path under `src`, without tests and comments.
struct Source {
    path: String,
    code: Vec<(usize, String)>,
    lines: usize,
}

impl Source {
    fn is_in(&self, directory: &str) -> bool {
        self.path.starts_with(&format!("{directory}/")) || self.path == format!("{directory}.rs")
    }

    /// Where any of these words stands.
    fn mentions<'a>(&'a self, words: &'a [&str]) -> impl Iterator<Item = String> + 'a {
        self.code.iter().flat_map(move |(number, line)| {
            let found = words.iter().filter(move |word| has_word(line, word));
            found.map(move |word| format!("src/{}:{number}: {word}", self.path))
        })
    }
}

/// Whether a word stands in a line, not as the tail or head of another: `Api::` is not in `DynamicApi::`.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let head = word.starts_with(part) && line[..at].chars().next_back().is_some_and(part);
        let tail = word.ends_with(part) && line[at + word.len()..].chars().next().is_some_and(part);
        !head && !tail
    })
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn sources() -> Vec<Source> {
    fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|e| e == "rs") {
                found.push(path);
            }
        }
    }
    let src = root().join("src");
    let mut found = Vec::new();
    collect(&src, &mut found);
    found.sort();
    found
        .into_iter()
        .map(|file| {
            let text = std::fs::read_to_string(&file).unwrap();
            let path = file.strip_prefix(&src).unwrap().to_str().unwrap().to_owned();
            Source { path, code: code_of(&text), lines: text.lines().count() }
        })
        .filter(|source| !is_test(&source.path))
        .collect()
}

/// The lines of a file that are neither comment nor under `#[cfg(test)]`, with their numbers.
fn code_of(text: &str) -> Vec<(usize, String)> {
    let mut code = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim_start().starts_with("#[cfg(test)]") {
            let indent = line.len() - line.trim_start().len();
            // rustfmt puts the end of an item at the indentation of its head.
            let mut items = lines.by_ref().map(|(_, line)| line);
            let head = items.find(|line| !line.trim_start().starts_with("#[")).unwrap_or_default();
            if !head.trim_end().ends_with([';', '}']) {
                let end =
                    |line: &&str| line.len() - line.trim_start().len() == indent && line.trim_start().starts_with('}');
                let _ = items.find(end);
            }
            continue;
        }
        let line = line.split("//").next().unwrap_or_default();
        if !line.trim().is_empty() {
            code.push((number + 1, line.to_owned()));
        }
    }
    code
}

fn is_pure(source: &Source) -> bool {
    let controllers = source.is_in("controllers");
    let file = source.path.rsplit('/').next().unwrap();
    source.is_in("rules")
        || (controllers && ["decide.rs", "status.rs", "prove.rs"].contains(&file))
        || (controllers && source.path.contains("/decide/"))
        || [
            "controllers/policy/compile.rs",
            "sprites/frame.rs",
            "sprites/kind.rs",
            "sprites/limiter/lanes.rs",
            "sprites/retry.rs",
            "sprites/text.rs",
        ]
        .contains(&source.path.as_str())
}

#[test]
fn decisions_know_no_client_no_clock_and_no_runtime() {
    let sources = sources();
    let pure: Vec<_> = sources.iter().filter(|source| is_pure(source)).collect();
    for name in
        ["decide.rs", "status.rs", "prove.rs", "compile.rs", "frame.rs", "lanes.rs", "retry.rs", "rules/egress.rs"]
    {
        assert!(pure.iter().any(|source| source.path.ends_with(name)), "no {name} is read");
    }
    let impure: Vec<_> = pure.iter().flat_map(|source| source.mentions(&EFFECTS)).collect();
    assert_eq!(impure, [""; 0], "only gather and act may do this");
}

#[test]
fn the_api_imports_nothing_else_of_ours() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.is_in("api")) {
        for (number, line) in &source.code {
            let foreign = paths(line, "crate::").iter().any(|path| path != "api");
            if foreign || has_word(line, "sprite_operator::") {
                wrong.push(format!("src/{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn rules_know_of_the_api_only_names_and_reasons() {
    let mut wrong = Vec::new();
    for source in sources().iter().filter(|source| source.is_in("rules")) {
        // Imports may span lines.
        let code = source.code.iter().map(|(_, line)| line.trim()).collect::<Vec<_>>().join(" ");
        for path in paths(&code, "crate::") {
            let good = match path.as_str() {
                "rules" => true,
                "api" => paths(&code, "crate::api::").iter().all(|inner| inner == "names" || inner == "reasons"),
                _ => false,
            };
            if !good {
                wrong.push(format!("src/{}: crate::{path}", source.path));
            }
        }
        wrong.extend(source.mentions(&["kube", "k8s_openapi"]));
    }
    assert_eq!(wrong, [""; 0]);
}

/// What follows a prefix in paths: `crate::{a::X, b}` and `crate::a::X` give `a` (and `b`).
fn paths(code: &str, prefix: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let rest = &code[at + prefix.len()..];
        match rest.strip_prefix('{') {
            Some(group) => found.extend(members(group).into_iter().map(head)),
            None => found.push(head(rest)),
        }
    }
    found
}

/// The first name of a path.
fn head(path: &str) -> String {
    path.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The members of a group whose opening brace was taken off.
fn members(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0_usize, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match (c, depth) {
            ('{', _) => depth += 1,
            (',' | '}', 0) => {
                found.extend(Some(group[start..at].trim()).filter(|member| !member.is_empty()));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            ('}', _) => depth -= 1,
            _ => {}
        }
    }
    found
}

#[test]
fn the_client_of_sprites_knows_no_kubernetes() {
    let sources = sources();
    let wrong: Vec<_> =
        sources.iter().filter(|s| s.is_in("sprites")).flat_map(|s| s.mentions(&["kube", "k8s_openapi"])).collect();
    assert_eq!(wrong, [""; 0]);
}

/// Deadlines and pauses are of monotonic time, so a clock that jumps changes none of them. The one reading of the clock is
/// for a `Retry-After` that names a date, and what comes of it is bounded.
#[test]
fn the_client_of_sprites_looks_at_the_clock_in_one_place_only() {
    let sources = sources();
    let words = ["SystemTime", "Timestamp::now", "Zoned::now"];
    let places: Vec<_> =
        sources.iter().filter(|s| s.is_in("sprites") && s.mentions(&words).next().is_some()).map(|s| &s.path).collect();
    assert_eq!(places, ["sprites/http.rs"]);
}

#[test]
fn the_local_server_shares_nothing_with_the_client() {
    let sources = sources();
    let server = |s: &&Source| s.is_in("spritesd") || s.path == "bin/spritesd.rs";
    let words = ["crate::sprites", "sprite_operator::sprites", "kube", "k8s_openapi"];
    let wrong: Vec<_> = sources.iter().filter(server).flat_map(|s| s.mentions(&words)).collect();
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn no_source_file_is_too_long() {
    let long: Vec<_> = sources()
        .into_iter()
        .filter(|source| source.lines > LONGEST)
        .map(|source| format!("src/{}: {} lines", source.path, source.lines))
        .collect();
    assert_eq!(long, [""; 0], "split them: at most {LONGEST} lines");
}

#[test]
fn tests_and_comments_are_left_out() {
    let text = "use a;\n// tokio\n#[cfg(test)]\nmod tests {\n    fn f() {\n        tokio();\n    }\n}\n#[cfg(test)]\n#[path = \"x\"]\nmod t;\nfn g() {} // .await\n";
    let code = code_of(text);
    assert_eq!(code, [(1, "use a;".to_owned()), (12, "fn g() {} ".to_owned())]);
    assert!(has_word("x.await?;", ".await") && !has_word("DynamicApi::x", "Api::") && has_word("kube::Api", "kube"));
    assert!(!has_word("kubernetes::x", "kube") && has_word("crate::sprites::x", "crate::sprites"));
    assert!(!has_word("crate::spritesd::x", "crate::sprites"));
    assert_eq!(paths("use crate::{api::{X, reasons::Y}, rules::a::B};", "crate::"), ["api", "rules"]);
    assert_eq!(paths("use crate::api::reasons::X; crate::rules::f()", "crate::"), ["api", "rules"]);
    assert_eq!(paths("use crate::api::{names::{A, B}, reasons};", "crate::api::"), ["names", "reasons"]);
}
