//! Any bytes as a chain, and a true chain with one change: reading ends, and no change passes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::record::{Code, Entry, Event, Head, verify};

/// A chain of three records, with these texts in it.
fn chain(texts: &[String; 3]) -> String {
    let mut head = Head::default();
    let [writer, code, reason] = texts;
    let begin = Entry::Segment { time: "2026-11-01T12:00:00.000Z".to_owned(), writer: writer.clone(), continues: 0 };
    let event = |id: &str| {
        let code = Some(Code::of_redacted(code));
        Entry::Event(Box::new(Event { id: id.to_owned(), code, reason: reason.clone(), ..Event::default() }))
    };
    let mut text = String::new();
    for entry in [begin, event("a/Succeeded"), event("b/Denied")] {
        let (line, next) = head.append(entry).expect("a record");
        assert!(!line.contains('\n'), "a record of several lines");
        text += &line;
        text.push('\n');
        head = next;
    }
    text
}

fuzz_target!(|input: (String, [String; 3], u16, u8)| {
    let (text, texts, at, byte) = input;
    let _ = verify(&text, None);
    let whole = chain(&texts);
    let verified = verify(&whole, None).expect("a chain that was just written");
    assert_eq!(verified.records, 3);
    let mut changed = whole.clone().into_bytes();
    let at = usize::from(at) % changed.len();
    changed[at] = byte;
    let Ok(changed) = String::from_utf8(changed) else { return };
    assert!(changed == whole || verify(&changed, None).is_err(), "a change passes: {changed}");
});
