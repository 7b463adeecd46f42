//! What is held back where a text goes on, and what is given at once.

use std::borrow::Cow;

use super::*;

#[test]
fn a_text_without_a_secret_is_borrowed() {
    for redactor in [Redactor::default(), registered()] {
        assert!(matches!(redactor.redact("nothing here").text, Cow::Borrowed(_)));
    }
    assert!(matches!(redactor_of("first-of-ours").redact("first-of-ours").text, Cow::Owned(_)));
}

#[test]
fn what_could_still_change_is_held_back() {
    // Begins as a mask does, so that it is passed word by word.
    let text = "REDOUBLE ".repeat(2 * WINDOW_LOOKAHEAD);
    for (redactor, passes) in [(Redactor::default(), 1), (registered(), 2), (registered().registered_only(), 1)] {
        let (given, hits) = redactor.redact_bytes(text.as_bytes(), true);
        assert_eq!(hits, Hits::default());
        // Each pass looks so far ahead, and what a second reading may change is as far.
        let held = text.len() - given.len();
        assert!(held > passes * WINDOW_LOOKAHEAD && held <= (passes + 1) * WINDOW_LOOKAHEAD, "{held} {passes}");
        assert!(held <= LOOKAHEAD);
        let (whole, _) = redactor.redact_bytes(text.as_bytes(), false);
        assert_eq!(whole.len(), text.len());
    }
}

#[test]
fn what_is_before_a_mask_is_no_context_of_what_is_behind_it() {
    assert_eq!(redact("curl TOKEN=-u bob:hunter2x9"), "curl TOKEN=REDACTED bob:hunter2x9");
}

fn redactor_of(value: &str) -> Redactor {
    Redactor::new(&[value]).expect("small")
}
