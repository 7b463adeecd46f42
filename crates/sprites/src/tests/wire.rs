//! What a peer may say on an exec's socket, byte by byte.

use bytes::{BufMut, Bytes};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use rstest::rstest;

use super::super::exec::replay;
use super::super::{ExecEvent, LostReason};

/// Opcodes of RFC 6455 §5.2.
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A frame as a server sends it: not masked.
fn frame(fin: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![u8::from(fin) << 7 | opcode];
    match payload.len() {
        small @ 0..126 => frame.put_u8(u8::try_from(small).unwrap()),
        medium @ 126..65_536 => {
            frame.put_u8(126);
            frame.put_u16(u16::try_from(medium).unwrap());
        }
        large => {
            frame.put_u8(127);
            frame.put_u64(large as u64);
        }
    }
    frame.extend_from_slice(payload);
    frame
}

fn message(opcode: u8, payload: &[u8]) -> Vec<u8> {
    frame(true, opcode, payload)
}

fn events(pieces: Vec<Vec<u8>>) -> Vec<ExecEvent> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(replay::events(pieces)).expect("an end")
}

fn conversation() -> Vec<u8> {
    [
        message(TEXT, br#"{"type":"session_info","session_id":"42"}"#),
        message(BINARY, b"\x01out "),
        message(PING, b"are you there"),
        frame(false, BINARY, b"\x02er"),
        message(PONG, b""),
        frame(true, CONTINUATION, b"r"),
        message(BINARY, "\u{1}žluť".as_bytes()),
        message(BINARY, &[&[1][..], &vec![b'x'; 300]].concat()),
        message(BINARY, b"\x03\x07"),
        message(BINARY, b"\x01too late"),
        message(BINARY, b"\x03\x00"),
        message(CLOSE, b"\x03\xe8"),
    ]
    .concat()
}

fn said() -> Vec<ExecEvent> {
    vec![
        ExecEvent::Session { id: "42".to_owned() },
        ExecEvent::Stdout(Bytes::from_static(b"out ")),
        ExecEvent::Stderr(Bytes::from_static(b"err")),
        ExecEvent::Stdout(Bytes::from_static("žluť".as_bytes())),
        ExecEvent::Stdout(Bytes::from(vec![b'x'; 300])),
        ExecEvent::Exit(7),
    ]
}

#[test]
fn a_connection_cut_in_two_at_every_byte_says_the_same() {
    let bytes = conversation();
    for at in 0..bytes.len() {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(events(vec![head.to_vec(), tail.to_vec()]), said(), "cut at {at}");
    }
}

#[test]
fn a_connection_that_comes_byte_by_byte_says_the_same() {
    assert_eq!(events(conversation().into_iter().map(|byte| vec![byte]).collect()), said());
}

#[test]
fn a_connection_that_ends_at_any_byte_before_the_exit_frame_is_whole_is_lost_with_what_came() {
    let bytes = conversation();
    let whole = said();
    let exit = message(BINARY, b"\x03\x07");
    let end = bytes.windows(exit.len()).position(|part| part == exit).unwrap() + exit.len();
    for at in 0..end {
        let events = events(vec![bytes[..at].to_vec()]);
        let (last, before) = events.split_last().unwrap();
        assert!(
            matches!(last, ExecEvent::Lost(LostReason::Reset { .. } | LostReason::Closed { .. })),
            "{at}: {last:?}"
        );
        assert_eq!(before, &whole[..before.len()], "cut at {at}");
    }
    assert_eq!(events(vec![bytes[..end].to_vec()]), whole);
}

#[rstest]
#[case::output_as_text(TEXT, b"\x01hello")]
#[case::exit_as_text(TEXT, b"\x03\x00")]
#[case::words(TEXT, b"exit 0")]
#[case::the_other_shape(TEXT, br#"{"type":"exit","code":0}"#)]
fn text_where_binary_is_due_is_neither_output_nor_exit(#[case] opcode: u8, #[case] payload: &[u8]) {
    let events = events(vec![message(opcode, payload), message(CLOSE, b"\x03\xe8")]);
    assert!(matches!(events[..], [ExecEvent::Lost(LostReason::Closed { code: Some(1000), .. })]), "{events:?}");
}

#[rstest]
#[case::cut_in_the_middle_of_a_character(b"\xc5", b"\xbe")]
#[case::never_completed(b"\xe2\x82", b"A")]
#[case::no_utf8_at_all(b"\xff\xfe\x00", b"\xc0\x80")]
fn bytes_that_are_no_text_come_through_as_they_are(#[case] one: &[u8], #[case] two: &[u8]) {
    let chunks = [one, two];
    let output = chunks.iter().flat_map(|chunk| message(BINARY, &[&[1][..], chunk].concat()));
    let bytes = output.chain(message(BINARY, b"\x03\x00")).collect();
    let mut expected: Vec<_> = chunks.iter().map(|chunk| ExecEvent::Stdout(Bytes::copy_from_slice(chunk))).collect();
    expected.push(ExecEvent::Exit(0));
    assert_eq!(events(vec![bytes]), expected);
}

#[rstest]
#[case::invalid_text(message(TEXT, b"{\"type\":\"\xff\xfe\"}"))]
#[case::invalid_text_over_two_frames([frame(false, TEXT, b"\xc5"), frame(true, CONTINUATION, b"A")].concat())]
#[case::masked_as_only_clients_do(vec![0x82, 0x82, 1, 2, 3, 4, 2, 3])]
#[case::reserved_opcode(message(3, b"x"))]
#[case::reserved_bit(vec![0xc2, 0x01, 0x01])]
#[case::continuation_of_nothing(frame(true, CONTINUATION, b"\x03\x00"))]
#[case::long_ping(message(PING, &[b'x'; 126]))]
#[case::exit_of_two_bytes(message(BINARY, b"\x03\x00\x00"))]
fn a_peer_that_breaks_the_protocol_is_lost_and_says_nothing_more(#[case] bytes: Vec<u8>) {
    let after = message(BINARY, b"\x03\x00");
    let events = events(vec![message(BINARY, b"\x01a"), bytes, after]);
    assert!(matches!(&events[..], [ExecEvent::Stdout(_), ExecEvent::Lost(LostReason::Protocol { .. })]), "{events:?}");
}

#[rstest]
#[case::just_a_head(64 << 20)]
#[case::the_largest_there_is(u64::MAX >> 1)]
fn a_frame_of_64_mebibytes_is_refused_by_its_head(#[case] length: u64) {
    let mut bytes = vec![0x82, 127];
    bytes.put_u64(length);
    bytes.put_u8(1);
    let events = events(vec![bytes]);
    assert!(matches!(&events[..], [ExecEvent::Lost(LostReason::Protocol { .. })]), "{events:?}");
}

#[test]
fn a_message_of_64_mebibytes_in_small_frames_is_refused_before_it_is_whole() {
    let piece = vec![b'x'; 1 << 20];
    let mut pieces = vec![frame(false, BINARY, b"\x01")];
    pieces.extend((0..63).map(|_| frame(false, CONTINUATION, &piece)));
    pieces.push(frame(true, CONTINUATION, &piece));
    pieces.push(message(BINARY, b"\x03\x00"));
    let events = events(pieces);
    assert!(matches!(&events[..], [ExecEvent::Lost(LostReason::Protocol { .. })]), "{events:?}");
}

/// What a peer may say, and what is heard of it.
fn utterance() -> impl Strategy<Value = (Vec<u8>, Option<ExecEvent>)> {
    let payload = prop::collection::vec(any::<u8>(), 1..400);
    prop_oneof![
        3 => payload.clone().prop_map(|payload| {
            (message(BINARY, &[&[1], &payload[..]].concat()), Some(ExecEvent::Stdout(payload.into())))
        }),
        3 => payload.prop_map(|payload| {
            let whole = [&[2], &payload[..]].concat();
            let (head, tail) = whole.split_at(whole.len() / 2);
            let frames = [frame(false, BINARY, head), message(PING, b"p"), frame(true, CONTINUATION, tail)].concat();
            (frames, Some(ExecEvent::Stderr(payload.into())))
        }),
        1 => any::<u8>().prop_map(|code| (message(BINARY, &[3, code]), Some(ExecEvent::Exit(code)))),
        1 => prop::collection::vec(any::<u8>(), 0..50).prop_map(|rest| {
            (message(BINARY, &[&[9], &rest[..]].concat()), None)
        }),
        1 => Just((message(BINARY, b"\x01"), None)),
        1 => Just((message(BINARY, b""), None)),
        1 => "[ -~]{0,40}".prop_map(|text| (message(TEXT, text.as_bytes()), None)),
        1 => Just((message(PONG, b"x"), None)),
    ]
}

/// Fixed seed: the same conversations every time.
fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]))
}

#[test]
fn every_conversation_is_heard_up_to_its_first_exit_however_it_is_cut() {
    let strategy = (prop::collection::vec(utterance(), 0..12), prop::collection::vec(1_usize..60, 1..40));
    let heard = |utterances: &[(Vec<u8>, Option<ExecEvent>)]| {
        let mut events: Vec<ExecEvent> = utterances.iter().filter_map(|(_, event)| event.clone()).collect();
        let exit = events.iter().position(ExecEvent::is_terminal);
        if let Some(at) = exit {
            events.truncate(at + 1);
        }
        (events, exit.is_some())
    };
    let tested = runner(400).run(&strategy, |(utterances, cuts)| {
        let mut rest: Vec<u8> = utterances.iter().flat_map(|(bytes, _)| bytes.clone()).collect();
        let mut pieces = Vec::new();
        for cut in cuts {
            let tail = rest.split_off(cut.min(rest.len()));
            pieces.push(std::mem::replace(&mut rest, tail));
        }
        pieces.push(rest);
        let (expected, ended) = heard(&utterances);
        let events = events(pieces);
        if ended {
            prop_assert_eq!(events, expected);
        } else {
            let (last, before) = events.split_last().unwrap();
            prop_assert!(matches!(last, ExecEvent::Lost(_)), "{:?}", last);
            prop_assert_eq!(before, &expected[..]);
        }
        Ok(())
    });
    tested.unwrap();
}

#[test]
fn any_bytes_at_all_end_in_one_terminal_event_and_an_exit_was_said() {
    let tested = runner(2000).run(&prop::collection::vec(any::<u8>(), 0..200), |bytes| {
        let events = events(vec![bytes.clone()]);
        let (last, before) = events.split_last().unwrap();
        prop_assert!(last.is_terminal() && !before.iter().any(ExecEvent::is_terminal));
        if let ExecEvent::Exit(code) = last {
            prop_assert!(bytes.windows(2).any(|pair| pair == [3, *code]));
        }
        Ok(())
    });
    tested.unwrap();
}
