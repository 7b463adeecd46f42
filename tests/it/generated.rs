//! What is generated from the types and committed: the CRDs, the chart's copy of them, the API reference.

use test_support::cluster::root;

/// Compares a committed file with what the types render; with `BLESS=1` it is rewritten.
fn committed(path: &str, rendered: &str) {
    let file = root().join(path);
    if std::env::var_os("BLESS").is_some_and(|bless| !bless.is_empty() && bless != "0") {
        std::fs::write(&file, rendered).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    if let Some(difference) = difference(&found, rendered) {
        panic!(
            "{path} is not what crates/api renders: {difference}\n\
             If the types are right, rewrite it: make crds (BLESS=1 cargo test --test it generated)"
        );
    }
}

/// The first line in which two texts differ.
fn difference(found: &str, rendered: &str) -> Option<String> {
    if found == rendered {
        return None;
    }
    let mut lines = found.lines().zip(rendered.lines()).enumerate();
    Some(lines.find(|(_, (found, rendered))| found != rendered).map_or_else(
        || format!("it has {} lines, rendered are {}", found.lines().count(), rendered.lines().count()),
        |(n, (found, rendered))| format!("line {}:\n  committed: {found}\n  rendered:  {rendered}", n + 1),
    ))
}

#[test]
fn the_crds_and_the_charts_copy_are_what_the_types_render() {
    for (file, crd) in api::crds().unwrap() {
        let yaml = api::to_yaml(&crd).unwrap();
        committed(&format!("crds/{file}"), &yaml);
        committed(&format!("charts/sprite-operator/crds/{file}"), &yaml);
    }
}

#[test]
fn no_other_crd_lies_beside_them() {
    let mut rendered: Vec<_> = api::crds().unwrap().into_iter().map(|(file, _)| file.to_owned()).collect();
    rendered.sort();
    for directory in ["crds", "charts/sprite-operator/crds"] {
        let entries = std::fs::read_dir(root().join(directory)).unwrap();
        let mut found: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        found.sort();
        assert_eq!(found, rendered, "{directory}");
    }
}

#[test]
fn the_reference_is_what_the_types_render() {
    committed("docs/api.md", &api::reference().unwrap());
}

#[test]
fn the_page_of_metrics_is_what_the_code_registers() {
    committed("docs/metrics.md", &sprite_operator::app::reference::metrics().unwrap());
}

/// The words of a closed list in docs/api.md.
fn documented(list: &str) -> Vec<String> {
    let page = std::fs::read_to_string(root().join("docs/api.md")).unwrap();
    let (_, section) = page.split_once(&format!("### {list}\n")).unwrap_or_else(|| panic!("no list {list}"));
    let rows = section.split("\n#").next().unwrap().lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| row.split('`').next().unwrap().to_owned()).collect()
}

#[test]
fn the_closed_lists_of_the_page_are_those_of_the_code() {
    use api::reasons::{Evidence, PolicyReason, RunPhase, RunReason, SessionPhase, SessionReason, WaitingCause};
    fn words<T: ToString>(all: &[T]) -> Vec<String> {
        all.iter().map(ToString::to_string).collect()
    }
    assert_eq!(documented("RunPhase"), words(RunPhase::ALL));
    assert_eq!(documented("RunReason"), words(RunReason::ALL));
    assert_eq!(documented("WaitingCause"), words(WaitingCause::ALL));
    assert_eq!(documented("Evidence"), words(Evidence::ALL));
    assert_eq!(documented("SessionPhase"), words(SessionPhase::ALL));
    assert_eq!(documented("SessionReason"), words(SessionReason::ALL));
    assert_eq!(documented("PolicyReason"), words(PolicyReason::ALL));
}

/// A backend looks up what to do: each reason stands in one row of docs/runs.md.
#[test]
fn what_to_do_is_said_of_each_reason_of_a_run_once() {
    let page = std::fs::read_to_string(root().join("docs/runs.md")).unwrap();
    let (_, table) = page.split_once("## What to do with each end").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let mut told: Vec<_> = rows.flat_map(|row| row.split(", ")).map(|word| word.trim_matches('`').to_owned()).collect();
    let mut reasons: Vec<_> = api::reasons::RunReason::ALL.iter().map(ToString::to_string).collect();
    told.sort();
    reasons.sort();
    assert_eq!(told, reasons);
}

#[test]
fn rendering_twice_gives_the_same() {
    assert_eq!(api::reference().unwrap(), api::reference().unwrap());
    let yaml = || api::crds().unwrap().iter().map(|(_, crd)| api::to_yaml(crd).unwrap()).collect::<Vec<_>>();
    assert_eq!(yaml(), yaml());
}

#[test]
fn yaml_is_read_back_as_the_crd_it_was_written_from() {
    for (file, crd) in api::crds().unwrap() {
        let read: serde_json::Value = serde_saphyr::from_str(&api::to_yaml(&crd).unwrap()).unwrap();
        let written = serde_json::to_value(&crd).unwrap();
        // Bounds are floats in the type and may be read as integers.
        let plain = |v: &serde_json::Value| v.to_string().replace(".0,", ",").replace(".0}", "}");
        assert_eq!(plain(&read), plain(&written), "{file}");
    }
}
