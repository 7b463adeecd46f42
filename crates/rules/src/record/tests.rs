use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn event(id: &str) -> Entry {
    Entry::Event(Box::new(Event {
        id: id.to_owned(),
        time: "2026-11-01T12:00:00.000Z".into(),
        actor: Principal { user: "oidc:alice".into(), uid: None },
        creator: "system:serviceaccount:agents:backend".into(),
        namespace: "team-a".into(),
        drive: "research".into(),
        code: Some(Code::of_redacted("echo \u{202e}ž \u{1b}[2J\n\"x\"")),
        decision: "Succeeded".into(),
        reason: "Completed".into(),
        exit_code: Some(0),
        duration_ms: Some(12),
        ..Event::default()
    }))
}

fn segment(continues: i64) -> Entry {
    Entry::Segment { time: "2026-11-01T11:59:59.000Z".into(), writer: "operator-1".into(), continues }
}

/// A chain of one segment, and where it ends.
fn chain(events: usize) -> (Vec<String>, Head) {
    let mut head = Head::default();
    let entries = std::iter::once(segment(0)).chain((0..events).map(|n| event(&format!("run-{n}/Succeeded"))));
    let lines = entries
        .map(|entry| {
            let (line, next) = head.append(entry).unwrap();
            head = next;
            line + "\n"
        })
        .collect();
    (lines, head)
}

fn broken(lines: &[String], anchor: Option<&Anchor>) -> (usize, Fault) {
    let Break { line, fault } = verify(&lines.concat(), anchor).unwrap_err();
    (line, fault)
}

#[test]
fn the_bytes_and_the_hash_are_what_the_standard_says() {
    // By hand: keys sorted by UTF-16 units, no spaces, shortest escapes.
    let (line, head) = Head::default().append(segment(0)).unwrap();
    let body = format!(
        r#"{{"continues":0,"kind":"Segment","previous":"{GENESIS}","sequence":1,"time":"2026-11-01T11:59:59.000Z","writer":"operator-1"}}"#
    );
    assert_eq!(head.hash, hash(body.as_bytes()));
    assert_eq!(line, body.replacen(r#","kind""#, &format!(r#","hash":"{}","kind""#, head.hash), 1));
    // FIPS 202, SHA3-256 of nothing.
    assert_eq!(hash(b""), "a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a");
}

#[test]
fn a_record_is_one_line_whatever_its_code_holds() {
    let (lines, _) = chain(1);
    assert_eq!(lines[1].matches('\n').count(), 1);
    assert!(!lines[1].contains(['\u{1b}', '\u{202e}']));
    assert!(lines[1].contains(r#"echo \\u{202e}ž \u001b[2J\n\"x\""#), "{}", lines[1]);
}

#[test]
fn an_unbroken_chain_is_verified_against_its_anchor() {
    let (lines, head) = chain(5);
    for anchor in [None, Some(&head)] {
        let verified = verify(&lines.concat(), anchor).unwrap();
        assert_eq!((verified.records, verified.segments, verified.first, &verified.head), (6, 1, 1, &head));
    }
    assert_eq!(verify("", None), Ok(Verified::default()));
}

#[test]
fn a_restart_goes_on_where_the_anchor_says() {
    let (mut lines, head) = chain(3);
    let (line, head) = head.append(segment(head.sequence)).unwrap();
    lines.push(line + "\n");
    let (line, head) = head.append(event("another/Denied")).unwrap();
    lines.push(line + "\n");
    let verified = verify(&lines.concat(), Some(&head)).unwrap();
    assert_eq!((verified.records, verified.segments), (6, 2));
    // A file that begins with the second segment stands on its own, from there.
    let later = verify(&lines[4..].concat(), Some(&head)).unwrap();
    assert_eq!((later.records, later.first), (2, 5));
}

#[test]
fn every_kind_of_tampering_is_named_at_its_line() {
    let (lines, head) = chain(5);
    let without =
        |n: usize| lines.iter().enumerate().filter(|(at, _)| *at != n).map(|(_, l)| l.clone()).collect::<Vec<_>>();
    assert_eq!(broken(&without(2), None), (3, Fault::Sequence { expected: 3, found: 4 }));
    assert_eq!(broken(&without(0), None), (1, Fault::Segment));
    // What nobody could see without the anchor.
    assert!(verify(&without(5).concat(), None).is_ok());
    assert_eq!(broken(&without(5), Some(&head)), (6, Fault::AnchorMissing(6)));
    assert_eq!(broken(&[], Some(&head)), (1, Fault::AnchorMissing(6)));

    let with = |n: usize, line: String| {
        let mut lines = lines.clone();
        lines[n] = line;
        lines
    };
    assert_eq!(broken(&with(2, lines[2].replace("Completed", "NonZeroExit")), None), (3, Fault::Hash));
    assert_eq!(broken(&with(2, lines[2].replace(",\"kind\"", ", \"kind\"")), None), (3, Fault::NotCanonical));
    let twice = lines[2].replacen('{', "{\"creator\":\"x\",", 1);
    assert_eq!(broken(&with(2, twice), None), (3, Fault::NotCanonical));
    assert_eq!(broken(&with(2, "{}\n".into()), None), (3, Fault::Form));
    assert_eq!(broken(&with(2, "\n".into()), None), (3, Fault::Form));
    assert_eq!(broken(&with(5, lines[5].trim_end().into()), None), (6, Fault::CutOff));

    let mut repeated = lines.clone();
    repeated.insert(3, lines[2].clone());
    assert_eq!(broken(&repeated, None), (4, Fault::Sequence { expected: 4, found: 3 }));
    let mut swapped = lines.clone();
    swapped.swap(2, 3);
    assert_eq!(broken(&swapped, None), (3, Fault::Sequence { expected: 3, found: 4 }));
}

#[test]
fn a_chain_that_was_written_anew_does_not_fit_its_anchor() {
    let (_, head) = chain(5);
    let mut forged_head = Head::default();
    let entries = std::iter::once(segment(0)).chain((0..5).map(|n| event(&format!("forged-{n}/Succeeded"))));
    let forged: Vec<_> = entries
        .map(|entry| {
            let (line, next) = forged_head.append(entry).unwrap();
            forged_head = next;
            line + "\n"
        })
        .collect();
    assert!(verify(&forged.concat(), None).is_ok());
    assert_eq!(broken(&forged, Some(&head)), (6, Fault::AnchorDiffers));
}

#[test]
fn a_record_that_was_replaced_with_a_fitting_hash_breaks_the_tie_of_the_next() {
    let (mut lines, _) = chain(3);
    let first = verify(&lines[..1].concat(), None).unwrap().head;
    let (line, _) = first.append(event("forged/Succeeded")).unwrap();
    lines[1] = line + "\n";
    assert_eq!(broken(&lines, None), (3, Fault::Previous));
}

#[rstest]
#[case::first_there_ever_was(0, GENESIS, 0, true)]
#[case::later(4, "aa", 4, true)]
#[case::from_elsewhere(4, "aa", 3, false)]
#[case::first_but_tied_to_something(0, "aa", 0, false)]
#[case::later_but_tied_to_nothing(4, GENESIS, 4, false)]
#[case::before_the_first(-1, "aa", -1, false)]
fn a_chain_begins_where_its_segment_says(
    #[case] sequence: i64,
    #[case] previous: &str,
    #[case] continues: i64,
    #[case] begins: bool,
) {
    let before = Head { sequence, hash: previous.to_owned() };
    let line = before.append(segment(continues)).unwrap().0 + "\n";
    let expected = if begins { Ok(sequence + 1) } else { Err(Break { line: 1, fault: Fault::Segment }) };
    assert_eq!(verify(&line, None).map(|verified| verified.first), expected);
}

#[test]
fn a_later_segment_continues_from_the_record_before_it() {
    let (mut lines, head) = chain(3);
    let (line, _) = head.append(segment(head.sequence - 1)).unwrap();
    lines.push(line + "\n");
    assert_eq!(broken(&lines, None), (5, Fault::Segment));
}

#[test]
fn an_anchor_is_looked_for_wherever_it_stands() {
    let (mut lines, head) = chain(3);
    let (line, end) = head.append(segment(head.sequence)).unwrap();
    lines.push(line + "\n");
    let anchor = |sequence: i64| {
        let before = verify(&lines[..usize::try_from(sequence).unwrap()].concat(), None).unwrap().head;
        assert_eq!(before.sequence, sequence);
        before
    };
    for sequence in 1..=5 {
        assert!(verify(&lines.concat(), Some(&anchor(sequence))).is_ok(), "{sequence}");
        let other = Head { sequence, hash: "aa".into() };
        let line = usize::try_from(sequence).unwrap();
        assert_eq!(broken(&lines, Some(&other)), (line, Fault::AnchorDiffers), "{sequence}");
    }
    // Before the first record of a file, and where there is no anchor yet.
    assert_eq!(broken(&lines[4..], Some(&anchor(4))), (2, Fault::AnchorMissing(4)));
    assert!(verify(&lines[4..].concat(), Some(&end)).is_ok());
    assert!(verify(&lines[4..].concat(), Some(&Head::default())).is_ok());
}

#[rstest]
#[case::a_gap(Fault::Sequence { expected: 3, found: 6 }, "line 3: records 3 to 5 are missing")]
#[case::one(Fault::Sequence { expected: 3, found: 4 }, "line 3: records 3 to 3 are missing")]
#[case::moved(Fault::Sequence { expected: 3, found: 2 }, "line 3: record 2 stands where 3 is due: it was inserted, moved or repeated")]
#[case::anchor(Fault::AnchorMissing(7), "line 3: the anchor knows record 7, which is missing")]
#[case::duplicate(Fault::Duplicate("r/Denied".into()), "line 3: r/Denied was recorded before")]
fn a_break_says_where_and_what(#[case] fault: Fault, #[case] says: &str) {
    assert_eq!(Break { line: 3, fault }.to_string(), says);
}

#[test]
fn a_decision_is_recorded_once() {
    let (mut lines, head) = chain(2);
    let (line, _) = head.append(event("run-0/Succeeded")).unwrap();
    lines.push(line + "\n");
    assert_eq!(broken(&lines, None), (4, Fault::Duplicate("run-0/Succeeded".into())));
}

#[rstest]
#[case::fits(4000, 4000, false)]
#[case::one_more(4001, 4000, true)]
fn code_is_cut_at_characters(#[case] long: usize, #[case] kept: usize, #[case] truncated: bool) {
    let code = Code::of_redacted(&"ž".repeat(long));
    assert_eq!((code.text.chars().count(), code.truncated), (kept, truncated));
}

#[test]
fn a_number_that_would_be_rounded_is_refused() {
    let entry = Entry::Event(Box::new(Event { id: "x".into(), cost_micro_usd: Some(1 << 53), ..Event::default() }));
    assert_eq!(Head::default().append(entry), Err(RecordError::Inexact(1 << 53)));
    for (number, exact) in [((1 << 53) - 1, true), (1 - (1 << 53), true), (-(1 << 53), false)] {
        for entry in [
            segment(number),
            Entry::Event(Box::new(Event { duration_ms: Some(number), ..Event::default() })),
            Entry::Event(Box::new(Event { count: Some(number), ..Event::default() })),
            Entry::Event(Box::new(Event {
                policy: Some(PolicyVersion { name: "default".into(), generation: number }),
                ..Event::default()
            })),
        ] {
            assert_eq!(Head::default().append(entry).is_ok(), exact, "{number}");
        }
    }
}

proptest! {
    #[test]
    fn any_text_is_kept_and_verified(code in any::<String>(), user in any::<String>(), drive in any::<String>()) {
        let (_, head) = Head::default().append(segment(0)).unwrap();
        let written = Event {
            id: "r/Succeeded".into(),
            actor: Principal { user, uid: None },
            drive,
            code: Some(Code::of_redacted(&code)),
            ..Event::default()
        };
        let (line, _) = head.append(Entry::Event(Box::new(written.clone()))).unwrap();
        prop_assert_eq!(line.lines().count(), 1);
        let (read, _) = super::verify::read(&line).unwrap();
        prop_assert_eq!(read.entry, Entry::Event(Box::new(written)));
    }

    /// One byte changed anywhere is seen.
    #[test]
    fn no_byte_can_be_changed(at in any::<prop::sample::Index>(), to in any::<u8>()) {
        let (lines, head) = chain(2);
        let mut bytes = lines.concat().into_bytes();
        let at = at.index(bytes.len());
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        if let Ok(text) = String::from_utf8(bytes) {
            prop_assert!(verify(&text, Some(&head)).is_err());
        }
    }

    #[test]
    fn nothing_that_is_read_panics(text in any::<String>()) {
        let _ = verify(&text, None);
    }
}
