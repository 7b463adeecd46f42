//! Any command: the check ends, says the same twice, shows no more than a line's worth of it, and finds a target that is
//! added in a line of its own behind a command without open quotes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rules::command::{CommandText, DenyList};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let read = CommandText::new(&text);
    let found = read.forbidden_target();
    assert_eq!(found, CommandText::new(&text).forbidden_target());
    assert!(found.is_none_or(|found| found.word.len() <= 200 && !found.address.is_empty()));
    // What stands before it in its own line does not hide it.
    let first = format!("curl http://169.254.169.254/\n{text}");
    assert!(CommandText::new(&first).forbidden_target().is_some(), "what follows hides a target");
    // An expression of anybody's is refused or works.
    if let Ok(list) = DenyList::new(&[text.chars().take(200).collect()]) {
        let _ = list.denies(&read);
    }
});
