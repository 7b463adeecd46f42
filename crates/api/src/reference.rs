//! `docs/api.md`: the reference of the API, rendered from the CRDs and the vocabularies as they are installed.
//!
//! Must not say anything that the types do not say: what is missing there is missing in `kubectl explain` too.

use std::fmt::Write as _;

use schemars::{JsonSchema, schema_for};
use serde_json::Value;

use super::{
    CrdError, GROUP, VERSION, crds,
    reasons::{Evidence, PolicyReason, RunPhase, RunReason, SessionPhase, SessionReason, SpritePhase, WaitingCause},
    schema::{DURATION, QUANTITY},
};

const HEAD: &str = "\
<!-- Generated from crates/api; do not edit. Rewrite it with: make crds -->
# API reference

";

const VALUES: &str = "\
## Values

- **duration**: as Go writes it, a number with a unit, such as `30s`, `5m` or `1h30m`. Units: `ns`, `us`, `ms`, `s`, `m`,
  `h`. No days. Fractions of at most six digits, and of `ms` and longer only.
- **size**: bytes as an integer (`65536`) or as a Kubernetes quantity (`64Ki`, `1.5Mi`, `1e3` in quotes). What is not a whole
  number of bytes is refused, never rounded.
- A field set to `null` counts as absent. An unknown field is refused by `kubectl` (strict validation) and dropped, with
  a warning, for clients that do not ask for that.
- `status.observedGeneration` is `-1` until a controller has seen the object.

";

/// One closed vocabulary: its name, what it is, and its words with their meaning.
struct Vocabulary {
    name: String,
    about: String,
    words: Vec<(String, String)>,
}

/// The reference as Markdown.
pub fn reference() -> Result<String, CrdError> {
    let vocabularies = [
        vocabulary::<RunPhase>("RunPhase"),
        vocabulary::<RunReason>("RunReason"),
        vocabulary::<WaitingCause>("WaitingCause"),
        vocabulary::<Evidence>("Evidence"),
        vocabulary::<SessionPhase>("SessionPhase"),
        vocabulary::<SessionReason>("SessionReason"),
        vocabulary::<SpritePhase>("SpritePhase"),
        vocabulary::<PolicyReason>("PolicyReason"),
    ];
    let mut out = HEAD.to_owned();
    let _ = writeln!(out, "Group `{GROUP}`, version `{VERSION}`.\n");
    let mut sections = String::new();
    for (_, crd) in crds()? {
        let crd = serde_json::to_value(&crd)?;
        let kind = text(&crd, "/spec/names/kind");
        let _ = writeln!(out, "- [{kind}](#{})", kind.to_lowercase());
        resource(&mut sections, &crd, &vocabularies);
    }
    out.push_str("- [Values](#values)\n- [Phases and reasons](#phases-and-reasons)\n\n");
    out.push_str(&sections);
    out.push_str(VALUES);
    out.push_str("## Phases and reasons\n\nThese lists are closed: adding a word is a change of the API.\n");
    for vocabulary in &vocabularies {
        let _ = writeln!(out, "\n### {}\n\n{}\n\n| Word | Meaning |\n|---|---|", vocabulary.name, vocabulary.about);
        for (word, meaning) in &vocabulary.words {
            let _ = writeln!(out, "| `{word}` | {} |", cell(meaning));
        }
    }
    Ok(out)
}

fn vocabulary<T: JsonSchema>(name: &str) -> Vocabulary {
    let schema = schema_for!(T).to_value();
    let words = items(&schema, "/oneOf").iter().map(|word| (text(word, "/const"), text(word, "/description")));
    Vocabulary { name: name.to_owned(), about: text(&schema, "/description"), words: words.collect() }
}

fn resource(out: &mut String, crd: &Value, vocabularies: &[Vocabulary]) {
    let version = "/spec/versions/0";
    let schema = format!("{version}/schema/openAPIV3Schema");
    let list = |pointer: &str| -> String {
        let names: Vec<_> = items(crd, pointer).iter().filter_map(Value::as_str).map(code).collect();
        names.join(", ")
    };
    let _ = writeln!(
        out,
        "## {}\n\n{}\n\nScope: {}. Short name: {}. Categories: {}. Plural: `{}`.\n",
        text(crd, "/spec/names/kind"),
        cell(&text(crd, &format!("{schema}/description"))),
        text(crd, "/spec/scope"),
        list("/spec/names/shortNames"),
        list("/spec/names/categories"),
        text(crd, "/spec/names/plural"),
    );
    let selectable = items(crd, &format!("{version}/selectableFields"));
    if !selectable.is_empty() {
        let fields: Vec<_> = selectable.iter().map(|f| code(text(f, "/jsonPath").trim_start_matches('.'))).collect();
        let _ = writeln!(out, "Field selectors: {}.\n", fields.join(", "));
    }
    out.push_str("| Column | Shows | |\n|---|---|---|\n");
    for column in items(crd, &format!("{version}/additionalPrinterColumns")) {
        let wide = if column.get("priority").is_some() { "`-o wide`" } else { "" };
        let _ = writeln!(out, "| {} | {} | {wide} |", text(column, "/name"), code(&text(column, "/jsonPath")));
    }
    out.push('\n');
    for part in ["spec", "status"] {
        let Some(root) = crd.pointer(&format!("{schema}/properties/{part}")) else { continue };
        let mut table = Table { fields: String::new(), rules: String::new(), vocabularies };
        table.rules_of(part, root);
        table.walk(part, root);
        let _ = writeln!(out, "### {} {part}\n", text(crd, "/spec/names/kind"));
        let _ =
            writeln!(out, "| Field | Type | Default | Bounds | Description |\n|---|---|---|---|---|\n{}", table.fields);
        if !table.rules.is_empty() {
            let _ = writeln!(out, "| Rule of | What a refusal says | CEL |\n|---|---|---|\n{}", table.rules);
        }
    }
}

struct Table<'a> {
    fields: String,
    rules: String,
    vocabularies: &'a [Vocabulary],
}

impl Table<'_> {
    /// Every field under `node`, depth first, in the order of their names.
    fn walk(&mut self, path: &str, node: &Value) {
        let Some(properties) = node.get("properties").and_then(Value::as_object) else { return };
        let required = items(node, "/required");
        for (name, field) in properties {
            let path = format!("{path}.{name}");
            let default = match field.get("default") {
                _ if required.iter().any(|r| r == name) => "required".to_owned(),
                // That of a part is said by its fields.
                Some(_) if field.get("properties").is_some() => String::new(),
                Some(default) => code(&default.to_string()),
                None => String::new(),
            };
            let _ = writeln!(
                self.fields,
                "| `{path}` | {} | {default} | {} | {} |",
                type_of(field),
                self.bounds(field).join("; "),
                cell(&text(field, "/description")),
            );
            self.rules_of(&path, field);
            self.walk(&path, field);
            if let Some(items) = field.get("items") {
                let path = format!("{path}[]");
                self.rules_of(&path, items);
                self.walk(&path, items);
            }
        }
    }

    fn rules_of(&mut self, path: &str, node: &Value) {
        for rule in items(node, "/x-kubernetes-validations") {
            let (message, cel) = (text(rule, "/message"), text(rule, "/rule"));
            let _ = writeln!(self.rules, "| `{path}` | {} | {} |", cell(&message), code(&cel));
        }
    }

    fn bounds(&self, node: &Value) -> Vec<String> {
        let mut bounds = Vec::new();
        if let Some(words) = node.get("enum").and_then(Value::as_array) {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            let known =
                self.vocabularies.iter().find(|v| v.words.iter().map(|w| w.0.as_str()).eq(words.iter().copied()));
            bounds.push(match known {
                Some(known) => format!("[{0}](#{1})", known.name, known.name.to_lowercase()),
                None => words.iter().map(|w| code(w)).collect::<Vec<_>>().join(", "),
            });
        }
        let pattern = node.get("pattern").and_then(Value::as_str);
        let special = pattern.is_some_and(|p| p == DURATION || p == QUANTITY);
        if special {
            // What a value with a unit may be is said by the message of its rule.
            let message = text(node, "/x-kubernetes-validations/0/message");
            bounds.extend(message.rsplit_once(": ").map(|(_, range)| range.to_owned()));
        } else {
            bounds.extend(range(node, "minLength", "maxLength", " characters"));
            bounds.extend(pattern.map(code));
        }
        bounds.extend(range(node, "minimum", "maximum", ""));
        bounds.extend(range(node, "minItems", "maxItems", " items"));
        bounds.extend(range(node, "minProperties", "maxProperties", " keys"));
        for inner in ["items", "additionalProperties"] {
            if let Some(inner) = node.get(inner).filter(|inner| inner.get("properties").is_none()) {
                let inner = self.bounds(inner);
                if !inner.is_empty() {
                    bounds.push(format!("each: {}", inner.join(", ")));
                }
            }
        }
        bounds
    }
}

fn type_of(node: &Value) -> String {
    let pattern = node.get("pattern").and_then(Value::as_str);
    let kind = text(node, "/type");
    match (pattern, node.get("items"), node.get("additionalProperties")) {
        (Some(DURATION), ..) => "[duration](#values)".to_owned(),
        (Some(QUANTITY), ..) => "[size](#values)".to_owned(),
        (_, Some(items), _) => format!("list of {}", type_of(items)),
        (_, _, Some(values)) => format!("map to {}", type_of(values)),
        _ if text(node, "/format") == "date-time" => "time".to_owned(),
        _ => kind,
    }
}

/// Two bounds as one phrase.
fn range(node: &Value, low: &str, high: &str, unit: &str) -> Option<String> {
    // Bounds are written as floats in a CRD; all of them are whole.
    let bound = |key: &str| node.get(key).and_then(Value::as_f64).map(|n| format!("{n:.0}"));
    match (bound(low), bound(high)) {
        (Some(low), Some(high)) => Some(format!("{low} to {high}{unit}")),
        (Some(low), None) => Some(format!("at least {low}{unit}")),
        (None, Some(high)) => Some(format!("at most {high}{unit}")),
        (None, None) => None,
    }
}

fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Text within a table: one line, no bar that ends the cell, no tag.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*")
}

/// Code within a table.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}
