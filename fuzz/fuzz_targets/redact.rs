//! Any text, cut off anywhere, with and without registered values: redaction ends, gives a head of the whole, says when it changed
//! something, changes nothing the second time, and leaves JSON what it is.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;
use redact::{MASK, Redactor};

static REDACTORS: LazyLock<[Redactor; 2]> = LazyLock::new(|| {
    let registered = ["hunter2-x9", "example.com/", "REDAC-x9", "a\nlonger line\nof text"];
    [Redactor::default(), Redactor::new(&registered).unwrap()]
});

// The first bytes say where the text is cut and how far it is moved.
fuzz_target!(|bytes: &[u8]| {
    let Some((head, text)) = bytes.split_first_chunk::<4>() else { return };
    let text = String::from_utf8_lossy(text);
    // Now and then across the window, which is larger than what the fuzzer likes to write.
    let text = if head[0] == 255 {
        ["pad ".repeat(usize::from(head[1]) * 5), text.into_owned()].concat().into()
    } else {
        text
    };
    for redactor in REDACTORS.iter() {
        let whole = redactor.redact(&text);
        assert_eq!(whole.hits.total() == 0, whole.text == text, "hits do not say whether the text was changed");
        for cut in head {
            let cut = text.floor_char_boundary(text.len() * usize::from(*cut) / 256);
            let (given, _) = redactor.redact_bytes(&text.as_bytes()[..cut], true);
            assert!(whole.text.as_bytes().starts_with(&given), "a head comes out otherwise than in the whole");
        }
        let again = redactor.redact(&whole.text);
        assert_eq!(again.text, whole.text, "a second redaction changes something");
        assert_eq!(again.hits.total(), 0);
    }
    // The text as a string of JSON, itself perhaps JSON that was cut: what is beside it stays.
    let line = serde_json::json!({"log": text, "next": 1}).to_string();
    let redacted = REDACTORS[0].redact(&line);
    let read = serde_json::from_str::<serde_json::Value>(&redacted.text);
    assert!(read.is_ok_and(|read| read["next"] == 1), "JSON became none: {line} -> {}", redacted.text);
    let json = |text: &str| serde_json::from_str::<&RawValue>(text).is_ok();
    let redacted = REDACTORS[0].redact(&text);
    assert!(!json(&text) || json(&redacted.text), "JSON became none: {text} -> {}", redacted.text);
    assert!(redacted.hits.total() == 0 || redacted.text.contains(MASK));
});
