//! Text after text: a second redaction changes nothing. docs/rules.md says where this ends.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use sprite_operator_rules::rules::redact::Redactor;

static REDACTORS: LazyLock<[Redactor; 2]> = LazyLock::new(|| {
    let registered = ["hunter2-x9", "example.com/", "REDAC-x9", "a\nlonger line\nof text"];
    [Redactor::default(), Redactor::new(&registered).unwrap()]
});

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for redactor in REDACTORS.iter() {
        let whole = redactor.redact(&text);
        let again = redactor.redact(&whole.text);
        assert_eq!(again.text, whole.text, "a second redaction changes something");
        assert_eq!(again.hits.total(), 0);
    }
});
