//! Any bytes at all on an exec's socket, cut in two: one terminal event, the last; no exit that was not said; the same
//! events however the bytes are cut.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sprites::{ExecEvent, replay};

fn events(pieces: Vec<Vec<u8>>) -> Vec<ExecEvent> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(replay::events(pieces)).expect("an end")
}

/// Whether this went wrong, and not how: the words differ with the place of the cut.
fn outline(events: &[ExecEvent]) -> Vec<Option<&ExecEvent>> {
    events.iter().map(|event| Some(event).filter(|event| !matches!(event, ExecEvent::Lost(_)))).collect()
}

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (at, bytes) = input;
    let whole = events(vec![bytes.clone()]);
    let (head, tail) = bytes.split_at(usize::from(at).min(bytes.len()));
    let cut = events(vec![head.to_vec(), tail.to_vec()]);
    assert_eq!(outline(&whole), outline(&cut));
    let (last, before) = whole.split_last().unwrap();
    assert!(last.is_terminal() && !before.iter().any(ExecEvent::is_terminal));
    if let ExecEvent::Exit(code) = last {
        let text = bytes.windows(9).any(|part| part == b"exit_code") || bytes.windows(2).any(|part| part == b"\\u");
        assert!(text || bytes.windows(2).any(|pair| pair == [3, *code]), "an exit that nobody said");
    }
});
