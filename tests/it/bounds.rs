//! Where each bound of the API is named: a change of one must not be a hunt.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use test_support::cluster::root;

/// Most files that may name one bound, tests and generated files left out.
const MOST: usize = 6;

/// Files of a folder that people write: no tests, nothing generated.
fn written(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let is_test = name.contains("tests") || name == "benches" || name == "data";
        let generated = ["api.md", "metrics.md", "crds"].contains(&name.as_str());
        if path.is_dir() && !is_test && !generated {
            written(&path, found);
        } else if [".rs", ".md", ".yaml", ".json"].iter().any(|end| name.ends_with(end)) && !is_test && !generated {
            found.push(path);
        }
    }
}

/// Whether a word stands in a text by itself.
fn holds(text: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
    text.match_indices(word)
        .any(|(at, _)| !part(text[..at].chars().next_back()) && !part(text[at + word.len()..].chars().next()))
}

#[test]
fn each_bound_is_named_in_few_files() {
    let source = std::fs::read_to_string(root().join("crates/api/src/bounds.rs")).unwrap();
    // As people write them. What also stands for other things (64, 64Ki as an example) is looked for by its name only.
    let texts: BTreeMap<&str, &str> = [
        ("TIMEOUT", "55m"),
        ("OUTPUT", "128Ki"),
        ("STDIN", "512Ki"),
        ("MEMORY", "1Ti"),
        ("STORAGE", "16Ti"),
        ("IDLE", "720h"),
        ("LIFE", "8760h"),
        ("VARIABLE_BYTES", "32Ki"),
        ("AT_ONCE", "100_000"),
        ("A_DAY", "10_000_000"),
    ]
    .into();
    let names: Vec<&str> =
        source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next()).collect();
    assert!(names.len() > 20 && texts.keys().all(|name| names.contains(name)), "{names:?}");
    let mut files = vec![root().join("README.md")];
    for folder in ["src", "docs", "charts", "crates/api/src", "crates/rules/src"] {
        written(&root().join(folder), &mut files);
    }
    let files: Vec<_> = files.into_iter().map(|path| (std::fs::read_to_string(&path).unwrap(), path)).collect();
    assert!(files.len() > 100);
    for name in names {
        let path = format!("bounds::{name}");
        let naming: Vec<String> = files
            .iter()
            .filter(|(text, file)| {
                file.ends_with("crates/api/src/bounds.rs")
                    || holds(text, &path)
                    || texts.get(name).is_some_and(|word| holds(text, word) && !file.ends_with("values.yaml"))
            })
            .map(|(_, file)| file.strip_prefix(root()).unwrap().display().to_string())
            .collect();
        assert!((2..=MOST).contains(&naming.len()), "{name} is named in {} files: {naming:#?}", naming.len());
    }
}
