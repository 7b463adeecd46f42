//! What is held back where a text goes on, and what is given at once.

use std::borrow::Cow;

use rstest::rstest;

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
    let text = "REDOUBLE ".repeat(2 * AHEAD);
    for (redactor, passes) in [(Redactor::default(), 1), (registered(), 2), (registered().registered_only(), 1)] {
        let (given, hits) = redactor.redact_bytes(text.as_bytes(), true);
        assert_eq!(hits, Hits::default());
        // Each pass looks so far ahead, and what a second reading may change is as far.
        let held = text.len() - given.len();
        assert!(held > passes * AHEAD && held <= (passes + 1) * AHEAD, "{held} {passes}");
        assert!(held <= LOOKAHEAD);
        let (whole, _) = redactor.redact_bytes(text.as_bytes(), false);
        assert_eq!(whole.len(), text.len());
    }
}

#[test]
fn a_stream_counts_what_both_of_its_passes_hold() {
    let redactor = registered();
    let mut stream = redactor.stream();
    assert_eq!((stream.push("abc").as_str(), stream.held()), ("", 3));
    let given = stream.push(&"word ".repeat(AHEAD / 2));
    let held = [stream.registered.as_ref().map(Machine::held), stream.scanner.as_ref().map(Machine::held)];
    let [Some(registered), Some(scanner)] = held else { panic!("{held:?}") };
    assert!(registered > 0 && scanner > 0 && !given.is_empty());
    assert_eq!(stream.held(), registered + scanner);
}

/// One step goes over 4,032 bytes of ordinary text (all but the margin of the window), of which 128 stay as what is behind.
#[rstest]
#[case::one_less_than_the_window(AHEAD - 1, AHEAD - 1)]
#[case::the_window(AHEAD, 192)]
#[case::less_than_half_is_left(7_807, 3_903)]
#[case::half_is_left(7_808, 7_808)]
fn a_stream_lets_go_of_what_is_done_when_it_is_more_than_half(#[case] len: usize, #[case] held: usize) {
    let redactor = Redactor::default();
    let mut stream = redactor.stream();
    // In two: a chunk larger than the window goes in by pieces.
    let given = stream.push(&".".repeat(AHEAD - 1)) + &stream.push(&".".repeat(len + 1 - AHEAD));
    assert_eq!((given.len() % 4_032, stream.held()), (0, held));
}

#[test]
fn what_is_before_a_mask_is_no_context_of_what_is_behind_it() {
    assert_eq!(redact("curl TOKEN=-u bob:hunter2x9"), "curl TOKEN=REDACTED bob:hunter2x9");
}

fn redactor_of(value: &str) -> Redactor {
    Redactor::new(&[value]).expect("small")
}
