//! Well-formed messages with any content: what is heard is what a simple reading of the protocol says.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use sprites::{ExecEvent, replay};

#[derive(Arbitrary, Debug)]
enum Said {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Exit(u8),
    Other(u8, Vec<u8>),
    Ping(Vec<u8>),
    Text(String),
}

fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | opcode];
    match payload.len() {
        small @ 0..126 => frame.push(small as u8),
        medium @ 126..65_536 => {
            frame.push(126);
            frame.extend_from_slice(&(medium as u16).to_be_bytes());
        }
        large => {
            frame.push(127);
            frame.extend_from_slice(&(large as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

fuzz_target!(|said: Vec<Said>| {
    let mut bytes = Vec::new();
    let mut expected = Vec::new();
    let mut ended = false;
    for utterance in &said {
        let event = match utterance {
            Said::Stdout(data) => {
                bytes.extend(frame(2, &[&[1], &data[..]].concat()));
                (!data.is_empty()).then(|| ExecEvent::Stdout(data.clone().into()))
            }
            Said::Stderr(data) => {
                bytes.extend(frame(2, &[&[2], &data[..]].concat()));
                (!data.is_empty()).then(|| ExecEvent::Stderr(data.clone().into()))
            }
            Said::Exit(code) => {
                bytes.extend(frame(2, &[3, *code]));
                Some(ExecEvent::Exit(*code))
            }
            Said::Other(kind, data) => {
                bytes.extend(frame(2, &[&[(*kind).max(4)], &data[..]].concat()));
                None
            }
            Said::Ping(data) => {
                bytes.extend(frame(9, &data[..data.len().min(125)]));
                None
            }
            // Words of the protocol have their own tests; here they would need a second reader of it.
            Said::Text(text) if text.contains("type") || text.contains('\\') => None,
            Said::Text(text) => {
                bytes.extend(frame(1, text.as_bytes()));
                None
            }
        };
        if !ended {
            ended = matches!(event, Some(ExecEvent::Exit(_)));
            expected.extend(event);
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let mut events = runtime.block_on(replay::events(vec![bytes])).expect("an end");
    if !ended {
        assert!(matches!(events.pop(), Some(ExecEvent::Lost(_))));
    }
    assert_eq!(events, expected);
});
